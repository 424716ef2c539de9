// bfloat16: the upper half of a float. Arithmetic is float's, rounded to nearest even.
#pragma once

#include <hip/hip_runtime.h>

struct __hip_bfloat16 {
    unsigned short data;

    __hip_bfloat16() = default;
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    __host__ __device__ __hip_bfloat16(T value) : data(bits_of((float)value)) {}
    __host__ __device__ operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }

    static __host__ __device__ unsigned short bits_of(float value) {
        unsigned bits = __builtin_bit_cast(unsigned, value);
        if ((bits & 0x7fffffff) > 0x7f800000)
            return (unsigned short)(bits >> 16 | 0x40);
        return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static __host__ __device__ __hip_bfloat16 round_to_bfloat16(float value) { return value; }
};
using hip_bfloat16 = __hip_bfloat16;
using __hip_bfloat162 = __forebay::vector<__hip_bfloat16, 2>;

#define FOREBAY_BFLOAT(op)                                                                             \
    __host__ __device__ inline __hip_bfloat16 operator op(__hip_bfloat16 x, __hip_bfloat16 y) {        \
        return (float)x op(float) y;                                                                   \
    }                                                                                                  \
    __host__ __device__ inline __hip_bfloat16& operator op##=(__hip_bfloat16& x, __hip_bfloat16 y) {   \
        return x = x op y;                                                                             \
    }
FOREBAY_BFLOAT(+)
FOREBAY_BFLOAT(-)
FOREBAY_BFLOAT(*)
FOREBAY_BFLOAT(/)
#undef FOREBAY_BFLOAT
__host__ __device__ inline __hip_bfloat16 operator-(__hip_bfloat16 x) { return -(float)x; }

__host__ __device__ inline float __bfloat162float(__hip_bfloat16 x) { return x; }
__host__ __device__ inline __hip_bfloat16 __float2bfloat16(float x) { return x; }
__host__ __device__ inline __hip_bfloat16 __double2bfloat16(double x) { return x; }
__DEVICE__ __hip_bfloat16 __float2bfloat16_rn(float x) { return x; }
__DEVICE__ __hip_bfloat16 __int2bfloat16_rn(int x) { return x; }
__DEVICE__ int __bfloat162int_rn(__hip_bfloat16 x) { return (int)rint((float)x); }
__DEVICE__ int __bfloat162int_rz(__hip_bfloat16 x) { return (int)(float)x; }
__DEVICE__ __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __forebay::bits_as<__hip_bfloat16>(x); }
__DEVICE__ unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return x.data; }

__DEVICE__ __hip_bfloat162 make_bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
__DEVICE__ __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
__DEVICE__ __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 x) { return {x, x}; }
__DEVICE__ __hip_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
__DEVICE__ __hip_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
__DEVICE__ __hip_bfloat162 __float22bfloat162_rn(float2 x) { return {x.x, x.y}; }
__DEVICE__ float2 __bfloat1622float2(__hip_bfloat162 x) { return {(float)x.x, (float)x.y}; }
__DEVICE__ __hip_bfloat16 __low2bfloat16(__hip_bfloat162 x) { return x.x; }
__DEVICE__ __hip_bfloat16 __high2bfloat16(__hip_bfloat162 x) { return x.y; }
__DEVICE__ float __low2float(__hip_bfloat162 x) { return x.x; }
__DEVICE__ float __high2float(__hip_bfloat162 x) { return x.y; }

#define FOREBAY_BFLOAT(name, op)                                                             \
    __DEVICE__ __hip_bfloat16 __h##name(__hip_bfloat16 x, __hip_bfloat16 y) { return x op y; } \
    __DEVICE__ __hip_bfloat162 __h##name##2(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.x op y.x, x.y op y.y}; }
FOREBAY_BFLOAT(add, +)
FOREBAY_BFLOAT(sub, -)
FOREBAY_BFLOAT(mul, *)
FOREBAY_BFLOAT(div, /)
#undef FOREBAY_BFLOAT
__DEVICE__ __hip_bfloat16 __hfma(__hip_bfloat16 x, __hip_bfloat16 y, __hip_bfloat16 z) {
    return fma((float)x, (float)y, (float)z);
}
__DEVICE__ __hip_bfloat162 __hfma2(__hip_bfloat162 x, __hip_bfloat162 y, __hip_bfloat162 z) {
    return {__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)};
}
__DEVICE__ __hip_bfloat16 __hneg(__hip_bfloat16 x) { return -(float)x; }
__DEVICE__ __hip_bfloat16 __habs(__hip_bfloat16 x) { return fabs((float)x); }
__DEVICE__ __hip_bfloat16 __hmax(__hip_bfloat16 x, __hip_bfloat16 y) { return fmax((float)x, (float)y); }
__DEVICE__ __hip_bfloat16 __hmin(__hip_bfloat16 x, __hip_bfloat16 y) { return fmin((float)x, (float)y); }

#define FOREBAY_BFLOAT(name, op) \
    __DEVICE__ bool __h##name(__hip_bfloat16 x, __hip_bfloat16 y) { return (float)x op(float) y; }
FOREBAY_BFLOAT(eq, ==)
FOREBAY_BFLOAT(ne, !=)
FOREBAY_BFLOAT(lt, <)
FOREBAY_BFLOAT(le, <=)
FOREBAY_BFLOAT(gt, >)
FOREBAY_BFLOAT(ge, >=)
#undef FOREBAY_BFLOAT

#define FOREBAY_BFLOAT(name) \
    __DEVICE__ __hip_bfloat16 h##name(__hip_bfloat16 x) { return name((float)x); }
FOREBAY_BFLOAT(exp)
FOREBAY_BFLOAT(log)
FOREBAY_BFLOAT(sin)
FOREBAY_BFLOAT(cos)
FOREBAY_BFLOAT(sqrt)
FOREBAY_BFLOAT(rsqrt)
#undef FOREBAY_BFLOAT
