// threadIdx and its like: objects whose members are read from SPIR-V's built-in variables.
#pragma once

#include <hip/hip_vector_types.h>

namespace __forebay {

#define FOREBAY_INDEX(NAME, BUILTIN)                                                     \
    struct NAME {                                                                        \
        __declspec(property(get = get_x)) unsigned x;                                    \
        __declspec(property(get = get_y)) unsigned y;                                    \
        __declspec(property(get = get_z)) unsigned z;                                    \
        __DEVICE__ unsigned get_x() const { return (unsigned)BUILTIN(0); }               \
        __DEVICE__ unsigned get_y() const { return (unsigned)BUILTIN(1); }               \
        __DEVICE__ unsigned get_z() const { return (unsigned)BUILTIN(2); }               \
        __DEVICE__ operator dim3() const { return dim3(get_x(), get_y(), get_z()); }     \
        __DEVICE__ operator uint3() const { return uint3(get_x(), get_y(), get_z()); }   \
    };
FOREBAY_INDEX(thread_index, __builtin_spirv_local_invocation_id)
FOREBAY_INDEX(block_index, __builtin_spirv_workgroup_id)
FOREBAY_INDEX(block_size, __builtin_spirv_workgroup_size)
FOREBAY_INDEX(grid_size, __builtin_spirv_num_workgroups)
#undef FOREBAY_INDEX

}  // namespace __forebay

static const __device__ __forebay::thread_index threadIdx = {};
static const __device__ __forebay::block_index blockIdx = {};
static const __device__ __forebay::block_size blockDim = {};
static const __device__ __forebay::grid_size gridDim = {};

#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)
