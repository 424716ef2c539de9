// hipCUB's shifts and differences between neighbouring threads of a block.
#pragma once

#include <hipcub/block_parts.hpp>

namespace hipcub {

template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockShuffle {
    static constexpr int threads = X * Y * Z;

  public:
    using TempStorage = Room<T, threads>;
    __device__ BlockShuffle(TempStorage& room) : room_(room), rank_(thread_rank()) {}

    // Threads without such a neighbour keep what `result` was.
    __device__ void Offset(T value, T& result, int distance = 1) {
        share(value);
        if (rank_ + distance >= 0 && rank_ + distance < threads)
            result = room_[rank_ + distance];
    }
    __device__ void Rotate(T value, T& result, unsigned distance = 1) {
        share(value);
        result = room_[(rank_ + (int)distance) % threads];
    }
    template <int N>
    __device__ void Up(T (&values)[N], T (&results)[N]) {
        share(values[N - 1]);
        T first = rank_ ? room_[rank_ - 1] : results[0];
        for (int i = N - 1; i > 0; i--)
            results[i] = values[i - 1];
        results[0] = first;
    }
    template <int N>
    __device__ void Down(T (&values)[N], T (&results)[N]) {
        share(values[0]);
        T last = rank_ < threads - 1 ? room_[rank_ + 1] : results[N - 1];
        for (int i = 0; i < N - 1; i++)
            results[i] = values[i + 1];
        results[N - 1] = last;
    }

  private:
    TempStorage& room_;
    int rank_;

    __device__ void share(T value) {
        __syncthreads();
        room_[rank_] = value;
        __syncthreads();
    }
};

// The outermost value, which has no neighbour, stays what it is.
template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockAdjacentDifference {
    using Base = BlockShuffle<T, X, Y, Z>;

  public:
    using TempStorage = typename Base::TempStorage;
    __device__ BlockAdjacentDifference(TempStorage& room) : room_(room) {}

    template <int N, class U, class Op>
    __device__ void SubtractLeft(T (&values)[N], U (&results)[N], Op op) {
        T before[N] = {};
        Base(room_).Up(values, before);
        for (int i = N - 1; i >= 0; i--)
            results[i] = i || thread_rank() ? (U)op(values[i], before[i]) : (U)values[i];
    }
    template <int N, class U, class Op>
    __device__ void SubtractLeft(T (&values)[N], U (&results)[N], Op op, T before_all) {
        T before[N] = {before_all};
        Base(room_).Up(values, before);
        for (int i = N - 1; i >= 0; i--)
            results[i] = (U)op(values[i], before[i]);
    }
    template <int N, class U, class Op>
    __device__ void SubtractRight(T (&values)[N], U (&results)[N], Op op) {
        T after[N] = {};
        Base(room_).Down(values, after);
        bool is_last = thread_rank() == X * Y * Z - 1;
        for (int i = 0; i < N; i++)
            results[i] = i < N - 1 || !is_last ? (U)op(values[i], after[i]) : (U)values[i];
    }

  private:
    TempStorage& room_;
};

}  // namespace hipcub
