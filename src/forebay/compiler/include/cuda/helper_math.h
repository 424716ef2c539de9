// Functions of vectors with the names that CUDA's samples have for them, `cutil_math.h` too. Vectors have their operators
// already. A program's own file of this name goes before this one.
#pragma once

#include <hip/hip_runtime.h>

#define FOREBAY_MATH __host__ __device__ inline

// -- making vectors of others

#define FOREBAY_MAKE(T, name)                                                                     \
    FOREBAY_MATH name##2 make_##name##2(T s) { return {s, s}; }                                   \
    FOREBAY_MATH name##3 make_##name##3(T s) { return {s, s, s}; }                                \
    FOREBAY_MATH name##4 make_##name##4(T s) { return {s, s, s, s}; }                             \
    FOREBAY_MATH name##2 make_##name##2(name##3 a) { return {a.x, a.y}; }                         \
    FOREBAY_MATH name##3 make_##name##3(name##2 a) { return {a.x, a.y, T()}; }                    \
    FOREBAY_MATH name##3 make_##name##3(name##2 a, T s) { return {a.x, a.y, s}; }                 \
    FOREBAY_MATH name##3 make_##name##3(name##4 a) { return {a.x, a.y, a.z}; }                    \
    FOREBAY_MATH name##4 make_##name##4(name##3 a) { return {a.x, a.y, a.z, T()}; }               \
    FOREBAY_MATH name##4 make_##name##4(name##3 a, T w) { return {a.x, a.y, a.z, w}; }
FOREBAY_MAKE(float, float)
FOREBAY_MAKE(int, int)
FOREBAY_MAKE(unsigned, uint)
#undef FOREBAY_MAKE
#define FOREBAY_MAKE(T, name, other)                                                                             \
    FOREBAY_MATH name##2 make_##name##2(other##2 a) { return {(T)a.x, (T)a.y}; }                                 \
    FOREBAY_MATH name##3 make_##name##3(other##3 a) { return {(T)a.x, (T)a.y, (T)a.z}; }                         \
    FOREBAY_MATH name##4 make_##name##4(other##4 a) { return {(T)a.x, (T)a.y, (T)a.z, (T)a.w}; }
FOREBAY_MAKE(float, float, int)
FOREBAY_MAKE(float, float, uint)
FOREBAY_MAKE(int, int, float)
FOREBAY_MAKE(int, int, uint)
FOREBAY_MAKE(unsigned, uint, int)
#undef FOREBAY_MAKE

// -- element by element

#define FOREBAY_EACH(T, name, one)                                                                   \
    FOREBAY_MATH T##2 name(T##2 a) { return {one(a.x), one(a.y)}; }                                  \
    FOREBAY_MATH T##3 name(T##3 a) { return {one(a.x), one(a.y), one(a.z)}; }                        \
    FOREBAY_MATH T##4 name(T##4 a) { return {one(a.x), one(a.y), one(a.z), one(a.w)}; }
#define FOREBAY_EACH_OF_TWO(T, name, one)                                                            \
    FOREBAY_MATH T##2 name(T##2 a, T##2 b) { return {one(a.x, b.x), one(a.y, b.y)}; }                \
    FOREBAY_MATH T##3 name(T##3 a, T##3 b) { return {one(a.x, b.x), one(a.y, b.y), one(a.z, b.z)}; } \
    FOREBAY_MATH T##4 name(T##4 a, T##4 b) {                                                         \
        return {one(a.x, b.x), one(a.y, b.y), one(a.z, b.z), one(a.w, b.w)};                         \
    }
