// Numbers of 16 bits: `__half` is clang's _Float16, `__half2` two of them.
#pragma once

#include <hip/hip_runtime.h>

using __half = _Float16;
using half = _Float16;
using __half2 = HIP_vector_type<_Float16, 2>;
using half2 = __half2;

struct __half_raw {
    unsigned short x;
    __half_raw() = default;
    __host__ __device__ __half_raw(_Float16 value) : x(__builtin_bit_cast(unsigned short, value)) {}
    __host__ __device__ operator _Float16() const { return __builtin_bit_cast(_Float16, x); }
};

struct __half2_raw {
    unsigned short x, y;
    __half2_raw() = default;
    __host__ __device__ __half2_raw(__half2 value) : x(__half_raw(value.x).x), y(__half_raw(value.y).x) {}
    __host__ __device__ operator __half2() const {
        return {__builtin_bit_cast(_Float16, x), __builtin_bit_cast(_Float16, y)};
    }
};

// -- conversions

__host__ __device__ inline float __half2float(__half x) { return (float)x; }
__host__ __device__ inline __half __float2half(float x) { return (__half)x; }
__host__ __device__ inline __half __double2half(double x) { return (__half)x; }
#define FOREBAY_HALF_FROM(From, from)                                              \
    __DEVICE__ __half __##from##2half_rn(From x) { return (__half)x; }             \
    __DEVICE__ __half __##from##2half_rz(From x) {                                 \
        return __forebay::rounded_half((__half)x, (double)x, 0);                           \
    }                                                                              \
    __DEVICE__ __half __##from##2half_ru(From x) { return __forebay::rounded_half((__half)x, (double)x, 1); } \
    __DEVICE__ __half __##from##2half_rd(From x) { return __forebay::rounded_half((__half)x, (double)x, -1); }
#define FOREBAY_HALF_TO(To, to)                                                                       \
    __DEVICE__ To __half2##to##_rn(__half x) { return __forebay::saturated<To>(rint((float)x)); }     \
    __DEVICE__ To __half2##to##_rz(__half x) { return __forebay::saturated<To>(trunc((float)x)); }    \
    __DEVICE__ To __half2##to##_ru(__half x) { return __forebay::saturated<To>(ceil((float)x)); }     \
    __DEVICE__ To __half2##to##_rd(__half x) { return __forebay::saturated<To>(floor((float)x)); }

namespace __forebay {
// The neighbour of a half in a direction (0: to zero) when it is on the other side of the exact value.
__DEVICE__ __half rounded_half(__half h, double exact, int direction) {
    double value = (double)h;
    if (direction == 0)
        direction = exact < 0 ? 1 : -1;
    if (value == exact || (value < exact) == (direction < 0) || value != value)
        return h;
    short bits = bits_as<short>(h);
    if ((bits & 0x7fff) == 0)
        return bits_as<__half>((short)(direction > 0 ? 1 : 0x8001));
    bits += (direction > 0) == (bits >= 0) ? 1 : -1;
    return bits_as<__half>(bits);
}
}  // namespace __forebay

FOREBAY_HALF_FROM(float, float)
FOREBAY_HALF_FROM(int, int)
FOREBAY_HALF_FROM(unsigned, uint)
FOREBAY_HALF_FROM(short, short)
FOREBAY_HALF_FROM(unsigned short, ushort)
FOREBAY_HALF_FROM(long long, ll)
FOREBAY_HALF_FROM(unsigned long long, ull)
FOREBAY_HALF_TO(signed char, char)
FOREBAY_HALF_TO(unsigned char, uchar)
FOREBAY_HALF_TO(short, short)
FOREBAY_HALF_TO(unsigned short, ushort)
FOREBAY_HALF_TO(int, int)
FOREBAY_HALF_TO(unsigned, uint)
FOREBAY_HALF_TO(long long, ll)
FOREBAY_HALF_TO(unsigned long long, ull)
#undef FOREBAY_HALF_FROM
#undef FOREBAY_HALF_TO

__DEVICE__ __half __ushort_as_half(unsigned short x) { return __forebay::bits_as<__half>(x); }
__DEVICE__ __half __short_as_half(short x) { return __forebay::bits_as<__half>(x); }
__DEVICE__ unsigned short __half_as_ushort(__half x) { return __forebay::bits_as<unsigned short>(x); }
__DEVICE__ short __half_as_short(__half x) { return __forebay::bits_as<short>(x); }

// -- pairs

