// The fast forms, which here are no less exact, and those that say how they round.
//
// Only rounding to nearest exists in OpenCL; the forms that round up, down or to zero are computed from it exactly.
#pragma once

#include <hip/device/math_standard.h>
#include <hip/device/math_special.h>

#define FOREBAY_FAST(name) \
    __DEVICE__ float __##name##f(float x) { return name(x); }
FOREBAY_FAST(sin)
FOREBAY_FAST(cos)
FOREBAY_FAST(tan)
FOREBAY_FAST(exp)
FOREBAY_FAST(exp10)
FOREBAY_FAST(log)
FOREBAY_FAST(log2)
FOREBAY_FAST(log10)
#undef FOREBAY_FAST
__DEVICE__ float __tanhf(float x) { return tanh(x); }
__DEVICE__ float __powf(float x, float y) { return pow(x, y); }
__DEVICE__ float __fdividef(float x, float y) { return x / y; }
__DEVICE__ void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
__DEVICE__ float __saturatef(float x) { return fmin(fmax(x, 0.f), 1.f); }

namespace __forebay {

// Never contracted: programs build exact sums and products from these.
template <class T>
__DEVICE__ T add(T x, T y) {
#pragma clang fp contract(off)
    return x + y;
}
template <class T>
__DEVICE__ T multiply(T x, T y) {
#pragma clang fp contract(off)
    return x * y;
}

// The neighbour of a result in the direction that rounding takes it, when its exact value is `error` more.
enum rounding { nearest, to_zero, up, down };

template <rounding R, class T>
__DEVICE__ T rounded(T result, T error) {
    if constexpr (R == up)
        return error > 0 ? nextafter(result, (T)__builtin_inf()) : result;
    else if constexpr (R == down)
        return error < 0 ? nextafter(result, -(T)__builtin_inf()) : result;
    else if constexpr (R == to_zero)
        return (result > 0 && error < 0) || (result < 0 && error > 0) ? nextafter(result, (T)0) : result;
    else
        return result;
}

// A number as a power of two and what it is times that, whose products do not underflow; not for 0, infinities and NaN.
template <class T>
struct parts {
    int exponent;
    T mantissa;
    __DEVICE__ explicit parts(T x) : exponent(ilogb(x)), mantissa(ldexp(x, -exponent)) {}
};
template <class T>
inline constexpr T tiny = sizeof(T) == 4 ? T(1e-25) : T(1e-280);
template <class T>
__DEVICE__ bool is_finite(T x) {
    return fabs(x) < (T)__builtin_inf();
}
template <class T>
__DEVICE__ bool is_proper(T x) {
    return x != 0 && is_finite(x);
}

template <rounding R, class T>
__DEVICE__ T add(T x, T y) {
#pragma clang fp contract(off)
    T sum = x + y;
    if (!is_finite(sum))
        return rounded<R>(sum, is_finite(x) && is_finite(y) ? -sum : T(0));
    T of_y = sum - x;
    return rounded<R>(sum, (x - (sum - of_y)) + (y - of_y));
}
template <rounding R, class T>
__DEVICE__ T multiply(T x, T y) {
    T product = multiply(x, y);
    if (!(fabs(product) < tiny<T>) || !is_proper(x) || !is_proper(y))
        return rounded<R>(product, fma(x, y, -product));
    parts<T> a(x), b(y);
    return rounded<R>(product, fma(a.mantissa, b.mantissa, -ldexp(product, -a.exponent - b.exponent)));
}
template <rounding R, class T>
__DEVICE__ T divide(T x, T y) {
    T quotient = x / y;
    if (is_proper(x) && is_proper(y) && is_finite(quotient)) {
        parts<T> a(x), b(y);
        T left = fma(-ldexp(quotient, b.exponent - a.exponent), b.mantissa, a.mantissa);
        return rounded<R>(quotient, y < 0 ? -left : left);
    }
    return rounded<R>(quotient, is_finite(x) && y != 0 && !is_finite(quotient) ? -quotient : T(0));
}
template <rounding R, class T>
__DEVICE__ T square_root(T x) {
    T root = sqrt(x);
    constexpr int half = sizeof(T) == 4 ? 60 : 400;
    if (x > 0 && x < tiny<T>) {
        T larger = ldexp(root, half);
        return rounded<R>(root, -fma(larger, larger, -ldexp(x, 2 * half)));
    }
    return rounded<R>(root, -fma(root, root, -x));
}
// What x * y + z is more than a result near it.
template <class T>
__DEVICE__ T error_of(T x, T y, T z, T result) {
#pragma clang fp contract(off)
    T product = x * y;
    T of_product = fma(x, y, -product);
    T sum = product + z;
    T of_z = sum - product;
    T of_sum = (product - (sum - of_z)) + (z - of_z);
    return (sum - result) + (of_sum + of_product);
}
template <rounding R, class T>
__DEVICE__ T multiply_add(T x, T y, T z) {
    T result = fma(x, y, z);
    if (!is_finite(result))
        return rounded<R>(result, is_finite(x) && is_finite(y) && is_finite(z) ? -result : T(0));
    if (x == 0 || y == 0)
        return result;
    constexpr T huge = sizeof(T) == 4 ? T(1e18) : T(1e100), least = sizeof(T) == 4 ? T(1e-30) : T(1e-200);
    parts<T> a(x), b(y);
    int exponent = -a.exponent - b.exponent;
    T scaled = ldexp(z, exponent);
    if (fabs(scaled) > huge)  // the product is far below the last place of z
        return rounded<R>(result, a.mantissa * b.mantissa);
    if (z != 0 && fabs(scaled) < least)  // far below the last place of the product, where its sign is all that matters
        scaled = copysign(least, z);
    return rounded<R>(result, error_of(a.mantissa, b.mantissa, scaled, ldexp(result, exponent)));
}

}  // namespace __forebay

