// What hipCUB and CUB have for a thread by itself: loads and stores, iterators, reductions, and the names of instructions.
#pragma once

#include <hipcub/block_parts.hpp>
#include <thrust/iterator/counting_iterator.h>

#define CUB_MIN(a, b) (((b) < (a)) ? (b) : (a))
#define CUB_MAX(a, b) (((a) < (b)) ? (b) : (a))
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) (CUB_QUOTIENT_CEILING(x, y) * (y))
#define CUB_ROUND_DOWN_NEAREST(x, y) (((x) / (y)) * (y))
#define CUB_PTX_WARP_THREADS 32
#define CUB_PTX_LOG_WARP_THREADS 5
#define CUB_LOG_WARP_THREADS(...) 5
#define CUB_WARP_THREADS(...) 32
#define HIPCUB_WARP_THREADS 32
#define HIPCUB_ARCH 1
#define HIPCUB_DEVICE_WARP_THREADS 32
#define CUB_RUNTIME_FUNCTION __host__ __device__
#define HIPCUB_RUNTIME_FUNCTION __host__ __device__
#define CUB_NAMESPACE_BEGIN
#define CUB_NAMESPACE_END

namespace hipcub {

// -- loads and stores, whose caches are the device's choice

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };

template <CacheLoadModifier Way = LOAD_DEFAULT, class It>
__DEVICE__ auto ThreadLoad(It from) {
    using T = std::remove_cv_t<std::remove_reference_t<decltype(*from)>>;
    if constexpr ((Way == LOAD_VOLATILE || Way == LOAD_CV) && std::is_pointer_v<It> && std::is_arithmetic_v<T>)
        return *(const volatile T*)from;
    else
        return (T)*from;
}
template <CacheStoreModifier Way = STORE_DEFAULT, class It, class T>
__DEVICE__ void ThreadStore(It to, T value) {
    if constexpr (Way == STORE_VOLATILE && std::is_pointer_v<It> && std::is_arithmetic_v<T>)
        *(volatile T*)to = value;
    else
        *to = value;
}

template <class T, int N, class It>
__DEVICE__ void LoadDirectBlocked(int rank, It from, T (&values)[N], int valid = 0x7fffffff) {
    for (int i = 0; i < N; i++)
        if (rank * N + i < valid)
            values[i] = from[rank * N + i];
}
template <class T, int N, class It>
__DEVICE__ void StoreDirectBlocked(int rank, It to, T (&values)[N], int valid = 0x7fffffff) {
    for (int i = 0; i < N; i++)
        if (rank * N + i < valid)
            to[rank * N + i] = values[i];
}
template <class T, int N>
__DEVICE__ void LoadDirectBlockedVectorized(int rank, T* from, T (&values)[N]) {
    LoadDirectBlocked(rank, from, values);
}
template <class T, int N>
__DEVICE__ void StoreDirectBlockedVectorized(int rank, T* to, T (&values)[N]) {
    StoreDirectBlocked(rank, to, values);
}
template <int Threads, class T, int N, class It>
__DEVICE__ void LoadDirectStriped(int rank, It from, T (&values)[N], int valid = 0x7fffffff) {
    for (int i = 0; i < N; i++)
        if (rank + i * Threads < valid)
            values[i] = from[rank + i * Threads];
}
template <int Threads, class T, int N, class It>
__DEVICE__ void StoreDirectStriped(int rank, It to, T (&values)[N], int valid = 0x7fffffff) {
    for (int i = 0; i < N; i++)
        if (rank + i * Threads < valid)
            to[rank + i * Threads] = values[i];
}

// -- iterators

template <class T>
using CountingInputIterator = thrust::counting_iterator<T>;
template <class T, class Offset = ptrdiff_t>
using ConstantInputIterator = thrust::constant_iterator<T>;
template <class T = void>
using DiscardOutputIterator = thrust::discard_iterator;

