// HIP's operators for float4 and its like, which are structures of the compiler's own. They are templates, so that a
// program's own `float3 operator+(float3, float3)` goes before them.
#pragma once

typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;

namespace __forebay {

template <class V>
struct vector_of {};

#define FOREBAY_VECTOR(name, number, n) \
    template <>                         \
    struct vector_of<name> {            \
        using type = number;            \
        enum { lanes = n };             \
    };
#define FOREBAY_VECTORS(name, number)   \
    FOREBAY_VECTOR(name##1, number, 1)  \
    FOREBAY_VECTOR(name##2, number, 2)  \
    FOREBAY_VECTOR(name##3, number, 3)  \
    FOREBAY_VECTOR(name##4, number, 4)
FOREBAY_VECTORS(char, signed char)
FOREBAY_VECTORS(uchar, unsigned char)
FOREBAY_VECTORS(short, short)
FOREBAY_VECTORS(ushort, unsigned short)
FOREBAY_VECTORS(int, int)
FOREBAY_VECTORS(uint, unsigned int)
FOREBAY_VECTORS(long, long)
FOREBAY_VECTORS(ulong, unsigned long)
FOREBAY_VECTORS(longlong, long long)
FOREBAY_VECTORS(ulonglong, unsigned long long)
FOREBAY_VECTORS(float, float)
FOREBAY_VECTORS(double, double)
#undef FOREBAY_VECTORS
#undef FOREBAY_VECTOR

// All lanes the same.
template <class V, class T>
__DEVICE__ constexpr V filled(T value) {
    using E = typename vector_of<V>::type;
    constexpr int lanes = vector_of<V>::lanes;
    if constexpr (lanes == 1)
        return V{E(value)};
    else if constexpr (lanes == 2)
        return V{E(value), E(value)};
    else if constexpr (lanes == 3)
        return V{E(value), E(value), E(value)};
    else
        return V{E(value), E(value), E(value), E(value)};
}

}  // namespace __forebay

#define FOREBAY_V template <class V, int N = int(__forebay::vector_of<V>::lanes), class T = typename __forebay::vector_of<V>::type>
#define FOREBAY_VS                                                                                              \
    template <class V, class S, int N = int(__forebay::vector_of<V>::lanes), class T = typename __forebay::vector_of<V>::type, \
              class = decltype(T(S()))>

#define FOREBAY_OPERATOR(op)                                                        \
    FOREBAY_V __DEVICE__ constexpr V& operator op##=(V& a, const V& b) {            \
        a.x = T(a.x op b.x);                                                        \
        if constexpr (N > 1)                                                        \
            a.y = T(a.y op b.y);                                                    \
        if constexpr (N > 2)                                                        \
            a.z = T(a.z op b.z);                                                    \
        if constexpr (N > 3)                                                        \
            a.w = T(a.w op b.w);                                                    \
        return a;                                                                   \
    }                                                                               \
    FOREBAY_V __DEVICE__ constexpr V operator op(V a, const V& b) { return a op##= b; }               \
    FOREBAY_VS __DEVICE__ constexpr V& operator op##=(V& a, S b) { return a op##= __forebay::filled<V>(b); } \
    FOREBAY_VS __DEVICE__ constexpr V operator op(V a, S b) { return a op##= __forebay::filled<V>(b); }     \
    FOREBAY_VS __DEVICE__ constexpr V operator op(S a, const V& b) { return __forebay::filled<V>(a) op b; }
FOREBAY_OPERATOR(+)
FOREBAY_OPERATOR(-)
FOREBAY_OPERATOR(*)
FOREBAY_OPERATOR(/)
FOREBAY_OPERATOR(%)
FOREBAY_OPERATOR(&)
FOREBAY_OPERATOR(|)
FOREBAY_OPERATOR(^)
FOREBAY_OPERATOR(<<)
FOREBAY_OPERATOR(>>)
#undef FOREBAY_OPERATOR
FOREBAY_V __DEVICE__ constexpr V operator-(V a) { return __forebay::filled<V>(0) - a; }
FOREBAY_V __DEVICE__ constexpr V operator~(V a) { return a ^ T(~T(0)); }
FOREBAY_V __DEVICE__ constexpr V& operator++(V& a) { return a += T(1); }
FOREBAY_V __DEVICE__ constexpr V& operator--(V& a) { return a -= T(1); }
FOREBAY_V __DEVICE__ constexpr V operator++(V& a, int) {
    V before = a;
    ++a;
    return before;
}
FOREBAY_V __DEVICE__ constexpr V operator--(V& a, int) {
    V before = a;
    --a;
    return before;
}
FOREBAY_V __DEVICE__ constexpr bool operator==(const V& a, const V& b) {
    bool same = a.x == b.x;
    if constexpr (N > 1)
        same = same && a.y == b.y;
    if constexpr (N > 2)
        same = same && a.z == b.z;
    if constexpr (N > 3)
        same = same && a.w == b.w;
    return same;
}
FOREBAY_V __DEVICE__ constexpr bool operator!=(const V& a, const V& b) { return !(a == b); }
#undef FOREBAY_V
#undef FOREBAY_VS