#define FOREBAY_ROUNDED(suffix, R)                                                                                     \
    __DEVICE__ float __fadd_##suffix(float x, float y) { return __forebay::add<__forebay::R>(x, y); }                  \
    __DEVICE__ float __fsub_##suffix(float x, float y) { return __forebay::add<__forebay::R>(x, -y); }                 \
    __DEVICE__ float __fmul_##suffix(float x, float y) { return __forebay::multiply<__forebay::R>(x, y); }             \
    __DEVICE__ float __fdiv_##suffix(float x, float y) { return __forebay::divide<__forebay::R>(x, y); }               \
    __DEVICE__ float __frcp_##suffix(float x) { return __forebay::divide<__forebay::R>(1.f, x); }                      \
    __DEVICE__ float __fsqrt_##suffix(float x) { return __forebay::square_root<__forebay::R>(x); }                     \
    __DEVICE__ float __fmaf_##suffix(float x, float y, float z) {                                                      \
        return __forebay::multiply_add<__forebay::R>(x, y, z);                                                         \
    }                                                                                                                  \
    __DEVICE__ double __dadd_##suffix(double x, double y) { return __forebay::add<__forebay::R>(x, y); }               \
    __DEVICE__ double __dsub_##suffix(double x, double y) { return __forebay::add<__forebay::R>(x, -y); }              \
    __DEVICE__ double __dmul_##suffix(double x, double y) { return __forebay::multiply<__forebay::R>(x, y); }          \
    __DEVICE__ double __ddiv_##suffix(double x, double y) { return __forebay::divide<__forebay::R>(x, y); }            \
    __DEVICE__ double __drcp_##suffix(double x) { return __forebay::divide<__forebay::R>(1., x); }                     \
    __DEVICE__ double __dsqrt_##suffix(double x) { return __forebay::square_root<__forebay::R>(x); }                   \
    __DEVICE__ double __fma_##suffix(double x, double y, double z) {                                                   \
        return __forebay::multiply_add<__forebay::R>(x, y, z);                                                         \
    }
FOREBAY_ROUNDED(rn, nearest)
FOREBAY_ROUNDED(rz, to_zero)
FOREBAY_ROUNDED(ru, up)
FOREBAY_ROUNDED(rd, down)
#undef FOREBAY_ROUNDED

__DEVICE__ float __frsqrt_rn(float x) { return rsqrt(x); }
