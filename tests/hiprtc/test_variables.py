"""Variables at file scope in HIP C++."""

import numpy as np
import pytest

from forebay import hiprtc
from forebay.hiprtc.code import unpack_code

from .test_api import OK, code_of, create, log_of

pytestmark = pytest.mark.executes


def test_a_counter(compiled):
    program = compiled("""
        __device__ unsigned int count;
        __device__ void bump(unsigned int* c) { atomicAdd(c, 1u); }
        __global__ void tally(const int* x, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n && x[i] > 2) bump(&count);
        }""")
    x = np.arange(100, dtype="i4")
    program.run("tally", 2, 64, x, 100)
    program.run("tally", 2, 64, x, 100)
    assert program.variable("count", "u4").get(queue=program.queue).tolist() == [2 * 97]


TYPES = """
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
    __global__ void all(float* x) {
        x[0] = p.a + p.b.z + p.c; x[1] = three[1].y; x[2] = four.w; x[3] = grid[1][0] + grid[0][2]; x[4] = flag;
        x[5] = wide >> 40; x[6] = bytes[2]; x[7] = watched + second; x[8] = own; x[9] = kind;
    }"""


def test_types_and_initializers(compiled):
    program = compiled("enum enum_t { A, B = 5 };" + TYPES)
    x = np.zeros(10, "f4")
    program.run("all", 1, 1, x)
    assert x.tolist() == [6, 5, 4, 4, 1, 1, 255, 15, 9, 5]
    sizes = {each.name: each.nbytes for each in program.made.variables}
    assert sizes == {"p": 20, "three": 24, "four": 16, "grid": 24, "flag": 1, "wide": 8, "bytes": 3, "watched": 4,
                     "second": 4, "own": 4, "kind": 4}  # fmt: skip
    for name in sizes:
        assert program.variable(name, "u1").nbytes == sizes[name]
    assert program.variable("three", "f4").get(queue=program.queue).tolist() == [1, 2, 3, 4, 5, 6]


def test_the_host_sets_constants(compiled):
    program = compiled("""
        __constant__ float weights[3];
        __constant__ float offset = 1;
        __device__ float sum(const float* w, int n) { float s = 0; for (int i = 0; i < n; i++) s += w[i]; return s; }
        __global__ void blur(float* x) { x[0] = sum(weights, 3) + offset; x[1] = sum(x + 2, 2); }""")
    x = np.array([0, 0, 1, 2], "f4")
    program.run("blur", 1, 1, x)
    assert x.tolist() == [1, 3, 1, 2]
    program.variable("weights", "f4").set([10, 20, 30], queue=program.queue)
    program.run("blur", 1, 1, x)
    assert x.tolist() == [61, 3, 1, 2]
    program.variable("offset", "f4").set([5], queue=program.queue)
    program.run("blur", 1, 1, x)
    assert x.tolist() == [65, 3, 1, 2]


def test_pointers_to_variables(compiled):
    program = compiled("""
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
        }""")
    n = np.zeros(5, "i4")
    program.run("k", 1, 1, n, 0)
    assert n.tolist() == [5, 2, 10, 11, 3]
    assert program.variable("b", "i4").get(queue=program.queue).tolist() == [5, 6, 107, 8]
    assert program.variable("a", "i4").get(queue=program.queue).tolist() == [21, 2, 3, 4]


def test_names_that_mean_something_else_where_they_are_declared_again(compiled):
    program = compiled("""
        __device__ int x = 1;
        __device__ int global = 2;
        __device__ int hip_constant = 3;
        __device__ int get() { return x; }
        __global__ void k(int* n) { int y = x; { int x = 40; n[0] = x + y + get(); } n[1] = global + hip_constant; }""")
    n = np.zeros(2, "i4")
    program.run("k", 1, 1, n)
    assert n.tolist() == [42, 5]


CONSTANTS = "__constant__ float w[2] = {1, 2}; __global__ void k(float* x) { x[0] = w[1]; }"


def test_constants_with_a_value_need_no_variables(compiled, device):
    """On every device; whether the host can set them depends on it."""
    program = compiled(CONSTANTS)
    x = np.zeros(1, "f4")
    program.run("k", 1, 1, x)
    assert x.tolist() == [2]


# -- name expressions


@pytest.mark.needs("a compiler of HIP C++")
def test_name_expressions_of_variables(device, monkeypatch):
    monkeypatch.setattr(hiprtc.api, "_current_device", lambda: device)
    prog = create(b"__constant__ int a[2] = {1, 2}; __global__ void k(int* n) { n[0] = a[1]; }")
    for name in (b"&a", b"k"):
        assert hiprtc.hiprtcAddNameExpression(prog, name) == (OK,)
    assert hiprtc.hiprtcCompileProgram(prog, 0, None) == (OK,), log_of(prog)
    result, lowered = hiprtc.hiprtcGetLoweredName(prog, b"&a")
    code = unpack_code(code_of(prog))
    assert result == OK
    assert code.find_variable(lowered.decode()).name == "a"
    result, lowered = hiprtc.hiprtcGetLoweredName(prog, b"k")
    assert result == OK
    assert code.find(lowered.decode()).name == "k"
