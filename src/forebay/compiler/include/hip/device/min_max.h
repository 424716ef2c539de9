// min and max of the global namespace, for all numbers.
#pragma once

#include <hip/device/math_standard.h>

// One type: functions, so that `min(1, x)` converts. Two types: a template, which gives their common type.
#define FOREBAY_MIN_MAX(T)                                                        \
    __host__ __device__ constexpr inline T min(T x, T y) { return y < x ? y : x; }\
    __host__ __device__ constexpr inline T max(T x, T y) { return x < y ? y : x; }
FOREBAY_MIN_MAX(int)
FOREBAY_MIN_MAX(unsigned)
FOREBAY_MIN_MAX(long)
FOREBAY_MIN_MAX(unsigned long)
FOREBAY_MIN_MAX(long long)
FOREBAY_MIN_MAX(unsigned long long)
#undef FOREBAY_MIN_MAX

__DEVICE__ float min(float x, float y) { return fmin(x, y); }
__DEVICE__ float max(float x, float y) { return fmax(x, y); }
__DEVICE__ double min(double x, double y) { return fmin(x, y); }
__DEVICE__ double max(double x, double y) { return fmax(x, y); }
__host__ float min(float, float);
__host__ float max(float, float);
__host__ double min(double, double);
__host__ double max(double, double);

template <class T, class U,
          std::enable_if_t<std::is_arithmetic_v<T> && std::is_arithmetic_v<U> && !std::is_same_v<T, U>, int> = 0>
__host__ __device__ inline std::common_type_t<T, U> min(T x, U y) {
    using Common = std::common_type_t<T, U>;
    return min((Common)x, (Common)y);
}
template <class T, class U,
          std::enable_if_t<std::is_arithmetic_v<T> && std::is_arithmetic_v<U> && !std::is_same_v<T, U>, int> = 0>
__host__ __device__ inline std::common_type_t<T, U> max(T x, U y) {
    using Common = std::common_type_t<T, U>;
    return max((Common)x, (Common)y);
}

// CUDA's; templates, so that a program's own, for HIP has none of these, go before them.
template <class = void>
__DEVICE__ unsigned umin(unsigned x, unsigned y) { return min(x, y); }
template <class = void>
__DEVICE__ unsigned umax(unsigned x, unsigned y) { return max(x, y); }
template <class = void>
__DEVICE__ long long llmin(long long x, long long y) { return min(x, y); }
template <class = void>
__DEVICE__ long long llmax(long long x, long long y) { return max(x, y); }
template <class = void>
__DEVICE__ unsigned long long ullmin(unsigned long long x, unsigned long long y) { return min(x, y); }
template <class = void>
__DEVICE__ unsigned long long ullmax(unsigned long long x, unsigned long long y) { return max(x, y); }
