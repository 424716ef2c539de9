// The functions of C's math.h for float and double, and those that HIP adds of the same kind.
//
// Those that LLVM knows are its built-ins, so that it folds and moves them. The others are OpenCL's, which the back end
// knows by their mangled names. `const` says that they read nothing; the host's are declared for code beside kernels.
#pragma once

#include <hip/device/qualifiers.h>
#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <type_traits>

#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

typedef float float_t;
typedef double double_t;

#define FOREBAY_CONST __attribute__((const))
#define FOREBAY_IF(...) template <class T, class U = T, std::enable_if_t<(__VA_ARGS__), int> = 0>
#define FOREBAY_IF_MIXED FOREBAY_IF(std::is_arithmetic_v<T>&& std::is_arithmetic_v<U> && \
                                    (!std::is_same_v<T, U> || std::is_integral_v<T>))

// An integer argument counts as double, as in C++.
#define FOREBAY_OF_INTEGERS(name)               \
    FOREBAY_IF(std::is_integral_v<T>)           \
    __DEVICE__ double name(T x) {               \
        return name((double)x);                 \
    }

#define FOREBAY_HOST_1(name)      \
    __host__ float name(float);   \
    __host__ float name##f(float);\
    __host__ double name(double);

#define FOREBAY_BUILTIN_1(name, builtin)                         \
    __DEVICE__ float name##f(float x) { return builtin(x); }     \
    __DEVICE__ float name(float x) { return builtin(x); }        \
    __DEVICE__ double name(double x) { return builtin(x); }      \
    FOREBAY_HOST_1(name)                                         \
    FOREBAY_OF_INTEGERS(name)

#define FOREBAY_OPENCL_1(name)                                   \
    __device__ float name(float) FOREBAY_CONST;                  \
    __device__ double name(double) FOREBAY_CONST;                \
    __DEVICE__ float name##f(float x) { return name(x); }        \
    FOREBAY_HOST_1(name)                                         \
    FOREBAY_OF_INTEGERS(name)

#define FOREBAY_HOST_2(name)             \
    __host__ float name(float, float);   \
    __host__ float name##f(float, float);\
    __host__ double name(double, double);

#define FOREBAY_BUILTIN_2(name, builtin)                                         \
    __DEVICE__ float name##f(float x, float y) { return builtin(x, y); }         \
    __DEVICE__ float name(float x, float y) { return builtin(x, y); }            \
    __DEVICE__ double name(double x, double y) { return builtin(x, y); }         \
    FOREBAY_HOST_2(name)                                                         \
    FOREBAY_IF_MIXED __DEVICE__ double name(T x, U y) { return name((double)x, (double)y); }

#define FOREBAY_OPENCL_2(name)                                                   \
    __device__ float name(float, float) FOREBAY_CONST;                           \
    __device__ double name(double, double) FOREBAY_CONST;                        \
    __DEVICE__ float name##f(float x, float y) { return name(x, y); }            \
    FOREBAY_HOST_2(name)                                                         \
    FOREBAY_IF_MIXED __DEVICE__ double name(T x, U y) { return name((double)x, (double)y); }

FOREBAY_BUILTIN_1(fabs, __builtin_elementwise_abs)
FOREBAY_BUILTIN_1(sqrt, __builtin_elementwise_sqrt)
FOREBAY_BUILTIN_1(floor, __builtin_elementwise_floor)
FOREBAY_BUILTIN_1(ceil, __builtin_elementwise_ceil)
FOREBAY_BUILTIN_1(trunc, __builtin_elementwise_trunc)
FOREBAY_BUILTIN_1(rint, __builtin_elementwise_rint)
FOREBAY_BUILTIN_1(nearbyint, __builtin_elementwise_rint)
FOREBAY_OPENCL_1(round)

FOREBAY_OPENCL_1(sin)
FOREBAY_OPENCL_1(cos)
FOREBAY_OPENCL_1(tan)
FOREBAY_OPENCL_1(asin)
FOREBAY_OPENCL_1(acos)
FOREBAY_OPENCL_1(atan)
FOREBAY_OPENCL_1(sinh)
FOREBAY_OPENCL_1(cosh)
FOREBAY_OPENCL_1(tanh)
FOREBAY_OPENCL_1(asinh)
FOREBAY_OPENCL_1(acosh)
FOREBAY_OPENCL_1(atanh)
FOREBAY_OPENCL_1(sinpi)
FOREBAY_OPENCL_1(cospi)
FOREBAY_OPENCL_1(exp)
FOREBAY_OPENCL_1(exp2)
FOREBAY_OPENCL_1(exp10)
FOREBAY_OPENCL_1(expm1)
FOREBAY_OPENCL_1(log)
FOREBAY_OPENCL_1(log2)
FOREBAY_OPENCL_1(log10)
FOREBAY_OPENCL_1(log1p)
FOREBAY_OPENCL_1(logb)
FOREBAY_OPENCL_1(rsqrt)
FOREBAY_OPENCL_1(cbrt)
FOREBAY_OPENCL_1(erf)
FOREBAY_OPENCL_1(erfc)
FOREBAY_OPENCL_1(tgamma)
FOREBAY_OPENCL_1(lgamma)

