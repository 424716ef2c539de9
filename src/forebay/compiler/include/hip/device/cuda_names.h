// Device functions that CUDA has and HIP has not.
#pragma once

#include <hip/device/atomics.h>
#include <hip/device/barriers.h>
#include <hip/device/clocks.h>
#include <hip/device/math_special.h>
#include <hip/device/math_standard.h>
#include <hip/device/printing.h>
#include <hip/device/warps.h>

// -- older spellings of C's classifications

__GIVES_WAY__ int __finitef(float x) { return __builtin_isfinite(x); }
__GIVES_WAY__ int __isinff(float x) { return __builtin_isinf(x); }
__GIVES_WAY__ int __isnanf(float x) { return __builtin_isnan(x); }
__GIVES_WAY__ int __signbitf(float x) { return __builtin_signbit(x); }
__GIVES_WAY__ int __finite(double x) { return __builtin_isfinite(x); }
__GIVES_WAY__ int __isinf(double x) { return __builtin_isinf(x); }
__GIVES_WAY__ int __isnan(double x) { return __builtin_isnan(x); }
__GIVES_WAY__ int __signbit(double x) { return __builtin_signbit(x); }
__GIVES_WAY__ int __signbitd(double x) { return __builtin_signbit(x); }

// Denormals count everywhere.
#define __fmaf_ieee_rn __fmaf_rn
#define __fmaf_ieee_rz __fmaf_rz
#define __fmaf_ieee_ru __fmaf_ru
#define __fmaf_ieee_rd __fmaf_rd

// -- barriers of the whole block, whatever their number; marks for tools

#define __barrier_sync(number) ((void)(number), __syncthreads())
#define __barrier_sync_count(number, count) ((void)(number), (void)(count), __syncthreads())
#define __prof_trigger(number) ((void)(number))
#define __brkpt(...) ((void)0)
#define __nv_globaltimer() ((unsigned long long)wall_clock64())

// Which processor runs a thread no device tells: it counts as one.
__GIVES_WAY__ unsigned __smid() { return 0; }

// -- addresses

__GIVES_WAY__ unsigned long long __cvta_generic_to_global(const void* p) { return (unsigned long long)p; }
__GIVES_WAY__ void* __cvta_global_to_generic(unsigned long long address) { return (void*)address; }

// -- atomic operations with an order and a scope; here all are sequentially consistent, across the device

#define __NV_ATOMIC_RELAXED __ATOMIC_RELAXED
#define __NV_ATOMIC_CONSUME __ATOMIC_CONSUME
#define __NV_ATOMIC_ACQUIRE __ATOMIC_ACQUIRE
#define __NV_ATOMIC_RELEASE __ATOMIC_RELEASE
#define __NV_ATOMIC_ACQ_REL __ATOMIC_ACQ_REL
#define __NV_ATOMIC_SEQ_CST __ATOMIC_SEQ_CST
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4
#define FOREBAY_NV_ATOMIC(name, function)                                            \
    template <class T, class U>                                                      \
    __DEVICE__ T __nv_atomic_##name(T* p, U value, int, int = 3) {                   \
        return function(p, (T)value);                                                \
    }
FOREBAY_NV_ATOMIC(fetch_add, atomicAdd)
FOREBAY_NV_ATOMIC(fetch_sub, atomicSub)
FOREBAY_NV_ATOMIC(fetch_and, atomicAnd)
FOREBAY_NV_ATOMIC(fetch_or, atomicOr)
FOREBAY_NV_ATOMIC(fetch_xor, atomicXor)
FOREBAY_NV_ATOMIC(fetch_min, atomicMin)
FOREBAY_NV_ATOMIC(fetch_max, atomicMax)
FOREBAY_NV_ATOMIC(exchange_n, atomicExch)
#undef FOREBAY_NV_ATOMIC
template <class T>
__DEVICE__ T __nv_atomic_load_n(T* p, int order, int = 3) {
    return __atomic_load_n(p, order);
}
template <class T, class U>
__DEVICE__ void __nv_atomic_store_n(T* p, U value, int order, int = 3) {
    __atomic_store_n(p, (T)value, order);
}

// Clang's own of these are for integers; atomic functions know floating-point numbers, too.
#define FOREBAY_HIP_ATOMIC(name, function)                                         \
    template <class T, class U>                                                    \
    __DEVICE__ T hip_##name(T* p, U value) {                                       \
        return function((std::remove_volatile_t<T>*)p, (std::remove_volatile_t<T>)value); \
    }
namespace __forebay {
FOREBAY_HIP_ATOMIC(fetch_add, atomicAdd)
FOREBAY_HIP_ATOMIC(fetch_min, atomicMin)
FOREBAY_HIP_ATOMIC(fetch_max, atomicMax)
}  // namespace __forebay
#undef FOREBAY_HIP_ATOMIC
#define __hip_atomic_fetch_add(p, value, order, scope) __forebay::hip_fetch_add(p, value)
#define __hip_atomic_fetch_min(p, value, order, scope) __forebay::hip_fetch_min(p, value)
#define __hip_atomic_fetch_max(p, value, order, scope) __forebay::hip_fetch_max(p, value)
