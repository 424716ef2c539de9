// float4 and its like, for all scalars: structures with x, y, z, w, the sizes and alignments of HIP, and its operators.
#pragma once

#include <hip/device/qualifiers.h>
#include <type_traits>

// As AMD's headers have them.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long long ullong;

// In the global namespace and by HIP's name: argument-dependent lookup finds a program's functions of them there.
template <class T, unsigned N>
struct HIP_vector_type;

// Arguments of other types are converted, so that `uchar4{r, g, b, 255}` takes ints, as in HIP.
#define FOREBAY_ENABLE(...) std::enable_if_t<(__VA_ARGS__), int> = 0
#define FOREBAY_CONVERTS(U) std::is_convertible_v<U, T>

template <class T>
struct alignas(sizeof(T)) HIP_vector_type<T, 1> {
    using value_type = T;
    T x;
    HIP_vector_type() = default;
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr HIP_vector_type(A x) : x(static_cast<T>(x)) {}
};

template <class T>
struct alignas(2 * sizeof(T)) HIP_vector_type<T, 2> {
    using value_type = T;
    T x, y;
    HIP_vector_type() = default;
    template <class A, class B, FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B))>
    __host__ __device__ constexpr HIP_vector_type(A x, B y) : x(static_cast<T>(x)), y(static_cast<T>(y)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr HIP_vector_type(A v) : x(static_cast<T>(v)), y(static_cast<T>(v)) {}
};

template <class T>
struct HIP_vector_type<T, 3> {
    using value_type = T;
    T x, y, z;
    HIP_vector_type() = default;
    template <class A, class B, class C,
              FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B) && FOREBAY_CONVERTS(C))>
    __host__ __device__ constexpr HIP_vector_type(A x, B y, C z)
        : x(static_cast<T>(x)), y(static_cast<T>(y)), z(static_cast<T>(z)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr HIP_vector_type(A v) : x(static_cast<T>(v)), y(static_cast<T>(v)), z(static_cast<T>(v)) {}
};

template <class T>
struct alignas(4 * sizeof(T)) HIP_vector_type<T, 4> {
    using value_type = T;
    T x, y, z, w;
    HIP_vector_type() = default;
    template <class A, class B, class C, class D,
              FOREBAY_ENABLE(FOREBAY_CONVERTS(A) && FOREBAY_CONVERTS(B) && FOREBAY_CONVERTS(C) &&
                             FOREBAY_CONVERTS(D))>
    __host__ __device__ constexpr HIP_vector_type(A x, B y, C z, D w)
        : x(static_cast<T>(x)), y(static_cast<T>(y)), z(static_cast<T>(z)), w(static_cast<T>(w)) {}
    template <class A, FOREBAY_ENABLE(FOREBAY_CONVERTS(A))>
    __host__ __device__ constexpr HIP_vector_type(A v)
        : x(static_cast<T>(v)), y(static_cast<T>(v)), z(static_cast<T>(v)), w(static_cast<T>(v)) {}
};

// Operators are templates, so that a program's own `float3 operator+(float3, float3)` goes before them.
#define FOREBAY_TEMPLATE template <class T, unsigned N> __host__ __device__ constexpr
#define FOREBAY_TEMPLATE_SCALAR template <class T, unsigned N, class U, FOREBAY_ENABLE(FOREBAY_CONVERTS(U))> \
    __host__ __device__ constexpr