__host__ __device__ inline __half2 make_half2(__half x, __half y) { return {x, y}; }
__DEVICE__ __half2 __halves2half2(__half x, __half y) { return {x, y}; }
__DEVICE__ __half2 __half2half2(__half x) { return {x, x}; }
__DEVICE__ __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
__DEVICE__ __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
__DEVICE__ __half2 __float22half2_rn(float2 x) { return {(__half)x.x, (__half)x.y}; }
__DEVICE__ float2 __half22float2(__half2 x) { return {(float)x.x, (float)x.y}; }
__DEVICE__ __half __low2half(__half2 x) { return x.x; }
__DEVICE__ __half __high2half(__half2 x) { return x.y; }
__DEVICE__ float __low2float(__half2 x) { return (float)x.x; }
__DEVICE__ float __high2float(__half2 x) { return (float)x.y; }
__DEVICE__ __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
__DEVICE__ __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
__DEVICE__ __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
__DEVICE__ __half2 __lows2half2(__half2 x, __half2 y) { return {x.x, y.x}; }
__DEVICE__ __half2 __highs2half2(__half2 x, __half2 y) { return {x.y, y.y}; }

// -- arithmetic

#define FOREBAY_HALF(name, op)                                              \
    __DEVICE__ __half __h##name(__half x, __half y) { return x op y; }      \
    __DEVICE__ __half __h##name##_rn(__half x, __half y) { return x op y; } \
    __DEVICE__ __half2 __h##name##2(__half2 x, __half2 y) { return x op y; }\
    __DEVICE__ __half __h##name##_sat(__half x, __half y) {                 \
        return (__half)__saturatef((float)(x op y));                        \
    }                                                                       \
    __DEVICE__ __half2 __h##name##2_rn(__half2 x, __half2 y) { return x op y; } \
    __DEVICE__ __half2 __h##name##2_sat(__half2 x, __half2 y) {             \
        return {__h##name##_sat(x.x, y.x), __h##name##_sat(x.y, y.y)};      \
    }
FOREBAY_HALF(add, +)
FOREBAY_HALF(sub, -)
FOREBAY_HALF(mul, *)
FOREBAY_HALF(div, /)
#undef FOREBAY_HALF
__DEVICE__ __half2 __h2div(__half2 x, __half2 y) { return x / y; }
namespace __forebay {
// x * y + z as a float that is odd where it is not exact: rounded once more, it is what one rounding gives.
__DEVICE__ float odd_fma(__half x, __half y, __half z) {
#pragma clang fp contract(off)
    float product = (float)x * (float)y, addend = (float)z;  // the product is exact
    float sum = product + addend;
    float of_z = sum - product;
    float error = (product - (sum - of_z)) + (addend - of_z);
    int bits = bits_as<int>(sum);
    if (error == error && error != 0 && !(bits & 1))
        bits += (error > 0) == (sum > 0) ? 1 : -1;
    return bits_as<float>(bits);
}
}  // namespace __forebay

__DEVICE__ __half __hfma(__half x, __half y, __half z) { return (__half)__forebay::odd_fma(x, y, z); }
__DEVICE__ __half2 __hfma2(__half2 x, __half2 y, __half2 z) { return {__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)}; }
__DEVICE__ __half __hfma_sat(__half x, __half y, __half z) { return (__half)__saturatef(__forebay::odd_fma(x, y, z)); }
__DEVICE__ __half2 __hfma2_sat(__half2 x, __half2 y, __half2 z) {
    return {__hfma_sat(x.x, y.x, z.x), __hfma_sat(x.y, y.y, z.y)};
}
__DEVICE__ __half __hfma_relu(__half x, __half y, __half z) {
    __half sum = __hfma(x, y, z);
    return sum < (__half)0 ? (__half)0 : sum;
}
__DEVICE__ __half2 __hfma2_relu(__half2 x, __half2 y, __half2 z) {
    return {__hfma_relu(x.x, y.x, z.x), __hfma_relu(x.y, y.y, z.y)};
}
// The complex product of (x.x, x.y) and (y.x, y.y), added to z.
__DEVICE__ __half2 __hcmadd(__half2 x, __half2 y, __half2 z) {
    return {__hfma(-x.y, y.y, __hfma(x.x, y.x, z.x)), __hfma(x.y, y.x, __hfma(x.x, y.y, z.y))};
}
__DEVICE__ __half __hneg(__half x) { return -x; }
__DEVICE__ __half2 __hneg2(__half2 x) { return -x; }
__DEVICE__ __half __habs(__half x) { return __forebay::bits_as<__half>((short)(__half_as_short(x) & 0x7fff)); }
__DEVICE__ __half2 __habs2(__half2 x) { return {__habs(x.x), __habs(x.y)}; }
__DEVICE__ __half __hmax(__half x, __half y) { return x != x || x < y ? y : x; }
__DEVICE__ __half __hmin(__half x, __half y) { return x != x || y < x ? y : x; }
// These give NaN when either is one.
__DEVICE__ __half __hmax_nan(__half x, __half y) { return x != x ? x : y != y ? y : __hmax(x, y); }
__DEVICE__ __half __hmin_nan(__half x, __half y) { return x != x ? x : y != y ? y : __hmin(x, y); }
__DEVICE__ __half2 __hmax2_nan(__half2 x, __half2 y) { return {__hmax_nan(x.x, y.x), __hmax_nan(x.y, y.y)}; }
__DEVICE__ __half2 __hmin2_nan(__half2 x, __half2 y) { return {__hmin_nan(x.x, y.x), __hmin_nan(x.y, y.y)}; }
__DEVICE__ __half2 __hmax2(__half2 x, __half2 y) { return {__hmax(x.x, y.x), __hmax(x.y, y.y)}; }
__DEVICE__ __half2 __hmin2(__half2 x, __half2 y) { return {__hmin(x.x, y.x), __hmin(x.y, y.y)}; }

