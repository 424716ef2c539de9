// Atomic functions, for all numbers of 32 and 64 bits, relaxed as in HIP; `_block` and `_system` choose the scope.
//
// They are templates, so that a program's own atomicAdd(double*, double) goes before them, and a value, {…} too, is
// converted to what the pointer points to, which may be volatile. Compare-exchange has its own built-in: LLVM's breaks
// the back end. What SPIR-V has no operation for is a loop around it.
#pragma once

#include <hip/device/spirv.h>

namespace __forebay {

template <size_t Size>
using integer_of = std::conditional_t<Size == 4, int, long>;

// SPIR-V wants the scope to be a constant.
template <int Scope, class T>
__DEVICE__ T exchange_if_same(T* address, T compare, T value) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "atomics are of 16, 32 or 64 bits");
    if constexpr (sizeof(T) >= 4) {
        using I = integer_of<sizeof(T)>;
        I* place = (I*)address;
        I value_bits = bits_as<I>(value), compare_bits = bits_as<I>(compare);
        return bits_as<T>(__spirv_AtomicCompareExchange(
            place, Scope, all_memory, all_memory, value_bits, compare_bits));
    } else {  // within its word
        unsigned* word = (unsigned*)((size_t)address & ~(size_t)3);
        unsigned shift = ((size_t)address & 3) * 8, mask = 0xffffu << shift;
        unsigned wanted = (unsigned)bits_as<unsigned short>(compare) << shift;
        unsigned found = *(volatile unsigned*)word;
        while ((found & mask) == wanted) {
            unsigned changed = (found & ~mask) | (unsigned)bits_as<unsigned short>(value) << shift;
            unsigned before = exchange_if_same<Scope>(word, found, changed);
            if (before == found)
                break;
            found = before;
        }
        return bits_as<T>((unsigned short)((found & mask) >> shift));
    }
}

// Replaces what is at the address by a function of it; returns what was there.
template <int Scope, class T, class F>
__DEVICE__ T replace(T* address, F function) {
    using Bits = std::conditional_t<sizeof(T) == 2, short, integer_of<sizeof(T)>>;
    T before = bits_as<T>(*(volatile Bits*)address);
    for (;;) {
        T found = exchange_if_same<Scope>(address, before, function(before));
        if (__builtin_memcmp(&found, &before, sizeof(T)) == 0)
            return before;
        before = found;
    }
}

template <class T>
inline constexpr bool is_native_atomic = (std::is_integral_v<T> || std::is_enum_v<T>) && sizeof(T) >= 4;

}  // namespace __forebay

#define FOREBAY_ATOMIC(name, operation, hip_scope, scope, EXPRESSION)                            \
    template <class V, class U = std::remove_volatile_t<V>, class T = std::remove_volatile_t<V>>  \
    __DEVICE__ T name(V* place, U operand) {                                                     \
        T* address = (T*)place;                                                                  \
        T value = (T)operand;                                                                    \
        if constexpr (__forebay::is_native_atomic<T>)                                            \
            return __hip_atomic_fetch_##operation(address, value, __ATOMIC_RELAXED, hip_scope);  \
        else                                                                                     \
            return __forebay::replace<scope>(address, [=](T before) -> T { return EXPRESSION; }); \
    }

#define FOREBAY_ATOMICS(suffix, hip_scope, scope)                                                \
    FOREBAY_ATOMIC(atomicAdd##suffix, add, hip_scope, scope, before + value)                     \
    FOREBAY_ATOMIC(atomicSub##suffix, sub, hip_scope, scope, before - value)                     \
    FOREBAY_ATOMIC(atomicMin##suffix, min, hip_scope, scope, value < before ? value : before)    \
    FOREBAY_ATOMIC(atomicMax##suffix, max, hip_scope, scope, before < value ? value : before)    \
    FOREBAY_ATOMIC(atomicAnd##suffix, and, hip_scope, scope, before & value)                     \
    FOREBAY_ATOMIC(atomicOr##suffix, or, hip_scope, scope, before | value)                       \
    FOREBAY_ATOMIC(atomicXor##suffix, xor, hip_scope, scope, before ^ value)                     \
    template <class V, class U = std::remove_volatile_t<V>, class T = std::remove_volatile_t<V>>  \
    __DEVICE__ T atomicExch##suffix(V* place, U operand) {                                       \
        using I = __forebay::integer_of<sizeof(T)>;                                              \
        I value = __forebay::bits_as<I>((T)operand);                                             \
        return __forebay::bits_as<T>(                                                            \
            __hip_atomic_exchange((I*)place, value, __ATOMIC_RELAXED, hip_scope));               \
    }                                                                                            \
    template <class V, class U = std::remove_volatile_t<V>, class W = U, class T = std::remove_volatile_t<V>> \
    __DEVICE__ T atomicCAS##suffix(V* place, U compare, W value) {                               \
        return __forebay::exchange_if_same<scope>((T*)place, (T)compare, (T)value);              \
    }                                                                                            \
    __DEVICE__ unsigned atomicInc##suffix(unsigned* address, unsigned limit) {                   \
        return __forebay::replace<scope>(address, [=](unsigned n) { return n >= limit ? 0 : n + 1; }); \
    }                                                                                            \
    __DEVICE__ unsigned atomicDec##suffix(unsigned* address, unsigned limit) {                   \
        return __forebay::replace<scope>(                                                        \
            address, [=](unsigned n) { return n == 0 || n > limit ? limit : n - 1; });           \
    }
FOREBAY_ATOMICS(, __HIP_MEMORY_SCOPE_AGENT, __forebay::across_device)
FOREBAY_ATOMICS(_block, __HIP_MEMORY_SCOPE_WORKGROUP, __forebay::work_group)
FOREBAY_ATOMICS(_system, __HIP_MEMORY_SCOPE_SYSTEM, __forebay::across_devices)
#undef FOREBAY_ATOMICS
#undef FOREBAY_ATOMIC

// Of vectors of floats each element is added by itself, as in CUDA.
template <unsigned N>
__DEVICE__ HIP_vector_type<float, N> atomicAdd(HIP_vector_type<float, N>* address, HIP_vector_type<float, N> value) {
    float* elements = (float*)address;
    float* values = (float*)&value;
    for (unsigned i = 0; i < N; i++)
        values[i] = atomicAdd(elements + i, values[i]);
    return value;
}

#define FOREBAY_ALIAS(name, function)            \
    template <class T, class U>                  \
    __DEVICE__ T name(T* address, U value) {     \
        return function(address, value);         \
    }
FOREBAY_ALIAS(unsafeAtomicMin, atomicMin)
FOREBAY_ALIAS(unsafeAtomicMax, atomicMax)
FOREBAY_ALIAS(unsafeAtomicAdd, atomicAdd)
FOREBAY_ALIAS(safeAtomicMin, atomicMin)
FOREBAY_ALIAS(safeAtomicMax, atomicMax)
FOREBAY_ALIAS(safeAtomicAdd, atomicAdd)
#undef FOREBAY_ALIAS

template <class T, class U>
__DEVICE__ void atomicAddNoRet(T* address, U value) {
    atomicAdd(address, value);
}
