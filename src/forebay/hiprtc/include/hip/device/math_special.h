// Functions of HIP that neither C nor OpenCL has, for float and double.
#pragma once

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
FOREBAY_BINARY(rhypot, return 1 / hypot(x, y);)
FOREBAY_BINARY(fdivide, return x / y;)

FOREBAY_TERNARY(norm3d, return sqrt(x * x + y * y + z * z);)
FOREBAY_TERNARY(rnorm3d, return rsqrt(x * x + y * y + z * z);)
__DEVICE__ float norm4df(float x, float y, float z, float w) { return sqrt(x * x + y * y + z * z + w * w); }
__DEVICE__ double norm4d(double x, double y, double z, double w) { return sqrt(x * x + y * y + z * z + w * w); }
__DEVICE__ float rnorm4df(float x, float y, float z, float w) { return rsqrt(x * x + y * y + z * z + w * w); }
__DEVICE__ double rnorm4d(double x, double y, double z, double w) { return rsqrt(x * x + y * y + z * z + w * w); }

namespace __forebay {
template <class T>
__DEVICE__ T sum_of_squares(int count, const T* x) {
    T sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}
}  // namespace __forebay

__DEVICE__ float normf(int count, const float* x) { return sqrt(__forebay::sum_of_squares(count, x)); }
__DEVICE__ double norm(int count, const double* x) { return sqrt(__forebay::sum_of_squares(count, x)); }
__DEVICE__ float rnormf(int count, const float* x) { return rsqrt(__forebay::sum_of_squares(count, x)); }
__DEVICE__ double rnorm(int count, const double* x) { return rsqrt(__forebay::sum_of_squares(count, x)); }

__DEVICE__ float powif(float x, int n) { return pow(x, (float)n); }
__DEVICE__ double powi(double x, int n) { return pow(x, (double)n); }

// exp(x * x) * erfc(x), the error of the square put right; where that is inf * 0, the first terms of the series.
__DEVICE__ double erfcx(double x) {
    if (x >= 25) {
        double r = 1 / (2 * x * x);
        return 0.56418958354775628695 / x * (1 - r * (1 - 3 * r * (1 - 5 * r)));
    }
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
FOREBAY_UNARY(normcdf, return erfc(-x * T(0.70710678118654752440)) / 2;)
FOREBAY_UNARY(normcdfinv, return (T)(-1.41421356237309504880 * __forebay::inverse_erfc(2.0 * x));)

#undef FOREBAY_UNARY
#undef FOREBAY_BINARY
#undef FOREBAY_TERNARY

#define FOREBAY_BESSEL(...) \
    __VA_ARGS__ __attribute__((unavailable("Bessel functions: no device has them; compute them on the host")));
FOREBAY_BESSEL(__device__ float j0f(float))
FOREBAY_BESSEL(__device__ float j1f(float))
FOREBAY_BESSEL(__device__ float y0f(float))
FOREBAY_BESSEL(__device__ float y1f(float))
FOREBAY_BESSEL(__device__ float jnf(int, float))
FOREBAY_BESSEL(__device__ float ynf(int, float))
FOREBAY_BESSEL(__device__ double j0(double))
FOREBAY_BESSEL(__device__ double j1(double))
FOREBAY_BESSEL(__device__ double y0(double))
FOREBAY_BESSEL(__device__ double y1(double))
FOREBAY_BESSEL(__device__ double jn(int, double))
FOREBAY_BESSEL(__device__ double yn(int, double))
FOREBAY_BESSEL(__device__ float cyl_bessel_i0f(float))
FOREBAY_BESSEL(__device__ float cyl_bessel_i1f(float))
FOREBAY_BESSEL(__device__ double cyl_bessel_i0(double))
FOREBAY_BESSEL(__device__ double cyl_bessel_i1(double))
#undef FOREBAY_BESSEL
