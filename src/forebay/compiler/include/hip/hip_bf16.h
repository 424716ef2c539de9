// bfloat16: the upper half of a float. Arithmetic is float's, rounded to nearest even.
#pragma once

#include <hip/hip_runtime.h>

struct __hip_bfloat16 {
    unsigned short data;

    __hip_bfloat16() = default;
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    __host__ __device__ __hip_bfloat16(T value) : data(bits_of(as_float(value))) {}
    __host__ __device__ operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }

    // A float that is odd where it is not exact: rounded once more, it is what one rounding gives.
    template <class T>
    static __host__ __device__ float as_float(T value) {
        float rounded = (float)value;
        if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
            unsigned long long magnitude = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
            int shift = 40 - __builtin_clzg(magnitude, 64);
            if (shift <= 0)
                return rounded;
            bool is_exact = magnitude >> shift << shift == magnitude;
            float size = (float)(magnitude >> shift | !is_exact) * (float)(1ull << shift);
            return value < 0 ? -size : size;
        } else if constexpr (sizeof(T) > 4) {
            unsigned bits = __builtin_bit_cast(unsigned, rounded);
            bool is_larger = rounded > 0 ? (T)rounded > value : (T)rounded < value;
            if ((T)rounded != value && value == value && !(bits & 1))
                bits += is_larger ? -1 : 1;
            return __builtin_bit_cast(float, bits);
        } else {
            return rounded;
        }
    }
    static __host__ __device__ unsigned short bits_of(float value) {
        unsigned bits = __builtin_bit_cast(unsigned, value);
        if ((bits & 0x7fffffff) > 0x7f800000)
            return (unsigned short)(bits >> 16 | 0x40);
        return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static __host__ __device__ __hip_bfloat16 round_to_bfloat16(float value) { return value; }
};
using hip_bfloat16 = __hip_bfloat16;
using __hip_bfloat162 = HIP_vector_type<__hip_bfloat16, 2>;

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
__host__ __device__ inline __hip_bfloat16& operator++(__hip_bfloat16& x) { return x = (float)x + 1; }
__host__ __device__ inline __hip_bfloat16& operator--(__hip_bfloat16& x) { return x = (float)x - 1; }
__host__ __device__ inline __hip_bfloat16 operator++(__hip_bfloat16& x, int) {
    __hip_bfloat16 before = x;
    ++x;
    return before;
}
__host__ __device__ inline __hip_bfloat16 operator--(__hip_bfloat16& x, int) {
    __hip_bfloat16 before = x;
    --x;
    return before;
}

__host__ __device__ inline float __bfloat162float(__hip_bfloat16 x) { return x; }
__host__ __device__ inline __hip_bfloat16 __float2bfloat16(float x) { return x; }
__host__ __device__ inline __hip_bfloat16 __double2bfloat16(double x) { return x; }
__DEVICE__ __hip_bfloat16 __float2bfloat16_rn(float x) { return x; }
__DEVICE__ __hip_bfloat16 __float2bfloat16_rz(float x) {
    // A NaN stays one when its lower bits are all that it has.
    if (x != x)
        return x;
    return __builtin_bit_cast(__hip_bfloat16, (unsigned short)(__builtin_bit_cast(unsigned, x) >> 16));
}
// The next one up or down, where bfloat16 has no such number.
__DEVICE__ __hip_bfloat16 __float2bfloat16_ru(float x) {
    __hip_bfloat16 cut = __float2bfloat16_rz(x);
    return (float)cut < x ? __builtin_bit_cast(__hip_bfloat16, (unsigned short)(cut.data + 1)) : cut;
}
__DEVICE__ __hip_bfloat16 __float2bfloat16_rd(float x) { return -__float2bfloat16_ru(-x); }
#define FOREBAY_BFLOAT(T, name)                                                                                    \
    __DEVICE__ __hip_bfloat16 __##name##2bfloat16_rn(T x) { return x; }                                            \
    __DEVICE__ T __bfloat162##name##_rn(__hip_bfloat16 x) { return __forebay::saturated<T>(rint((float)x)); }      \
    __DEVICE__ T __bfloat162##name##_rz(__hip_bfloat16 x) { return __forebay::saturated<T>(trunc((float)x)); }     \
    __DEVICE__ T __bfloat162##name##_ru(__hip_bfloat16 x) { return __forebay::saturated<T>(ceil((float)x)); }      \
    __DEVICE__ T __bfloat162##name##_rd(__hip_bfloat16 x) { return __forebay::saturated<T>(floor((float)x)); }
