"""Kernels that people write and constructs of the language: the same is left in memory as on the host."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

pytestmark = [
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "atomics on 64 bits"),
]

RNG = np.random.default_rng(8)
TEMPLATES = """
    template <typename T> __device__ T square(T x) { return x * x; }
    template <typename T, int N> __device__ T sum(const T* of) { T s = 0; for (int i = 0; i < N; i++) s += of[i]; return s; }
    template <class A, class B> __device__ A convert(B b) { return static_cast<A>(b); }
    template <typename T> __global__ void squares(T* x) { x[threadIdx.x] = square(x[threadIdx.x]); }
    template <typename T, unsigned N> __global__ void sums(const T* in, T* out) {
        __shared__ T tile[N];
        tile[threadIdx.x] = in[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) { out[0] = sum<T, N>(tile); out[1] = convert<int>(sum<T, 2>(in)); }
    }"""
SETTINGS = np.dtype([("scale", "f4"), ("n", "i4"), ("negate", "?"), ("shift", "f8"), ("tag", "i1", 3)], align=True)


def floats(count):
    return RNG.random(count, dtype="f4")


def zeros(count, dtype="i4"):
    return np.zeros(count, dtype)


KERNELS = {
    "grids of three dimensions": case("""
        __global__ void k(int* out) {
            int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
            int z = threadIdx.z + blockIdx.z * blockDim.z;
            out[x + gridDim.x * blockDim.x * (y + gridDim.y * blockDim.y * z)] = x + 100 * y + 10000 * z;
        }""", (2, 3, 4), (4, 2, 1), zeros(192)),
    "a reduction in dynamic shared memory": case("""
        extern __shared__ double everywhere[];
        __device__ void put(int at, float value) { everywhere[at] = value; }
        __global__ void k(const float* in, double* out) {
            extern __shared__ double part[];
            put(threadIdx.x, in[blockIdx.x * blockDim.x + threadIdx.x]);
            __syncthreads();
            for (int s = blockDim.x / 2; s > 0; s /= 2) {
                if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
                __syncthreads();
            }
            if (!threadIdx.x) out[blockIdx.x] = part[0];
        }""", 8, 64, floats(512), zeros(8, "f8"), shared=64 * 8),
    "shared memory of a device function": case("""
        __device__ int sum_of_block(int mine) {
            static __shared__ int room[32];
            room[threadIdx.x] = mine;
            __syncthreads();
            int sum = 0;
            for (int i = 0; i < 32; ++i) sum += room[i];
            return sum + (int)(sizeof(room) / sizeof(room[0])) - 32;
        }
        __device__ int deeper(int mine) { return sum_of_block(mine); }
        __global__ void k(int* out) { { out[threadIdx.x] = deeper(threadIdx.x); } }""", 1, 32, zeros(32)),
    "a transposition with a tile": case("""
        constexpr int TILE = 8;
        __device__ void store(float to[][TILE + 1], int y, int x, float value) { to[y][x] = value; }
        __global__ void k(float* out, const float* in, int width, int height) {
            __shared__ float tile[TILE][TILE + 1];
            int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
            store(tile, threadIdx.y, threadIdx.x, in[y * width + x]);
            __syncthreads();
            x = blockIdx.y * TILE + threadIdx.x;
            y = blockIdx.x * TILE + threadIdx.y;
            out[y * height + x] = tile[threadIdx.x][threadIdx.y];
        }""", (3, 2), (8, 8), zeros(24 * 16, "f4"), floats(24 * 16), 24, 16),
    "vectors": case("""
        __device__ float dot(const float4& a, const float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
        __global__ void k(const float4* in, float4* out, float* dots, int2* pairs) {
            int i = threadIdx.x;
            float4 v = in[i], w = make_float4(1, 2.0, v.x, -v.y);
            w += v * 2;
            w.z -= 1.0f;
            out[i] = -w;
            dots[i] = dot(v, float4{1, 1, 1, 1}) + dot(make_float4(0, 0, 0, 1), v);
            int2 p = {i, 7};
            p.y += p.x;
            pairs[i] = p;
        }""", 1, 8, floats(32), zeros(32, "f4"), zeros(8, "f4"), zeros(16)),
    "vectors of three": case("""
        struct Body { float3 position; float mass; };
        __constant__ float3 UP = {0, 0, 1};
        __device__ float3 scaled(float3 v, float by) { return make_float3(v.x * by, v.y * by, v.z * by); }
        __device__ void push(float3* v) { v->x += 100; }
        __global__ void k(Body* bodies, const float3* velocity, float dt, float3 drift, int* sizes) {
            int i = threadIdx.x;
            float3 p = bodies[i].position;
            p += velocity[i] * dt + drift;
            p = (i % 2) ? p : p + UP;
            push(&p);
            bodies[i].position = scaled(p, 2);
            float3 row[2] = {{1, 2, 3}, make_float3(4, 5, 6)};
            bodies[i].mass += row[1].y;
            sizes[0] = sizeof(float3); sizes[1] = sizeof(Body); sizes[2] = sizeof(row); sizes[3] = sizeof(float4);
        }""", 1, 10, floats(40), floats(30), 0.5, np.array([(1, 2, 3)], "f4,f4,f4")[0], zeros(4)),
    "operators of vectors": case("""
        struct Body { float4 at; float3 v; };
        __constant__ float4 weights[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
        __device__ float3 operator+(float3 a, int b) { return make_float3(a.x + 100 * b, a.y, a.z); }  // its own
        __global__ void k(const float4* x, float4* out, uchar4* bytes, int2* n, Body body) {
            __shared__ float4 tile[4];
            tile[threadIdx.x] = x[threadIdx.x]; __syncthreads();
            float4 a = tile[threadIdx.x], b = weights[threadIdx.x & 1];
            a += b * 2.0f; a = 1.f - a / make_float4(2, 4, 8, 16); a -= 1; b++; a = -a + b;
            out[threadIdx.x] = a;
            int r = threadIdx.x; bytes[threadIdx.x] = {r, r + 1, r + 2, 255};
            int2 m = n[threadIdx.x]; m = (m << 2) | make_int2(1, 2); m ^= 8; m = ~m; n[threadIdx.x] = m % 5;
            if (threadIdx.x == 0) {
                float3 w = body.v + 2; w *= 3; out[4] = make_float4(w.x, w.y, w.z, body.at.w);
                out[5] = make_float4(body.v == make_float3(1, 2, 3), body.v != body.v, make_float2(7, 7).y, 0);
            }
        }""", 1, 4, np.arange(16, dtype="f4"), zeros(24, "f4"), zeros(16, "u1"), np.arange(8, dtype="i4"),
        np.array([(range(4), (1, 2, 3), 0)], np.dtype([("at", "f4", 4), ("v", "f4", 3), ("pad", "f4")]))[0]),
    "a function for each combination of spaces": case("""
        __constant__ int TABLE[4] = {1, 2, 3, 4};
        __device__ int total(const int* of, int n) { int s = 0; while (n-- > 0) s += *of++; return s; }
        __device__ void copy(int* to, const int* from) { for (int i = 0; i < 4; i++) to[i] = from[i]; }
        __device__ const int* later(const int* p, int by) { const int* q = p; q += by; return q; }
        __global__ void k(int* out, const int* in) {
            __shared__ int tile[4];
            int mine[4];
            if (threadIdx.x == 0) copy(tile, in);
            __syncthreads();
            copy(mine, tile);
            copy(out + 8, mine);
            int* p;
            p = mine;
            p[0] = 10;
            const int *nothing = nullptr;
            out[0] = total(in, 4); out[1] = total(tile, 4); out[2] = total(p, 4); out[3] = total(TABLE, 4);
            out[4] = *later(in, 1); out[5] = *later(tile, 2); out[6] = later(mine, 3)[0];
            out[7] = nothing == nullptr && p != 0 && (later(p, 2) - p) == 2;
        }""", 1, 1, zeros(12), np.array([5, 6, 7, 8], "i4")),
    "references": case("""
        struct Range { int low, high; };
        __device__ void swap(int& a, int& b) { int t = a; a = b; b = t; }
        __device__ void widen(Range& r, const int& by) { r.low -= by; r.high += by; }
        __device__ void add(int& to, int n) { to += n; }
        __global__ void k(int* out, const int* in) {
            __shared__ int s;
            s = in[2];
            int a = in[0], b = in[1];
            swap(a, b);
            Range r{a, b};
            widen(r, 10); widen(r, in[2]);
            add(s, 1); add(out[4], s);
            int& alias = out[5];
            alias = a;
            alias *= 2;
            const auto& same = alias;
            out[0] = a; out[1] = b; out[2] = r.low; out[3] = r.high; out[6] = same;
        }""", 1, 1, zeros(7), np.array([3, 4, 5], "i4")),
    "structures by value": case("""
        typedef struct { float scale; int n; bool negate; double shift; char tag[3]; } Settings;
        struct Pair { int first; short second; };
        __device__ Pair make(int a, short b) { return {a, b}; }
        __global__ void k(float* x, Settings with, int* pairs) {
            int i = threadIdx.x;
            if (i < with.n) x[i] = (with.negate ? -with.scale : with.scale) * x[i] + with.shift + with.tag[2];
            Pair p = make(i, 7);
            Settings other = with;
            other.negate = 5;
            p.second += other.negate;
            pairs[i] = p.first + 1000 * p.second + 100000 * sizeof(Settings);
        }""", 1, 8, floats(8), np.array((3, 6, True, 1.5, (0, 1, 2)), SETTINGS)[()], zeros(8)),
    "bools": case("""
        __device__ bool both(bool a, bool b) { return a && b; }
        __global__ void k(bool flag, bool* flags, int* out, float f) {
            bool b = 4;
            b |= 2;
            out[0] = b + 1;
            out[1] = both(flag, 8);
            out[2] = static_cast<bool>(f) + (bool)256;
            flags[1] = 512;
            flags[2] = !flags[0];
            bool c = f;
            out[3] = c;
            out[4] = flags[0] == true;
            bool d = flag ? f : false;
            b &= d;
            out[5] = b;
        }""", 1, 1, 1, np.array([1, 0, 0], "u1"), zeros(6), 0.25),
    "functions of doubles among floats and integers": case("""
        __global__ void k(const double* in, double* out, float f, int n) {
            double x = in[0];
            out[0] = sin(x); out[1] = pow(x, 2); out[2] = sqrt(n); out[3] = fmax(f, x); out[4] = f * 0.1; out[5] = abs(-x);
            out[6] = exp(1); out[7] = __longlong_as_double(__double_as_longlong(x)); out[8] = max(f, 0.1);
        }""", 1, 1, np.array([0.3]), zeros(9, "f8"), 0.25, 2, rtol=1e-14),
    "integers of all widths": case(r"""
        #include <stdint.h>
        __global__ void k(long long* out, uint8_t b, int8_t c, unsigned short s, uint32_t u, int64_t l, char sign) {
            out[0] = b + 1; out[1] = c; out[2] = s; out[3] = u + 1u; out[4] = l * 2; out[5] = sign;
            out[6] = (unsigned char)300; out[7] = sizeof(long) * 100 + sizeof(size_t) * 10 + sizeof('a');
            out[8] = -7 / 2; out[9] = -7 % 3; out[10] = -8 >> 1; out[11] = 0xFFFFFFFF; out[12] = 010 + 0b101 + 1'000;
            out[13] = __clz(1); out[14] = __popc(0xF0F0u); out[15] = __ffs(8); out[16] = __brev(1u);
            out[17] = __mulhi(1 << 30, 8); out[18] = abs(-5); out[19] = min(3, -2); out[20] = max(3u, 4u);
            out[21] = __float2int_rn(2.5f) * 100 + __float2int_rz(2.9f) * 10 + __float2int_ru(2.1f);
            out[22] = 1LL << 40; out[23] = 'A' + '\n'; out[24] = __popcll(~0ULL); out[25] = __ffsll(1LL << 40);
            out[26] = __umulhi(1u << 31, 4u); out[27] = (int)__int2float_rn(16777217); out[28] = llabs(-3LL);
            out[29] = INT_MAX; out[30] = (short)0x18000;
        }""", 1, 1, zeros(31, "i8"), 255, -1, 65535, (1 << 32) - 1, -5, -128),
    "statements": case("""
        enum Mode { ADD, SUBTRACT = 5, OTHER };
        using number = int;
        __device__ number apply(int mode, number a, number b = 2) {
            switch (mode) {
                case ADD: { int sum = a + b; return sum; }
                case SUBTRACT:
                case SUBTRACT + 10: number difference; difference = a - b; return difference;
                default: break;
            }
            return mode == OTHER ? -1 : -2;
        }
        __global__ void k(int* out) {
            out[0] = apply(ADD, 7, 3); out[1] = apply(SUBTRACT, 7); out[2] = apply(OTHER, 1); out[3] = apply(15, 1, 1);
            int i = 0, n = 0;
            do { if (i == 3) continue; n += i; } while (++i < 6);
            out[4] = n;
            for (int a = 0, b = 10; a < b; a++, --b) out[5] += b - a;
            for (;;) { if (i-- == 0) break; }
            out[6] = i;
            while (true) { if (++i > 3) break; else if (i == 2) { i = 10; } }
            out[7] = i;
            { int i = 5; out[8] = i; }
            auto x = 3; const auto* p = out; auto q = &out[9];
            *q = x + p[8];
            int m[2][3] = {{1, 2, 3}, {4}};
            out[10] = m[0][2] * 10 + m[1][0] + m[1][2];
            int zero[4] = {}; int y{6}; int w(7);
            out[11] = zero[3] + y + w;
            const int size = 4;
            int tmp[size * 2];
            out[12] = sizeof(tmp);
            out[13] = (i = 2, i + 1);
            static_assert(sizeof(int) == 4, "int");
            (void)i;
        }""", 1, 1, zeros(14)),
    "squares<float>": case(TEMPLATES, 1, 8, floats(8), kernel="squares<float>"),
    "squares<int>": case(TEMPLATES, 1, 8, np.arange(8, dtype="i4"), kernel="squares<int>"),
    "sums<float>": case(TEMPLATES, 1, 8, 4 * floats(8), zeros(2, "f4"), kernel="sums<float, 2 * 4>"),
    "sums<long long>": case(
        TEMPLATES, 1, 4, np.arange(1 << 40, (1 << 40) + 4), zeros(2, "i8"), kernel="sums<long long, 4>"),
    "overloads": case("""
        __device__ int which(int) { return 1; }
        __device__ int which(float x) { return 2; }
        __device__ int which(int a, int b) { return 3; }
        template <typename T> __device__ int which(T* p) { return 4; }
        __global__ void k(int* out, float f) {
            out[0] = which(1); out[1] = which(f); out[2] = which(1, 2); out[3] = which(out);
        }""", 1, 1, zeros(4), 0.5),
    "names that mean something in OpenCL only": case("""
        struct local { int global; int kernel; };
        __device__ float clamp(float x, float low) { return x < low ? low : x; }
        __device__ int half_of(int private_, int pipe) { return private_ / pipe; }
        __global__ void k(int* constant, float* dot, int kernel, int* image2d_t) {
            local generic = {kernel, 2};
            int barrier = generic.global, get_local_id = half_of(barrier, generic.kernel);
            constant[threadIdx.x] = get_local_id;
            dot[0] = clamp(-1.0f, 0.5f);
            image2d_t[0] += 1;
        }""", 1, 1, zeros(1), zeros(1, "f4"), 9, zeros(1)),
    "casts of pointers": case("""
        __device__ unsigned bits(const void* p) { return *(const unsigned*)p; }
        __global__ void k(const float* in, float* out, unsigned* words) {
            const float4 v = *reinterpret_cast<const float4*>(in);
            ((float2*)out)[0] = make_float2(v.y, v.w);
            words[0] = bits(in);
            float f = 1.0f;
            words[1] = *(unsigned*)&f;
            const unsigned char* bytes = (const unsigned char*)(in + 1);
            words[2] = bytes[3];
            words[3] = reinterpret_cast<unsigned long long>(in + 1) - (size_t)in;
        }""", 1, 1, np.array([1, 2, 3, 4], "f4"), zeros(2, "f4"), zeros(4, "u4")),
    "structures that hold pointers": case("""
        struct View { float* data; int n; };
        __device__ float sum(View v) { float s = 0; for (int i = 0; i < v.n; i++) s += v.data[i]; return s; }
        __global__ void k(float* x, int n, float* out) { View v{x, n}; View w = v; w.n = 2; out[0] = sum(v); out[1] = sum(w); }
        """, 1, 1, np.array([1, 2, 3], "f4"), 3, zeros(2, "f4")),
    "the preprocessor": case("""
        #ifdef __HIP_DEVICE_COMPILE__
        #define AT(p, i) (p)[(i)]
        #endif
        #define TWICE(f, ...) f(__VA_ARGS__) + f(__VA_ARGS__)
        #define WIDE 4
        #if defined(WIDE) && WIDE > 3
        typedef long long number;
        #else
        typedef int number;
        #endif
        __device__ int add(int a, int b) { return a + b; }
        __global__ void k(int* out) { AT(out, 0) = TWICE(add, 1, 2); AT(out, 1) = sizeof(number); }
        #undef TWICE
        """, 1, 1, zeros(2)),
    "macros do not run together": case("""
        #define NEGATIVE -1
        #define MINUS(x) -x
        #define EMPTY
        #define JOIN(a, b) a##b
        __global__ void k(int* out) {
            int x = 5;
            out[0] = x -NEGATIVE; out[1] = x-MINUS(-1); out[2] = +EMPTY+ x; out[3] = JOIN(1, 2) + JOIN(x, ); out[4] = x;
        }""", 1, 1, zeros(5)),
    "constants keep their types": case("""
        template <unsigned N, bool B> __device__ int below(int a) { int size[B + 1]; return (a < N) + sizeof(size); }
        const unsigned ALL = -1;
        constexpr unsigned char BYTE = 257;
        enum { HALF = ALL / 2 > 5 ? 3 : 4 };
        __global__ void k(long long* out) {
            const bool flag = 7;
            const unsigned local = 3;
            int a[flag + 1], b[BYTE + 1], c[HALF], d[1u - 2 > 0 ? 5 : 6];
            out[0] = below<4, true>(-1); out[1] = sizeof(a) + 10 * sizeof(b) + 100 * sizeof(c) + 1000 * sizeof(d);
            out[2] = ALL; out[3] = BYTE; out[4] = local - 4; out[5] = -1 < ALL;
            switch (out[0]) { case local - 4 > 0 ? 8 : 9: out[6] = 1; }
        }""", 1, 1, zeros(7, "i8")),
    "names do not meet": case("""
        const int n = 5;
        __device__ int f(int a, int b = n) { return a + b; }
        __device__ int f_1(int n) { return f(n) * 100; }
        __global__ void k(int* out, int kernel_1) {
            int n = 1000, kernel = 1;
            { int kernel_1 = 2; kernel += kernel_1; }
            out[0] = f(n); out[1] = f_1(1); out[2] = kernel * 10 + kernel_1;
            { __shared__ int tile; tile = 3; out[3] = tile; }
            int tile = 4;
            out[4] = tile;
            int min = 7;
            out[5] = max(min, 3) + fminf(min, 8);
        }""", 1, 1, zeros(6), 5),
    "linkage and functions of both": case("""
        __host__ __device__ int twice(int a) { return 2 * a; }
        extern "C" {
        __global__ void folds(int* out, const int* in) { out[0] = twice(in[0]); }
        }""", 1, 1, zeros(1), np.array([4], "i4"), kernel="folds"),
    "side effects happen once": case("""
        __device__ int next(int* n) { return (*n)++; }
        __global__ void k(int* out, float3* v) {
            int n = 0;
            out[next(&n)] += 5;
            out[1] = min(next(&n), 7) + max(next(&n), 0) + abs(next(&n));
            bool b = next(&n);
            out[2] = n * 10 + b;
            v[next(&n) - 5] = make_float3(1, 2, 3);
            out[3] = (n++, n);
        }""", 1, 1, zeros(4), zeros(3, "f4")),
    "variables with initializers of all types": case("""
        enum enum_t { A, B = 5 };
        struct P { int a; float3 b; bool c; };
        __device__ P p = {1, {2, 3, 4}, true};
        __device__ float3 three[2] = {{1, 2, 3}, make_float3(4, 5, 6)};
        __device__ float4 four = make_float4(1, 2, 3, 4);
        __device__ int grid[2][3] = {{1, 2}, {4, 5, 6}};
        __device__ bool flag = true;
        __device__ long long wide = 1ll << 40;
        __device__ unsigned char bytes[] = {1, 2, 255};
        __device__ volatile int watched = 7, second = 8;
        static __device__ int own = 9;
        __device__ enum_t kind = B;
        __global__ void k(float* x) {
            x[0] = p.a + p.b.z + p.c; x[1] = three[1].y; x[2] = four.w; x[3] = grid[1][0] + grid[0][2]; x[4] = flag;
            x[5] = wide >> 40; x[6] = bytes[2]; x[7] = watched + second; x[8] = own; x[9] = kind;
        }""", 1, 1, zeros(10, "f4")),
    "pointers to variables": case("""
        __device__ int a[4] = {1, 2, 3, 4};
        __device__ int b[4] = {5, 6, 7, 8};
        __constant__ int c[2] = {9, 10};
        template <typename T> __device__ T second(T* p) { return p[1]; }
        __device__ void raise(int& x, int by) { x += by; }
        __global__ void k(int* n, int which) {
            __shared__ int s[2];
            s[1] = 11;
            int* p = which ? a : b;
            p[2] += 100;
            if (which) p = n;
            raise(a[0], 20);
            n[0] = *p; n[1] = second(a); n[2] = second(c); n[3] = second(s); n[4] = (int)(&a[3] - a);
            for (int i = 0; i < 4; i++) n[5 + i] = a[i], n[9 + i] = b[i];
        }""", 1, 1, zeros(13), 0),
    "variables with names of something else": case("""
        __device__ int x = 1;
        __device__ int global = 2;
        __device__ int hip_constant = 3;
        __device__ int get() { return x; }
        __global__ void k(int* n) { int y = x; { int x = 40; n[0] = x + y + get(); } n[1] = global + hip_constant; }
        """, 1, 1, zeros(2)),
    "objects with virtual functions": case("""
        struct Shape {
            int id = 1;
            __device__ virtual float area(float by) const = 0;
            __device__ virtual float sides() const { return 0; }
            __device__ virtual ~Shape() {}
        };
        struct Square : Shape {
            float a;
            __device__ Square(float a) : a(a) {}
            __device__ float area(float by) const override { return by * a * a; }
            __device__ float sides() const override { return 4; }
        };
        struct Circle final : Shape {
            float r;
            __device__ Circle(float r) : r(r) {}
            __device__ float area(float by) const override { return by * 3 * r * r; }
        };
        __global__ void k(float* x, const int* which) {
            int i = threadIdx.x;
            Square square(x[i]);
            Circle circle(x[i]);
            const Shape* shape = which[i] % 2 ? (const Shape*)&square : &circle;
            x[i] = shape->area(2) + shape->sides();
        }""", 1, 32, np.arange(32, dtype="f4"), np.arange(32, dtype="i4")),
}  # fmt: skip

# A kernel whose threads mostly return leaves the kernels after it as they are.
INDEX = "(blockIdx.x * blockDim.x + threadIdx.x)"
GUARDS = (
    f"if ({INDEX} == 0) y[0] = n;",
    f"if ({INDEX} != 0) return; y[0] = n;",
    f"if ({INDEX} < 1u) y[0] = n;",
    f"if ({INDEX} == 0 && blockIdx.y * blockDim.y + threadIdx.y == 0) y[0] = n;",
    f"int i = -(int){INDEX}; if (i < n) y[0] = n;",
    "if (n - (int)threadIdx.x < 5) y[0] = n;",
)
GUARDED = """
    __global__ void guarded(const int* x, int* y, int n) {{ {} }}
    __global__ void below(const int* x, int* y, int n) {{ int i = {}; if (i < n) y[i] = x[i] + 1; }}
    __global__ void above(const int* x, int* y, int n) {{ int i = {}; if (i > n) y[i] = x[i] + 1; }}"""
for guard in GUARDS:
    source = GUARDED.format(guard, INDEX, INDEX)
    for name in ("below", "above"):
        launch = case(source, 2, 64, np.arange(128, dtype="i4"), zeros(128), 100, kernel=name)
        KERNELS[f"{name}, after {guard}"] = launch


def test_the_same_is_left_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, KERNELS)) == []


CALLS = """
struct Pair { float a; double b; float c[3]; };
typedef float (*Op)(float, float);
typedef Pair (*Make)(const float*, int);
typedef void (*Change)(float&);
__device__ float add(float a, float b) { return a + b; }
__device__ float multiply(float a, float b) { return a * b; }
template <int N> __device__ float scaled(float a, float b) { return N * a + b; }
__device__ Pair make(const float* x, int i) { return {x[i], 2.0 * x[i], {0, 0, -x[i]}}; }
__device__ void negate(float& x) { x = -x; }
__device__ Op ops[] = {add, multiply, scaled<3>};
__device__ Op kept = multiply;
struct Table { int n; Op first; };
__device__ __attribute__((noinline)) float through(Op op, float a, float b) { return op ? op(a, b) : -1; }
extern "C" __global__ void by_pointer(float* x, const int* which, Op given, Table table) {
    int i = threadIdx.x, n = which[i];
    Make maker = n ? make : (Make) nullptr;
    Change change = n == 2 ? negate : [](float& x) { x += 1; };
    x[i] = through(n < 3 ? ops[n] : nullptr, x[i], 3) + 100 * given(1, 2) + 1000 * through(table.first, 3, 4);
    if (maker) x[i] += maker(x, i).c[2] * 2;
    change(x[i]);
}
extern "C" __global__ void ignore(Op given, int* x) { x[0] = given ? 1 : 2; }
extern "C" __global__ void choose(Op* at) { *at = ops[0]; }
"""


def test_pointers_to_functions_are_called(compiled):
    """One from a table, one that the host read from a variable and passes, one in a structure."""
    built = compiled(CALLS)
    kept = built.variable("kept", "u8").get()[0]
    assert device_data(kept)
    chosen = np.zeros(1, "u8")
    built.run("choose", 1, 1, chosen)
    assert device_data(chosen[0]) > 0
    assert device_data(chosen[0]) != kept
    table = np.array([(5, chosen[0])], np.dtype([("n", "i4"), ("first", "u8")], align=True))[0]
    given = np.zeros(1, "i4")
    built.run("ignore", 1, 1, kept, given)
    assert device_data(given) == 1
    which, x = (np.arange(32) % 4).astype("i4"), np.arange(32, dtype="f4")
    expected = np.choose(which, [x + 3, x * 3, 3 * x + 3, np.full(32, -1.0)]) + 100 * 2 + 1000 * 7
    expected = np.where(which, -expected, expected)
    built.run("by_pointer", 1, 32, x, which, kept, table)
    assert np.array_equal(device_data(x), np.where(which == 2, -expected, expected + 1))
