// What blocks and warps do together, with the names of hipCUB; `cub/cub.cuh` has CUB's. What runs on a whole device is
// for the host's libraries. Reductions and scans are in this file.
#pragma once
#include <hip/device/own_names.h>

#include <hip/hip_runtime.h>
#include <hipcub/block_movement.hpp>
#include <hipcub/block_neighbours.hpp>
#include <hipcub/block_parts.hpp>
#include <hipcub/block_sort.hpp>
#include <hipcub/grid_parts.hpp>
#include <hipcub/thread_parts.hpp>
#include <hipcub/warp_movement.hpp>
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
};
struct Equality {
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

#define FOREBAY_OPERATOR(name, op)                                          \
    struct name {                                                           \
        template <class T>                                                  \
        __host__ __device__ constexpr T operator()(const T& a, const T& b) const { \
            return a op b;                                                  \
        }                                                                   \
    };
FOREBAY_OPERATOR(Difference, -)
FOREBAY_OPERATOR(Division, /)
#undef FOREBAY_OPERATOR
template <class T>
struct CastOp {
    template <class U>
    __host__ __device__ constexpr T operator()(const U& a) const {
        return (T)a;
    }
};
template <class Op>
struct InequalityWrapper {
    Op op;
    template <class T>
    __host__ __device__ constexpr bool operator()(const T& a, const T& b) const {
        return !op(a, b);
    }
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
    // What goes before the whole block is asked of the first thread, with the block's total.
    template <class Op, class Prefix, std::enable_if_t<std::is_invocable_v<Prefix&, T>, int> = 0>
    __device__ void ExclusiveScan(T value, T& result, Op op, Prefix& prefix) {
        this->scan(value, op, threads);
        T before = this->rank ? this->room[this->rank - 1] : T(), total = this->room[threads - 1];
        T first = first_of(prefix, total);
        result = this->rank ? op(first, before) : first;
    }
    template <class Op, class Prefix, std::enable_if_t<std::is_invocable_v<Prefix&, T>, int> = 0>
    __device__ void InclusiveScan(T value, T& result, Op op, Prefix& prefix) {
        this->scan(value, op, threads);
        T own = this->room[this->rank], total = this->room[threads - 1];
        result = op(first_of(prefix, total), own);
    }
    template <class Prefix, std::enable_if_t<std::is_invocable_v<Prefix&, T>, int> = 0>
    __device__ void ExclusiveSum(T value, T& result, Prefix& prefix) {
        ExclusiveScan(value, result, hipcub::Sum(), prefix);
    }
    template <class Prefix, std::enable_if_t<std::is_invocable_v<Prefix&, T>, int> = 0>
    __device__ void InclusiveSum(T value, T& result, Prefix& prefix) {
        InclusiveScan(value, result, hipcub::Sum(), prefix);
    }
    template <int N, class Prefix, std::enable_if_t<std::is_invocable_v<Prefix&, T>, int> = 0>
    __device__ void ExclusiveSum(T (&values)[N], T (&results)[N], Prefix& prefix) {
        T total;
        ExclusiveScan(values, results, T(), hipcub::Sum(), total);
        T first = first_of(prefix, total);
        for (int i = 0; i < N; i++)
            results[i] = first + results[i];
    }