FOREBAY_BUILTIN_2(copysign, __builtin_elementwise_copysign)
FOREBAY_OPENCL_2(fmin)
FOREBAY_OPENCL_2(fmax)
FOREBAY_OPENCL_2(fmod)
FOREBAY_OPENCL_2(fdim)
FOREBAY_OPENCL_2(remainder)
FOREBAY_OPENCL_2(nextafter)
FOREBAY_OPENCL_2(atan2)
FOREBAY_OPENCL_2(hypot)
FOREBAY_OPENCL_2(pow)

__DEVICE__ float fmaf(float x, float y, float z) { return __builtin_elementwise_fma(x, y, z); }
__DEVICE__ float fma(float x, float y, float z) { return __builtin_elementwise_fma(x, y, z); }
__DEVICE__ double fma(double x, double y, double z) { return __builtin_elementwise_fma(x, y, z); }
__host__ float fmaf(float, float, float);
__host__ float fma(float, float, float);
__host__ double fma(double, double, double);

// -- with an exponent, or a second result

namespace __forebay {
// OpenCL's own ldexp and ilogb do not link with Intel's runtime for CPUs on a processor without AVX-512, in a branch that
// only some work-items of a sub-group of 32 take.
template <class Bits, int MANTISSA, int BIAS, class T> __DEVICE__ T ldexp_(T x, int n) {
    auto power = [](int n) { return __builtin_bit_cast(T, (Bits)(n + BIAS) << MANTISSA); };
    for (int i = 0; i < 2; i++) {  // each factor is a normal number, and only the last product is rounded
        constexpr int DOWN = MANTISSA + 2 - BIAS;
        if (n > BIAS) x *= power(BIAS), n -= BIAS;
        else if (n < 1 - BIAS) x *= power(DOWN), n -= DOWN;
    }
    return x * power(n > BIAS ? BIAS : n < 1 - BIAS ? 1 - BIAS : n);
}

template <class T> __DEVICE__ int ilogb_(T x) {
    T exponent = logb(x);
    return exponent == (T)INFINITY ? __INT_MAX__ : exponent > -(T)INFINITY ? (int)exponent : -__INT_MAX__ - 1;  // of NaN as well
}
}  // namespace __forebay

__DEVICE__ float ldexp(float x, int n) { return __forebay::ldexp_<unsigned, 23, 127>(x, n); }
__DEVICE__ double ldexp(double x, int n) { return __forebay::ldexp_<unsigned long, 52, 1023>(x, n); }
__DEVICE__ int ilogb(float x) { return __forebay::ilogb_(x); }
__DEVICE__ int ilogb(double x) { return __forebay::ilogb_(x); }
__DEVICE__ int ilogbf(float x) { return ilogb(x); }
__DEVICE__ float ldexpf(float x, int n) { return ldexp(x, n); }
__DEVICE__ float scalbnf(float x, int n) { return ldexp(x, n); }
__DEVICE__ float scalbn(float x, int n) { return ldexp(x, n); }
__DEVICE__ double scalbn(double x, int n) { return ldexp(x, n); }
__DEVICE__ float scalblnf(float x, long n) { return ldexp(x, (int)(n > 9999 ? 9999 : n < -9999 ? -9999 : n)); }
__DEVICE__ double scalbln(double x, long n) { return ldexp(x, (int)(n > 9999 ? 9999 : n < -9999 ? -9999 : n)); }
__host__ float ldexp(float, int);
__host__ double ldexp(double, int);
FOREBAY_IF(std::is_integral_v<T>) __host__ __device__ double ldexp(T x, int n) { return ldexp((double)x, n); }