FOREBAY_BFLOAT(int, int)
FOREBAY_BFLOAT(unsigned, uint)
FOREBAY_BFLOAT(short, short)
FOREBAY_BFLOAT(unsigned short, ushort)
FOREBAY_BFLOAT(long long, ll)
FOREBAY_BFLOAT(unsigned long long, ull)
#undef FOREBAY_BFLOAT
__DEVICE__ __hip_bfloat16 __short_as_bfloat16(short x) { return __forebay::bits_as<__hip_bfloat16>(x); }
__DEVICE__ short __bfloat16_as_short(__hip_bfloat16 x) { return (short)x.data; }
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
__DEVICE__ __hip_bfloat162 __low2bfloat162(__hip_bfloat162 x) { return {x.x, x.x}; }
__DEVICE__ __hip_bfloat162 __high2bfloat162(__hip_bfloat162 x) { return {x.y, x.y}; }
__DEVICE__ __hip_bfloat162 __lowhigh2highlow(__hip_bfloat162 x) { return {x.y, x.x}; }
__DEVICE__ __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.x, y.x}; }
__DEVICE__ __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.y, y.y}; }
__DEVICE__ float __low2float(__hip_bfloat162 x) { return x.x; }
__DEVICE__ float __high2float(__hip_bfloat162 x) { return x.y; }

