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

// The threads that move values together: how many, and which of them this one is.
template <int X, int Y, int Z>
struct BlockTeam {
    static constexpr int threads = X * Y * Z;
    static __DEVICE__ int rank() { return thread_rank(); }
};

template <class Team, bool Striped, class T, int N>
class Loading {
    static __DEVICE__ int place(int i) { return Striped ? i * Team::threads + Team::rank() : Team::rank() * N + i; }

  public:
    struct TempStorage {};
    Loading() = default;
    __device__ Loading(TempStorage&) {}

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

template <class Team, bool Striped, class T, int N>
class Storing {
    static __DEVICE__ int place(int i) { return Striped ? i * Team::threads + Team::rank() : Team::rank() * N + i; }

  public:
    struct TempStorage {};
    Storing() = default;
    __device__ Storing(TempStorage&) {}

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

template <class T, int X, int N, BlockLoadAlgorithm Way = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad : public Loading<BlockTeam<X, Y, Z>, Way == BLOCK_LOAD_STRIPED, T, N> {
    using Loading<BlockTeam<X, Y, Z>, Way == BLOCK_LOAD_STRIPED, T, N>::Loading;
};

template <class T, int X, int N, BlockStoreAlgorithm Way = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore : public Storing<BlockTeam<X, Y, Z>, Way == BLOCK_STORE_STRIPED, T, N> {
    using Storing<BlockTeam<X, Y, Z>, Way == BLOCK_STORE_STRIPED, T, N>::Storing;
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
    // As far apart as a warp is wide, among the values of each warp.
    template <class U>
    __device__ void WarpStripedToBlocked(const T (&from)[N], U (&to)[N]) {
        move(from, to, [&](int i) { return rank_ / 32 * 32 * N + i * 32 + rank_ % 32; },
             [&](int i) { return rank_ * N + i; });
    }
    template <class U>
    __device__ void BlockedToWarpStriped(const T (&from)[N], U (&to)[N]) {
        move(from, to, [&](int i) { return rank_ * N + i; },
             [&](int i) { return rank_ / 32 * 32 * N + i * 32 + rank_ % 32; });
    }
    template <class Place>
    __device__ void ScatterToBlocked(T (&values)[N], Place (&places)[N]) {
        ScatterToBlocked(values, values, places);
    }
    template <class Place>
    __device__ void ScatterToStriped(T (&values)[N], Place (&places)[N]) {
        ScatterToStriped(values, values, places);
    }
    __device__ void WarpStripedToBlocked(T (&values)[N]) { WarpStripedToBlocked(values, values); }
    __device__ void BlockedToWarpStriped(T (&values)[N]) { BlockedToWarpStriped(values, values); }
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
