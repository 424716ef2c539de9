// Warps: shuffles and votes among 32 threads. `__global__` makes the device's compiler take groups of that width.
//
// A mask names the threads that take part. Here all that are at the call do, which a correct program's mask says too.
#pragma once

#include <hip/device/spirv.h>

static constexpr int warpSize = 32;

__DEVICE__ unsigned __lane_id() { return (unsigned)__builtin_spirv_subgroup_local_invocation_id(); }

#include <hip/device/lane_masks.h>

// -- shuffles

namespace __forebay {

// What thread `lane` has, for values of every size.
template <class T>
__DEVICE__ T from_lane(T value, unsigned lane) {
    if constexpr (sizeof(T) == 8 && std::is_trivially_copyable_v<T>) {
        return bits_as<T>(shuffle(bits_as<unsigned long>(value), lane));
    } else if constexpr (sizeof(T) == 4 && std::is_trivially_copyable_v<T>) {
        return bits_as<T>(shuffle(bits_as<unsigned>(value), lane));
    } else {
        unsigned words[(sizeof(T) + 3) / 4] = {};
        __builtin_memcpy(words, &value, sizeof(T));
        for (unsigned& word : words)
            word = shuffle(word, lane);
        __builtin_memcpy(&value, words, sizeof(T));
        return value;
    }
}

}  // namespace __forebay

// In HIP the width, a power of two, cuts the warp in parts; a source outside the part is the thread itself. The lane is of
// any type: a program's `uint4 __shfl(uint4, unsigned, int)`, to which any number converts, is no better for a number.
template <class T, class L, class W = int>
__DEVICE__ T __shfl(T value, L at, W parts = warpSize) {
    int source = at, width = parts;
    unsigned lane = __lane_id();
    return __forebay::from_lane(value, (lane & ~(width - 1)) + (source & (width - 1)));
}
template <class T, class L, class W = int>
__DEVICE__ T __shfl_xor(T value, L at, W parts = warpSize) {
    int mask = at, width = parts;
    unsigned lane = __lane_id(), source = lane ^ mask;
    return __forebay::from_lane(value, source >= ((lane + width) & ~(width - 1)) ? lane : source);
}
template <class T, class L, class W = int>
__DEVICE__ T __shfl_down(T value, L at, W parts = warpSize) {
    unsigned delta = at;
    int width = parts;
    unsigned lane = __lane_id();
    return __forebay::from_lane(value, (lane & (width - 1)) + delta >= (unsigned)width ? lane : lane + delta);
}
template <class T, class L, class W = int>
__DEVICE__ T __shfl_up(T value, L at, W parts = warpSize) {
    unsigned delta = at;
    int width = parts;
    unsigned lane = __lane_id();
    return __forebay::from_lane(value, (lane & (width - 1)) < delta ? lane : lane - delta);
}
template <class M, class T, class L, class W = int>
__DEVICE__ T __shfl_sync(M, T value, L source, W width = warpSize) {
    return __shfl(value, source, width);
}
template <class M, class T, class L, class W = int>
__DEVICE__ T __shfl_xor_sync(M, T value, L mask, W width = warpSize) {
    return __shfl_xor(value, mask, width);
}
template <class M, class T, class L, class W = int>
__DEVICE__ T __shfl_down_sync(M, T value, L delta, W width = warpSize) {
    return __shfl_down(value, delta, width);
}
template <class M, class T, class L, class W = int>
__DEVICE__ T __shfl_up_sync(M, T value, L delta, W width = warpSize) {
    return __shfl_up(value, delta, width);
}

// -- votes; masks are of 64 bits as in HIP, their upper half 0

__DEVICE__ unsigned long long __ballot(int predicate) { return __forebay::ballot(predicate != 0).x; }
__DEVICE__ unsigned long long __ballot64(int predicate) { return __ballot(predicate); }
__DEVICE__ unsigned long long __activemask() { return __ballot(1); }
__DEVICE__ int __any(int predicate) { return __ballot(predicate) != 0; }
namespace __forebay {
__DEVICE__ int vote_all(int predicate) { return __ballot(!predicate) == 0; }
}
// A macro, for LLVM's C++ library has a class `std::__all`, which programs see that are `using namespace std`.
#define __all(predicate) __forebay::vote_all(predicate)

template <class M>
__DEVICE__ unsigned long long __ballot_sync(M mask, int predicate) {
    return __ballot(predicate) & mask;
}
template <class M>
__DEVICE__ int __any_sync(M mask, int predicate) {
    return (__ballot(predicate) & mask) != 0;
}
template <class M>
__DEVICE__ int __all_sync(M mask, int predicate) {
    return (__ballot(!predicate) & mask) == 0;
}

__DEVICE__ void __syncwarp(unsigned long long = ~0ull) {
    using namespace __forebay;
    __spirv_ControlBarrier(sub_group, sub_group, sequentially_consistent | all_memory);
}

// The threads of the mask that have the same value.
template <class M, class T>
__DEVICE__ unsigned long long __match_any_sync(M mask, T value) {
    unsigned long long taking_part = __ballot(1) & mask, same = 0;
    for (int lane = 0; lane < warpSize; lane++) {
        T other = __forebay::from_lane(value, lane);
        same |= (unsigned long long)(__builtin_memcmp(&other, &value, sizeof(T)) == 0) << lane;
    }
    return same & taking_part;
}
template <class T>
__DEVICE__ unsigned long long __match_any(T value) {
    return __match_any_sync(~0ull, value);
}
template <class M, class T>
__DEVICE__ unsigned long long __match_all_sync(M mask, T value, int* all) {
    unsigned long long taking_part = __ballot(1) & mask;
    *all = __match_any_sync(mask, value) == taking_part;
    return *all ? taking_part : 0;
}
template <class T>
__DEVICE__ unsigned long long __match_all(T value, int* all) {
    return __match_all_sync(~0ull, value, all);
}

// What a lane has whose number is given in bytes, as AMD's instruction has it.
__DEVICE__ int __hip_ds_bpermute(int address, int value) {
    return __forebay::from_lane(value, (unsigned)address >> 2 & 31);
}
__DEVICE__ float __hip_ds_bpermutef(int address, float value) {
    return __forebay::from_lane(value, (unsigned)address >> 2 & 31);
}

// Reductions over the threads of the mask; the others' values are left out.
#define FOREBAY_REDUCE(name, T, EXPRESSION)                              \
    template <class M>                                                   \
    __DEVICE__ T name(M mask, T value) {                                 \
        unsigned left = (unsigned)(__ballot(1) & mask);                  \
        T a = __forebay::from_lane(value, __builtin_ctzg(left, 0));      \
        for (left &= left - 1; left; left &= left - 1) {                 \
            T b = __forebay::from_lane(value, __builtin_ctzg(left, 0));  \
            a = EXPRESSION;                                              \
        }                                                                \
        return a;                                                        \
    }
FOREBAY_REDUCE(__reduce_add_sync, int, a + b)
FOREBAY_REDUCE(__reduce_add_sync, unsigned, a + b)
FOREBAY_REDUCE(__reduce_min_sync, int, b < a ? b : a)
FOREBAY_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
FOREBAY_REDUCE(__reduce_max_sync, int, a < b ? b : a)
FOREBAY_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
FOREBAY_REDUCE(__reduce_and_sync, unsigned, a& b)
FOREBAY_REDUCE(__reduce_or_sync, unsigned, a | b)
FOREBAY_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef FOREBAY_REDUCE
