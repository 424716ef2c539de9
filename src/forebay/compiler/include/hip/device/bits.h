// Bits of integers by their places, as AMD names these functions.
#pragma once

__DEVICE__ unsigned __bitextract_u32(unsigned value, unsigned offset, unsigned width) {
    offset &= 31;
    width &= 31;
    return width ? (value << (32 - offset - width)) >> (32 - width) : 0;
}
__DEVICE__ unsigned long __bitextract_u64(unsigned long value, unsigned offset, unsigned width) {
    offset &= 63;
    width &= 63;
    return width ? (value << (64 - offset - width)) >> (64 - width) : 0;
}
__DEVICE__ unsigned __bitinsert_u32(unsigned value, unsigned bits, unsigned offset, unsigned width) {
    unsigned mask = (1u << (width & 31)) - 1;
    return (value & ~(mask << (offset & 31))) | (bits & mask) << (offset & 31);
}
__DEVICE__ unsigned long __bitinsert_u64(unsigned long value, unsigned long bits, unsigned offset, unsigned width) {
    unsigned long mask = (1ul << (width & 63)) - 1;
    return (value & ~(mask << (offset & 63))) | (bits & mask) << (offset & 63);
}

// The place of the lowest bit; -1 for 0.
__DEVICE__ unsigned __lastbit_u32_u32(unsigned x) { return (unsigned)__ffs(x) - 1; }
__DEVICE__ unsigned __lastbit_u32_u64(unsigned long long x) { return (unsigned)__ffsll(x) - 1; }
// Bits and bytes of (high, low) from a place on.
__DEVICE__ unsigned __amd_bitalign(unsigned high, unsigned low, unsigned shift) {
    return __funnelshift_r(low, high, shift);
}
__DEVICE__ unsigned __amd_bytealign(unsigned high, unsigned low, unsigned shift) {
    return __funnelshift_r(low, high, (shift & 3) * 8);
}
