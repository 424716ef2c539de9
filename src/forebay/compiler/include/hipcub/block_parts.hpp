// What the headers of hipCUB have in common.
#pragma once

#include <hip/hip_runtime.h>
#include <type_traits>

namespace hipcub {

struct NullType {};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

// Shared memory that has no constructor, for any type.
template <class T, int N>
struct alignas(T) Room {
    char bytes[N * sizeof(T)];
    __device__ T& operator[](int i) { return ((T*)bytes)[i]; }
};

__DEVICE__ int thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// What each thread of a block has, in order, in shared memory; all threads call. Results are the same each time.
template <class T, int Threads>
struct BlockParts {
    using TempStorage = Room<T, Threads>;
    TempStorage& room;
    int rank;

    __device__ BlockParts(TempStorage& room) : room(room), rank(thread_rank()) {}

    // Leaves in room[i] the reduction of the values up to the i-th, of `count` threads.
    template <class Op>
    __device__ void scan(T value, Op op, int count) {
        __syncthreads();
        room[rank] = value;
        __syncthreads();
        for (int distance = 1; distance < count; distance *= 2) {
            bool takes_part = rank >= distance && rank < count;
            T before = takes_part ? room[rank - distance] : value;
            __syncthreads();
            if (takes_part)
                room[rank] = value = op(before, value);
            __syncthreads();
        }
    }
};

}  // namespace hipcub
