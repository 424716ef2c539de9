// What statements of assembly become C++ with, see forebay/hiprtc/assembly/statements.py.
#pragma once

#include <hip/device/conversions.h>
#include <hip/device/integers.h>
#include <type_traits>

namespace __forebay {

// A register's bits as another type of its size, or its number as a wider or narrower integer.
template <class To, class From>
__DEVICE__ To asm_as(From value) {
    if constexpr (std::is_same_v<To, From> || std::is_same_v<To, bool> || std::is_same_v<From, bool>)
        return (To)value;
    else if constexpr (std::is_pointer_v<From> || std::is_pointer_v<To>)
        return (To)(unsigned long long)value;
    else if constexpr (sizeof(To) == sizeof(From))
        return __builtin_bit_cast(To, value);
    else
        return (To)value;
}
template <class To, class From>
__DEVICE__ void asm_put(To& to, From value) {
    to = asm_as<To>(value);
}

template <class T>
__DEVICE__ T asm_high(T a, T b) {
    if constexpr (sizeof(T) == 8)
        return std::is_signed_v<T> ? (T)__mul64hi((long long)a, (long long)b) : (T)__umul64hi((unsigned long long)a, (unsigned long long)b);
    else
        return (T)(((std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>)a * b) >> (8 * sizeof(T)));
}
// The place of the highest bit that tells, of a negative number the highest 0.
template <class T>
__DEVICE__ unsigned asm_highest(T value) {
    if (std::is_signed_v<T> && value < 0)
        value = ~value;
    return value ? sizeof(T) * 8 - 1 - (unsigned)__builtin_clzg((std::make_unsigned_t<T>)value) : 0xffffffffu;
}
template <class T>
__DEVICE__ T asm_field(T value, unsigned start, unsigned length) {
    constexpr unsigned bits = sizeof(T) * 8;
    start &= 0xff, length &= 0xff;
    if (!length)
        return 0;
    if (start >= bits)
        return std::is_signed_v<T> && value < 0 ? (T)-1 : (T)0;
    T shifted = value >> start;
    if (length >= bits - start)
        return shifted;
    return (T)((std::make_unsigned_t<T>)shifted << (bits - length)) >> (bits - length);
}
template <class T>
__DEVICE__ T asm_insert(T from, T into, unsigned start, unsigned length) {
    constexpr unsigned bits = sizeof(T) * 8;
    start &= 0xff, length &= 0xff;
    if (start >= bits || !length)
        return into;
    T mask = (length >= bits ? ~(T)0 : ((T)1 << length) - 1) << start;
    return (into & ~mask) | (from << start & mask);
}
template <class T>
__DEVICE__ T asm_left(T value, unsigned count) {
    return count >= sizeof(T) * 8 ? (T)0 : (T)(value << count);
}
template <class T>
__DEVICE__ T asm_right(T value, unsigned count) {
    return count >= sizeof(T) * 8 ? (std::is_signed_v<T> && value < 0 ? (T)-1 : (T)0) : (T)(value >> count);
}
// Of three bits the one that the table has for them.
__DEVICE__ unsigned asm_logic(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

// The sum of products of parts of two words, of as many as the narrower has in the wider one's word.
template <class A, class B, class Sum>
__DEVICE__ Sum asm_products(Sum a, Sum b, Sum sum) {
    A of_a[4 / sizeof(A)];
    B of_b[4 / sizeof(B)];
    __builtin_memcpy(of_a, &a, 4), __builtin_memcpy(of_b, &b, 4);
    for (unsigned i = 0; i < 4 / sizeof(A); i++)
        sum += (Sum)of_a[i] * (Sum)of_b[i];
    return sum;
}

}  // namespace __forebay
