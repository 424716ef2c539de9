// Atomic functions that HIP has and CUDA has not.
#pragma once

#define FOREBAY_MINIMUM(name, type, integer, better)                                                       \
    __DEVICE__ type name(type* address, type value) {                                                      \
        integer* place = (integer*)address;                                                                \
        integer before = *(volatile integer*)place, found, bits;                                           \
        for (;; before = found) {                                                                          \
            type old;                                                                                      \
            memcpy(&old, &before, sizeof(old));                                                            \
            if (!(value better old))                                                                       \
                return old;                                                                                \
            memcpy(&bits, &value, sizeof(bits));                                                           \
            found = atomicCAS(place, before, bits);                                                        \
            if (found == before)                                                                           \
                return old;                                                                                \
        }                                                                                                  \
    }
FOREBAY_MINIMUM(atomicMin, float, unsigned, <)
FOREBAY_MINIMUM(atomicMax, float, unsigned, >)
FOREBAY_MINIMUM(atomicMin, double, unsigned long long, <)
FOREBAY_MINIMUM(atomicMax, double, unsigned long long, >)
#undef FOREBAY_MINIMUM

// `unsigned long` is as wide as the type that CUDA's functions know.
#define FOREBAY_LONG(name)                                                                                       \
    __DEVICE__ unsigned long name(unsigned long* address, unsigned long value) {                                 \
        return name((unsigned long long*)address, (unsigned long long)value);                                    \
    }
FOREBAY_LONG(atomicAdd)
FOREBAY_LONG(atomicMin)
FOREBAY_LONG(atomicMax)
FOREBAY_LONG(atomicAnd)
FOREBAY_LONG(atomicOr)
FOREBAY_LONG(atomicXor)
FOREBAY_LONG(atomicExch)
#undef FOREBAY_LONG
__DEVICE__ unsigned long atomicCAS(unsigned long* address, unsigned long compare, unsigned long value) {
    return atomicCAS((unsigned long long*)address, (unsigned long long)compare, (unsigned long long)value);
}
__DEVICE__ float atomicSub(float* address, float value) { return atomicAdd(address, -value); }
__DEVICE__ double atomicSub(double* address, double value) { return atomicAdd(address, -value); }
__DEVICE__ unsigned long long atomicSub(unsigned long long* address, unsigned long long value) {
    return atomicAdd(address, 0 - value);
}

#define FOREBAY_ALIAS(name, function)            \
    template <class T, class U>                  \
    __DEVICE__ T name(T* address, U value) {     \
        return function(address, (T)value);      \
    }
FOREBAY_ALIAS(unsafeAtomicMin, atomicMin)
FOREBAY_ALIAS(unsafeAtomicMax, atomicMax)
FOREBAY_ALIAS(unsafeAtomicAdd, atomicAdd)
FOREBAY_ALIAS(safeAtomicMin, atomicMin)
FOREBAY_ALIAS(safeAtomicMax, atomicMax)
FOREBAY_ALIAS(safeAtomicAdd, atomicAdd)
FOREBAY_ALIAS(atomicAddNoRet, atomicAdd)
#undef FOREBAY_ALIAS