template <class T, class F, class It, class Offset = ptrdiff_t>
struct TransformInputIterator {
    It at;
    F function;
    __host__ __device__ TransformInputIterator(It at, F function) : at(at), function(function) {}
    __host__ __device__ T operator*() const { return function(*at); }
    __host__ __device__ T operator[](ptrdiff_t i) const { return function(at[i]); }
    __host__ __device__ TransformInputIterator operator+(ptrdiff_t n) const { return {at + n, function}; }
    __host__ __device__ TransformInputIterator& operator++() {
        ++at;
        return *this;
    }
};
template <CacheLoadModifier, class T, class Offset = ptrdiff_t>
struct CacheModifiedInputIterator {
    const T* at;
    __host__ __device__ CacheModifiedInputIterator(const T* at) : at(at) {}
    __host__ __device__ T operator*() const { return *at; }
    __host__ __device__ T operator[](ptrdiff_t i) const { return at[i]; }
    __host__ __device__ CacheModifiedInputIterator operator+(ptrdiff_t n) const { return {at + n}; }
    __host__ __device__ CacheModifiedInputIterator& operator++() {
        ++at;
        return *this;
    }
};

template <class K, class V>
struct KeyValuePair {
    using Key = K;
    using Value = V;
    K key;
    V value;
};
template <class It, class Offset = int>
struct ArgIndexInputIterator {
    using T = std::remove_cv_t<std::remove_reference_t<decltype(*std::declval<It>())>>;
    It first;
    Offset at;
    __host__ __device__ ArgIndexInputIterator(It first, Offset at = 0) : first(first), at(at) {}
    __host__ __device__ KeyValuePair<Offset, T> operator*() const { return {at, first[at]}; }
    __host__ __device__ KeyValuePair<Offset, T> operator[](ptrdiff_t i) const { return *(*this + i); }
    __host__ __device__ ArgIndexInputIterator operator+(ptrdiff_t n) const { return {first, (Offset)(at + n)}; }
    __host__ __device__ ArgIndexInputIterator& operator++() {
        ++at;
        return *this;
    }
};

// -- reductions and scans of a thread's own values

template <int N, class T, class Op>
__DEVICE__ T ThreadReduce(const T (&values)[N], Op op) {
    T result = values[0];
    for (int i = 1; i < N; i++)
        result = op(result, values[i]);
    return result;
}
template <int N, class T, class Op>
__DEVICE__ T ThreadReduce(const T (&values)[N], Op op, T first) {
    return op(first, ThreadReduce(values, op));
}
template <int N, class T, class Op>
__DEVICE__ T ThreadScanInclusive(const T (&values)[N], T (&results)[N], Op op) {
    results[0] = values[0];
    for (int i = 1; i < N; i++)
        results[i] = op(results[i - 1], values[i]);
    return results[N - 1];
}
template <int N, class T, class Op>
__DEVICE__ T ThreadScanInclusive(const T (&values)[N], T (&results)[N], Op op, T first) {
    for (int i = 0; i < N; i++)
        results[i] = first = op(first, values[i]);
    return first;
}
template <int N, class T, class Op>
__DEVICE__ T ThreadScanExclusive(const T (&values)[N], T (&results)[N], Op op, T first) {
    for (int i = 0; i < N; i++) {
        T next = op(first, values[i]);
        results[i] = first;
        first = next;
    }
    return first;
}
namespace internal {
using hipcub::ThreadReduce;
using hipcub::ThreadScanExclusive;
using hipcub::ThreadScanInclusive;
}  // namespace internal

// -- numbers

