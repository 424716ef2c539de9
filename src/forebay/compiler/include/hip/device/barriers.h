// Barriers of a block, and fences.
#pragma once

#include <hip/device/spirv.h>

// A barrier orders everything that the block wrote, in shared and in global memory.
__DEVICE__ __attribute__((convergent)) void __syncthreads() {
    using namespace __forebay;
    __spirv_ControlBarrier(work_group, work_group, sequentially_consistent | all_memory);
}

__DEVICE__ void __threadfence() {
    using namespace __forebay;
    __spirv_MemoryBarrier(across_device, sequentially_consistent | all_memory);
}

__DEVICE__ void __threadfence_block() {
    using namespace __forebay;
    __spirv_MemoryBarrier(work_group, sequentially_consistent | all_memory);
}

__DEVICE__ void __threadfence_system() {
    using namespace __forebay;
    __spirv_MemoryBarrier(across_devices, sequentially_consistent | all_memory);
}

__DEVICE__ int __syncthreads_and(int predicate) {
    __syncthreads();
    return __forebay::all_of_block(predicate != 0);
}

__DEVICE__ int __syncthreads_or(int predicate) {
    __syncthreads();
    return __forebay::any_of_block(predicate != 0);
}

__DEVICE__ int __syncthreads_count(int predicate) {
    __syncthreads();
    return __forebay::sum_of_block(predicate != 0);
}
