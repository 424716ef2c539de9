// Loads and stores with a hint, which is not used here; what string.h has, for kernels.
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
__DEVICE__ void* memset(void* to, int value, size_t count) {
    char* target = (char*)to;
    for (size_t i = 0; i < count; i++)
        target[i] = (char)value;
    return to;
}
// What LLVM's std::find becomes for words and for bytes.
__host__ __device__ inline wchar_t* wmemchr(const wchar_t* from, wchar_t value, size_t count) {
    for (; count; from++, count--)
        if (*from == value)
            return (wchar_t*)from;
    return nullptr;
}
}

#include <hip/device/strings.h>

namespace std {
using ::memcmp;
using ::memcpy;
using ::memmove;
using ::memset;
using ::strcmp;
using ::strcpy;
using ::strlen;
using ::strncmp;
}  // namespace std
