// Intrinsics on the bytes and half words of a 32-bit word.
#pragma once

#include <hip/hip_vector_types.h>

// Products of four bytes, summed.
__DEVICE__ int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (int)(signed char)(x >> i) * (int)(signed char)(y >> i);
    return sum;
}
__DEVICE__ unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (x >> i & 255) * (y >> i & 255);
    return sum;
}
__DEVICE__ int __dp4a(char4 x, char4 y, int sum) { return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
__DEVICE__ unsigned __dp4a(uchar4 x, uchar4 y, unsigned sum) {
    return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

// `EXPRESSION` of x and y for each byte (4) or half word (2).
#define FOREBAY_PACKED(name, T, width, EXPRESSION)                                 \
    __DEVICE__ unsigned name(unsigned xs, unsigned ys) {                           \
        unsigned result = 0;                                                       \
        for (int i = 0; i < 32; i += width) {                                      \
            T x = (T)(xs >> i), y = (T)(ys >> i);                                  \
            result |= ((unsigned)(EXPRESSION) & (unsigned)((1ul << width) - 1)) << i; \
        }                                                                          \
        return result;                                                             \
    }
#define FOREBAY_PACKED_2_AND_4(name, sign, EXPRESSION)              \
    FOREBAY_PACKED(name##2, sign short, 16, EXPRESSION)             \
    FOREBAY_PACKED(name##4, sign char, 8, EXPRESSION)
FOREBAY_PACKED_2_AND_4(__vadd, unsigned, x + y)
FOREBAY_PACKED_2_AND_4(__vsub, unsigned, x - y)
FOREBAY_PACKED_2_AND_4(__vavgu, unsigned, (x + y + 1) >> 1)
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
#undef FOREBAY_PACKED
#undef FOREBAY_PACKED_2_AND_4

__DEVICE__ unsigned __vsadu4(unsigned x, unsigned y) {
    unsigned differences = __vabsdiffu4(x, y);
    return (differences & 255) + (differences >> 8 & 255) + (differences >> 16 & 255) + (differences >> 24);
}
