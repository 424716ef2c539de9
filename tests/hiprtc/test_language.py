"""Constructs of the language, run and compared with what C++ says."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own")]

RNG = np.random.default_rng(8)


def floats(count):
    return RNG.random(count, dtype="f4")


def test_integers_of_all_widths(compiled):
    program = compiled(r"""
        #include <stdint.h>
        __global__ void widths(long long* out, uint8_t b, int8_t c, unsigned short s, uint32_t u, int64_t l, char sign) {
            out[0] = b + 1; out[1] = c; out[2] = s; out[3] = u + 1u; out[4] = l * 2; out[5] = sign;
            out[6] = (unsigned char)300; out[7] = sizeof(long) * 100 + sizeof(size_t) * 10 + sizeof('a');
            out[8] = -7 / 2; out[9] = -7 % 3; out[10] = -8 >> 1; out[11] = 0xFFFFFFFF; out[12] = 010 + 0b101 + 1'000;
            out[13] = __clz(1); out[14] = __popc(0xF0F0u); out[15] = __ffs(8); out[16] = __brev(1u);
            out[17] = __mulhi(1 << 30, 8); out[18] = abs(-5); out[19] = min(3, -2); out[20] = max(3u, 4u);
            out[21] = __float2int_rn(2.5f) * 100 + __float2int_rz(2.9f) * 10 + __float2int_ru(2.1f);
            out[22] = 1LL << 40; out[23] = 'A' + '\n'; out[24] = __popcll(~0ULL); out[25] = __ffsll(1LL << 40);
            out[26] = __umulhi(1u << 31, 4u); out[27] = (int)__int2float_rn(16777217); out[28] = llabs(-3LL);
            out[29] = INT_MAX; out[30] = (short)0x18000;
        }""")
    out = np.zeros(31, "i8")
    program.run("widths", 1, 1, out, 255, -1, 65535, (1 << 32) - 1, -5, -128)
    assert out.tolist() == [
        256, -1, 65535, 0, -10, -128, 44, 881, -3, -1, -4, (1 << 32) - 1, 8 + 5 + 1000, 31, 8, 4, 1 << 31, 2, 5, -2, 4, 223,
        1 << 40, 75, 64, 41, 2, 16777216, 3, (1 << 31) - 1, -32768,
    ]  # fmt: skip


def test_statements(compiled):
    program = compiled("""
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
        __global__ void statements(int* out) {
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
        }""")
    out = np.zeros(14, "i4")
    program.run("statements", 1, 1, out)
    assert out.tolist() == [10, 5, -1, 0, 12, 10 + 8 + 6 + 4 + 2, -1, 11, 5, 8, 34, 13, 32, 3]


def test_templates(compiled):
    source = """
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
    program = compiled(source, names=["squares<float>", "squares<int>", "sums<float, 2 * 4>", "sums<long long, 4>"])
    x = floats(8)
    expected = x * x
    program.run("squares<float>", 1, 8, x)
    assert (x == expected).all()
    y = np.arange(8, dtype="i4")
    program.run("squares<int>", 1, 8, y)
    assert y.tolist() == [i * i for i in range(8)]
    out = np.zeros(2, "f4")
    program.run("sums<float, 2 * 4>", 1, 8, 4 * x, out)
    assert np.allclose(out, [4 * x.sum(), int(4 * x[:2].sum())])
    wide = np.zeros(2, "i8")
    program.run("sums<long long, 4>", 1, 4, np.arange(1 << 40, (1 << 40) + 4), wide)
    assert wide.tolist() == [4 * (1 << 40) + 6, ((2 << 40) + 1) - (1 << 41)]


def test_overloads(compiled):
    program = compiled("""
        __device__ int which(int) { return 1; }
        __device__ int which(float x) { return 2; }
        __device__ int which(int a, int b) { return 3; }
        template <typename T> __device__ int which(T* p) { return 4; }
        __global__ void overloads(int* out, float f) {
            out[0] = which(1); out[1] = which(f); out[2] = which(1, 2); out[3] = which(out);
        }""")
    out = np.zeros(4, "i4")
    program.run("overloads", 1, 1, out, 0.5)
    assert out.tolist() == [1, 2, 3, 4]