    template <class Op, int N>
    __device__ void InclusiveScan(T (&values)[N], T (&results)[N], Op op) {
        T all;
        InclusiveScan(values, results, op, all);
    }
    template <class Op, int N>
    __device__ void InclusiveScan(T (&values)[N], T (&results)[N], Op op, T& all) {
        T mine[N], total = values[0];
        mine[0] = total;
        for (int i = 1; i < N; i++)
            mine[i] = total = op(total, values[i]);
        this->scan(total, op, threads);
        for (int i = 0; i < N; i++)
            results[i] = this->rank ? op(this->room[this->rank - 1], mine[i]) : mine[i];
        all = this->room[threads - 1];
    }
    template <class Op, int N>
    __device__ void ExclusiveScan(T (&values)[N], T (&results)[N], T first, Op op) {
        T all;
        ExclusiveScan(values, results, first, op, all);
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
    __device__ void InclusiveSum(T (&values)[N], T (&results)[N], T& total) {
        InclusiveScan(values, results, hipcub::Sum(), total);
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

  private:
    template <class Prefix>
    __device__ T first_of(Prefix& prefix, T total) {
        __syncthreads();  // all have read the totals
        if (this->rank == 0)
            this->room[0] = prefix(total);
        __syncthreads();
        return this->room[0];
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

    // Of segments that begin where a flag is set, or end there; the first lane of each has its result.
    template <class Flag, class Op>
    __device__ T HeadSegmentedReduce(T value, Flag is_head, Op op) {
        unsigned heads = flags(is_head != 0) | 1, after = lane() < Threads - 1 ? heads >> (lane() + 1) : 0;
        return Reduce(value, op, after ? lane() + 1 + __builtin_ctz(after) : Threads);
    }
    template <class Flag, class Op>
    __device__ T TailSegmentedReduce(T value, Flag is_tail, Op op) {
        unsigned tails = flags(is_tail != 0) >> lane();
        return Reduce(value, op, tails ? lane() + 1 + __builtin_ctz(tails) : Threads);
    }
    template <class Flag>
    __device__ T HeadSegmentedSum(T value, Flag is_head) {
        return HeadSegmentedReduce(value, is_head, hipcub::Sum());
    }
    template <class Flag>
    __device__ T TailSegmentedSum(T value, Flag is_tail) {
        return TailSegmentedReduce(value, is_tail, hipcub::Sum());
    }

  private:
    __device__ int lane() const { return (int)(__lane_id() & (Threads - 1)); }
    __device__ unsigned flags(bool flag) const {
        unsigned all = (unsigned)__ballot(flag) >> (__lane_id() & ~(Threads - 1));
        return Threads < 32 ? all & ((1u << (Threads & 31)) - 1) : all;
    }
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
    // `total` is what all lanes have, without `first`. Without that the first lane's result is not set.
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, T first, Op op, T& total) {
        InclusiveScan(value, total, op);
        T before = __shfl_up(total, 1, Threads);
        result = __lane_id() & (Threads - 1) ? op(first, before) : first;
        total = __shfl(total, Threads - 1, Threads);
    }
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, Op op) {
        T inclusive;
        InclusiveScan(value, inclusive, op);
        result = __shfl_up(inclusive, 1, Threads);
    }
    template <class Op>
    __device__ void ExclusiveScan(T value, T& result, Op op, T& total) {
        InclusiveScan(value, total, op);
        result = __shfl_up(total, 1, Threads);
        total = __shfl(total, Threads - 1, Threads);
    }
    __device__ void InclusiveSum(T value, T& result) { InclusiveScan(value, result, hipcub::Sum()); }
    __device__ void InclusiveSum(T value, T& result, T& total) {
        InclusiveSum(value, result);
        total = __shfl(result, Threads - 1, Threads);
    }
    __device__ void ExclusiveSum(T value, T& result) { ExclusiveScan(value, result, T(), hipcub::Sum()); }
    __device__ void ExclusiveSum(T value, T& result, T& total) {
        Scan(value, total, result, T(), hipcub::Sum());
        total = __shfl(total, Threads - 1, Threads);
    }
    template <class Op>
    __device__ void InclusiveScan(T value, T& result, Op op, T& total) {
        InclusiveScan(value, result, op);
        total = __shfl(result, Threads - 1, Threads);
    }
    // Both at once. Without a first value the first lane's exclusive one is not set.
    template <class Op>
    __device__ void Scan(T value, T& inclusive, T& exclusive, Op op) {
        InclusiveScan(value, inclusive, op);
        exclusive = __shfl_up(inclusive, 1, Threads);
    }
    template <class Op>
    __device__ void Scan(T value, T& inclusive, T& exclusive, T first, Op op) {
        InclusiveScan(value, inclusive, op);
        T before = __shfl_up(inclusive, 1, Threads);
        exclusive = __lane_id() & (Threads - 1) ? op(first, before) : first;
        inclusive = op(first, inclusive);
    }
    __device__ T Broadcast(T value, unsigned lane) { return __shfl(value, (int)lane, Threads); }
};

}  // namespace hipcub
#include <hip/device/program_names.h>
