// Clang's built-in functions for AMD's GPUs that have a meaning on every device.
#pragma once

#include <hip/device/amdgcn_lanes.h>
#include <hip/device/barriers.h>
#include <hip/device/clocks.h>
#include <hip/device/indices.h>
#include <hip/device/integers.h>
#include <hip/device/math_fast.h>
#include <hip/device/packed_integers.h>
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
#define __builtin_amdgcn_fractf(x) ((float)(x) - floorf(x))
#define __builtin_amdgcn_fract(x) ((double)(x) - floor((double)(x)))
// Of turns, as AMD's instructions.
#define __builtin_amdgcn_sinf(x) sinpif(2 * (float)(x))
#define __builtin_amdgcn_cosf(x) cospif(2 * (float)(x))

// -- bits and bytes

#define __builtin_amdgcn_ubfe(x, offset, width) __bitextract_u32(x, offset, width)
#define __builtin_amdgcn_sbfe(x, offset, width) __forebay::signed_bits((int)(x), offset, width)
#define __builtin_amdgcn_alignbit(high, low, shift) __amd_bitalign(high, low, shift)
#define __builtin_amdgcn_alignbyte(high, low, shift) __amd_bytealign(high, low, shift)
// AMD counts the bytes of y first; a selector from 8 on gives signs, zeros and ones.
#define __builtin_amdgcn_perm(x, y, selector) __forebay::chosen_bytes(x, y, selector)
#define __builtin_amdgcn_sad_u8(x, y, sum) (__vsadu4(x, y) + (unsigned)(sum))
#define __builtin_amdgcn_sdot4(x, y, sum, clamp) __dp4a((int)(x), (int)(y), (int)(sum))
#define __builtin_amdgcn_udot4(x, y, sum, clamp) __dp4a((unsigned)(x), (unsigned)(y), (unsigned)(sum))

// -- warps

#define __builtin_amdgcn_ballot_w32(predicate) ((unsigned)__ballot(predicate))
#define __builtin_amdgcn_ballot_w64(predicate) ((unsigned long long)__ballot(predicate))
#define __builtin_amdgcn_ds_swizzle(x, pattern) __hip_ds_swizzle(x, pattern)
#define __hip_ds_swizzle(x, pattern) __forebay::swizzled((int)(x), (unsigned)(pattern))
#define __mbcnt_lo(mask, sum) __builtin_amdgcn_mbcnt_lo(mask, sum)
#define __mbcnt_hi(mask, sum) __builtin_amdgcn_mbcnt_hi(mask, sum)

// -- the clock; waits and priorities, of which nothing depends

#define __builtin_amdgcn_s_memtime() ((unsigned long long)clock64())
#define __builtin_amdgcn_s_memrealtime() ((unsigned long long)wall_clock64())
#define __builtin_amdgcn_s_setprio(n) ((void)(n))
#define __builtin_amdgcn_s_waitcnt(n) ((void)(n))

namespace __forebay {
__DEVICE__ int signed_bits(int x, unsigned offset, unsigned width) {
    offset &= 31, width &= 31;
    return width ? (int)((unsigned)x >> offset << (32 - width)) >> (32 - width) : 0;
}
__DEVICE__ unsigned chosen_bytes(unsigned x, unsigned y, unsigned selector) {
    unsigned long bytes = (unsigned long)x << 32 | y;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned at = selector >> (8 * i) & 255;
        unsigned sign = at < 12 ? (unsigned)(bytes >> ((at & 3) * 16 + 15)) & 1 : 0;
        unsigned byte = at < 8 ? (unsigned)(bytes >> (8 * at)) & 255 : at < 12 ? 255 * sign : at == 12 ? 0 : 255;
        result |= byte << (8 * i);
    }
    return result;
}
// Within groups of 32: (lane & and | or) ^ xor; with the highest bit, four lanes change places.
__DEVICE__ int swizzled(int x, unsigned pattern) {
    unsigned lane = __lane_id();
    unsigned among_four = (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
    unsigned among_all = ((lane & pattern) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
    return from_lane(x, pattern >> 15 & 1 ? among_four : among_all & 31);
}
}  // namespace __forebay
