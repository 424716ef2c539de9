// Warps as HIP has them: without a mask, among the threads that are at the call; for values of every size.
#pragma once

#define __AMDGCN_WAVEFRONT_SIZE 32
#define __AMDGCN_WAVEFRONT_SIZE__ 32

__DEVICE__ unsigned __lane_id() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

#include <hip/device/lane_masks.h>

#define FOREBAY_SHUFFLE(name, type)                                                              \
    template <class T>                                                                           \
    __DEVICE__ T name(T value, type lane, int width = 32) {                                      \
        unsigned words[(sizeof(T) + 3) / 4] = {};                                                \
        memcpy(words, &value, sizeof(T));                                                        \
        for (unsigned& word : words)                                                             \
            word = name##_sync(__activemask(), word, lane, width);                               \
        memcpy(&value, words, sizeof(T));                                                        \
        return value;                                                                            \
    }
FOREBAY_SHUFFLE(__shfl, int)
FOREBAY_SHUFFLE(__shfl_up, unsigned)
FOREBAY_SHUFFLE(__shfl_down, unsigned)
FOREBAY_SHUFFLE(__shfl_xor, int)
#undef FOREBAY_SHUFFLE

// CUDA's of these names are 32 bits wide, and gone on newer GPUs.
#define __all __forebay_all
#define __any __forebay_any
#define __ballot __forebay_ballot
__DEVICE__ int __all(int predicate) { return __all_sync(__activemask(), predicate); }
__DEVICE__ int __any(int predicate) { return __any_sync(__activemask(), predicate); }
__DEVICE__ unsigned long long __ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
__DEVICE__ unsigned long long __ballot64(int predicate) { return __ballot(predicate); }

template <class T>
__DEVICE__ unsigned long long __match_any(T value) { return __match_any_sync(__activemask(), value); }
template <class T>
__DEVICE__ unsigned long long __match_all(T value, int* all) { return __match_all_sync(__activemask(), value, all); }
