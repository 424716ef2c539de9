// Integers of 128 bits, which SPIR-V has not: what `__int128` and `unsigned __int128` of a program become, see
// forebay/hiprtc/source_text.py.
#pragma once

#include <hip/device/integers.h>
#include <type_traits>

namespace __forebay {

struct alignas(16) uint128;
struct alignas(16) int128;

template <class T>
inline constexpr bool is_wide = std::is_same_v<T, uint128> || std::is_same_v<T, int128>;
template <class T>
inline constexpr bool is_narrow = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// The bits of both kinds, the lower half first.
struct wide_bits {
    unsigned long low, high;

    static constexpr __host__ __device__ wide_bits product(unsigned long a, unsigned long b) {
        if (!__builtin_is_constant_evaluated())
            return {a * b, (unsigned long)__umul64hi(a, b)};
        unsigned long a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
        unsigned long middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffff);
        return {a * b, a1 * b1 + (middle >> 32) + (other >> 32)};
    }
    constexpr __host__ __device__ wide_bits plus(wide_bits o) const {
        unsigned long sum = low + o.low;
        return {sum, high + o.high + (sum < low)};
    }
    constexpr __host__ __device__ wide_bits negative() const { return {0 - low, ~high + (low == 0)}; }
    constexpr __host__ __device__ wide_bits times(wide_bits o) const {
        wide_bits result = product(low, o.low);
        result.high += low * o.high + high * o.low;
        return result;
    }
    constexpr __host__ __device__ wide_bits left(unsigned n) const {
        if (n == 0)
            return *this;
        return n >= 64 ? wide_bits{0, low << (n - 64)} : wide_bits{low << n, high << n | low >> (64 - n)};
    }
    constexpr __host__ __device__ wide_bits right(unsigned n, unsigned long sign) const {
        if (n == 0)
            return *this;
        if (n >= 64)
            return {n == 64 ? high : high >> (n - 64) | sign << 1 << (127 - n), sign};
        return {low >> n | high << (64 - n), high >> n | sign << (64 - n)};
    }
    constexpr __host__ __device__ bool less(wide_bits o) const { return high != o.high ? high < o.high : low < o.low; }
    constexpr __host__ __device__ bool same(wide_bits o) const { return high == o.high && low == o.low; }
    // The quotient, and what is left of this one.
    constexpr __host__ __device__ wide_bits divide(wide_bits by) {
        if (!high && !by.high) {
            wide_bits quotient{low / by.low, 0};
            low %= by.low;
            return quotient;
        }
        wide_bits quotient{0, 0}, rest{0, 0};
        for (int i = 127; i >= 0; i--) {
            bool over = rest.high >> 63;
            rest = rest.left(1);
            rest.low |= (i >= 64 ? high >> (i - 64) : low >> i) & 1;
            if (over || !rest.less(by)) {
                rest = rest.plus(by.negative());
                (i >= 64 ? quotient.high : quotient.low) |= 1ul << (i & 63);
            }
        }
        *this = rest;
        return quotient;
    }
    template <class T>
    static constexpr __host__ __device__ wide_bits of(T value) {
        if constexpr (std::is_floating_point_v<T>) {
            T size = value < 0 ? -value : value;
            unsigned long high = (unsigned long)(size * (T)0x1p-64);
            wide_bits result{(unsigned long)(size - (T)high * (T)0x1p64), high};
            return value < 0 ? result.negative() : result;
        } else {
            return {(unsigned long)value, value < T() ? ~0ul : 0ul};
        }
    }
    template <class T>
    constexpr __host__ __device__ T to() const {
        if constexpr (std::is_same_v<T, bool>)
            return low || high;
        else if constexpr (std::is_floating_point_v<T>)
            return (T)high * (T)0x1p64 + (T)low;
        else
            return (T)low;
    }
};

#define FOREBAY_WIDE(Name, Other, is_signed)                                                                      \
    struct alignas(16) Name {                                                                                     \
        wide_bits bits;                                                                                           \
        Name() = default;                                                                                         \
        constexpr __host__ __device__ Name(wide_bits b) : bits(b) {}                                              \
        constexpr __host__ __device__ Name(const Other& o);                                                       \
        template <class T, std::enable_if_t<is_narrow<T>, int> = 0>                                               \
        constexpr __host__ __device__ Name(T value) : bits(wide_bits::of(value)) {}                               \
        template <class T, std::enable_if_t<is_narrow<T>, int> = 0>                                               \
        constexpr __host__ __device__ operator T() const {                                                        \
            if constexpr (is_signed && std::is_floating_point_v<T>)                                               \
                return negative() ? -bits.negative().template to<T>() : bits.template to<T>();                    \
            else                                                                                                  \
                return bits.template to<T>();                                                                     \
        }                                                                                                         \
        constexpr __host__ __device__ bool negative() const { return is_signed && bits.high >> 63; }              \
        constexpr __host__ __device__ wide_bits size() const { return negative() ? bits.negative() : bits; }      \
        constexpr __host__ __device__ Name operator-() const { return bits.negative(); }                          \
        constexpr __host__ __device__ Name operator+() const { return *this; }                                    \
        constexpr __host__ __device__ Name operator~() const { return wide_bits{~bits.low, ~bits.high}; }         \
        constexpr __host__ __device__ Name& operator++() { return *this = Name(bits.plus({1, 0})); }              \
        constexpr __host__ __device__ Name& operator--() { return *this = Name(bits.plus({~0ul, ~0ul})); }        \
        constexpr __host__ __device__ Name operator++(int) {                                                      \
            Name before = *this;                                                                                  \
            ++*this;                                                                                              \
            return before;                                                                                        \
        }                                                                                                         \
        constexpr __host__ __device__ Name operator--(int) {                                                      \
            Name before = *this;                                                                                  \
            --*this;                                                                                              \
            return before;                                                                                        \
        }                                                                                                         \
    };
