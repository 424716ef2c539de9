// Intrinsics on integers.
#pragma once

#include <hip/device/spirv.h>

__DEVICE__ int __popc(unsigned x) { return __builtin_popcount(x); }
__DEVICE__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__DEVICE__ int __clz(int x) { return __builtin_clzg((unsigned)x, 32); }
__DEVICE__ int __clzll(long long x) { return __builtin_clzg((unsigned long long)x, 64); }

// One more than the place of the lowest bit; 0 for 0. In HIP the argument may have either sign.
__DEVICE__ int __ffs(unsigned x) { return x ? __builtin_popcount(x ^ (x - 1)) : 0; }
__DEVICE__ int __ffsll(unsigned long long x) { return x ? __builtin_popcountll(x ^ (x - 1)) : 0; }
__DEVICE__ int __ctz(int x) { return x ? __ffs((unsigned)x) - 1 : 32; }
__DEVICE__ int __ctzll(long long x) { return x ? __ffsll((unsigned long long)x) - 1 : 64; }

// Those of stdlib.h, which declares them for the host.
extern "C" {
__DEVICE__ long labs(long x) { return x < 0 ? -x : x; }
__DEVICE__ long long llabs(long long x) { return x < 0 ? -x : x; }
}

__DEVICE__ unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
__DEVICE__ unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }

__DEVICE__ int __mul24(int x, int y) {
    return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8));
}
__DEVICE__ unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
__DEVICE__ int __mulhi(int x, int y) { return (int)(((long)x * y) >> 32); }
__DEVICE__ unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long)x * y) >> 32); }
__DEVICE__ long long __mul64hi(long long x, long long y) { return __forebay::mul_hi((long)x, (long)y); }
__DEVICE__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return __forebay::mul_hi((unsigned long)x, (unsigned long)y);
}
__DEVICE__ int mulhi(int x, int y) { return __mulhi(x, y); }
__DEVICE__ int mul24(int x, int y) { return __mul24(x, y); }
__DEVICE__ unsigned umul24(unsigned x, unsigned y) { return __umul24(x, y); }

__DEVICE__ unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? (unsigned)y - x : (unsigned)x - y); }
__DEVICE__ unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
// The mean of two numbers, rounded down (h) or up (rh), without overflow.
__DEVICE__ int __hadd(int x, int y) { return (x & y) + ((x ^ y) >> 1); }
__DEVICE__ unsigned __uhadd(unsigned x, unsigned y) { return (x & y) + ((x ^ y) >> 1); }
__DEVICE__ int __rhadd(int x, int y) { return (x | y) - ((x ^ y) >> 1); }
__DEVICE__ unsigned __urhadd(unsigned x, unsigned y) { return (x | y) - ((x ^ y) >> 1); }

__DEVICE__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long)high << 32 | low) << (shift & 31)) >> 32);
}
__DEVICE__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long)high << 32 | low) >> (shift & 31));
}
__DEVICE__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
__DEVICE__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// Four bytes of the eight of (y, x), each chosen by three bits of the selector.
__DEVICE__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long bytes = (unsigned long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> ((selector >> (4 * i) & 7) * 8) & 255) << (8 * i);
    return result;
}

#include <hip/device/bits.h>

// The place of the n-th bit that is set, from `base` on: up for n > 0, down for n < 0; ~0 when there is none.
__DEVICE__ unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0)
        return mask >> (base & 31) & 1 ? base : ~0u;
    int step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --left == 0)
            return (unsigned)at;
    return ~0u;
}
#define __assume(condition) __builtin_assume(condition)
