// float4 and its like, for all scalars: structures with x, y, z, w, the sizes and alignments of HIP, and its operators.
#pragma once

#include <hip/device/qualifiers.h>
#include <type_traits>

// As in the C libraries of GPUs' hosts.
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;

namespace __forebay {

template <class T, int N>
struct vector;

// Arguments of other types are converted, so that `uchar4{r, g, b, 255}` takes ints, as in HIP.
#define FOREBAY_ENABLE(...) std::enable_if_t<(__VA_ARGS__), int> = 0
#define FOREBAY_CONVERTS(U) std::is_convertible_v<U, T>

template <class T>
struct alignas(sizeof(T)) vector<T, 1> {
    using value_type = T;
    T x;
    vector() = default;
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr vector(A x) : x(static_cast<T>(x)) {}
};

template <class T>
struct alignas(2 * sizeof(T)) vector<T, 2> {
    using value_type = T;
    T x, y;
    vector() = default;
    template <class A, class B, FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B))>
    __host__ __device__ constexpr vector(A x, B y) : x(static_cast<T>(x)), y(static_cast<T>(y)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr vector(A v) : x(static_cast<T>(v)), y(static_cast<T>(v)) {}
};

template <class T>
struct vector<T, 3> {
    using value_type = T;
    T x, y, z;
    vector() = default;
    template <class A, class B, class C,
              FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B) && FOREBAY_CONVERTS(C))>
    __host__ __device__ constexpr vector(A x, B y, C z)
        : x(static_cast<T>(x)), y(static_cast<T>(y)), z(static_cast<T>(z)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr vector(A v) : x(static_cast<T>(v)), y(static_cast<T>(v)), z(static_cast<T>(v)) {}
};

template <class T>
struct alignas(4 * sizeof(T)) vector<T, 4> {
    using value_type = T;
    T x, y, z, w;
    vector() = default;
    template <class A, class B, class C, class D,
              FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B) && FOREBAY_CONVERTS(C) &&
                             FOREBAY_CONVERTS(D))>
    __host__ __device__ constexpr vector(A x, B y, C z, D w)
        : x(static_cast<T>(x)), y(static_cast<T>(y)), z(static_cast<T>(z)), w(static_cast<T>(w)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr vector(A v)
        : x(static_cast<T>(v)), y(static_cast<T>(v)), z(static_cast<T>(v)), w(static_cast<T>(v)) {}
};

// Operators are templates, so that a program's own `float3 operator+(float3, float3)` goes before them.
#define FOREBAY_TEMPLATE template <class T, int N> __host__ __device__ constexpr
#define FOREBAY_TEMPLATE_SCALAR template <class T, int N, class U, FOREBAY_ENABLE(FOREBAY_CONVERTS(U))> \
    __host__ __device__ constexpr

#define FOREBAY_OPERATOR(op)                                                             \
    FOREBAY_TEMPLATE vector<T, N>& operator op##=(vector<T, N>& a, const vector<T, N>& b) { \
        a.x op##= b.x;                                                                   \
        if constexpr (N > 1)                                                             \
            a.y op##= b.y;                                                               \
        if constexpr (N > 2)                                                             \
            a.z op##= b.z;                                                               \
        if constexpr (N > 3)                                                             \
            a.w op##= b.w;                                                               \
        return a;                                                                        \
    }                                                                                    \
    FOREBAY_TEMPLATE vector<T, N> operator op(vector<T, N> a, const vector<T, N>& b) {   \
        return a op##= b;                                                                \
    }                                                                                    \
    FOREBAY_TEMPLATE_SCALAR vector<T, N>& operator op##=(vector<T, N>& a, U b) {         \
        return a op##= vector<T, N>(static_cast<T>(b));                                  \
    }                                                                                    \
    FOREBAY_TEMPLATE_SCALAR vector<T, N> operator op(vector<T, N> a, U b) {              \
        return a op##= vector<T, N>(static_cast<T>(b));                                  \
    }                                                                                    \
    FOREBAY_TEMPLATE_SCALAR vector<T, N> operator op(U a, const vector<T, N>& b) {       \
        return vector<T, N>(static_cast<T>(a)) op b;                                     \
    }
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

