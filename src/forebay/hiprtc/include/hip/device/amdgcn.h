// Clang's built-in functions for AMD's GPUs that have a meaning on every device.
#pragma once

#include <hip/device/barriers.h>
#include <hip/device/indices.h>
#include <hip/device/math_fast.h>
#include <hip/device/warps.h>

#define __builtin_amdgcn_workitem_id_x() ((int)threadIdx.x)
#define __builtin_amdgcn_workitem_id_y() ((int)threadIdx.y)
#define __builtin_amdgcn_workitem_id_z() ((int)threadIdx.z)
#define __builtin_amdgcn_workgroup_id_x() ((int)blockIdx.x)
#define __builtin_amdgcn_workgroup_id_y() ((int)blockIdx.y)
#define __builtin_amdgcn_workgroup_id_z() ((int)blockIdx.z)
#define __builtin_amdgcn_workgroup_size_x() ((unsigned short)blockDim.x)
#define __builtin_amdgcn_workgroup_size_y() ((unsigned short)blockDim.y)
#define __builtin_amdgcn_workgroup_size_z() ((unsigned short)blockDim.z)
#define __builtin_amdgcn_grid_size_x() (gridDim.x * blockDim.x)
#define __builtin_amdgcn_grid_size_y() (gridDim.y * blockDim.y)
#define __builtin_amdgcn_grid_size_z() (gridDim.z * blockDim.z)
#define __builtin_amdgcn_wavefrontsize() warpSize

#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() __syncwarp()
#define __builtin_amdgcn_fence(...) __threadfence()
#define __builtin_amdgcn_s_sleep(n) ((void)(n))
#define __builtin_amdgcn_sched_barrier(n) ((void)(n))

#define __builtin_amdgcn_readfirstlane(x) __forebay::from_lane((int)(x), __builtin_ctzg((unsigned)__activemask(), 0))
#define __builtin_amdgcn_readlane(x, lane) __forebay::from_lane((int)(x), (unsigned)(lane))
#define __builtin_amdgcn_ds_bpermute(address, x) __hip_ds_bpermute(address, x)
// The lanes of a mask below one's own, in the lower and the upper half of 64.
#define __builtin_amdgcn_mbcnt_lo(mask, sum) ((unsigned)__popc((unsigned)(mask) & (unsigned)__lanemask_lt()) + (sum))
#define __builtin_amdgcn_mbcnt_hi(mask, sum) ((unsigned)(sum))

#define __builtin_amdgcn_rcpf(x) (1.0f / (float)(x))
#define __builtin_amdgcn_rcp(x) (1.0 / (double)(x))
#define __builtin_amdgcn_rsqf(x) rsqrtf(x)
#define __builtin_amdgcn_rsq(x) rsqrt((double)(x))
#define __builtin_amdgcn_sqrtf(x) sqrtf(x)
#define __builtin_amdgcn_exp2f(x) exp2f(x)
#define __builtin_amdgcn_logf(x) log2f(x)
#define __builtin_amdgcn_fmed3f(x, y, z) fmaxf(fminf(x, y), fminf(fmaxf(x, y), z))