def test_names_that_mean_something_in_opencl_only(compiled):
    program = compiled("""
        struct local { int global; int kernel; };
        __device__ float clamp(float x, float low) { return x < low ? low : x; }
        __device__ int half_of(int private_, int pipe) { return private_ / pipe; }
        __global__ void step(int* constant, float* dot, int kernel) {
            local generic = {kernel, 2};
            int barrier = generic.global, get_local_id = half_of(barrier, generic.kernel);
            constant[threadIdx.x] = get_local_id;
            dot[0] = clamp(-1.0f, 0.5f);
        }
        __global__ void add(int* image2d_t) { image2d_t[0] += 1; }""")
    out, dot = np.zeros(1, "i4"), np.zeros(1, "f4")
    program.run("step", 1, 1, out, dot, 9)
    program.run("add", 1, 1, out)
    assert (out[0], dot[0]) == (5, 0.5)


def test_casts_of_pointers(compiled):
    program = compiled(
        """
        __device__ unsigned bits(const void* p) { return *static_cast<const unsigned*>(p); }
        __global__ void casts(const float* in, float* out, unsigned* words) {
            const float4 v = *reinterpret_cast<const float4*>(in);
            ((float2*)out)[0] = make_float2(v.y, v.w);
            words[0] = bits(in);
            float f = 1.0f;
            words[1] = *(unsigned*)&f;
            const unsigned char* bytes = (const unsigned char*)(in + 1);
            words[2] = bytes[3];
            words[3] = reinterpret_cast<unsigned long long>(in + 1) - (size_t)in;
        }""".replace("static_cast<const unsigned*>(p)", "(const unsigned*)p")
    )
    x, out, words = np.array([1, 2, 3, 4], "f4"), np.zeros(2, "f4"), np.zeros(4, "u4")
    program.run("casts", 1, 1, x, out, words)
    assert out.tolist() == [2, 4]
    assert words.tolist() == [0x3F800000, 0x3F800000, 0x40, 4]


def test_structures_that_hold_pointers(compiled):
    program = compiled("""
        struct View { float* data; int n; };
        __device__ float sum(View v) { float s = 0; for (int i = 0; i < v.n; i++) s += v.data[i]; return s; }
        __global__ void sums(float* x, int n, float* out) { View v{x, n}; View w = v; w.n = 2; out[0] = sum(v); out[1] = sum(w); }
    """)
    out = np.zeros(2, "f4")
    program.run("sums", 1, 1, np.array([1, 2, 3], "f4"), 3, out)
    assert out.tolist() == [6, 3]


def test_the_preprocessor(compiled):
    program = compiled("""
        #ifdef __HIP_DEVICE_COMPILE__
        #define AT(p, i) (p)[(i)]
        #endif
        #define TWICE(f, ...) f(__VA_ARGS__) + f(__VA_ARGS__)
        #if defined(WIDE) && WIDE > 3
        typedef long long number;
        #else
        typedef int number;
        #endif
        __device__ int add(int a, int b) { return a + b; }
        __global__ void f(int* out) { AT(out, 0) = TWICE(add, 1, 2); AT(out, 1) = sizeof(number); AT(out, 2) = VALUE; }
    """, options=["-DWIDE=4", "-DVALUE=(1 + 2)"])  # fmt: skip
    out = np.zeros(3, "i4")
    program.run("f", 1, 1, out)
    assert out.tolist() == [6, 8, 3]


def test_the_kernel_of_hip_pythons_jacobi_example_has_these_parts(compiled):
    # a constant local variable as an array's size, and a double that initializes a float
    program = compiled("""
        extern "C" __global__
        //__launch_bounds__(DEFAULT_BLOCK_SIZE, 3)
        void residual(float* x, float* A, float* b, int n) {
            int row = blockIdx.x * blockDim.x + threadIdx.x;
            float sigma = 0.0;
            const int step = 8;
            for (int i = 0; i < n; i += step) {
                float tmp[step];
                for (int j = 0; j < step; j++) tmp[j] = A[row * n + i + j];
                for (int j = 0; j < step; j++) { if (row != i + j) sigma += tmp[j]; }
            }
            x[row] = (b[row] - sigma) / A[row * n + row];
        }""")
    a, b, x = floats(256).reshape(16, 16), floats(16), np.zeros(16, "f4")
    program.run("residual", 2, 8, x, a, b, 16)
    assert np.allclose(x, (b - (a.sum(1) - a.diagonal())) / a.diagonal(), rtol=1e-4)


