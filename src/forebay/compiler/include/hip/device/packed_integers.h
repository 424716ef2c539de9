// Intrinsics on the bytes and half words of a 32-bit word.
#pragma once

#include <hip/hip_vector_types.h>
#include <limits>

// Products of four bytes, summed.
__GIVES_WAY__ int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (int)(signed char)(x >> i) * (int)(signed char)(y >> i);
    return sum;
}
__GIVES_WAY__ unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (x >> i & 255) * (y >> i & 255);
    return sum;
}
__GIVES_WAY__ int __dp4a(char4 x, char4 y, int sum) { return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
__GIVES_WAY__ unsigned __dp4a(uchar4 x, uchar4 y, unsigned sum) {
    return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

// Products of two half words of x with the lower or upper two bytes of y, summed.
#define FOREBAY_DOT(name, shift)                                                                         \
    __GIVES_WAY__ int name(int x, int y, int sum) {                                                      \
        return sum + (short)x * (signed char)(y >> shift) + (x >> 16) * (signed char)(y >> (shift + 8)); \
    }                                                                                                    \
    __GIVES_WAY__ unsigned name(unsigned x, unsigned y, unsigned sum) {                                  \
        return sum + (x & 0xffff) * (y >> shift & 255) + (x >> 16) * (y >> (shift + 8) & 255);           \
    }
FOREBAY_DOT(__dp2a_lo, 0)
FOREBAY_DOT(__dp2a_hi, 16)
#undef FOREBAY_DOT

#define FOREBAY_DOT(name, low, high)                                                                \
    __GIVES_WAY__ int name(short2 x, char4 y, int sum) { return sum + x.x * y.low + x.y * y.high; } \
    __GIVES_WAY__ unsigned name(ushort2 x, uchar4 y, unsigned sum) { return sum + x.x * y.low + x.y * y.high; }
FOREBAY_DOT(__dp2a_lo, x, y)
FOREBAY_DOT(__dp2a_hi, z, w)
#undef FOREBAY_DOT

namespace __forebay {
template <class T>
__DEVICE__ int clamped(int x) {
    constexpr int lowest = std::numeric_limits<T>::lowest(), highest = std::numeric_limits<T>::max();
    return x < lowest ? lowest : highest < x ? highest : x;
}
}  // namespace __forebay

// `EXPRESSION` of x and y for each byte (4) or half word (2).
#define FOREBAY_PACKED(name, T, width, EXPRESSION)                                    \
    __GIVES_WAY__ unsigned name(unsigned xs, unsigned ys) {                           \
        unsigned result = 0;                                                          \
        for (int i = 0; i < 32; i += width) {                                         \
            T x = (T)(xs >> i), y = (T)(ys >> i);                                     \
            result |= ((unsigned)(EXPRESSION) & (unsigned)((1ul << width) - 1)) << i; \
        }                                                                             \
        return result;                                                                \
    }
#define FOREBAY_PACKED_2_AND_4(name, sign, EXPRESSION)  \
    FOREBAY_PACKED(name##2, sign short, 16, EXPRESSION) \
    FOREBAY_PACKED(name##4, sign char, 8, EXPRESSION)
FOREBAY_PACKED_2_AND_4(__vadd, unsigned, x + y)
FOREBAY_PACKED_2_AND_4(__vsub, unsigned, x - y)
FOREBAY_PACKED_2_AND_4(__vavgu, unsigned, (x + y + 1) >> 1)
FOREBAY_PACKED_2_AND_4(__vavgs, signed, (x + y + (x + y >= 0)) >> 1)
FOREBAY_PACKED_2_AND_4(__vabsdiffu, unsigned, x < y ? y - x : x - y)
FOREBAY_PACKED_2_AND_4(__vabsdiffs, signed, x < y ? y - x : x - y)
FOREBAY_PACKED_2_AND_4(__vmaxu, unsigned, x < y ? y : x)
FOREBAY_PACKED_2_AND_4(__vmaxs, signed, x < y ? y : x)
FOREBAY_PACKED_2_AND_4(__vminu, unsigned, y < x ? y : x)
FOREBAY_PACKED_2_AND_4(__vmins, signed, y < x ? y : x)
FOREBAY_PACKED_2_AND_4(__vcmpeq, unsigned, x == y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpne, unsigned, x != y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpgtu, unsigned, x > y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpgeu, unsigned, x >= y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpltu, unsigned, x < y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpleu, unsigned, x <= y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpgts, signed, x > y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmplts, signed, x < y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmpges, signed, x >= y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vcmples, signed, x <= y ? -1 : 0)
FOREBAY_PACKED_2_AND_4(__vseteq, unsigned, x == y)
FOREBAY_PACKED_2_AND_4(__vsetne, unsigned, x != y)
FOREBAY_PACKED_2_AND_4(__vsetgtu, unsigned, x > y)
FOREBAY_PACKED_2_AND_4(__vsetgeu, unsigned, x >= y)
FOREBAY_PACKED_2_AND_4(__vsetltu, unsigned, x < y)
FOREBAY_PACKED_2_AND_4(__vsetleu, unsigned, x <= y)
FOREBAY_PACKED_2_AND_4(__vsetgts, signed, x > y)
FOREBAY_PACKED_2_AND_4(__vsetges, signed, x >= y)
FOREBAY_PACKED_2_AND_4(__vsetlts, signed, x < y)
FOREBAY_PACKED_2_AND_4(__vsetles, signed, x <= y)
FOREBAY_PACKED_2_AND_4(__vhaddu, unsigned, (x + y) >> 1)
// With saturation: of signed (ss) and of unsigned (us) parts.
FOREBAY_PACKED_2_AND_4(__vaddss, signed, (__forebay::clamped<decltype(x)>(x + y)))
FOREBAY_PACKED_2_AND_4(__vsubss, signed, (__forebay::clamped<decltype(x)>(x - y)))
FOREBAY_PACKED_2_AND_4(__vaddus, unsigned, (__forebay::clamped<decltype(x)>(x + y)))
FOREBAY_PACKED_2_AND_4(__vsubus, unsigned, (__forebay::clamped<decltype(x)>(x - y)))
#undef FOREBAY_PACKED
#undef FOREBAY_PACKED_2_AND_4

__GIVES_WAY__ unsigned __vneg2(unsigned x) { return __vsub2(0, x); }
__GIVES_WAY__ unsigned __vneg4(unsigned x) { return __vsub4(0, x); }
__GIVES_WAY__ unsigned __vnegss2(unsigned x) { return __vsubss2(0, x); }
__GIVES_WAY__ unsigned __vnegss4(unsigned x) { return __vsubss4(0, x); }
__GIVES_WAY__ unsigned __vabs2(unsigned x) { return __vmaxs2(x, __vneg2(x)) | (x & __vneg2(x) & 0x80008000); }
__GIVES_WAY__ unsigned __vabs4(unsigned x) { return __vmaxs4(x, __vneg4(x)) | (x & __vneg4(x) & 0x80808080); }
__GIVES_WAY__ unsigned __vabsss2(unsigned x) { return __vmaxs2(x, __vnegss2(x)); }
__GIVES_WAY__ unsigned __vabsss4(unsigned x) { return __vmaxs4(x, __vnegss4(x)); }

__GIVES_WAY__ unsigned __vsadu4(unsigned x, unsigned y) {
    unsigned differences = __vabsdiffu4(x, y);
    return (differences & 255) + (differences >> 8 & 255) + (differences >> 16 & 255) + (differences >> 24);
}
__GIVES_WAY__ unsigned __vsads4(unsigned x, unsigned y) {
    unsigned differences = __vabsdiffs4(x, y);
    return (differences & 255) + (differences >> 8 & 255) + (differences >> 16 & 255) + (differences >> 24);
}
__GIVES_WAY__ unsigned __vsadu2(unsigned x, unsigned y) {
    unsigned differences = __vabsdiffu2(x, y);
    return (differences & 0xffff) + (differences >> 16);
}
__GIVES_WAY__ unsigned __vsads2(unsigned x, unsigned y) {
    unsigned differences = __vabsdiffs2(x, y);
    return (differences & 0xffff) + (differences >> 16);
}

// The larger or smaller of two or three numbers, sums among them, and with "relu" not less than 0.
#define FOREBAY_OF_WORDS(T, suffix)                                                                        \
    __GIVES_WAY__ T __vimax3_##suffix(T x, T y, T z) { return x < y ? (y < z ? z : y) : (x < z ? z : x); } \
    __GIVES_WAY__ T __vimin3_##suffix(T x, T y, T z) { return y < x ? (z < y ? z : y) : (z < x ? z : x); } \
    __GIVES_WAY__ T __viaddmax_##suffix(T x, T y, T z) {                                                   \
        T sum = (T)((unsigned)x + (unsigned)y);                                                            \
        return sum < z ? z : sum;                                                                          \
    }                                                                                                      \
    __GIVES_WAY__ T __viaddmin_##suffix(T x, T y, T z) {                                                   \
        T sum = (T)((unsigned)x + (unsigned)y);                                                            \
        return z < sum ? z : sum;                                                                          \
    }                                                                                                      \
    /* Which one it was: x when they are equal. */                                                         \
    __GIVES_WAY__ T __vibmax_##suffix(T x, T y, bool* is_x) { return (*is_x = x >= y) ? x : y; }           \
    __GIVES_WAY__ T __vibmin_##suffix(T x, T y, bool* is_x) { return (*is_x = x <= y) ? x : y; }
FOREBAY_OF_WORDS(int, s32)
FOREBAY_OF_WORDS(unsigned, u32)
#undef FOREBAY_OF_WORDS

#define FOREBAY_OF_HALVES(T, suffix)                                                              \
    __GIVES_WAY__ unsigned __vimax3_##suffix##x2(unsigned x, unsigned y, unsigned z) {            \
        return __vmax##T##2(__vmax##T##2(x, y), z);                                               \
    }                                                                                             \
    __GIVES_WAY__ unsigned __vimin3_##suffix##x2(unsigned x, unsigned y, unsigned z) {            \
        return __vmin##T##2(__vmin##T##2(x, y), z);                                               \
    }                                                                                             \
    __GIVES_WAY__ unsigned __viaddmax_##suffix##x2(unsigned x, unsigned y, unsigned z) {          \
        return __vmax##T##2(__vadd2(x, y), z);                                                    \
    }                                                                                             \
    __GIVES_WAY__ unsigned __viaddmin_##suffix##x2(unsigned x, unsigned y, unsigned z) {          \
        return __vmin##T##2(__vadd2(x, y), z);                                                    \
    }                                                                                             \
    __GIVES_WAY__ unsigned __vibmax_##suffix##x2(unsigned x, unsigned y, bool* high, bool* low) { \
        unsigned is_x = __vcmpge##T##2(x, y);                                                     \
        *high = is_x >> 31, *low = is_x & 1;                                                      \
        return __vmax##T##2(x, y);                                                                \
    }                                                                                             \
    __GIVES_WAY__ unsigned __vibmin_##suffix##x2(unsigned x, unsigned y, bool* high, bool* low) { \
        unsigned is_x = __vcmple##T##2(x, y);                                                     \
        *high = is_x >> 31, *low = is_x & 1;                                                      \
        return __vmin##T##2(x, y);                                                                \
    }