#define FOREBAY_OPERATOR(op)                                                                                          \
    FOREBAY_TEMPLATE HIP_vector_type<T, N>& operator op##=(HIP_vector_type<T, N>& a, const HIP_vector_type<T, N>& b) { \
        a.x op##= b.x;                                                                                                \
        if constexpr (N > 1)                                                                                          \
            a.y op##= b.y;                                                                                            \
        if constexpr (N > 2)                                                                                          \
            a.z op##= b.z;                                                                                            \
        if constexpr (N > 3)                                                                                          \
            a.w op##= b.w;                                                                                            \
        return a;                                                                                                     \
    }                                                                                                                 \
    FOREBAY_TEMPLATE HIP_vector_type<T, N> operator op(HIP_vector_type<T, N> a, const HIP_vector_type<T, N>& b) {     \
        return a op##= b;                                                                                             \
    }                                                                                                                 \
    FOREBAY_TEMPLATE_SCALAR HIP_vector_type<T, N>& operator op##=(HIP_vector_type<T, N>& a, U b) {                    \
        return a op##= HIP_vector_type<T, N>(static_cast<T>(b));                                                      \
    }                                                                                                                 \
    FOREBAY_TEMPLATE_SCALAR HIP_vector_type<T, N> operator op(HIP_vector_type<T, N> a, U b) {                         \
        return a op##= HIP_vector_type<T, N>(static_cast<T>(b));                                                      \
    }                                                                                                                 \
    FOREBAY_TEMPLATE_SCALAR HIP_vector_type<T, N> operator op(U a, const HIP_vector_type<T, N>& b) {                  \
        return HIP_vector_type<T, N>(static_cast<T>(a)) op b;                                                         \
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

FOREBAY_TEMPLATE HIP_vector_type<T, N> operator+(const HIP_vector_type<T, N>& a) {
    return a;
}

FOREBAY_TEMPLATE HIP_vector_type<T, N> operator-(HIP_vector_type<T, N> a) {
    a.x = -a.x;
    if constexpr (N > 1)
        a.y = -a.y;
    if constexpr (N > 2)
        a.z = -a.z;
    if constexpr (N > 3)
        a.w = -a.w;
    return a;
}

FOREBAY_TEMPLATE HIP_vector_type<T, N> operator~(const HIP_vector_type<T, N>& a) {
    return a ^ HIP_vector_type<T, N>(static_cast<T>(-1));
}

FOREBAY_TEMPLATE HIP_vector_type<T, N>& operator++(HIP_vector_type<T, N>& a) {
    return a += HIP_vector_type<T, N>(static_cast<T>(1));
}

FOREBAY_TEMPLATE HIP_vector_type<T, N>& operator--(HIP_vector_type<T, N>& a) {
    return a -= HIP_vector_type<T, N>(static_cast<T>(1));
}

FOREBAY_TEMPLATE HIP_vector_type<T, N> operator++(HIP_vector_type<T, N>& a, int) {
    HIP_vector_type<T, N> before = a;
    ++a;
    return before;
}

FOREBAY_TEMPLATE HIP_vector_type<T, N> operator--(HIP_vector_type<T, N>& a, int) {
    HIP_vector_type<T, N> before = a;
    --a;
    return before;
}

FOREBAY_TEMPLATE bool operator==(const HIP_vector_type<T, N>& a, const HIP_vector_type<T, N>& b) {
    bool same = a.x == b.x;
    if constexpr (N > 1)
        same = same && a.y == b.y;
    if constexpr (N > 2)
        same = same && a.z == b.z;
    if constexpr (N > 3)
        same = same && a.w == b.w;
    return same;
}

FOREBAY_TEMPLATE bool operator!=(const HIP_vector_type<T, N>& a, const HIP_vector_type<T, N>& b) {
    return !(a == b);
}

#undef FOREBAY_OPERATOR
#undef FOREBAY_TEMPLATE
#undef FOREBAY_TEMPLATE_SCALAR
#undef FOREBAY_CONVERTS
#undef FOREBAY_ENABLE

#define FOREBAY_MAKE(name, count, parameters, arguments)                             \
    __host__ __device__ constexpr inline name##count make_##name##count parameters { \
        return name##count arguments;                                                \
    }

#define FOREBAY_VECTORS(T, name)                      \
    using name##1 = HIP_vector_type<T, 1>;            \
    using name##2 = HIP_vector_type<T, 2>;            \
    using name##3 = HIP_vector_type<T, 3>;            \
    using name##4 = HIP_vector_type<T, 4>;            \
    FOREBAY_MAKE(name, 1, (T x), (x))                 \
    FOREBAY_MAKE(name, 2, (T x, T y), (x, y))         \
    FOREBAY_MAKE(name, 3, (T x, T y, T z), (x, y, z)) \
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