def test_constants_keep_their_types(compiled):
    program = compiled("""
        template <unsigned N, bool B> __device__ int below(int a) { int size[B + 1]; return (a < N) + sizeof(size); }
        const unsigned ALL = -1;
        constexpr unsigned char BYTE = 257;
        enum { HALF = ALL / 2 > 5 ? 3 : 4 };
        __global__ void constants(long long* out) {
            const bool flag = 7;
            const unsigned local = 3;
            int a[flag + 1], b[BYTE + 1], c[HALF], d[1u - 2 > 0 ? 5 : 6];
            out[0] = below<4, true>(-1); out[1] = sizeof(a) + 10 * sizeof(b) + 100 * sizeof(c) + 1000 * sizeof(d);
            out[2] = ALL; out[3] = BYTE; out[4] = local - 4; out[5] = -1 < ALL;
            switch (out[0]) { case local - 4 > 0 ? 8 : 9: out[6] = 1; }
        }""")
    out = np.zeros(7, "i8")
    program.run("constants", 1, 1, out)
    assert out.tolist() == [8, 8 + 80 + 1200 + 20000, (1 << 32) - 1, 1, (1 << 32) - 1, 0, 1]


def test_names_do_not_meet(compiled):
    program = compiled("""
        const int n = 5;
        __device__ int f(int a, int b = n) { return a + b; }
        __device__ int f_1(int n) { return f(n) * 100; }
        __global__ void names(int* out, int kernel_1) {
            int n = 1000, kernel = 1;
            { int kernel_1 = 2; kernel += kernel_1; }
            out[0] = f(n); out[1] = f_1(1); out[2] = kernel * 10 + kernel_1;
            { __shared__ int tile; tile = 3; out[3] = tile; }
            int tile = 4;
            out[4] = tile;
            int min = 7;
            out[5] = max(min, 3) + fminf(min, 8);
        }""")
    out = np.zeros(6, "i4")
    program.run("names", 1, 1, out, 5)
    assert out.tolist() == [1005, 600, 35, 3, 4, 14]


def test_linkage_and_host_device(compiled):
    program = compiled("""
        __host__ __device__ int twice(int a) { return 2 * a; }
        extern "C" {
        __global__ void folds(int* out, const int* in) { out[0] = twice(in[0]); }
        }""")
    out = np.zeros(1, "i4")
    program.run("folds", 1, 1, out, np.array([4], "i4"))
    assert out[0] == 8


def test_side_effects_happen_once(compiled):
    program = compiled("""
        __device__ int next(int* n) { return (*n)++; }
        __global__ void effects(int* out, float3* v) {
            int n = 0;
            out[next(&n)] += 5;
            out[1] = min(next(&n), 7) + max(next(&n), 0) + abs(next(&n));
            bool b = next(&n);
            out[2] = n * 10 + b;
            v[next(&n) - 5] = make_float3(1, 2, 3);
            out[3] = (n++, n);
        }""")
    out, v = np.zeros(4, "i4"), np.zeros(3, "f4")
    program.run("effects", 1, 1, out, v)
    assert out.tolist() == [5, 1 + 2 + 3, 51, 7]
    assert v.tolist() == [1, 2, 3]


def test_macros_do_not_run_together(compiled):
    # a preprocessor that writes text makes x--1 of the first
    program = compiled("""
        #define NEGATIVE -1
        #define MINUS(x) -x
        #define EMPTY
        #define JOIN(a, b) a##b
        __global__ void macros(int* out) {
            int x = 5;
            out[0] = x -NEGATIVE; out[1] = x-MINUS(-1); out[2] = +EMPTY+ x; out[3] = JOIN(1, 2) + JOIN(x, ); out[4] = x;
        }""")
    out = np.zeros(5, "i4")
    program.run("macros", 1, 1, out)
    assert out.tolist() == [6, 4, 5, 17, 5]
