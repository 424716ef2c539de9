// Thrust's iterators of one sequence: that count, stay, apply a function, go backwards or by indices.
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


template <class T>
struct constant_iterator {
    T value;
    __host__ __device__ explicit constant_iterator(T value = {}) : value(value) {}
    __host__ __device__ T operator*() const { return value; }
    __host__ __device__ T operator[](ptrdiff_t) const { return value; }
    __host__ __device__ constant_iterator operator+(ptrdiff_t) const { return *this; }
    __host__ __device__ constant_iterator& operator++() { return *this; }
};
template <class T>
__host__ __device__ constant_iterator<T> make_constant_iterator(T value) {
    return constant_iterator<T>(value);
}

// What is written there is gone.
struct discard_iterator {
    struct nothing {
        template <class T>
        __host__ __device__ const nothing& operator=(const T&) const {
            return *this;
        }
    };
    __host__ __device__ nothing operator*() const { return {}; }
    __host__ __device__ nothing operator[](ptrdiff_t) const { return {}; }
    __host__ __device__ discard_iterator operator+(ptrdiff_t) const { return *this; }
    __host__ __device__ discard_iterator& operator++() { return *this; }
};
__host__ __device__ inline discard_iterator make_discard_iterator() { return {}; }

template <class Values, class Places>
struct permutation_iterator {
    Values values;
    Places places;
    __host__ __device__ decltype(auto) operator*() const { return values[*places]; }
    __host__ __device__ decltype(auto) operator[](ptrdiff_t i) const { return values[places[i]]; }
    __host__ __device__ permutation_iterator operator+(ptrdiff_t n) const { return {values, places + n}; }
    __host__ __device__ permutation_iterator& operator++() {
        ++places;
        return *this;
    }
    __host__ __device__ bool operator!=(const permutation_iterator& other) const { return places != other.places; }
};
template <class Values, class Places>
__host__ __device__ permutation_iterator<Values, Places> make_permutation_iterator(Values values, Places places) {
    return {values, places};
}

using std::reverse_iterator;
template <class It>
__host__ __device__ constexpr reverse_iterator<It> make_reverse_iterator(It at) {
    return reverse_iterator<It>(at);
}

}  // namespace thrust