FOREBAY_MATH float fracf(float x) { return x - ::floorf(x); }
FOREBAY_EACH(float, floorf, ::floorf)
FOREBAY_EACH(float, fracf, fracf)
FOREBAY_EACH(float, fabs, ::fabsf)
#define FOREBAY_ABS(x) ((x) < 0 ? -(x) : (x))
FOREBAY_EACH(int, abs, FOREBAY_ABS)
#undef FOREBAY_ABS
FOREBAY_EACH_OF_TWO(float, fminf, ::fminf)
FOREBAY_EACH_OF_TWO(float, fmaxf, ::fmaxf)
FOREBAY_EACH_OF_TWO(float, fmodf, ::fmodf)
FOREBAY_EACH_OF_TWO(int, min, ::min)
FOREBAY_EACH_OF_TWO(int, max, ::max)
FOREBAY_EACH_OF_TWO(uint, min, ::min)
FOREBAY_EACH_OF_TWO(uint, max, ::max)
#undef FOREBAY_EACH
#undef FOREBAY_EACH_OF_TWO

#define FOREBAY_CLAMP(T, name)                                                                                \
    FOREBAY_MATH T clamp(T x, T least, T most) { return x < least ? least : most < x ? most : x; }            \
    FOREBAY_MATH name##2 clamp(name##2 v, T a, T b) { return {clamp(v.x, a, b), clamp(v.y, a, b)}; }          \
    FOREBAY_MATH name##3 clamp(name##3 v, T a, T b) {                                                         \
        return {clamp(v.x, a, b), clamp(v.y, a, b), clamp(v.z, a, b)};                                        \
    }                                                                                                         \
    FOREBAY_MATH name##4 clamp(name##4 v, T a, T b) {                                                         \
        return {clamp(v.x, a, b), clamp(v.y, a, b), clamp(v.z, a, b), clamp(v.w, a, b)};                      \
    }                                                                                                         \
    FOREBAY_MATH name##2 clamp(name##2 v, name##2 a, name##2 b) { return {clamp(v.x, a.x, b.x), clamp(v.y, a.y, b.y)}; } \
    FOREBAY_MATH name##3 clamp(name##3 v, name##3 a, name##3 b) {                                             \
        return {clamp(v.x, a.x, b.x), clamp(v.y, a.y, b.y), clamp(v.z, a.z, b.z)};                            \
    }                                                                                                         \
    FOREBAY_MATH name##4 clamp(name##4 v, name##4 a, name##4 b) {                                             \
        return {clamp(v.x, a.x, b.x), clamp(v.y, a.y, b.y), clamp(v.z, a.z, b.z), clamp(v.w, a.w, b.w)};      \
    }                                                                                                         \
    FOREBAY_MATH T dot(name##2 a, name##2 b) { return a.x * b.x + a.y * b.y; }                                \
    FOREBAY_MATH T dot(name##3 a, name##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }                    \
    FOREBAY_MATH T dot(name##4 a, name##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
FOREBAY_CLAMP(float, float)
FOREBAY_CLAMP(int, int)
FOREBAY_CLAMP(unsigned, uint)
#undef FOREBAY_CLAMP

// -- geometry

FOREBAY_MATH float lerp(float a, float b, float t) { return a + t * (b - a); }
FOREBAY_MATH float smoothstep(float a, float b, float x) {
    float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
    return y * y * (3.0f - 2.0f * y);
}
#define FOREBAY_GEOMETRY(V)                                                                   \
    FOREBAY_MATH V lerp(V a, V b, float t) { return a + t * (b - a); }                        \
    FOREBAY_MATH float length(V v) { return sqrtf(dot(v, v)); }                               \
    FOREBAY_MATH V normalize(V v) { return v * rsqrtf(dot(v, v)); }                           \
    FOREBAY_MATH V smoothstep(V a, V b, V x) {                                                \
        V y = clamp((x - a) / (b - a), 0.0f, 1.0f);                                           \
        return y * y * (3.0f - 2.0f * y);                                                     \
    }
FOREBAY_GEOMETRY(float2)
FOREBAY_GEOMETRY(float3)
FOREBAY_GEOMETRY(float4)
#undef FOREBAY_GEOMETRY
FOREBAY_MATH float3 reflect(float3 i, float3 n) { return i - 2.0f * n * dot(n, i); }
FOREBAY_MATH float3 cross(float3 a, float3 b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
#undef FOREBAY_MATH