template <class T>
__host__ __device__ inline void Swap(T& a, T& b) {
    T before = a;
    a = b;
    b = before;
}
template <class T, class U>
__host__ __device__ constexpr T DivideAndRoundUp(T x, U y) {
    return (T)((x + y - 1) / y);
}
template <int N>
struct Log2 {
    static constexpr int VALUE = N <= 1 ? 0 : 32 - __builtin_clz(N - 1 > 0 ? N - 1 : 1);
};
template <int N>
struct PowerOfTwo {
    static constexpr bool VALUE = (N & (N - 1)) == 0;
};
template <class T, class U>
struct Equals {
    static constexpr bool VALUE = std::is_same_v<T, U>;
};
template <bool Condition, class T, class U>
struct If {
    using Type = std::conditional_t<Condition, T, U>;
};
template <int N>
struct Int2Type {
    static constexpr int VALUE = N;
};

// -- names of instructions

__DEVICE__ unsigned LaneId() { return __lane_id(); }
__DEVICE__ unsigned WarpId() { return (unsigned)thread_rank() / 32; }
__DEVICE__ unsigned LaneMaskLt() { return (unsigned)__lanemask_lt(); }
__DEVICE__ unsigned LaneMaskLe() { return (unsigned)__lanemask_le(); }
__DEVICE__ unsigned LaneMaskGt() { return (unsigned)__lanemask_gt(); }
__DEVICE__ unsigned LaneMaskGe() { return (unsigned)__lanemask_ge(); }
__DEVICE__ int RowMajorTid(int x, int y, int) {
    return (int)threadIdx.x + x * ((int)threadIdx.y + y * (int)threadIdx.z);
}
__DEVICE__ void CTA_SYNC() { __syncthreads(); }
__DEVICE__ int CTA_SYNC_AND(int predicate) { return __syncthreads_and(predicate); }
__DEVICE__ int CTA_SYNC_OR(int predicate) { return __syncthreads_or(predicate); }
__DEVICE__ void WARP_SYNC(unsigned) { __syncwarp(); }
__DEVICE__ int WARP_ANY(int predicate, unsigned) { return __any(predicate); }
__DEVICE__ int WARP_ALL(int predicate, unsigned) { return __all(predicate); }
__DEVICE__ unsigned WARP_BALLOT(int predicate, unsigned) { return (unsigned)__ballot(predicate); }
__DEVICE__ int WarpAny(int predicate) { return __any(predicate); }
__DEVICE__ int WarpAll(int predicate) { return __all(predicate); }
// `last` and `first` are the outermost lanes that a value may come from.
template <int Threads = 32, class T>
__DEVICE__ T ShuffleDown(T value, int distance, int last = Threads - 1, unsigned = ~0u) {
    T other = __shfl_down(value, distance, Threads);
    return (int)(__lane_id() & (Threads - 1)) + distance <= last ? other : value;
}
template <int Threads = 32, class T>
__DEVICE__ T ShuffleUp(T value, int distance, int first = 0, unsigned = ~0u) {
    T other = __shfl_up(value, distance, Threads);
    return (int)(__lane_id() & (Threads - 1)) - distance >= first ? other : value;
}
template <int Threads = 32, class T>
__DEVICE__ T ShuffleIndex(T value, int lane, unsigned = ~0u) {
    return __shfl(value, lane, Threads);
}
template <class T>
__DEVICE__ unsigned BFE(T value, unsigned offset, unsigned width) {
    return (unsigned)(value >> offset) & (width < 32 ? (1u << width) - 1 : ~0u);
}
__DEVICE__ void BFI(unsigned& result, unsigned value, unsigned bits, unsigned offset, unsigned width) {
    result = __bitinsert_u32(value, bits, offset, width);
}
__DEVICE__ unsigned SHR_ADD(unsigned x, unsigned shift, unsigned y) { return (x >> shift) + y; }
__DEVICE__ unsigned SHL_ADD(unsigned x, unsigned shift, unsigned y) { return (x << shift) + y; }
__DEVICE__ unsigned IADD3(unsigned x, unsigned y, unsigned z) { return x + y + z; }
__DEVICE__ unsigned PRMT(unsigned x, unsigned y, unsigned selector) { return __byte_perm(x, y, selector); }

}  // namespace hipcub
