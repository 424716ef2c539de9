// This lane, and those before and after it, as bits.
#pragma once

__DEVICE__ unsigned long long __lanemask_eq() { return 1ull << __lane_id(); }
__DEVICE__ unsigned long long __lanemask_lt() { return __lanemask_eq() - 1; }
__DEVICE__ unsigned long long __lanemask_le() { return __lanemask_lt() | __lanemask_eq(); }
__DEVICE__ unsigned long long __lanemask_gt() { return 0xffffffffull & ~__lanemask_le(); }
__DEVICE__ unsigned long long __lanemask_ge() { return 0xffffffffull & ~__lanemask_lt(); }
