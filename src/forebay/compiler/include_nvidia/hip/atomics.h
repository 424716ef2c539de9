// Atomic functions that HIP has and CUDA has not.
#pragma once

// By comparing and swapping: the smaller or the larger, of numbers with a fraction.
#define FOREBAY_BETTER(name, type, integer, better, scope)                                                    \
    __DEVICE__ type name##scope(type* address, type value) {                                                  \
        integer* place = (integer*)address;                                                                   \
        integer before = *(volatile integer*)place, found, bits;                                              \
        for (;; before = found) {                                                                             \
            type old;                                                                                         \
            memcpy(&old, &before, sizeof(old));                                                               \
            if (!(value better old))                                                                          \
                return old;                                                                                   \
            memcpy(&bits, &value, sizeof(bits));                                                              \
            found = atomicCAS##scope(place, before, bits);                                                    \
            if (found == before)                                                                              \
                return old;                                                                                   \
        }                                                                                                     \
    }
// Of a type with the bits of another one, which CUDA's functions know.
#define FOREBAY_SWAP(type, integer, scope)                                                                    \
    __DEVICE__ type atomicCAS##scope(type* address, type compare, type value) {                               \
        integer old, wanted;                                                                                  \
        memcpy(&old, &compare, sizeof(old));                                                                  \
        memcpy(&wanted, &value, sizeof(wanted));                                                              \
        old = atomicCAS##scope((integer*)address, old, wanted);                                               \
        memcpy(&compare, &old, sizeof(old));                                                                  \
        return compare;                                                                                       \
    }
#define FOREBAY_EXCHANGE(type, integer, scope)                                                                \
    __DEVICE__ type atomicExch##scope(type* address, type value) {                                            \
        integer bits;                                                                                         \
        memcpy(&bits, &value, sizeof(bits));                                                                  \
        bits = atomicExch##scope((integer*)address, bits);                                                    \
        memcpy(&value, &bits, sizeof(bits));                                                                  \
        return value;                                                                                         \
    }
#define FOREBAY_AS(name, type, integer, scope)                                                                \
    __DEVICE__ type name##scope(type* address, type value) {                                                  \
        return (type)name##scope((integer*)address, (integer)value);                                          \
    }
#define FOREBAY_LESS(type, zero, scope)                                                                       \
    __DEVICE__ type atomicSub##scope(type* address, type value) { return atomicAdd##scope(address, zero - value); }
// All that an integer of 64 bits has but the smaller and the larger, whose sign matters.
#define FOREBAY_WIDE(type, scope)                                                                             \
    FOREBAY_AS(atomicAdd, type, unsigned long long, scope)                                                    \
    FOREBAY_AS(atomicAnd, type, unsigned long long, scope)                                                    \
    FOREBAY_AS(atomicOr, type, unsigned long long, scope)                                                     \
    FOREBAY_AS(atomicXor, type, unsigned long long, scope)                                                    \
    FOREBAY_AS(atomicExch, type, unsigned long long, scope)                                                   \
    FOREBAY_SWAP(type, unsigned long long, scope)                                                             \
    FOREBAY_LESS(type, 0, scope)
#define FOREBAY_ATOMICS(scope)                                                                                \
    FOREBAY_BETTER(atomicMin, float, unsigned, <, scope)                                                      \
    FOREBAY_BETTER(atomicMax, float, unsigned, >, scope)                                                      \
    FOREBAY_BETTER(atomicMin, double, unsigned long long, <, scope)                                           \
    FOREBAY_BETTER(atomicMax, double, unsigned long long, >, scope)                                           \
    FOREBAY_WIDE(long, scope)                                                                                 \
    FOREBAY_WIDE(unsigned long, scope)                                                                        \
    FOREBAY_WIDE(long long, scope)                                                                            \
    FOREBAY_AS(atomicMin, long, long long, scope)                                                             \
    FOREBAY_AS(atomicMax, long, long long, scope)                                                             \
    FOREBAY_AS(atomicMin, unsigned long, unsigned long long, scope)                                           \
    FOREBAY_AS(atomicMax, unsigned long, unsigned long long, scope)                                           \
    FOREBAY_LESS(unsigned long long, 0, scope)                                                                \
    FOREBAY_LESS(float, -0.0f, scope)                                                                         \
    FOREBAY_LESS(double, -0.0, scope)                                                                         \
    FOREBAY_SWAP(float, unsigned, scope)                                                                      \
    FOREBAY_SWAP(double, unsigned long long, scope)                                                           \
    FOREBAY_EXCHANGE(double, unsigned long long, scope)
FOREBAY_ATOMICS()
FOREBAY_ATOMICS(_block)
FOREBAY_ATOMICS(_system)
#undef FOREBAY_ATOMICS
#undef FOREBAY_WIDE
#undef FOREBAY_LESS
#undef FOREBAY_AS
#undef FOREBAY_EXCHANGE
#undef FOREBAY_SWAP
#undef FOREBAY_BETTER

// Of volatile memory: for each type that has the function above or in CUDA.
template <class T>
struct forebay_value {
    typedef T type;
};
#define FOREBAY_VOLATILE(name)                                                                                \
    template <class T>                                                                                        \
    __DEVICE__ auto name(volatile T* address, typename forebay_value<T>::type value)                          \
        -> decltype(name((T*)address, value)) {                                                               \
        return name((T*)address, value);                                                                      \
    }
#define FOREBAY_VOLATILES(scope)                                                                              \
    FOREBAY_VOLATILE(atomicAdd##scope)                                                                        \
    FOREBAY_VOLATILE(atomicSub##scope)                                                                        \
    FOREBAY_VOLATILE(atomicMin##scope)                                                                        \
    FOREBAY_VOLATILE(atomicMax##scope)                                                                        \
    FOREBAY_VOLATILE(atomicInc##scope)                                                                        \
    FOREBAY_VOLATILE(atomicDec##scope)                                                                        \
    FOREBAY_VOLATILE(atomicAnd##scope)                                                                        \
    FOREBAY_VOLATILE(atomicOr##scope)                                                                         \
    FOREBAY_VOLATILE(atomicXor##scope)                                                                        \
    FOREBAY_VOLATILE(atomicExch##scope)                                                                       \
    template <class T>                                                                                        \
    __DEVICE__ auto atomicCAS##scope(volatile T* address, typename forebay_value<T>::type compare,            \
                                     typename forebay_value<T>::type value)                                   \
        -> decltype(atomicCAS##scope((T*)address, compare, value)) {                                          \
        return atomicCAS##scope((T*)address, compare, value);                                                 \
    }
FOREBAY_VOLATILES()
FOREBAY_VOLATILES(_block)
FOREBAY_VOLATILES(_system)
#undef FOREBAY_VOLATILES
#undef FOREBAY_VOLATILE

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
