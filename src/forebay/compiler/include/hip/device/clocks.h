// Clocks: what the device counts, in units of its own. Differences within one multiprocessor are meant to be compared.
#pragma once

#include <hip/device/spirv.h>
#include <time.h>

namespace __forebay {
__device__ unsigned long read_clock(int scope) __asm("_Z20__spirv_ReadClockKHRi");
}

__DEVICE__ long long clock64() { return (long long)__forebay::read_clock(__forebay::across_device); }
__DEVICE__ long long __clock64() { return clock64(); }
__DEVICE__ clock_t __clock() { return (clock_t)clock64(); }
__DEVICE__ long long wall_clock64() { return clock64(); }
extern "C" __DEVICE__ clock_t clock() { return (clock_t)clock64(); }

__DEVICE__ void __nanosleep(unsigned) {}
