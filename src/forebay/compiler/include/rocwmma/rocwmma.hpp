// Products of small matrices that a warp has together, with the names of rocWMMA; `mma.h` has CUDA's.
//
// In software: what a lane needs of the others' elements it gets by shuffles. So a program that was written for the
// matrix units of a GPU runs, and is no faster than one without them. Sums are of 32 bits, or of 64 for double.
#pragma once
#include <hip/device/own_names.h>

#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <type_traits>

namespace rocwmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

using float16_t = __half;
using hfloat16_t = __half;
using bfloat16_t = __hip_bfloat16;
using float32_t = float;
using float64_t = double;
using int8_t = signed char;
using int32_t = int;
using uint8_t = unsigned char;

namespace detail {

template <class T>
struct stored {
    using type = T;
};
template <>
struct stored<precision::tf32> {
    using type = float;
};
template <class T>
using sum_of = std::conditional_t<std::is_integral_v<T>, int, std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class To, class From>
__DEVICE__ To as(From value) {
    if constexpr (std::is_same_v<From, __half> && !std::is_same_v<To, __half>)
        return (To)__half2float(value);
    else if constexpr (std::is_same_v<To, __half> && !std::is_same_v<From, __half>)
        return __float2half((float)value);
    else
        return (To)value;
}

// Where the elements are. An accumulator's e-th element of all lanes are 32 / N rows, so that which element of the others
// a lane needs in a product depends on constants only, and from which lane on its own.
template <class Use, int M, int N, int K>
struct places;
template <int M, int N, int K>
struct places<accumulator, M, N, K> {
    static constexpr int rows = M, columns = N;
    static __DEVICE__ int row(int element, int lane) { return element * (32 / N) + lane / N; }
    static __DEVICE__ int column(int, int lane) { return lane % N; }
};
template <int M, int N, int K>
struct places<matrix_b, M, N, K> {
    static constexpr int rows = K, columns = N;
    static __DEVICE__ int row(int element, int lane) { return element * (32 / N) + lane / N; }
    static __DEVICE__ int column(int, int lane) { return lane % N; }
    static constexpr int element_of(int k) { return k * N / 32; }
    static __DEVICE__ int lane_of(int k, int column) { return k * N % 32 + column; }
};
template <int M, int N, int K>
struct places<matrix_a, M, N, K> {
    static constexpr int rows = M, columns = K;
    static constexpr int together = 32 / N, pairs = together * K;  // rows of an accumulator's element; what they need
    static constexpr int width = 32 / together;
    static __DEVICE__ int row(int element, int lane) {
        if constexpr (pairs >= 32)
            return element / (pairs / 32) * together + lane / width;
        else
            return (element * (32 / pairs) + lane / pairs) * together + lane % pairs / K;
    }
    static __DEVICE__ int column(int element, int lane) {
        if constexpr (pairs >= 32)
            return element % (pairs / 32) * width + lane % width;
        else
            return lane % K;
    }
    static constexpr int element_of(int e, int k) {
        if constexpr (pairs >= 32)
            return e * (pairs / 32) + k / width;
        else
            return e / (32 / pairs);
    }
    static __DEVICE__ int lane_of(int e, int r, int k) {
        if constexpr (pairs >= 32)
            return r * width + k % width;
        else
            return e % (32 / pairs) * pairs + r * K + k;
    }
};

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    static_assert(N == 8 || N == 16 || N == 32, "a fragment has 8, 16 or 32 columns");
    using places = detail::places<Use, M, N, K>;
    using element_type = typename detail::stored<T>::type;
    using storage_element_type = element_type;
    static_assert(places::rows * places::columns % 32 == 0, "a fragment is a multiple of 32 elements");
    static constexpr int num_elements = places::rows * places::columns / 32;
    element_type x[num_elements];

    __DEVICE__ element_type& operator[](int i) { return x[i]; }
    __DEVICE__ const element_type& operator[](int i) const { return x[i]; }
    static __DEVICE__ constexpr int size() { return num_elements; }
};

