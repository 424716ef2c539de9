// Numbers of 8 bits, e4m3 and e5m2: those of the OCP's specification, and AMD's without a negative zero (fnuz). A
// conversion rounds once, to nearest even. `cuda_fp8.h` has CUDA's names.
#pragma once

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned __hip_fp8x4_storage_t;
enum __hip_fp8_interpretation_t { __HIP_E4M3, __HIP_E5M2, __HIP_E4M3_FNUZ, __HIP_E5M2_FNUZ };
enum __hip_saturation_t { __HIP_NOSAT, __HIP_SATFINITE };

namespace __forebay {

// A format: bits of the fraction, the exponent's bias, the largest number, what is beyond it, what is none.
struct fp8_format {
    int fraction, bias;
    unsigned largest, beyond, nan;
    bool one_zero;
};
__host__ __device__ constexpr fp8_format fp8_format_of(int kind) {
    return kind == __HIP_E4M3   ? fp8_format{3, 7, 0x7e, 0x7f, 0x7f, false}
           : kind == __HIP_E5M2 ? fp8_format{2, 15, 0x7b, 0x7c, 0x7f, false}
                                : fp8_format{kind == __HIP_E4M3_FNUZ ? 3 : 2, kind == __HIP_E4M3_FNUZ ? 8 : 16, 0x7f, 0x80,
                                             0x80, true};
}

// A number whose bits are these: `digits` of a fraction and of an exponent that is biased.
__host__ __device__ inline unsigned char fp8_of_bits(unsigned long long bits, int digits, int exponents, fp8_format to,
                                                     bool saturates) {
    unsigned sign = (unsigned)(bits >> (digits + exponents)) << 7;
    int power = (int)(bits >> digits) & ((1 << exponents) - 1), bias = (1 << (exponents - 1)) - 1;
    unsigned long long significand = bits & ((1ull << digits) - 1), code;
    if (power == (1 << exponents) - 1 && significand)
        return (unsigned char)(to.one_zero ? to.nan : sign | to.nan);
    if (power == (1 << exponents) - 1) {
        code = to.largest + 1;
    } else {
        if (power)
            significand |= 1ull << digits;
        else
            power = 1;
        // significand · 2^(power - bias - digits), in units of the place of the result's last bit
        int place = power - bias - to.fraction, least = 1 - to.bias - to.fraction;
        place = place < least ? least : place;
        int shift = place - (power - bias - digits);
        unsigned long long rounded = shift > 62 ? 0 : significand >> shift;
        unsigned long long rest = shift > 62 ? 0 : significand & ((1ull << shift) - 1), half = 1ull << (shift - 1 & 63);
        rounded += rest > half || (rest == half && (rounded & 1));
        code = ((unsigned long long)(place - least) << to.fraction) + rounded;
    }
    if (code > to.largest)
        code = saturates ? to.largest : to.beyond;
    if (to.one_zero && (code == 0 || code == 0x80))
        sign = 0;
    return (unsigned char)(sign | code);
}

__host__ __device__ inline float fp8_to_float(unsigned code, fp8_format from) {
    unsigned size = code & 0x7f;
    bool is_nan = from.one_zero ? code == 0x80 : size > (from.fraction == 3 ? 0x7eu : 0x7cu);
    if (is_nan)
        return __builtin_bit_cast(float, 0x7fffffffu);
    float value = __builtin_bit_cast(float, 0x7f800000u);
    if (size <= from.largest) {
        unsigned power = size >> from.fraction, fraction = size & ((1u << from.fraction) - 1);
        fraction |= power ? 1u << from.fraction : 0;
        unsigned unit = (unsigned)(127 + (power ? power : 1) - from.bias - from.fraction) << 23;
        value = (float)fraction * __builtin_bit_cast(float, unit);
    }
    return code & 0x80 ? -value : value;
}

__host__ __device__ inline unsigned char fp8_of(float x, fp8_format to, bool saturates) {
    return fp8_of_bits(__builtin_bit_cast(unsigned, x), 23, 8, to, saturates);
}
__host__ __device__ inline unsigned char fp8_of(double x, fp8_format to, bool saturates) {
    return fp8_of_bits(__builtin_bit_cast(unsigned long long, x), 52, 11, to, saturates);
}
__host__ __device__ inline __half_raw fp8_to_half(unsigned code, fp8_format from) {
    float value = fp8_to_float(code, from);
    __half_raw result = __float2half_rn(value);
    if (value != value)
        result.x = 0x7fff;
    return result;
}

template <class Format>
struct fp8 {
    unsigned char __x;

