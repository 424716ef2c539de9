// Thrust's iterators that count, and that apply a function.
#pragma once
#include <hip/hip_runtime.h>
#include <iterator>

namespace thrust {

template <class T>
struct counting_iterator {
    using value_type = T;
    using reference = T;
    using pointer = const T*;
    using difference_type = ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;
    T at;
    counting_iterator() = default;
    __host__ __device__ explicit counting_iterator(T at) : at(at) {}
    __host__ __device__ T operator*() const { return at; }
    __host__ __device__ T operator[](ptrdiff_t i) const { return (T)(at + i); }
    __host__ __device__ counting_iterator operator+(ptrdiff_t n) const { return counting_iterator((T)(at + n)); }
    __host__ __device__ ptrdiff_t operator-(counting_iterator other) const { return (ptrdiff_t)(at - other.at); }
    __host__ __device__ counting_iterator& operator++() {
        ++at;
        return *this;
    }
    __host__ __device__ bool operator==(counting_iterator other) const { return at == other.at; }
    __host__ __device__ bool operator!=(counting_iterator other) const { return at != other.at; }
};
template <class T>
__host__ __device__ counting_iterator<T> make_counting_iterator(T at) {
    return counting_iterator<T>(at);
}

template <class F, class It>
struct transform_iterator {
    It at;
    F function;
    __host__ __device__ auto operator*() const { return function(*at); }
    __host__ __device__ auto operator[](ptrdiff_t i) const { return function(at[i]); }
    __host__ __device__ transform_iterator operator+(ptrdiff_t n) const { return {at + n, function}; }
    __host__ __device__ transform_iterator& operator++() {
        ++at;
        return *this;
    }
    __host__ __device__ bool operator!=(const transform_iterator& other) const { return at != other.at; }
};
template <class It, class F>
__host__ __device__ transform_iterator<F, It> make_transform_iterator(It at, F function) {
    return {at, function};
}

}  // namespace thrust
