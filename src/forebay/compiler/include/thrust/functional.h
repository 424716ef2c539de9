// Thrust's function objects.
#pragma once
#include <hip/hip_runtime.h>
#include <functional>

namespace thrust {

template <class Argument, class Result>
struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class First, class Second, class Result>
struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};

using std::bit_and;
using std::bit_or;
using std::bit_xor;
using std::divides;
using std::equal_to;
using std::greater;
using std::greater_equal;
using std::less;
using std::less_equal;
using std::logical_and;
using std::logical_not;
using std::logical_or;
using std::minus;
using std::modulus;
using std::multiplies;
using std::negate;
using std::not_equal_to;
using std::plus;

template <class T = void>
struct maximum {
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T = void>
struct minimum {
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <>
struct maximum<void> {
    template <class T, class U>
    __host__ __device__ constexpr auto operator()(const T& a, const U& b) const {
        return a < b ? b : a;
    }
};
template <>
struct minimum<void> {
    template <class T, class U>
    __host__ __device__ constexpr auto operator()(const T& a, const U& b) const {
        return b < a ? b : a;
    }
};
template <class T = void>
struct identity {
    __host__ __device__ constexpr const T& operator()(const T& a) const { return a; }
};
template <class T = void>
struct square {
    __host__ __device__ constexpr T operator()(const T& a) const { return a * a; }
};

}  // namespace thrust