template <class F, class T>
__DEVICE__ void fill_fragment(F& f, const T& value) {
    for (auto& element : f.x)
        element = detail::as<typename F::element_type>(value);
}

namespace detail {

template <class F>
__DEVICE__ size_t place(int element, unsigned step, bool by_rows) {
    int lane = (int)__lane_id() & 31;
    int row = F::places::row(element, lane), column = F::places::column(element, lane);
    return by_rows ? (size_t)row * step + column : row + (size_t)column * step;
}

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout, class U>
__DEVICE__ void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const U* from, unsigned step) {
    static_assert(!std::is_void_v<Layout>, "say where an accumulator's rows are: mem_row_major or mem_col_major");
    using F = fragment<Use, M, N, K, T, Layout>;
    for (int e = 0; e < F::num_elements; e++)
        f.x[e] = from[detail::place<F>(e, step, std::is_same_v<Layout, row_major>)];
}
template <int M, int N, int K, class T, class Layout, class U>
__DEVICE__ void load_matrix_sync(fragment<accumulator, M, N, K, T, Layout>& f, const U* from, unsigned step,
                                 layout_t layout) {
    using F = fragment<accumulator, M, N, K, T, Layout>;
    for (int e = 0; e < F::num_elements; e++)
        f.x[e] = from[detail::place<F>(e, step, layout == mem_row_major)];
}
template <int M, int N, int K, class T, class Layout, class U>
__DEVICE__ void store_matrix_sync(U* to, const fragment<accumulator, M, N, K, T, Layout>& f, unsigned step,
                                  layout_t layout) {
    using F = fragment<accumulator, M, N, K, T, Layout>;
    for (int e = 0; e < F::num_elements; e++)
        to[detail::place<F>(e, step, layout == mem_row_major)] = f.x[e];
}
template <int M, int N, int K, class T, class Layout, class U>
__DEVICE__ void store_matrix_sync(U* to, const fragment<accumulator, M, N, K, T, Layout>& f, unsigned step) {
    static_assert(!std::is_void_v<Layout>, "say where the rows go: mem_row_major or mem_col_major");
    store_matrix_sync(to, f, step, std::is_same_v<Layout, row_major> ? mem_row_major : mem_col_major);
}

// d = a · b + c
template <int M, int N, int K, class D, class LD, class A, class LA, class B, class LB, class C, class LC>
__DEVICE__ void mma_sync(fragment<accumulator, M, N, K, D, LD>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
                         const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, C, LC>& c,
                         bool saturate = false) {
    using FA = fragment<matrix_a, M, N, K, A, LA>;
    using FB = fragment<matrix_b, M, N, K, B, LB>;
    using Sum = detail::sum_of<D>;
    constexpr int count = M * N / 32;
    int lane = (int)__lane_id() & 31, r = lane / N, column = lane % N;
    Sum sums[count], left[FA::num_elements], right[FB::num_elements];
#pragma unroll
    for (int e = 0; e < count; e++)
        sums[e] = detail::as<Sum>(c.x[e]);
#pragma unroll
    for (int e = 0; e < FA::num_elements; e++)
        left[e] = detail::as<Sum>(a.x[e]);
#pragma unroll
    for (int e = 0; e < FB::num_elements; e++)
        right[e] = detail::as<Sum>(b.x[e]);
#pragma unroll
    for (int k = 0; k < K; k++) {
        Sum y = __shfl(right[FB::places::element_of(k)], FB::places::lane_of(k, column));
#pragma unroll
        for (int e = 0; e < count; e++)
            sums[e] += y * __shfl(left[FA::places::element_of(e, k)], FA::places::lane_of(e, r, k));
    }
#pragma unroll
    for (int e = 0; e < count; e++)
        d.x[e] = detail::as<typename detail::stored<D>::type>(sums[e]);
}

// What a matrix unit would round to before it multiplies: 10 bits behind the point.
__DEVICE__ float __float_to_tf32(float x) {
    unsigned bits = __float_as_uint(x);
    return __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}
__DEVICE__ void synchronize_workgroup() { __syncthreads(); }

}  // namespace rocwmma
#include <hip/device/program_names.h>
