"""Kernels that people write, run and compared with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own")]

RNG = np.random.default_rng(7)


def floats(count):
    return RNG.random(count, dtype="f4")


def test_saxpy(compiled):
    program = compiled("""
        #include <hip/hip_runtime.h>
        extern "C" __global__ void saxpy(float a, const float* __restrict__ x, float* __restrict__ y, size_t n) {
            size_t i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = a * x[i] + y[i];
        }""")
    x, y = floats(1000), floats(1000)
    expected = np.float32(2.5) * x + y
    program.run("saxpy", 16, 64, 2.5, x, y, 1000)
    assert np.allclose(y, expected, rtol=1e-6)


def test_grid_stride_and_three_dimensions(compiled):
    program = compiled("""
        __global__ void where(int* out) {
            int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
            int z = threadIdx.z + blockIdx.z * blockDim.z;
            int at = x + gridDim.x * blockDim.x * (y + gridDim.y * blockDim.y * z);
            out[at] = x + 100 * y + 10000 * z;
        }
        __global__ void stride(int* out, int n) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] += i;
        }""")
    out = np.zeros((4, 6, 8), "i4")
    program.run("where", (2, 3, 4), (4, 2, 1), out)
    z, y, x = np.indices(out.shape)
    assert (out == x + 100 * y + 10000 * z).all()
    out = np.zeros(1000, "i4")
    program.run("stride", 3, 7, out, 1000)
    assert (out == np.arange(1000)).all()


REDUCTION = """
    #define BLOCK 64
    __device__ __forceinline__ void fold(volatile float* of, int by, int at) { if (at < by) of[at] += of[at + by]; }
    extern "C" __global__ void __launch_bounds__(BLOCK) reduce(const float *in, float *out, int n) {
        __shared__ float part[BLOCK];
        unsigned int at = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + at;
        float mine = (i < n) ? in[i] : 0.0f;
        if (i + blockDim.x < n) mine += in[i + blockDim.x];
        part[at] = mine;
        __syncthreads();
        for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
            fold(part, s, at);
            __syncthreads();
        }
        if (at == 0) out[blockIdx.x] = part[0];
    }"""


def test_reduction_in_shared_memory(compiled):
    program = compiled(REDUCTION)
    x, sums = floats(1000), np.zeros(8, "f4")
    program.run("reduce", 8, 64, x, sums, 1000)
    assert np.allclose(sums, np.pad(x, (0, 24)).reshape(8, 128).sum(1), rtol=1e-5)


def test_reduction_in_dynamic_shared_memory(compiled):
    program = compiled("""
        extern __shared__ double everywhere[];
        __device__ void put(int at, float value) { everywhere[at] = value; }
        __global__ void reduce(const float* in, double* out) {
            extern __shared__ double part[];
            put(threadIdx.x, in[blockIdx.x * blockDim.x + threadIdx.x]);
            __syncthreads();
            for (int s = blockDim.x / 2; s > 0; s /= 2) {
                if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
                __syncthreads();
            }
            if (!threadIdx.x) out[blockIdx.x] = part[0];
        }""")
    assert program.kernels["reduce"].dynamic_shared
    x, sums = floats(512), np.zeros(8, "f8")
    program.run("reduce", 8, 64, x, sums, shared=64 * 8)
    assert np.allclose(sums, x.reshape(8, 64).sum(1, dtype="f8"))


def test_shared_memory_of_a_device_function(compiled):
    # one object for the kernel, whichever function declares it
    program = compiled("""
        __device__ int sum_of_block(int mine) {
            static __shared__ int room[32];
            room[threadIdx.x] = mine;
            __syncthreads();
            int sum = 0;
            for (int i = 0; i < 32; ++i) sum += room[i];
            return sum + (int)(sizeof(room) / sizeof(room[0])) - 32;
        }
        __device__ int deeper(int mine) { return sum_of_block(mine); }
        __global__ void sums(int* out) { { out[threadIdx.x] = deeper(threadIdx.x); } }""")
    out = np.zeros(32, "i4")
    program.run("sums", 1, 32, out)
    assert (out == 31 * 16).all()


def test_transposition_with_a_tile(compiled):
    program = compiled(
        """
        constexpr int TILE = 8;
        __device__ void store(float (to)[][TILE + 1], int y, int x, float value) { to[y][x] = value; }
        __global__ void transpose(float* out, const float* in, int width, int height) {
            __shared__ float tile[TILE][TILE + 1];
            int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
            store(tile, threadIdx.y, threadIdx.x, in[y * width + x]);
            __syncthreads();
            x = blockIdx.y * TILE + threadIdx.x;
            y = blockIdx.x * TILE + threadIdx.y;
            out[y * height + x] = tile[threadIdx.x][threadIdx.y];
        }""".replace("(to)", "to")
    )
    x = floats(24 * 16).reshape(16, 24)
    out = np.zeros((24, 16), "f4")
    program.run("transpose", (3, 2), (8, 8), out, x, 24, 16)
    assert (out == x.T).all()


def test_stencil_with_constants(compiled):
    program = compiled("""
        __constant__ float weights[3] = {0.25f, 0.5f, 0.25f};
        static const float SCALE = 2.0f;
        const float TWICE = SCALE * 2;
        __global__ void blur(const float* in, float* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            float sum = 0;
            #pragma unroll
            for (int k = -1; k <= 1; k++) {
                int j = min(max(i + k, 0), n - 1);
                sum += weights[k + 1] * in[j];
            }
            out[i] = sum * TWICE;
        }""")
    x, out = floats(100), np.zeros(100, "f4")
    program.run("blur", 2, 64, x, out, 100)
    p = np.pad(x, 1, mode="edge")
    assert np.allclose(out, 4 * (0.25 * p[:-2] + 0.5 * p[1:-1] + 0.25 * p[2:]), rtol=1e-6)


def test_histogram(compiled):
    program = compiled("""
        __global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
            __shared__ unsigned int mine[256];
            for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
            __syncthreads();
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
                atomicAdd(&mine[data[i]], 1u);
            __syncthreads();
            for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(bins + i, mine[i]);
        }""")
    data = RNG.integers(0, 256, 5000, dtype="u1")
    bins = np.zeros(256, "u4")
    program.run("histogram", 4, 64, data, bins, 5000)
    assert (bins == np.bincount(data, minlength=256)).all()


def test_atomic_operations(compiled):
    program = compiled("""
        __global__ void all(int* a, float* f, unsigned* w) {
            __shared__ float sum;
            if (threadIdx.x == 0) sum = 0;
            __syncthreads();
            atomicAdd(&a[0], 3); atomicSub(&a[1], 2); atomicMin(&a[2], (int)threadIdx.x - 5); atomicMax(a + 3, threadIdx.x);
            atomicAnd(&a[4], ~(1 << (threadIdx.x % 31))); atomicOr(&a[5], 1 << (threadIdx.x % 31));
            atomicXor(&a[6], 5 + threadIdx.x);
            int seen = a[7], was;
            do { was = seen; seen = atomicCAS(&a[7], was, was + 2); } while (seen != was);
            atomicExch(&a[8], 77);
            atomicAdd(&sum, 0.5f);
            atomicAdd(f, 0.25f); atomicSub(f + 1, 0.25f); atomicExch(f + 2, 1.5f);
            atomicInc(w, 9); atomicDec(w + 1, 9);
            __syncthreads();
            if (threadIdx.x == 0) f[3] = sum;
        }""")
    a = np.array([0, 0, 100, -100, -1, 0, 0, 0, 0], "i4")
    f, w = np.zeros(4, "f4"), np.zeros(2, "u4")
    program.run("all", 1, 64, a, f, w)
    xor = int(np.bitwise_xor.reduce(np.arange(5, 69)))
    assert a.tolist() == [192, -128, -5, 63, -1 << 31, (1 << 31) - 1, xor, 128, 77]
    assert f.tolist() == [16, -16, 1.5, 32]
    assert w.tolist() == [64 % 10, -64 % 10]


@pytest.mark.executes
@pytest.mark.needs("atomics on 64 bits", "doubles")
def test_atomic_operations_on_64_bits(compiled):
    program = compiled("""
        __global__ void all(unsigned long long* a, double* d) {
            atomicAdd(a, 1ULL << 32); atomicMax(a + 1, (unsigned long long)threadIdx.x); atomicAdd(d, 0.5);
            atomicCAS(a + 2, 0ull, 5ull);
        }""")
    a, d = np.zeros(3, "u8"), np.zeros(1)
    program.run("all", 1, 64, a, d)
    assert a.tolist() == [64 << 32, 63, 5]
    assert d[0] == 32


def test_vectors(compiled):
    program = compiled("""
        __device__ float dot(const float4& a, const float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
        __global__ void vectors(const float4* in, float4* out, float* dots, int2* pairs) {
            int i = threadIdx.x;
            float4 v = in[i];
            float4 w = make_float4(1, 2.0, v.x, -v.y);
            w += v * 2;
            w.z -= 1.0f;
            out[i] = -w;
            dots[i] = dot(v, float4{1, 1, 1, 1}) + dot(make_float4(0, 0, 0, 1), v);
            int2 p = {i, 7};
            p.y += p.x;
            pairs[i] = p;
        }""")
    x = floats(32).reshape(8, 4)
    out, dots, pairs = np.zeros((8, 4), "f4"), np.zeros(8, "f4"), np.zeros((8, 2), "i4")
    program.run("vectors", 1, 8, x, out, dots, pairs)
    w = np.stack([1 + 0 * x[:, 0], 2 + 0 * x[:, 0], x[:, 0], -x[:, 1]], 1) + 2 * x
    w[:, 2] -= 1
    assert np.allclose(out, -w)
    assert np.allclose(dots, x.sum(1) + x[:, 3])
    assert (pairs == np.stack([np.arange(8), np.arange(8) + 7], 1)).all()


def test_vectors_of_three_have_hips_layout(compiled):
    program = compiled("""
        struct Body { float3 position; float mass; };
        __constant__ float3 UP = {0, 0, 1};
        __device__ float3 scaled(float3 v, float by) { return make_float3(v.x * by, v.y * by, v.z * by); }
        __device__ void push(float3* v) { v->x += 100; }
        __global__ void step(Body* bodies, const float3* velocity, float dt, float3 drift, int* sizes) {
            int i = threadIdx.x;
            float3 p = bodies[i].position;
            p += velocity[i] * dt + drift;
            p = (i % 2) ? p : p + UP;
            push(&p);
            bodies[i].position = scaled(p, 2);
            float3 row[2] = {{1, 2, 3}, make_float3(4, 5, 6)};
            bodies[i].mass += row[1].y;
            sizes[0] = sizeof(float3); sizes[1] = sizeof(Body); sizes[2] = sizeof(row); sizes[3] = sizeof(float4);
        }""")
    assert [p.nbytes for p in program.kernels["step"].parameters] == [8, 8, 4, 12, 8]
    bodies, velocity, sizes = floats(40).reshape(10, 4), floats(30).reshape(10, 3), np.zeros(4, "i4")
    before = bodies.copy()
    drift = np.array([(1, 2, 3)], "f4,f4,f4")[0]
    program.run("step", 1, 10, bodies, velocity, 0.5, drift, sizes)
    p = before[:, :3] + velocity * np.float32(0.5) + [1, 2, 3]
    p[::2, 2] += 1
    p[:, 0] += 100
    assert np.allclose(bodies[:, :3], 2 * p)
    assert np.allclose(bodies[:, 3], before[:, 3] + 5)
    assert sizes.tolist() == [12, 16, 24, 16]


def test_a_function_is_copied_for_each_combination_of_spaces(compiled):
    program = compiled("""
        __constant__ int TABLE[4] = {1, 2, 3, 4};
        __device__ int total(const int* of, int n) { int s = 0; while (n-- > 0) s += *of++; return s; }
        __device__ void copy(int* to, const int* from) { for (int i = 0; i < 4; i++) to[i] = from[i]; }
        __device__ const int* later(const int* p, int by) { const int* q = p; q += by; return q; }
        __global__ void spaces(int* out, const int* in) {
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
        }""")
    out = np.zeros(12, "i4")
    program.run("spaces", 1, 1, out, np.array([5, 6, 7, 8], "i4"))
    assert out.tolist() == [26, 26, 31, 10, 6, 7, 8, 1, 5, 6, 7, 8]


def test_references(compiled):
    program = compiled("""
        struct Range { int low, high; };
        __device__ void swap(int& a, int& b) { int t = a; a = b; b = t; }
        __device__ void widen(Range& r, const int& by) { r.low -= by; r.high += by; }
        __device__ void add(int& to, int n) { to += n; }
        __global__ void references(int* out, const int* in) {
            __shared__ int s;
            s = in[2];
            int a = in[0], b = in[1];
            swap(a, b);
            Range r{a, b};
            widen(r, 10);
            widen(r, in[2]);
            add(s, 1);
            add(out[4], s);
            int& alias = out[5];
            alias = a;
            alias *= 2;
            const auto& same = alias;
            out[0] = a; out[1] = b; out[2] = r.low; out[3] = r.high; out[6] = same;
        }""")
    out = np.zeros(7, "i4")
    program.run("references", 1, 1, out, np.array([3, 4, 5], "i4"))
    assert out.tolist() == [4, 3, 4 - 15, 3 + 15, 6, 8, 8]


def test_structures_by_value(compiled):
    program = compiled("""
        typedef struct { float scale; int n; bool negate; double shift; char tag[3]; } Settings;
        struct Pair { int first; short second; };
        __device__ Pair make(int a, short b) { return {a, b}; }
        __global__ void apply(float* x, Settings with, Pair* pairs) {
            int i = threadIdx.x;
            if (i < with.n) x[i] = (with.negate ? -with.scale : with.scale) * x[i] + with.shift + with.tag[2];
            Pair p = make(i, 7);
            Settings other = with;
            other.negate = 5;
            p.second += other.negate;
            pairs[i] = p;
        }""")
    kind = np.dtype([("scale", "f4"), ("n", "i4"), ("negate", "?"), ("shift", "f8"), ("tag", "i1", 3)], align=True)
    assert program.kernels["apply"].parameters[1].nbytes == kind.itemsize
    x, pairs = floats(8), np.zeros(8, np.dtype([("a", "i4"), ("b", "i2")], align=True))
    expected = x.copy()
    expected[:6] = np.float32(-3) * x[:6] + 1.5 + 2
    program.run("apply", 1, 8, x, np.array((3, 6, True, 1.5, (0, 1, 2)), kind), pairs)
    assert np.allclose(x, expected)
    assert pairs["a"].tolist() == list(range(8))
    assert set(pairs["b"]) == {8}


def test_bools(compiled):
    program = compiled("""
        __device__ bool both(bool a, bool b) { return a && b; }
        __global__ void bools(bool flag, bool* flags, int* out, float f) {
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
        }""")
    flags, out = np.array([True, False, False]), np.zeros(6, "i4")
    program.run("bools", 1, 1, 1, flags.view("u1"), out, 0.25)
    assert out.tolist() == [2, 1, 2, 1, 1, 1]
    assert flags.view("u1").tolist() == [1, 1, 0]


MATH = {
    "sinf(x)": np.sin, "cosf(x)": np.cos, "__sinf(x)": np.sin, "tanhf(x)": np.tanh, "expf(x)": np.exp, "__expf(x)": np.exp,
    "logf(x + 1)": lambda x: np.log(x + 1), "log2f(x + 1)": lambda x: np.log2(x + 1), "sqrtf(x)": np.sqrt, "sqrt(x)": np.sqrt,
    "rsqrtf(x + 1)": lambda x: 1 / np.sqrt(x + 1), "powf(x, 3)": lambda x: x**3, "fabsf(-x)": np.abs, "floorf(x * 9)":
    lambda x: np.floor(x * 9), "roundf(x * 9)": lambda x: np.floor(x * 9 + 0.5), "rintf(x * 9)": lambda x: np.rint(x * 9),
    "fmaxf(x, 0.5)": lambda x: np.maximum(x, 0.5), "fminf(x, 0.5f)": lambda x: np.minimum(x, 0.5), "max(x, 0.5f)":
    lambda x: np.maximum(x, 0.5), "fmaf(x, 2, 1)": lambda x: 2 * x + 1, "atan2f(x, 2.0f)": lambda x: np.arctan2(x, 2),
    "hypotf(x, 2)": lambda x: np.hypot(x, 2), "fmodf(x * 9, 2)": lambda x: np.fmod(x * 9, 2), "__fdividef(x, 3)": lambda x: x / 3,
    "__saturatef(x * 3 - 1)": lambda x: np.clip(x * 3 - 1, 0, 1), "abs(x - 1)": lambda x: np.abs(x - 1),
    "(float)isnan(x)": lambda x: 0 * x, "ldexpf(x, 3)": lambda x: 8 * x, "exp2f(x)": np.exp2, "cbrtf(x)": np.cbrt,
    "x * M_PI": lambda x: x * np.pi, "copysignf(x, -1)": lambda x: -x, "__int_as_float(__float_as_int(x))": lambda x: x,
}  # fmt: skip


def test_math_of_floats(compiled):
    lines = "\n".join(f"out[{i} * n + i] = {expression};" for i, expression in enumerate(MATH))
    program = compiled(f"""
        __global__ void math(const float* in, float* out, int n) {{
            int i = threadIdx.x;
            float x = in[i];
            {lines}
        }}""")
    x = floats(64)
    out = np.zeros((len(MATH), 64), "f4")
    program.run("math", 1, 64, x, out, 64)
    for row, (expression, expected) in zip(out, MATH.items(), strict=True):
        assert np.allclose(row, expected(x.astype("f8")), rtol=1e-5, atol=1e-6), expression


def test_results_behind_pointers(compiled):
    program = compiled("""
        __global__ void parts(const float* in, float* out) {
            float s, c, whole;
            int exponent;
            sincosf(in[0], &s, &c);
            out[0] = s; out[1] = c;
            out[2] = modff(2.75f, &whole);
            out[3] = whole;
            out[4] = frexpf(8.0f, &exponent) + exponent;
            sincosf(in[0], out + 5, &out[6]);
        }""")
    out = np.zeros(7, "f4")
    program.run("parts", 1, 1, np.array([0.5], "f4"), out)
    s, c = np.sin(0.5), np.cos(0.5)
    assert np.allclose(out, [s, c, 0.75, 2, 4.5, s, c])


@pytest.mark.needs("doubles")
def test_math_of_doubles(compiled):
    program = compiled("""
        __global__ void math(const double* in, double* out, float f, int n) {
            double x = in[0];
            out[0] = sin(x); out[1] = pow(x, 2); out[2] = sqrt(n); out[3] = fmax(f, x); out[4] = f * 0.1; out[5] = abs(-x);
            out[6] = exp(1); out[7] = __longlong_as_double(__double_as_longlong(x)); out[8] = max(f, 0.1);
        }""")
    out = np.zeros(9)
    program.run("math", 1, 1, np.array([0.3]), out, np.float32(0.25), 2)
    assert np.allclose(out, [np.sin(0.3), 0.09, 2**0.5, 0.3, 0.025, 0.3, np.e, 0.3, 0.25], rtol=1e-14)