    fp8() = default;
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    __host__ __device__ fp8(T x) : fp8((float)x) {}
    __host__ __device__ fp8(float x) : __x(fp8_of(x, Format::format, true)) {}
    __host__ __device__ fp8(double x) : __x(fp8_of(x, Format::format, true)) {}
    __host__ __device__ fp8(__half x) : fp8((float)x) {}
    __host__ __device__ fp8(__hip_bfloat16 x) : fp8((float)x) {}
    __host__ __device__ operator float() const { return fp8_to_float(__x, Format::format); }
    __host__ __device__ explicit operator double() const { return fp8_to_float(__x, Format::format); }
    __host__ __device__ explicit operator __half() const { return fp8_to_half(__x, Format::format); }
    __host__ __device__ explicit operator __hip_bfloat16() const { return (float)*this; }
};

template <class Format>
struct fp8x2 {
    unsigned short __x;

    fp8x2() = default;
    __host__ __device__ fp8x2(float x, float y)
        : __x((unsigned short)(fp8<Format>(x).__x | fp8<Format>(y).__x << 8)) {}
    __host__ __device__ explicit fp8x2(float2 v) : fp8x2(v.x, v.y) {}
    __host__ __device__ explicit fp8x2(double2 v) : __x((unsigned short)(fp8<Format>(v.x).__x | fp8<Format>(v.y).__x << 8)) {}
    __host__ __device__ explicit fp8x2(__half2 v) : fp8x2((float)v.x, (float)v.y) {}
    __host__ __device__ explicit fp8x2(__hip_bfloat162 v) : fp8x2((float)v.x, (float)v.y) {}
    __host__ __device__ explicit operator float2() const {
        return {fp8_to_float(__x & 255, Format::format), fp8_to_float(__x >> 8, Format::format)};
    }
    __host__ __device__ explicit operator __half2() const {
        return {fp8_to_half(__x & 255, Format::format), fp8_to_half(__x >> 8, Format::format)};
    }
};

template <class Format>
struct fp8x4 {
    unsigned __x;

    fp8x4() = default;
    __host__ __device__ fp8x4(fp8x2<Format> low, fp8x2<Format> high) : __x(low.__x | (unsigned)high.__x << 16) {}
    __host__ __device__ explicit fp8x4(float4 v) : fp8x4(fp8x2<Format>(v.x, v.y), fp8x2<Format>(v.z, v.w)) {}
    __host__ __device__ explicit fp8x4(double4 v)
        : fp8x4(fp8x2<Format>(double2{v.x, v.y}), fp8x2<Format>(double2{v.z, v.w})) {}
    __host__ __device__ fp8x4(__half2 low, __half2 high) : fp8x4(fp8x2<Format>(low), fp8x2<Format>(high)) {}
    __host__ __device__ fp8x4(__hip_bfloat162 low, __hip_bfloat162 high)
        : fp8x4(fp8x2<Format>(low), fp8x2<Format>(high)) {}
    __host__ __device__ explicit operator float4() const {
        return {fp8_to_float(__x & 255, Format::format), fp8_to_float(__x >> 8 & 255, Format::format),
                fp8_to_float(__x >> 16 & 255, Format::format), fp8_to_float(__x >> 24, Format::format)};
    }
};

struct fp8_e4m3 { static constexpr fp8_format format = fp8_format_of(__HIP_E4M3); };
struct fp8_e5m2 { static constexpr fp8_format format = fp8_format_of(__HIP_E5M2); };
struct fp8_e4m3_fnuz { static constexpr fp8_format format = fp8_format_of(__HIP_E4M3_FNUZ); };
struct fp8_e5m2_fnuz { static constexpr fp8_format format = fp8_format_of(__HIP_E5M2_FNUZ); };

}  // namespace __forebay

#define FOREBAY_FP8(prefix, format)                                         \
    using prefix##fp8_##format = __forebay::fp8<__forebay::fp8_##format>;   \
    using prefix##fp8x2_##format = __forebay::fp8x2<__forebay::fp8_##format>; \
    using prefix##fp8x4_##format = __forebay::fp8x4<__forebay::fp8_##format>;