FOREBAY_OF_HALVES(s, s16)
FOREBAY_OF_HALVES(u, u16)
#undef FOREBAY_OF_HALVES

__GIVES_WAY__ int __vimax_s32_relu(int x, int y) { return __vimax3_s32(x, y, 0); }
__GIVES_WAY__ int __vimin_s32_relu(int x, int y) { return x < y ? (x < 0 ? 0 : x) : (y < 0 ? 0 : y); }
__GIVES_WAY__ unsigned __vimax_s16x2_relu(unsigned x, unsigned y) { return __vimax3_s16x2(x, y, 0); }
__GIVES_WAY__ unsigned __vimin_s16x2_relu(unsigned x, unsigned y) { return __vmaxs2(__vmins2(x, y), 0); }
#define FOREBAY_RELU(name)                                                         \
    __GIVES_WAY__ int name##_s32_relu(int x, int y, int z) {                       \
        int value = name##_s32(x, y, z);                                           \
        return value < 0 ? 0 : value;                                              \
    }                                                                              \
    __GIVES_WAY__ unsigned name##_s16x2_relu(unsigned x, unsigned y, unsigned z) { \
        return __vmaxs2(name##_s16x2(x, y, z), 0);                                 \
    }
FOREBAY_RELU(__vimax3)
FOREBAY_RELU(__vimin3)
FOREBAY_RELU(__viaddmax)
FOREBAY_RELU(__viaddmin)
#undef FOREBAY_RELU