FOREBAY_WIDE(uint128, int128, false)
FOREBAY_WIDE(int128, uint128, true)
#undef FOREBAY_WIDE
constexpr __host__ __device__ uint128::uint128(const int128& o) : bits(o.bits) {}
constexpr __host__ __device__ int128::int128(const uint128& o) : bits(o.bits) {}

// As C converts: to a floating type, else to the unsigned kind if one is.
template <class A, class B>
using wide_common = std::conditional_t<
    std::is_floating_point_v<A>, A,
    std::conditional_t<std::is_floating_point_v<B>, B,
                       std::conditional_t<std::is_same_v<A, uint128> || std::is_same_v<B, uint128>, uint128, int128>>>;
template <class A, class B>
inline constexpr bool are_wide = (is_wide<A> && (is_wide<B> || is_narrow<B>)) || (is_wide<B> && is_narrow<A>);

#define FOREBAY_WIDE_OPERATOR(op, Result, EXPRESSION)                                     \
    template <class A, class B, std::enable_if_t<are_wide<A, B>, int> = 0>                \
    constexpr __host__ __device__ auto operator op(const A& first, const B& second) {     \
        using T = wide_common<A, B>;                                                      \
        T a = (T)first, b = (T)second;                                                    \
        if constexpr (is_wide<T>)                                                         \
            return Result(EXPRESSION);                                                    \
        else                                                                              \
            return a op b;                                                                \
    }
FOREBAY_WIDE_OPERATOR(+, T, a.bits.plus(b.bits))
FOREBAY_WIDE_OPERATOR(-, T, a.bits.plus(b.bits.negative()))
FOREBAY_WIDE_OPERATOR(*, T, a.bits.times(b.bits))
FOREBAY_WIDE_OPERATOR(==, bool, a.bits.same(b.bits))
FOREBAY_WIDE_OPERATOR(!=, bool, !a.bits.same(b.bits))
FOREBAY_WIDE_OPERATOR(<, bool, a.negative() != b.negative() ? a.negative() : a.bits.less(b.bits))
FOREBAY_WIDE_OPERATOR(>, bool, a.negative() != b.negative() ? b.negative() : b.bits.less(a.bits))
FOREBAY_WIDE_OPERATOR(<=, bool, !(b < a))
FOREBAY_WIDE_OPERATOR(>=, bool, !(a < b))
#undef FOREBAY_WIDE_OPERATOR

template <class A, class B, std::enable_if_t<are_wide<A, B>, int> = 0>
constexpr __host__ __device__ auto operator/(const A& first, const B& second) {
    using T = wide_common<A, B>;
    T a = (T)first, b = (T)second;
    if constexpr (is_wide<T>) {
        wide_bits rest = a.size(), quotient = rest.divide(b.size());
        return T(a.negative() != b.negative() ? quotient.negative() : quotient);
    } else {
        return a / b;
    }
}
#define FOREBAY_WIDE_OPERATOR(op)                                                                    \
    template <class A, class B, std::enable_if_t<are_wide<A, B>, int> = 0>                           \
    constexpr __host__ __device__ auto operator op(const A& first, const B& second) {                \
        using T = wide_common<A, B>;                                                                 \
        T a = (T)first, b = (T)second;                                                               \
        return T(wide_bits{a.bits.low op b.bits.low, a.bits.high op b.bits.high});                   \
    }
FOREBAY_WIDE_OPERATOR(&)
FOREBAY_WIDE_OPERATOR(|)
FOREBAY_WIDE_OPERATOR(^)
#undef FOREBAY_WIDE_OPERATOR
template <class A, class B, std::enable_if_t<are_wide<A, B>, int> = 0>
constexpr __host__ __device__ auto operator%(const A& first, const B& second) {
    using T = wide_common<A, B>;
    T a = (T)first, b = (T)second;
    wide_bits rest = a.size();
    rest.divide(b.size());
    return T(a.negative() ? rest.negative() : rest);
}
template <class A, class B, std::enable_if_t<is_wide<A> && (is_wide<B> || is_narrow<B>), int> = 0>
constexpr __host__ __device__ A operator<<(const A& a, const B& count) {
    return A(a.bits.left((unsigned)count));
}
template <class A, class B, std::enable_if_t<is_wide<A> && (is_wide<B> || is_narrow<B>), int> = 0>
constexpr __host__ __device__ A operator>>(const A& a, const B& count) {
    return A(a.bits.right((unsigned)count, a.negative() ? ~0ul : 0ul));
}
#define FOREBAY_WIDE_ASSIGN(op)                                                                                 \
    template <class A, class B, std::enable_if_t<is_wide<A> && (is_wide<B> || is_narrow<B>), int> = 0>          \
    constexpr __host__ __device__ A& operator op##=(A& a, const B& b) {                                         \
        return a = A(a op b);                                                                                   \
    }
FOREBAY_WIDE_ASSIGN(+)
FOREBAY_WIDE_ASSIGN(-)
FOREBAY_WIDE_ASSIGN(*)
FOREBAY_WIDE_ASSIGN(/)
FOREBAY_WIDE_ASSIGN(%)
FOREBAY_WIDE_ASSIGN(&)
FOREBAY_WIDE_ASSIGN(|)
FOREBAY_WIDE_ASSIGN(^)
FOREBAY_WIDE_ASSIGN(<<)
FOREBAY_WIDE_ASSIGN(>>)
#undef FOREBAY_WIDE_ASSIGN

}  // namespace __forebay
