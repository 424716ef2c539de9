// hipCUB's loads, stores and exchanges of a block: each thread has `N` values, in order ("blocked") or the block's size
// apart ("striped"). How they are moved differs on GPUs in speed only.
#pragma once

#include <hip/hip_runtime.h>
#include <hipcub/block_parts.hpp>

namespace hipcub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <class T, int X, int N, BlockLoadAlgorithm Way = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad {
    static __DEVICE__ int place(int i) {
        return Way == BLOCK_LOAD_STRIPED ? i * X * Y * Z + thread_rank() : thread_rank() * N + i;
    }

  public:
    struct TempStorage {};
    BlockLoad() = default;
    __device__ BlockLoad(TempStorage&) {}

    template <class It>
    __device__ void Load(It from, T (&values)[N]) {
        for (int i = 0; i < N; i++)
            values[i] = from[place(i)];
    }
    // The values from `valid` on are as they were.
    template <class It>
    __device__ void Load(It from, T (&values)[N], int valid) {
        for (int i = 0; i < N; i++)
            if (place(i) < valid)
                values[i] = from[place(i)];
    }
    template <class It, class U>
    __device__ void Load(It from, T (&values)[N], int valid, U otherwise) {
        for (int i = 0; i < N; i++)
            values[i] = place(i) < valid ? (T)from[place(i)] : (T)otherwise;
    }
};

template <class T, int X, int N, BlockStoreAlgorithm Way = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore {
    static __DEVICE__ int place(int i) {
        return Way == BLOCK_STORE_STRIPED ? i * X * Y * Z + thread_rank() : thread_rank() * N + i;
    }

  public:
    struct TempStorage {};
    BlockStore() = default;
    __device__ BlockStore(TempStorage&) {}

    template <class It>
    __device__ void Store(It to, T (&values)[N]) {
        for (int i = 0; i < N; i++)
            to[place(i)] = values[i];
    }
    template <class It>
    __device__ void Store(It to, T (&values)[N], int valid) {
        for (int i = 0; i < N; i++)
            if (place(i) < valid)
                to[place(i)] = values[i];
    }
};

template <class T, int X, int N, bool = false, int Y = 1, int Z = 1, int = 0>
class BlockExchange {
    static constexpr int threads = X * Y * Z;

  public:
    using TempStorage = Room<T, threads * N>;
    __device__ BlockExchange(TempStorage& room) : room_(room), rank_(thread_rank()) {}

    template <class U>
    __device__ void StripedToBlocked(const T (&from)[N], U (&to)[N]) {
        move(from, to, [&](int i) { return i * threads + rank_; }, [&](int i) { return rank_ * N + i; });
    }
    template <class U>
    __device__ void BlockedToStriped(const T (&from)[N], U (&to)[N]) {
        move(from, to, [&](int i) { return rank_ * N + i; }, [&](int i) { return i * threads + rank_; });
    }
    template <class U, class Place>
    __device__ void ScatterToBlocked(const T (&from)[N], U (&to)[N], Place (&places)[N]) {
        move(from, to, [&](int i) { return (int)places[i]; }, [&](int i) { return rank_ * N + i; });
    }
    template <class U, class Place>
    __device__ void ScatterToStriped(const T (&from)[N], U (&to)[N], Place (&places)[N]) {
        move(from, to, [&](int i) { return (int)places[i]; }, [&](int i) { return i * threads + rank_; });
    }
    __device__ void StripedToBlocked(T (&values)[N]) { StripedToBlocked(values, values); }
    __device__ void BlockedToStriped(T (&values)[N]) { BlockedToStriped(values, values); }

  private:
    TempStorage& room_;
    int rank_;

    template <class U, class Put, class Get>
    __device__ void move(const T (&from)[N], U (&to)[N], Put put, Get get) {
        __syncthreads();
        for (int i = 0; i < N; i++)
            room_[put(i)] = from[i];
        __syncthreads();
        for (int i = 0; i < N; i++)
            to[i] = room_[get(i)];
    }
};

}  // namespace hipcub
