// Loads and stores with a hint, which is not used here; memcpy and memset of kernels; what is refused.
#pragma once

#include <hip/device/qualifiers.h>
#include <stddef.h>
#include <string.h>

#define FOREBAY_LOAD(name)               \
    template <class T>                   \
    __DEVICE__ T name(const T* address) {\
        return *address;                 \
    }
FOREBAY_LOAD(__ldg)
FOREBAY_LOAD(__ldcg)
FOREBAY_LOAD(__ldca)
FOREBAY_LOAD(__ldcs)
FOREBAY_LOAD(__ldlu)
FOREBAY_LOAD(__ldcv)
#undef FOREBAY_LOAD

#define FOREBAY_STORE(name)                       \
    template <class T, class U>                   \
    __DEVICE__ void name(T* address, U value) {   \
        *address = value;                         \
    }
FOREBAY_STORE(__stwb)
FOREBAY_STORE(__stcg)
FOREBAY_STORE(__stcs)
FOREBAY_STORE(__stwt)
#undef FOREBAY_STORE

extern "C" {
__DEVICE__ void* memcpy(void* to, const void* from, size_t count) {
    char* target = (char*)to;
    const char* source = (const char*)from;
    for (size_t i = 0; i < count; i++)
        target[i] = source[i];
    return to;
}
__DEVICE__ void* memmove(void* to, const void* from, size_t count) {
    char* target = (char*)to;
    const char* source = (const char*)from;
    if (target < source)
        return memcpy(to, from, count);
    for (size_t i = count; i-- > 0;)
        target[i] = source[i];
    return to;
}
__DEVICE__ void* memset(void* to, int value, size_t count) {
    char* target = (char*)to;
    for (size_t i = 0; i < count; i++)
        target[i] = (char)value;
    return to;
}

#define FOREBAY_NO_HEAP __attribute__((unavailable("memory cannot be allocated in a kernel: pass a buffer to it")))
__device__ void* malloc(size_t) FOREBAY_NO_HEAP;
__device__ void free(void*) FOREBAY_NO_HEAP;
}
#undef FOREBAY_NO_HEAP

namespace std {
using ::memcpy;
using ::memmove;
using ::memset;
}  // namespace std