#define FOREBAY_BFLOAT(name, op)                                                             \
    __DEVICE__ __hip_bfloat16 __h##name(__hip_bfloat16 x, __hip_bfloat16 y) { return x op y; } \
    __DEVICE__ __hip_bfloat162 __h##name##2(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.x op y.x, x.y op y.y}; } \
    __DEVICE__ __hip_bfloat16 __h##name##_rn(__hip_bfloat16 x, __hip_bfloat16 y) { return x op y; }  \
    __DEVICE__ __hip_bfloat162 __h##name##2_rn(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.x op y.x, x.y op y.y}; } \
    __DEVICE__ __hip_bfloat16 __h##name##_sat(__hip_bfloat16 x, __hip_bfloat16 y) {          \
        return __saturatef((float)(x op y));                                                 \
    }                                                                                        \
    __DEVICE__ __hip_bfloat162 __h##name##2_sat(__hip_bfloat162 x, __hip_bfloat162 y) {      \
        return {__h##name##_sat(x.x, y.x), __h##name##_sat(x.y, y.y)};                       \
    }
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
__DEVICE__ __hip_bfloat16 __hfma_sat(__hip_bfloat16 x, __hip_bfloat16 y, __hip_bfloat16 z) {
    return __saturatef((float)__hfma(x, y, z));
}
__DEVICE__ __hip_bfloat162 __hfma2_sat(__hip_bfloat162 x, __hip_bfloat162 y, __hip_bfloat162 z) {
    return {__hfma_sat(x.x, y.x, z.x), __hfma_sat(x.y, y.y, z.y)};
}
__DEVICE__ __hip_bfloat16 __hfma_relu(__hip_bfloat16 x, __hip_bfloat16 y, __hip_bfloat16 z) {
    __hip_bfloat16 sum = __hfma(x, y, z);
    return (float)sum < 0 ? __hip_bfloat16(0) : sum;
}
__DEVICE__ __hip_bfloat162 __hfma2_relu(__hip_bfloat162 x, __hip_bfloat162 y, __hip_bfloat162 z) {
    return {__hfma_relu(x.x, y.x, z.x), __hfma_relu(x.y, y.y, z.y)};
}
// The complex product of (x.x, x.y) and (y.x, y.y), added to z.
__DEVICE__ __hip_bfloat162 __hcmadd(__hip_bfloat162 x, __hip_bfloat162 y, __hip_bfloat162 z) {
    return {__hfma(-x.y, y.y, __hfma(x.x, y.x, z.x)), __hfma(x.y, y.x, __hfma(x.x, y.y, z.y))};
}
__DEVICE__ __hip_bfloat16 __hneg(__hip_bfloat16 x) { return -(float)x; }
__DEVICE__ __hip_bfloat16 __habs(__hip_bfloat16 x) { return fabs((float)x); }
__DEVICE__ __hip_bfloat16 __hmax(__hip_bfloat16 x, __hip_bfloat16 y) { return fmax((float)x, (float)y); }
__DEVICE__ __hip_bfloat16 __hmin(__hip_bfloat16 x, __hip_bfloat16 y) { return fmin((float)x, (float)y); }
__DEVICE__ __hip_bfloat16 __hmax_nan(__hip_bfloat16 x, __hip_bfloat16 y) {
    return (float)x != (float)x ? x : (float)y != (float)y ? y : __hmax(x, y);
}
__DEVICE__ __hip_bfloat16 __hmin_nan(__hip_bfloat16 x, __hip_bfloat16 y) {
    return (float)x != (float)x ? x : (float)y != (float)y ? y : __hmin(x, y);
}
__DEVICE__ __hip_bfloat162 __hneg2(__hip_bfloat162 x) { return {__hneg(x.x), __hneg(x.y)}; }
__DEVICE__ __hip_bfloat162 __habs2(__hip_bfloat162 x) { return {__habs(x.x), __habs(x.y)}; }
__DEVICE__ __hip_bfloat162 __hmax2(__hip_bfloat162 x, __hip_bfloat162 y) { return {__hmax(x.x, y.x), __hmax(x.y, y.y)}; }
__DEVICE__ __hip_bfloat162 __hmin2(__hip_bfloat162 x, __hip_bfloat162 y) { return {__hmin(x.x, y.x), __hmin(x.y, y.y)}; }
__DEVICE__ __hip_bfloat162 __hmax2_nan(__hip_bfloat162 x, __hip_bfloat162 y) {
    return {__hmax_nan(x.x, y.x), __hmax_nan(x.y, y.y)};
}
__DEVICE__ __hip_bfloat162 __hmin2_nan(__hip_bfloat162 x, __hip_bfloat162 y) {
    return {__hmin_nan(x.x, y.x), __hmin_nan(x.y, y.y)};
}
__DEVICE__ __hip_bfloat162 __h2div(__hip_bfloat162 x, __hip_bfloat162 y) { return {x.x / y.x, x.y / y.y}; }
__DEVICE__ __hip_bfloat162 operator+(__hip_bfloat162 x, __hip_bfloat162 y) { return __hadd2(x, y); }
__DEVICE__ __hip_bfloat162 operator-(__hip_bfloat162 x, __hip_bfloat162 y) { return __hsub2(x, y); }
__DEVICE__ __hip_bfloat162 operator*(__hip_bfloat162 x, __hip_bfloat162 y) { return __hmul2(x, y); }
__DEVICE__ __hip_bfloat162 operator/(__hip_bfloat162 x, __hip_bfloat162 y) { return __h2div(x, y); }
__DEVICE__ bool __hisnan(__hip_bfloat16 x) { return (float)x != (float)x; }
__DEVICE__ __hip_bfloat162 __hisnan2(__hip_bfloat162 x) { return {(float)__hisnan(x.x), (float)__hisnan(x.y)}; }
__DEVICE__ int __hisinf(__hip_bfloat16 x) { return (x.data & 0x7fff) == 0x7f80; }

