// Thrust's algorithms as a kernel calls them: each thread runs the whole of it by itself, whatever the policy.
#pragma once
#include <hip/hip_runtime.h>
#include <thrust/functional.h>
#include <thrust/tuple.h>
#include <algorithm>
#include <iterator>
#include <numeric>

namespace thrust {

struct execution_policy {
    template <class Stream>
    __host__ __device__ execution_policy on(Stream) const {
        return {};
    }
    template <class Allocator>
    __host__ execution_policy operator()(Allocator&&) const;
};
inline constexpr execution_policy seq, host, device;
namespace hip {
inline constexpr execution_policy par;
}
namespace cuda {
inline constexpr execution_policy par;
}

using std::max;
using std::min;

#define FOREBAY_ALGORITHM(name)                                                                            \
    template <class... Arguments>                                                                          \
    __DEVICE__ auto name(Arguments... arguments) -> decltype(::std::name(arguments...)) {                  \
        return ::std::name(arguments...);                                                                  \
    }                                                                                                      \
    template <class... Arguments>                                                                          \
    __DEVICE__ auto name(const execution_policy&, Arguments... arguments) -> decltype(::std::name(arguments...)) { \
        return ::std::name(arguments...);                                                                  \
    }
FOREBAY_ALGORITHM(adjacent_difference)
FOREBAY_ALGORITHM(all_of)
FOREBAY_ALGORITHM(any_of)
FOREBAY_ALGORITHM(binary_search)
FOREBAY_ALGORITHM(copy)
FOREBAY_ALGORITHM(copy_if)
FOREBAY_ALGORITHM(count)
FOREBAY_ALGORITHM(count_if)
FOREBAY_ALGORITHM(equal)
FOREBAY_ALGORITHM(fill)
FOREBAY_ALGORITHM(fill_n)
FOREBAY_ALGORITHM(find)
FOREBAY_ALGORITHM(find_if)
FOREBAY_ALGORITHM(for_each)
FOREBAY_ALGORITHM(generate)
FOREBAY_ALGORITHM(inner_product)
FOREBAY_ALGORITHM(lower_bound)
FOREBAY_ALGORITHM(max_element)
FOREBAY_ALGORITHM(merge)
FOREBAY_ALGORITHM(min_element)
FOREBAY_ALGORITHM(none_of)
FOREBAY_ALGORITHM(partition)
FOREBAY_ALGORITHM(remove)
FOREBAY_ALGORITHM(remove_if)
FOREBAY_ALGORITHM(replace)
FOREBAY_ALGORITHM(reverse)
FOREBAY_ALGORITHM(transform)
FOREBAY_ALGORITHM(unique)
FOREBAY_ALGORITHM(upper_bound)
#undef FOREBAY_ALGORITHM

// The library's own sort of numbers is compiled for the host only, so the comparison is another type than it has.
template <class It, class Less = less<>>
__DEVICE__ void sort(const execution_policy&, It first, It last, Less is_less = {}) {
    ::std::partial_sort(first, last, last, [=](const auto& a, const auto& b) { return is_less(a, b); });
}
template <class It, class Less = less<>>
__DEVICE__ void stable_sort(const execution_policy&, It first, It last, Less is_less = {}) {
    for (It i = first; i != last; ++i)
        for (It j = i; j != first && is_less(*j, *(j - 1)); --j)
            ::std::swap(*j, *(j - 1));
}
template <class It, class T, class Op = plus<T>>
__DEVICE__ T reduce(const execution_policy&, It first, It last, T init, Op op = {}) {
    for (; first != last; ++first)
        init = op(init, *first);
    return init;
}
template <class It>
__DEVICE__ auto reduce(const execution_policy& policy, It first, It last) {
    return thrust::reduce(policy, first, last, std::remove_cv_t<std::remove_reference_t<decltype(*first)>>());
}
template <class It, class F, class T, class Op>
__DEVICE__ T transform_reduce(const execution_policy&, It first, It last, F function, T init, Op op) {
    for (; first != last; ++first)
        init = op(init, function(*first));
    return init;
}
template <class It>
__DEVICE__ void sequence(const execution_policy&, It first, It last) {
    for (int i = 0; first != last; ++first)
        *first = i++;
}
template <class It, class Out, class Op = plus<>>
__DEVICE__ Out inclusive_scan(const execution_policy&, It first, It last, Out to, Op op = {}) {
    return ::std::partial_sum(first, last, to, op);
}
template <class It, class Out, class T = typename std::iterator_traits<It>::value_type, class Op = plus<>>
__DEVICE__ Out exclusive_scan(const execution_policy&, It first, It last, Out to, T init = {}, Op op = {}) {
    for (; first != last; ++first) {
        T next = op(init, *first);
        *to++ = init;
        init = next;
    }
    return to;
}
// By insertion, which keeps equal keys in order.
template <class Keys, class Values, class Less = less<>>
__DEVICE__ void sort_by_key(const execution_policy&, Keys first, Keys last, Values values, Less is_less = {}) {
    for (auto i = first; i != last; ++i)
        for (auto j = i; j != first && is_less(*j, *(j - 1)); --j) {
            auto key = *j;
            *j = *(j - 1);
            *(j - 1) = key;
            auto at = j - first;
            auto value = values[at];
            values[at] = values[at - 1];
            values[at - 1] = value;
        }
}
template <class Keys, class Values, class Less = less<>>
__DEVICE__ void stable_sort_by_key(const execution_policy& policy, Keys first, Keys last, Values values, Less is_less = {}) {
    thrust::sort_by_key(policy, first, last, values, is_less);
}

}  // namespace thrust
