// Functions of HIP that neither C nor OpenCL has, for float and double.
#pragma once

#include <hip/device/bessel.h>
#include <hip/device/math_standard.h>

__DEVICE__ void sincosf(float x, float* sine, float* cosine) {
    *sine = sin(x);
    *cosine = cos(x);
}
__DEVICE__ void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
__DEVICE__ void sincos(double x, double* sine, double* cosine) {
    *sine = sin(x);
    *cosine = cos(x);
}
__DEVICE__ void sincospif(float x, float* sine, float* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
__DEVICE__ void sincospi(float x, float* sine, float* cosine) { sincospif(x, sine, cosine); }
__DEVICE__ void sincospi(double x, double* sine, double* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
__host__ void sincosf(float, float*, float*);
__host__ void sincos(double, double*, double*);

// `name` for double, `name` and `namef` for float; in the body the type is T.
#define FOREBAY_UNARY(name, ...)                                                              \
    namespace __forebay {                                                                     \
    template <class T>                                                                        \
    __DEVICE__ T name##_(T x) { __VA_ARGS__ }                                                 \
    }                                                                                         \
    __DEVICE__ float name##f(float x) { return __forebay::name##_(x); }                       \
    __DEVICE__ float name(float x) { return __forebay::name##_(x); }                          \
    __DEVICE__ double name(double x) { return __forebay::name##_(x); }

#define FOREBAY_BINARY(name, ...)                                                             \
    namespace __forebay {                                                                     \
    template <class T>                                                                        \
    __DEVICE__ T name##_(T x, T y) { __VA_ARGS__ }                                            \
    }                                                                                         \
    __DEVICE__ float name##f(float x, float y) { return __forebay::name##_(x, y); }           \
    __DEVICE__ float name(float x, float y) { return __forebay::name##_(x, y); }              \
    __DEVICE__ double name(double x, double y) { return __forebay::name##_(x, y); }

#define FOREBAY_TERNARY(name, ...)                                                            \
    namespace __forebay {                                                                     \
    template <class T>                                                                        \
    __DEVICE__ T name##_(T x, T y, T z) { __VA_ARGS__ }                                       \
    }                                                                                         \
    __DEVICE__ float name##f(float x, float y, float z) { return __forebay::name##_(x, y, z); } \
    __DEVICE__ double name(double x, double y, double z) { return __forebay::name##_(x, y, z); }

FOREBAY_UNARY(rcbrt, return 1 / cbrt(x);)
FOREBAY_BINARY(fdivide, return x / y;)

namespace __forebay {
template <class T>
__DEVICE__ T sum_of_squares(int count, const T* x) {
    T sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}
// The length of a vector or its inverse. Where the squares overflow or get lost, of the vector divided by a power of two.
template <bool Inverse, class T>
__DEVICE__ T length(int count, const T* x) {
    T sum = sum_of_squares(count, x);
    constexpr T least = sizeof(T) == 4 ? T(1e-30) : T(1e-290), most = sizeof(T) == 4 ? T(1e38) : T(1e307);
    if (sum >= least && sum <= most)
        return Inverse ? rsqrt(sum) : sqrt(sum);
    T longest = 0;
    for (int i = 0; i < count; i++)
        longest = fmax(longest, fabs(x[i]));
    if (longest == (T)__builtin_inf())  // also beside a NaN
        return Inverse ? 0 : longest;
    if (sum == 0 && longest == 0 || sum != sum)
        return Inverse ? rsqrt(sum) : sum;
    int exponent = ilogb(longest);
    sum = 0;
    for (int i = 0; i < count; i++) {
        T part = ldexp(x[i], -exponent);
        sum += part * part;
    }
    return Inverse ? ldexp(rsqrt(sum), -exponent) : ldexp(sqrt(sum), exponent);
}
template <bool Inverse, class T, class... More>
__DEVICE__ T length_of(T x, More... more) {
    T all[] = {x, more...};
    return length<Inverse>(1 + sizeof...(More), all);
}
}  // namespace __forebay

FOREBAY_BINARY(rhypot, return length_of<true>(x, y);)
FOREBAY_TERNARY(norm3d, return length_of<false>(x, y, z);)
FOREBAY_TERNARY(rnorm3d, return length_of<true>(x, y, z);)
__DEVICE__ float norm4df(float x, float y, float z, float w) { return __forebay::length_of<false>(x, y, z, w); }
__DEVICE__ double norm4d(double x, double y, double z, double w) { return __forebay::length_of<false>(x, y, z, w); }
__DEVICE__ float rnorm4df(float x, float y, float z, float w) { return __forebay::length_of<true>(x, y, z, w); }
__DEVICE__ double rnorm4d(double x, double y, double z, double w) { return __forebay::length_of<true>(x, y, z, w); }
__DEVICE__ float normf(int count, const float* x) { return __forebay::length<false>(count, x); }
__DEVICE__ double norm(int count, const double* x) { return __forebay::length<false>(count, x); }
__DEVICE__ float rnormf(int count, const float* x) { return __forebay::length<true>(count, x); }
__DEVICE__ double rnorm(int count, const double* x) { return __forebay::length<true>(count, x); }

// In two parts, for a float does not hold every int.
__DEVICE__ float powif(float x, int n) {
    int low = n % 256;
    return n == low ? pow(x, (float)n) : pow(x, (float)(n - low)) * pow(x, (float)low);
}
__DEVICE__ double powi(double x, int n) { return pow(x, (double)n); }

// exp(x * x) * erfc(x), the error of the square put right; where that is inf * 0, the first terms of the series for large x.
__DEVICE__ double erfcx(double x) {
    if (x >= 25) {
        double r = 1 / (2 * x * x);
        double sum = 1;
        for (int k = 13; k > 0; k -= 2)
            sum = 1 - k * r * sum;
        return 0.56418958354775628695 / x * sum;
    }
    if (x < -27)
        return __builtin_inf();
    double square = x * x;
    return exp(square) * (1 + fma(x, x, -square)) * erfc(x);
}
__DEVICE__ float erfcx(float x) { return (float)erfcx((double)x); }
__DEVICE__ float erfcxf(float x) { return (float)erfcx((double)x); }

// The inverses of erf and erfc: Winitzki's approximation, then Halley's steps, each of which triples the right digits.
namespace __forebay {
// Near 1 erfc is not exact enough, so these two share the work: |y| < 0.5 here, and z outside of 0.5 … 1.5 there.
__DEVICE__ double inverse_erf_of_small(double y) {
    double x = y * 0.88622692545275801365;
    for (int i = 0; i < 4; i++) {
        double error = (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
        x -= error / (1 + x * error);
    }
    return x;
}
__DEVICE__ double inverse_erfc(double z) {
    if (!(z > 0 && z < 2))
        return z == 0 ? __builtin_inf() : z == 2 ? -__builtin_inf() : __builtin_nan("");
    if (fabs(1 - z) < 0.5)
        return inverse_erf_of_small(1 - z);
    double small = z < 1 ? z : 2 - z;
    double l = log(small * (2 - small));
    double t = 4.3307467507756 + l / 2;
    double x = sqrt(sqrt(t * t - l / 0.147) - t);
    for (int i = 0; i < 3; i++) {
        double error = (erfc(x) - small) / (-1.12837916709551257390 * exp(-x * x));
        x -= error / (1 + x * error);
    }
    return z < 1 ? x : -x;
}
__DEVICE__ double inverse_erf(double y) {
    return fabs(y) < 0.5 ? inverse_erf_of_small(y) : y > 0 ? inverse_erfc(1 - y) : -inverse_erfc(1 + y);
}
}  // namespace __forebay

FOREBAY_UNARY(erfinv, return (T)__forebay::inverse_erf(x);)
FOREBAY_UNARY(erfcinv, return (T)__forebay::inverse_erfc(x);)
// erfc(-x / sqrt(2)) / 2; far from 0 what is lost in the division matters.
FOREBAY_UNARY(normcdf,
    constexpr T factor = T(0.70710678118654752440);
    constexpr T rest = sizeof(T) == 4 ? T(0.70710678118654752440 - (double)factor) : T(-4.8336466567264567e-17);
    T z = -x * factor;
    if (!(z > 1 && z < 40))
        return erfc(z) / 2;
    T lost = fma(-x, factor, -z) - x * rest;
    return (erfc(z) - lost * T(1.12837916709551257390) * exp(-z * z)) / 2;)
FOREBAY_UNARY(normcdfinv, return (T)(-1.41421356237309504880 * __forebay::inverse_erfc(2.0 * x));)

#undef FOREBAY_UNARY
#undef FOREBAY_BINARY
#undef FOREBAY_TERNARY
