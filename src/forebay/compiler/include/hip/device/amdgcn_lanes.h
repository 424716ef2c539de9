// Clang's built-in functions for AMD's GPUs that move values between lanes: DPP, permutations, for warps of 32. Rows have
// 16 lanes. Sources: AMD's "RDNA 3 Instruction Set Architecture", 5.6 and 12, and LLVM's AMDGPUUsage.
#pragma once

#include <hip/device/warps.h>

namespace __forebay {

// Whose value a lane gets; -1 where there is none.
__DEVICE__ int dpp_source(unsigned lane, unsigned control) {
    unsigned row = lane & ~15u, at = lane & 15, n = control & 15;
    if (control < 0x100)
        return (int)((lane & ~3u) | (control >> 2 * (lane & 3) & 3));
    switch (control >> 4) {
        case 0x10: return at + n < 16 ? (int)(lane + n) : -1;
        case 0x11: return at >= n ? (int)(lane - n) : -1;
        case 0x12: return (int)(row | (at - n & 15));
        case 0x15: return (int)(row | n);
        case 0x16: return (int)(lane ^ n);
    }
    switch (control) {
        case 0x130: return lane < 31 ? (int)lane + 1 : -1;
        case 0x134: return (int)(lane + 1 & 31);
        case 0x138: return (int)lane - 1;
        case 0x13c: return (int)(lane - 1 & 31);
        case 0x140: return (int)(row | (15 - at));
        case 0x141: return (int)(lane ^ 7);
        case 0x142: return (int)row - 1;
    }
    return -1;
}
// Lanes of other rows or of other groups of four in a row keep what they had, as those do whose source is none; with
// `bound` these get 0.
template <class T, class U>
__DEVICE__ U dpp(T old, U value, unsigned control, unsigned rows, unsigned banks, bool bound) {
    unsigned lane = __lane_id();
    int source = dpp_source(lane, control);
    U moved = from_lane(value, source < 0 ? lane : (unsigned)source);
    if (!(rows >> lane / 16 & 1) || !(banks >> lane % 16 / 4 & 1))
        return (U)old;
    return source < 0 ? bound ? U() : (U)old : moved;
}
// Sixteen numbers of four bits: of which lane of one's own row, or of the other one.
template <class T>
__DEVICE__ T permuted_16(T value, unsigned low, unsigned high, unsigned other) {
    unsigned lane = __lane_id(), at = lane & 15;
    return from_lane(value, ((lane & 16) ^ other) | ((at < 8 ? low : high) >> 4 * (at & 7) & 15));
}
// Each lane sends; of several to one lane the last counts, and who gets nothing has 0.
__DEVICE__ int pushed(int address, int value) {
    unsigned lane = __lane_id();
    int result = 0;
    for (unsigned left = (unsigned)__activemask(); left; left &= left - 1) {
        unsigned from = (unsigned)__builtin_ctzg(left, 0);
        unsigned to = (unsigned)from_lane(address, from) >> 2 & 31;
        int sent = from_lane(value, from);
        result = to == lane ? sent : result;
    }
    return result;
}

}  // namespace __forebay

#define __builtin_amdgcn_update_dpp(old, x, control, rows, banks, bound) \
    __forebay::dpp(old, x, control, rows, banks, bound)
#define __builtin_amdgcn_mov_dpp(x, control, rows, banks, bound) __forebay::dpp(0, x, control, rows, banks, bound)
#define __hip_move_dpp(x, control, rows, banks, bound) __forebay::dpp(0, (int)(x), control, rows, banks, bound)
#define __builtin_amdgcn_permlane16(old, x, low, high, fetch, bound) __forebay::permuted_16(x, low, high, 0)
#define __builtin_amdgcn_permlanex16(old, x, low, high, fetch, bound) __forebay::permuted_16(x, low, high, 16)
// Of 64 lanes it exchanges the halves; of 32 there is nothing to exchange.
#define __builtin_amdgcn_permlane64(x) (x)
#define __builtin_amdgcn_ds_permute(address, x) __forebay::pushed((int)(address), (int)(x))
#define __hip_ds_permute(address, x) __forebay::pushed((int)(address), (int)(x))
#define __hip_ds_permutef(address, x) __int_as_float(__forebay::pushed((int)(address), __float_as_int(x)))
#define __hip_ds_swizzlef(x, pattern) __int_as_float(__hip_ds_swizzle(__float_as_int(x), pattern))
#define __builtin_amdgcn_writelane(x, lane, old) (__lane_id() == (unsigned)(lane) ? (x) : (old))

// Hints for the order of instructions, and waits for what is done at once.
#define __builtin_amdgcn_sched_group_barrier(...) ((void)0)
#define __builtin_amdgcn_iglp_opt(...) ((void)0)
#define __builtin_amdgcn_s_wait_event_export_ready() ((void)0)
#define __builtin_amdgcn_s_setreg(...) ((void)0)
#define __builtin_amdgcn_s_dcache_inv() ((void)0)
#define __builtin_amdgcn_buffer_wbinvl1() __threadfence()

#define __builtin_amdgcn_ldexpf(x, n) ldexpf(x, n)
#define __builtin_amdgcn_ldexp(x, n) ldexp((double)(x), n)