FOREBAY_TEMPLATE vector<T, N> operator+(const vector<T, N>& a) {
    return a;
}

FOREBAY_TEMPLATE vector<T, N> operator-(vector<T, N> a) {
    a.x = -a.x;
    if constexpr (N > 1)
        a.y = -a.y;
    if constexpr (N > 2)
        a.z = -a.z;
    if constexpr (N > 3)
        a.w = -a.w;
    return a;
}

FOREBAY_TEMPLATE vector<T, N> operator~(const vector<T, N>& a) {
    return a ^ vector<T, N>(static_cast<T>(-1));
}

FOREBAY_TEMPLATE vector<T, N>& operator++(vector<T, N>& a) {
    return a += vector<T, N>(static_cast<T>(1));
}

FOREBAY_TEMPLATE vector<T, N>& operator--(vector<T, N>& a) {
    return a -= vector<T, N>(static_cast<T>(1));
}

FOREBAY_TEMPLATE vector<T, N> operator++(vector<T, N>& a, int) {
    vector<T, N> before = a;
    ++a;
    return before;
}

FOREBAY_TEMPLATE vector<T, N> operator--(vector<T, N>& a, int) {
    vector<T, N> before = a;
    --a;
    return before;
}

FOREBAY_TEMPLATE bool operator==(const vector<T, N>& a, const vector<T, N>& b) {
    bool same = a.x == b.x;
    if constexpr (N > 1)
        same = same && a.y == b.y;
    if constexpr (N > 2)
        same = same && a.z == b.z;
    if constexpr (N > 3)
        same = same && a.w == b.w;
    return same;
}

FOREBAY_TEMPLATE bool operator!=(const vector<T, N>& a, const vector<T, N>& b) {
    return !(a == b);
}

#undef FOREBAY_OPERATOR
#undef FOREBAY_TEMPLATE
#undef FOREBAY_TEMPLATE_SCALAR
#undef FOREBAY_CONVERTS
#undef FOREBAY_ENABLE

}  // namespace __forebay

#define FOREBAY_MAKE(name, count, parameters, arguments)                                \
    __host__ __device__ constexpr inline name##count make_##name##count parameters {    \
        return name##count arguments;                                                   \
    }

#define FOREBAY_VECTORS(T, name)                                                        \
    using name##1 = __forebay::vector<T, 1>;                                            \
    using name##2 = __forebay::vector<T, 2>;                                            \
    using name##3 = __forebay::vector<T, 3>;                                            \
    using name##4 = __forebay::vector<T, 4>;                                            \
    FOREBAY_MAKE(name, 1, (T x), (x))                                                   \
    FOREBAY_MAKE(name, 2, (T x, T y), (x, y))                                           \
    FOREBAY_MAKE(name, 3, (T x, T y, T z), (x, y, z))                                   \
    FOREBAY_MAKE(name, 4, (T x, T y, T z, T w), (x, y, z, w))

FOREBAY_VECTORS(char, char)
FOREBAY_VECTORS(unsigned char, uchar)
FOREBAY_VECTORS(short, short)
FOREBAY_VECTORS(unsigned short, ushort)
FOREBAY_VECTORS(int, int)
FOREBAY_VECTORS(unsigned, uint)
FOREBAY_VECTORS(long, long)
FOREBAY_VECTORS(unsigned long, ulong)
FOREBAY_VECTORS(long long, longlong)
FOREBAY_VECTORS(unsigned long long, ulonglong)
FOREBAY_VECTORS(float, float)
FOREBAY_VECTORS(double, double)

#undef FOREBAY_VECTORS
#undef FOREBAY_MAKE

// The extent of a grid or a block.
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __host__ __device__ constexpr operator uint3() const { return uint3(x, y, z); }
};
