// Thrust's iterator that goes through several sequences at once.
#pragma once
#include <thrust/tuple.h>
#include <cstddef>

namespace thrust {

template <class Its>
struct zip_iterator {
    Its at;
    __host__ __device__ auto operator*() const { return (*this)[0]; }
    __host__ __device__ auto operator[](ptrdiff_t i) const {
        return std::apply([i](auto... each) { return std::tuple<decltype(each[i])...>(each[i]...); }, at);
    }
    __host__ __device__ zip_iterator operator+(ptrdiff_t n) const {
        return {std::apply([n](auto... each) { return Its(each + n...); }, at)};
    }
    __host__ __device__ zip_iterator& operator++() { return *this = *this + 1; }
    __host__ __device__ bool operator!=(const zip_iterator& other) const { return std::get<0>(at) != std::get<0>(other.at); }
    __host__ __device__ bool operator==(const zip_iterator& other) const { return std::get<0>(at) == std::get<0>(other.at); }
};
template <class... Its>
__host__ __device__ zip_iterator<std::tuple<Its...>> make_zip_iterator(std::tuple<Its...> at) {
    return {at};
}
template <class... Its>
__host__ __device__ zip_iterator<std::tuple<Its...>> make_zip_iterator(Its... at) {
    return {std::tuple<Its...>(at...)};
}

// A function of several arguments as one of a tuple.
template <class F>
struct zip_function {
    F function;
    template <class Tuple>
    __host__ __device__ decltype(auto) operator()(Tuple&& values) const {
        return std::apply(function, values);
    }
};
template <class F>
__host__ __device__ zip_function<F> make_zip_function(F function) {
    return {function};
}

}  // namespace thrust
