"""What kernels have from forebay's headers and passes: vectors, parameters, variables; the same is left as on the host."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "atomics on 64 bits")

RNG = np.random.default_rng(8)
SETTINGS = np.dtype([("scale", "f4"), ("n", "i4"), ("negate", "?"), ("shift", "f8"), ("tag", "i1", 3)], align=True)


def floats(count):
    return RNG.random(count, dtype="f4")


def zeros(count, dtype="i4"):
    return np.zeros(count, dtype)


KERNELS = {
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
    "integers of all widths": case("""
        #include <stdint.h>
        __global__ void k(long long* out, uint8_t b, int8_t c, unsigned short s, uint32_t u, int64_t l, char sign) {
            out[0] = b + 1; out[1] = c; out[2] = s; out[3] = u + 1u; out[4] = l * 2; out[5] = sign;
        }""", 1, 1, zeros(6, "i8"), 255, -1, 65535, (1 << 32) - 1, -5, -128),
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