// -- comparisons; those of pairs give 1 or 0 each, with a `b` in front whether both are true, as `_mask` all bits or
// none. With a `u` at the end they are true of NaNs too.

#define FOREBAY_HALF(name, op)                                                                              \
    __DEVICE__ bool __h##name(__half x, __half y) { return x op y; }                                        \
    __DEVICE__ bool __h##name##u(__half x, __half y) { return x != x || y != y || x op y; }                 \
    __DEVICE__ __half2 __h##name##u2(__half2 x, __half2 y) {                                                \
        return {(__half)__h##name##u(x.x, y.x), (__half)__h##name##u(x.y, y.y)};                            \
    }                                                                                                       \
    __DEVICE__ bool __hb##name##u2(__half2 x, __half2 y) { return __h##name##u(x.x, y.x) && __h##name##u(x.y, y.y); } \
    __DEVICE__ unsigned __h##name##u2_mask(__half2 x, __half2 y) {                                          \
        return (__h##name##u(x.x, y.x) ? 0xffffu : 0) | (__h##name##u(x.y, y.y) ? 0xffff0000u : 0);         \
    }                                                                                                       \
    __DEVICE__ unsigned __h##name##2_mask(__half2 x, __half2 y) {                                           \
        return (x.x op y.x ? 0xffffu : 0) | (x.y op y.y ? 0xffff0000u : 0);                                 \
    }                                                                                                       \
    __DEVICE__ __half2 __h##name##2(__half2 x, __half2 y) { return {(__half)(x.x op y.x), (__half)(x.y op y.y)}; } \
    __DEVICE__ bool __hb##name##2(__half2 x, __half2 y) { return x.x op y.x && x.y op y.y; }
FOREBAY_HALF(eq, ==)
FOREBAY_HALF(ne, !=)
FOREBAY_HALF(lt, <)
FOREBAY_HALF(le, <=)
FOREBAY_HALF(gt, >)
FOREBAY_HALF(ge, >=)
#undef FOREBAY_HALF
__DEVICE__ bool __hisnan(__half x) { return x != x; }
__DEVICE__ __half2 __hisnan2(__half2 x) { return {(__half)(x.x != x.x), (__half)(x.y != x.y)}; }
__DEVICE__ int __hisinf(__half x) { return __habs(x) == __ushort_as_half(0x7c00); }

// -- functions

#define FOREBAY_HALF(name, EXPRESSION)                                            \
    __DEVICE__ __half h##name(__half h) {                                         \
        float x = (float)h;                                                       \
        return (__half)(EXPRESSION);                                              \
    }                                                                             \
    __DEVICE__ __half2 h2##name(__half2 x) { return {h##name(x.x), h##name(x.y)}; }
FOREBAY_HALF(exp, exp(x))
FOREBAY_HALF(exp2, exp2(x))
FOREBAY_HALF(exp10, exp10(x))
FOREBAY_HALF(log, log(x))
FOREBAY_HALF(log2, log2(x))
FOREBAY_HALF(log10, log10(x))
FOREBAY_HALF(sin, sin(x))
FOREBAY_HALF(cos, cos(x))
FOREBAY_HALF(tanh, tanh(x))
FOREBAY_HALF(sqrt, sqrt(x))
FOREBAY_HALF(rsqrt, rsqrt(x))
FOREBAY_HALF(rcp, 1 / x)
FOREBAY_HALF(floor, floor(x))
FOREBAY_HALF(ceil, ceil(x))
FOREBAY_HALF(trunc, trunc(x))
FOREBAY_HALF(rint, rint(x))
#undef FOREBAY_HALF
