// Conversions with a rounding, and the bits of floating point numbers.
#pragma once

#include <hip/device/math_standard.h>
#include <hip/device/spirv.h>

// -- to integers. Out of range, and for NaN, the nearest value and 0, as HIP's GPUs give.

namespace __forebay {
template <class To, class From>
__DEVICE__ To saturated(From x) {
    constexpr From past = (From)(1ull << (sizeof(To) * 8 - 1)) * (std::is_signed_v<To> ? 1 : 2);
    constexpr From least = std::is_signed_v<To> ? -past : 0;
    constexpr To greatest = (To)(std::is_signed_v<To> ? ~0ull >> (65 - sizeof(To) * 8) : ~0ull);
    return x >= past ? greatest : x <= least ? (To)least : x != x ? To(0) : (To)x;
}
}  // namespace __forebay

#define FOREBAY_TO_INTEGER(From, from, To, to)                                                             \
    __DEVICE__ To __##from##2##to##_rn(From x) { return __forebay::saturated<To>(rint(x)); }               \
    __DEVICE__ To __##from##2##to##_rz(From x) { return __forebay::saturated<To>(trunc(x)); }              \
    __DEVICE__ To __##from##2##to##_ru(From x) { return __forebay::saturated<To>(ceil(x)); }               \
    __DEVICE__ To __##from##2##to##_rd(From x) { return __forebay::saturated<To>(floor(x)); }
FOREBAY_TO_INTEGER(float, float, int, int)
FOREBAY_TO_INTEGER(float, float, unsigned, uint)
FOREBAY_TO_INTEGER(float, float, long long, ll)
FOREBAY_TO_INTEGER(float, float, unsigned long long, ull)
FOREBAY_TO_INTEGER(double, double, int, int)
FOREBAY_TO_INTEGER(double, double, unsigned, uint)
FOREBAY_TO_INTEGER(double, double, long long, ll)
FOREBAY_TO_INTEGER(double, double, unsigned long long, ull)
#undef FOREBAY_TO_INTEGER

// -- to floating point, in OpenCL's conversions with a rounding

#define FOREBAY_CONVERT(From, from, code, To, to, name)                                                            \
    namespace __forebay {                                                                                          \
    __device__ To from##_##to##_rtz(From) __asm("_Z" name "_rtz" code) __attribute__((const));                     \
    __device__ To from##_##to##_rtp(From) __asm("_Z" name "_rtp" code) __attribute__((const));                     \
    __device__ To from##_##to##_rtn(From) __asm("_Z" name "_rtn" code) __attribute__((const));                     \
    }                                                                                                              \
    __DEVICE__ To __##from##2##to##_rn(From x) { return (To)x; }                                                   \
    __DEVICE__ To __##from##2##to##_rz(From x) { return __forebay::from##_##to##_rtz(x); }                         \
    __DEVICE__ To __##from##2##to##_ru(From x) { return __forebay::from##_##to##_rtp(x); }                         \
    __DEVICE__ To __##from##2##to##_rd(From x) { return __forebay::from##_##to##_rtn(x); }
FOREBAY_CONVERT(int, int, "i", float, float, "17convert_float")
FOREBAY_CONVERT(unsigned, uint, "j", float, float, "17convert_float")
FOREBAY_CONVERT(long long, ll, "l", float, float, "17convert_float")
FOREBAY_CONVERT(unsigned long long, ull, "m", float, float, "17convert_float")
FOREBAY_CONVERT(double, double, "d", float, float, "17convert_float")
#undef FOREBAY_CONVERT

// Clang knows no such conversion of 64 bits to double. Up to 53 bits are exact; the others are cut off, or made one.
namespace __forebay {
template <class T>
__DEVICE__ double directed(T x, int direction) {
    unsigned long size = x < 0 ? 0 - (unsigned long)x : (unsigned long)x;
    int lost = 11 - __builtin_clzg(size, 64);
    unsigned long unit = lost > 0 ? 1ul << lost : 1, kept = size & ~(unit - 1);
    bool is_away = direction != 0 && (x < 0) == (direction < 0) && kept != size;
    double result = (double)kept + (is_away ? (double)unit : 0.0);
    return x < 0 ? -result : result;
}
}  // namespace __forebay
#define FOREBAY_CONVERT(From, from)                                                                  \
    __DEVICE__ double __##from##2double_rn(From x) { return (double)x; }                             \
    __DEVICE__ double __##from##2double_rz(From x) { return __forebay::directed(x, 0); }             \
    __DEVICE__ double __##from##2double_ru(From x) { return __forebay::directed(x, 1); }             \
    __DEVICE__ double __##from##2double_rd(From x) { return __forebay::directed(x, -1); }
FOREBAY_CONVERT(long long, ll)
FOREBAY_CONVERT(unsigned long long, ull)
#undef FOREBAY_CONVERT
__DEVICE__ double __int2double_rn(int x) { return x; }
__DEVICE__ double __uint2double_rn(unsigned x) { return x; }

// -- bits

__DEVICE__ int __float_as_int(float x) { return __forebay::bits_as<int>(x); }
__DEVICE__ unsigned __float_as_uint(float x) { return __forebay::bits_as<unsigned>(x); }
__DEVICE__ float __int_as_float(int x) { return __forebay::bits_as<float>(x); }
__DEVICE__ float __uint_as_float(unsigned x) { return __forebay::bits_as<float>(x); }
__DEVICE__ long long __double_as_longlong(double x) { return __forebay::bits_as<long long>(x); }
__DEVICE__ double __longlong_as_double(long long x) { return __forebay::bits_as<double>(x); }
__DEVICE__ int __double2loint(double x) { return (int)__forebay::bits_as<long>(x); }
__DEVICE__ int __double2hiint(double x) { return (int)(__forebay::bits_as<long>(x) >> 32); }
__DEVICE__ double __hiloint2double(int high, int low) {
    return __forebay::bits_as<double>((unsigned long)(unsigned)high << 32 | (unsigned)low);
}
