// What blocks and warps do together, with the names of hipCUB; `cub/cub.cuh` has CUB's. What runs on a whole device is
// for the host's libraries. Reductions and scans are in this file.
#pragma once

#include <hip/hip_runtime.h>
#include <hipcub/block_movement.hpp>
#include <hipcub/block_parts.hpp>
#include <hipcub/block_sort.hpp>
#include <thrust/iterator/counting_iterator.h>
#include <type_traits>
#include <utility>

namespace hipcub {

struct Sum {
    template <class T>
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
        return a + b;
    }
};
struct Max {
    template <class T>
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
        return a < b ? b : a;
    }
};
struct Min {
    template <class T>
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
        return b < a ? b : a;
    }
};struct Equality {
    template <class T>
    __host__ __device__ constexpr bool operator()(const T& a, const T& b) const {
        return a == b;
    }
};
struct Inequality {
    template <class T>
    __host__ __device__ constexpr bool operator()(const T& a, const T& b) const {
        return !(a == b);
    }
};

template <class T>
using CountingInputIterator = thrust::counting_iterator<T>;
__DEVICE__ unsigned LaneId() { return __lane_id(); }

template <class K, class V>
struct KeyValuePair {
    using Key = K;
    using Value = V;
    K key;
    V value;
};
struct ArgMax {
    template <class P>
    __host__ __device__ constexpr P operator()(const P& a, const P& b) const {
        return b.value > a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class P>
    __host__ __device__ constexpr P operator()(const P& a, const P& b) const {
        return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce : BlockParts<T, X * Y * Z> {
    using Base = BlockParts<T, X * Y * Z>;

  public:
    using TempStorage = typename Base::TempStorage;
    __device__ BlockReduce(TempStorage& room) : Base(room) {}

    // CUB promises the result to the first thread; here all have it.
    template <class Op>
    __device__ T Reduce(T value, Op op, int count = X * Y * Z) {
        this->scan(value, op, count);
        return this->room[count - 1];
    }
    template <class Op, int N>
    __device__ T Reduce(T (&values)[N], Op op) {
        T mine = values[0];
        for (int i = 1; i < N; i++)
            mine = op(mine, values[i]);
        return Reduce(mine, op);
    }
    __device__ T Sum(T value) { return Reduce(value, hipcub::Sum()); }
    __device__ T Sum(T value, int count) { return Reduce(value, hipcub::Sum(), count); }
    template <int N>
    __device__ T Sum(T (&values)[N]) {
        return Reduce(values, hipcub::Sum());
    }
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan : BlockParts<T, X * Y * Z> {
    using Base = BlockParts<T, X * Y * Z>;
    static constexpr int threads = X * Y * Z;

  public:
    using TempStorage = typename Base::TempStorage;
    __device__ BlockScan(TempStorage& room) : Base(room) {}

    template <class Op>
    __device__ void InclusiveScan(T value, T& result, Op op, T& total) {
        this->scan(value, op, threads);
        result = this->room[this->rank];
        total = this->room[threads - 1];
    }
    template <class Op>
    __device__ void InclusiveScan(T value, T& result, Op op) {
        T total;
        InclusiveScan(value, result, op, total);
    }
    // The first thread has `first`, which goes before all others too.
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, T first, Op op, T& total) {
        this->scan(value, op, threads);
        result = this->rank ? op(first, this->room[this->rank - 1]) : first;
        total = this->room[threads - 1];
    }
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, T first, Op op) {
        T total;
        ExclusiveScan(value, result, first, op, total);
    }
    template <class Op, int N>
    __device__ void InclusiveScan(T (&values)[N], T (&results)[N], Op op) {
        T mine[N], total = values[0];
        mine[0] = total;
        for (int i = 1; i < N; i++)
            mine[i] = total = op(total, values[i]);
        this->scan(total, op, threads);
        for (int i = 0; i < N; i++)
            results[i] = this->rank ? op(this->room[this->rank - 1], mine[i]) : mine[i];
    }
    template <class Op, int N>
    __device__ void ExclusiveScan(T (&values)[N], T (&results)[N], T first, Op op, T& all) {
        T mine[N], total = values[0];
        for (int i = 1; i < N; i++) {
            mine[i] = total;
            total = op(total, values[i]);
        }
        this->scan(total, op, threads);
        T before = this->rank ? op(first, this->room[this->rank - 1]) : first;
        for (int i = N - 1; i > 0; i--)
            results[i] = op(before, mine[i]);
        results[0] = before;
        all = this->room[threads - 1];
    }

    __device__ void InclusiveSum(T value, T& result) { InclusiveScan(value, result, hipcub::Sum()); }
    __device__ void InclusiveSum(T value, T& result, T& total) { InclusiveScan(value, result, hipcub::Sum(), total); }
    __device__ void ExclusiveSum(T value, T& result) { ExclusiveScan(value, result, T(), hipcub::Sum()); }
    __device__ void ExclusiveSum(T value, T& result, T& total) {
        ExclusiveScan(value, result, T(), hipcub::Sum(), total);
    }
    template <int N>
    __device__ void InclusiveSum(T (&values)[N], T (&results)[N]) {
        InclusiveScan(values, results, hipcub::Sum());
    }
    template <int N>
    __device__ void ExclusiveSum(T (&values)[N], T (&results)[N]) {
        T total;
        ExclusiveScan(values, results, T(), hipcub::Sum(), total);
    }
    template <int N>
    __device__ void ExclusiveSum(T (&values)[N], T (&results)[N], T& total) {
        ExclusiveScan(values, results, T(), hipcub::Sum(), total);
    }
};

// `Threads` neighbouring lanes; a power of two.
template <class T, int Threads = 32, int = 0>
class WarpReduce {
  public:
    struct TempStorage {};
    __device__ WarpReduce(TempStorage&) {}

    // CUB promises the result to the first lane.
    template <class Op>
    __device__ T Reduce(T value, Op op, int count = Threads) {
        int lane = __lane_id() & (Threads - 1);
        for (int distance = 1; distance < Threads; distance *= 2) {
            T other = __shfl_down(value, distance, Threads);
            if (lane + distance < count)
                value = op(value, other);
        }
        return value;
    }
    __device__ T Sum(T value) { return Reduce(value, hipcub::Sum()); }
    __device__ T Sum(T value, int count) { return Reduce(value, hipcub::Sum(), count); }
};

template <class T, int Threads = 32, int = 0>
class WarpScan {
  public:
    struct TempStorage {};
    __device__ WarpScan(TempStorage&) {}

    template <class Op>
    __device__ void InclusiveScan(T value, T& result, Op op) {
        int lane = __lane_id() & (Threads - 1);
        for (int distance = 1; distance < Threads; distance *= 2) {
            T other = __shfl_up(value, distance, Threads);
            if (lane >= distance)
                value = op(other, value);
        }
        result = value;
    }
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, T first, Op op) {
        T inclusive;
        InclusiveScan(value, inclusive, op);
        T before = __shfl_up(inclusive, 1, Threads);
        result = __lane_id() & (Threads - 1) ? op(first, before) : first;
    }
    __device__ void InclusiveSum(T value, T& result) { InclusiveScan(value, result, hipcub::Sum()); }
    __device__ void InclusiveSum(T value, T& result, T& total) {
        InclusiveSum(value, result);
        total = __shfl(result, Threads - 1, Threads);
    }
    __device__ void ExclusiveSum(T value, T& result) { ExclusiveScan(value, result, T(), hipcub::Sum()); }
};

}  // namespace hipcub
