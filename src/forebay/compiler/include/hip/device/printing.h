// printf and assert. What they print goes to the process's standard output.
#pragma once

#include <hip/device/indices.h>
#include <hip/device/spirv.h>
#include <stdio.h>

// The format must be a literal in the end: SPIR-V has it as a constant.
template <class... Arguments>
__DEVICE__ int printf(const char* format, Arguments... arguments) {
    return __forebay::print((const __attribute__((address_space(1))) char*)format, arguments...);
}

namespace std {
using ::printf;
}

// Set when an assertion fails; only in programs that have one. The host reads it when it has waited for the device.
inline __device__ unsigned __forebay_assertion_failed = 0;

namespace __forebay {
__DEVICE__ void fail() { *(volatile unsigned*)&__forebay_assertion_failed = 1; }
}  // namespace __forebay

// A failed assertion is printed and the thread goes on: SPIR-V cannot end a kernel from within.
#define __FOREBAY_ASSERT(condition, text)                                                                      \
    ((condition) ? (void)0                                                                                     \
                 : ((void)printf("%s:%d: block (%u, %u, %u), thread (%u, %u, %u): assertion `%s' failed\n",     \
                                __FILE__, __LINE__, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,           \
                                threadIdx.y, threadIdx.z, text), __forebay::fail()))

#include <assert.h>

#define __trap() __FOREBAY_ASSERT(false, "__trap()")
#define __builtin_trap() __FOREBAY_ASSERT(false, "__builtin_trap()")
extern "C" __DEVICE__ void abort() { __FOREBAY_ASSERT(false, "abort()"); }