FOREBAY_FP8(__hip_, e4m3)
FOREBAY_FP8(__hip_, e5m2)
FOREBAY_FP8(__hip_, e4m3_fnuz)
FOREBAY_FP8(__hip_, e5m2_fnuz)

// The functions of HIP and CUDA, whose names differ in a word.
#define FOREBAY_FP8_FUNCTIONS(lib, FORMAT)                                                                              \
    __host__ __device__ inline unsigned char __##lib##_cvt_float_to_fp8(float x, __##lib##_saturation_t saturation,     \
                                                                        __##lib##_fp8_interpretation_t kind) {          \
        return __forebay::fp8_of(x, FORMAT(kind), saturation != 0);                                                     \
    }                                                                                                                   \
    __host__ __device__ inline unsigned char __##lib##_cvt_double_to_fp8(double x, __##lib##_saturation_t saturation,   \
                                                                         __##lib##_fp8_interpretation_t kind) {         \
        return __forebay::fp8_of(x, FORMAT(kind), saturation != 0);                                                     \
    }                                                                                                                   \
    __host__ __device__ inline unsigned char __##lib##_cvt_halfraw_to_fp8(__half_raw x,                                 \
                                                                          __##lib##_saturation_t saturation,            \
                                                                          __##lib##_fp8_interpretation_t kind) {        \
        return __forebay::fp8_of(__half2float(__half(x)), FORMAT(kind), saturation != 0);                               \
    }                                                                                                                   \
    template <class T>                                                                                                  \
    __host__ __device__ inline unsigned char __##lib##_cvt_bfloat16raw_to_fp8(                                          \
        T x, __##lib##_saturation_t saturation, __##lib##_fp8_interpretation_t kind) {                                  \
        return __forebay::fp8_of((float)__builtin_bit_cast(__hip_bfloat16, x), FORMAT(kind), saturation != 0);          \
    }                                                                                                                   \
    __host__ __device__ inline unsigned short __##lib##_cvt_float2_to_fp8x2(float2 v, __##lib##_saturation_t saturation, \
                                                                            __##lib##_fp8_interpretation_t kind) {      \
        return (unsigned short)(__##lib##_cvt_float_to_fp8(v.x, saturation, kind) |                                     \
                                __##lib##_cvt_float_to_fp8(v.y, saturation, kind) << 8);                                \
    }                                                                                                                   \
    __host__ __device__ inline unsigned short __##lib##_cvt_double2_to_fp8x2(                                           \
        double2 v, __##lib##_saturation_t saturation, __##lib##_fp8_interpretation_t kind) {                            \
        return (unsigned short)(__##lib##_cvt_double_to_fp8(v.x, saturation, kind) |                                    \
                                __##lib##_cvt_double_to_fp8(v.y, saturation, kind) << 8);                               \
    }                                                                                                                   \
    __host__ __device__ inline unsigned short __##lib##_cvt_halfraw2_to_fp8x2(                                          \
        __half2_raw v, __##lib##_saturation_t saturation, __##lib##_fp8_interpretation_t kind) {                        \
        __half2 h = v;                                                                                                  \
        return __##lib##_cvt_float2_to_fp8x2(float2{(float)h.x, (float)h.y}, saturation, kind);                         \
    }                                                                                                                   \
    __host__ __device__ inline __half_raw __##lib##_cvt_fp8_to_halfraw(unsigned char x,                                 \
                                                                       __##lib##_fp8_interpretation_t kind) {           \
        return __forebay::fp8_to_half(x, FORMAT(kind));                                                                 \
    }                                                                                                                   \
    __host__ __device__ inline __half2_raw __##lib##_cvt_fp8x2_to_halfraw2(unsigned short x,                            \
                                                                           __##lib##_fp8_interpretation_t kind) {       \
        __half2_raw result;                                                                                             \
        result.x = __forebay::fp8_to_half(x & 255, FORMAT(kind)).x;                                                     \
        result.y = __forebay::fp8_to_half(x >> 8, FORMAT(kind)).x;                                                      \
        return result;                                                                                                  \
    }
FOREBAY_FP8_FUNCTIONS(hip, __forebay::fp8_format_of)