namespace __forebay {
// Their second result is written through a pointer of OpenCL's class generic.
__device__ float frexp_(float, int*) __asm("_Z5frexpfPU3AS4i");
__device__ double frexp_(double, int*) __asm("_Z5frexpdPU3AS4i");
__device__ float modf_(float, float*) __asm("_Z4modffPU3AS4f");
__device__ double modf_(double, double*) __asm("_Z4modfdPU3AS4d");
__device__ float remquo_(float, float, int*) __asm("_Z6remquoffPU3AS4i");
__device__ double remquo_(double, double, int*) __asm("_Z6remquoddPU3AS4i");
}  // namespace __forebay

__DEVICE__ float frexpf(float x, int* exponent) { return __forebay::frexp_(x, exponent); }
__DEVICE__ float frexp(float x, int* exponent) { return __forebay::frexp_(x, exponent); }
__DEVICE__ double frexp(double x, int* exponent) { return __forebay::frexp_(x, exponent); }
__DEVICE__ float modff(float x, float* whole) { return __forebay::modf_(x, whole); }
__DEVICE__ float modf(float x, float* whole) { return __forebay::modf_(x, whole); }
__DEVICE__ double modf(double x, double* whole) { return __forebay::modf_(x, whole); }
__DEVICE__ float remquof(float x, float y, int* quotient) { return __forebay::remquo_(x, y, quotient); }
__DEVICE__ double remquo(double x, double y, int* quotient) { return __forebay::remquo_(x, y, quotient); }
__host__ double frexp(double, int*);
__host__ double modf(double, double*);

// -- to integers

__DEVICE__ long lroundf(float x) { return (long)round(x); }
__DEVICE__ long lround(float x) { return (long)round(x); }
__DEVICE__ long lround(double x) { return (long)round(x); }
__DEVICE__ long long llroundf(float x) { return (long long)round(x); }
__DEVICE__ long long llround(float x) { return (long long)round(x); }
__DEVICE__ long long llround(double x) { return (long long)round(x); }
__DEVICE__ long lrintf(float x) { return (long)rint(x); }
__DEVICE__ long lrint(float x) { return (long)rint(x); }
__DEVICE__ long lrint(double x) { return (long)rint(x); }
__DEVICE__ long long llrintf(float x) { return (long long)rint(x); }
__DEVICE__ long long llrint(float x) { return (long long)rint(x); }
__DEVICE__ long long llrint(double x) { return (long long)rint(x); }
__host__ long lround(double);
__host__ long lrint(double);

__DEVICE__ float nanf(const char*) { return __builtin_nanf(""); }
__DEVICE__ double nan(const char*) { return __builtin_nan(""); }

// -- kinds of numbers; constexpr for std's headers

#define FOREBAY_KIND(name, builtin)                                                                        \
    __host__ __device__ inline constexpr bool name(float x) { return builtin(x); }                         \
    __host__ __device__ inline constexpr bool name(double x) { return builtin(x); }                        \
    __host__ __device__ inline constexpr bool name(long double x) { return builtin((double)x); }           \
    FOREBAY_IF(std::is_integral_v<T>) __host__ __device__ constexpr bool name(T x) { return name((double)x); }
FOREBAY_KIND(isnan, __builtin_isnan)
FOREBAY_KIND(isinf, __builtin_isinf)
FOREBAY_KIND(isfinite, __builtin_isfinite)
FOREBAY_KIND(isnormal, __builtin_isnormal)
FOREBAY_KIND(signbit, __builtin_signbit)

#define FOREBAY_COMPARISON(name, builtin)                                                    \
    FOREBAY_IF(std::is_arithmetic_v<T>&& std::is_arithmetic_v<U>)                            \
    __host__ __device__ constexpr bool name(T x, U y) { return builtin((double)x, (double)y); }
FOREBAY_COMPARISON(isgreater, __builtin_isgreater)
FOREBAY_COMPARISON(isgreaterequal, __builtin_isgreaterequal)
FOREBAY_COMPARISON(isless, __builtin_isless)
FOREBAY_COMPARISON(islessequal, __builtin_islessequal)
FOREBAY_COMPARISON(islessgreater, __builtin_islessgreater)
FOREBAY_COMPARISON(isunordered, __builtin_isunordered)

__host__ __device__ inline int fpclassify(float x) {
    return __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x);
}
__host__ __device__ inline int fpclassify(double x) {
    return __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x);
}

#undef FOREBAY_COMPARISON
#undef FOREBAY_KIND
#undef FOREBAY_OPENCL_1
#undef FOREBAY_OPENCL_2
#undef FOREBAY_BUILTIN_1
#undef FOREBAY_BUILTIN_2
#undef FOREBAY_HOST_1
#undef FOREBAY_HOST_2
#undef FOREBAY_OF_INTEGERS
#undef FOREBAY_IF
#undef FOREBAY_IF_MIXED