#define FOREBAY_BFLOAT(name, op) \
    __DEVICE__ bool __h##name(__hip_bfloat16 x, __hip_bfloat16 y) { return (float)x op(float) y; }  \
    __DEVICE__ __hip_bfloat162 __h##name##2(__hip_bfloat162 x, __hip_bfloat162 y) {                 \
        return {(float)__h##name(x.x, y.x), (float)__h##name(x.y, y.y)};                            \
    }                                                                                               \
    __DEVICE__ bool __hb##name##2(__hip_bfloat162 x, __hip_bfloat162 y) {                           \
        return __h##name(x.x, y.x) && __h##name(x.y, y.y);                                          \
    }                                                                                               \
    __DEVICE__ unsigned __h##name##2_mask(__hip_bfloat162 x, __hip_bfloat162 y) {                   \
        return (__h##name(x.x, y.x) ? 0xffffu : 0) | (__h##name(x.y, y.y) ? 0xffff0000u : 0);       \
    }                                                                                               \
    /* True of NaNs too. */                                                                         \
    __DEVICE__ bool __h##name##u(__hip_bfloat16 x, __hip_bfloat16 y) {                              \
        return __hisnan(x) || __hisnan(y) || __h##name(x, y);                                       \
    }                                                                                               \
    __DEVICE__ __hip_bfloat162 __h##name##u2(__hip_bfloat162 x, __hip_bfloat162 y) {                \
        return {(float)__h##name##u(x.x, y.x), (float)__h##name##u(x.y, y.y)};                      \
    }                                                                                               \
    __DEVICE__ bool __hb##name##u2(__hip_bfloat162 x, __hip_bfloat162 y) {                          \
        return __h##name##u(x.x, y.x) && __h##name##u(x.y, y.y);                                    \
    }                                                                                               \
    __DEVICE__ unsigned __h##name##u2_mask(__hip_bfloat162 x, __hip_bfloat162 y) {                  \
        return (__h##name##u(x.x, y.x) ? 0xffffu : 0) | (__h##name##u(x.y, y.y) ? 0xffff0000u : 0); \
    }
FOREBAY_BFLOAT(eq, ==)
FOREBAY_BFLOAT(ne, !=)
FOREBAY_BFLOAT(lt, <)
FOREBAY_BFLOAT(le, <=)
FOREBAY_BFLOAT(gt, >)
FOREBAY_BFLOAT(ge, >=)
#undef FOREBAY_BFLOAT

#define FOREBAY_BFLOAT(name) \
    __DEVICE__ __hip_bfloat16 h##name(__hip_bfloat16 x) { return name((float)x); } \
    __DEVICE__ __hip_bfloat162 h2##name(__hip_bfloat162 x) { return {h##name(x.x), h##name(x.y)}; }
FOREBAY_BFLOAT(exp)
FOREBAY_BFLOAT(exp2)
FOREBAY_BFLOAT(exp10)
FOREBAY_BFLOAT(log)
FOREBAY_BFLOAT(log2)
FOREBAY_BFLOAT(log10)
FOREBAY_BFLOAT(sin)
FOREBAY_BFLOAT(cos)
FOREBAY_BFLOAT(tanh)
FOREBAY_BFLOAT(sqrt)
FOREBAY_BFLOAT(rsqrt)
FOREBAY_BFLOAT(floor)
FOREBAY_BFLOAT(ceil)
FOREBAY_BFLOAT(trunc)
FOREBAY_BFLOAT(rint)
#undef FOREBAY_BFLOAT
__DEVICE__ __hip_bfloat16 hrcp(__hip_bfloat16 x) { return 1 / (float)x; }
__DEVICE__ __hip_bfloat162 h2rcp(__hip_bfloat162 x) { return {hrcp(x.x), hrcp(x.y)}; }
