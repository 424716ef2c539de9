"""Variables at file scope in HIP C++."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

TYPES = """
    struct P { int a; float3 b; bool c; };
    __device__ P p;
    __device__ float3 three[2] = {{1, 2, 3}, make_float3(4, 5, 6)};
    __device__ int grid[2][3];
    __device__ bool flag;
    __device__ unsigned char bytes[] = {1, 2, 255};
    __device__ volatile int watched = 7, second = 8;
    static __device__ int own = 9;
    __device__ enum { A, B = 5 } kind;
    __global__ void all(float* x) {
        x[0] = p.a + three[1].y + grid[1][0] + flag + bytes[2] + watched + second + own + kind;
    }"""


def test_sizes(compiled):
    program = compiled(TYPES)
    sizes = {each.name: program.variable(each.name, "u1").nbytes for each in program.made.variables}
    words = dict.fromkeys(("watched", "second", "own", "kind"), 4)
    assert sizes == {"p": 20, "three": 24, "grid": 24, "flag": 1, "bytes": 3, **words}
    assert device_data(program.variable("three", "f4").get(queue=program.queue).tolist()) == [1, 2, 3, 4, 5, 6]


def test_the_host_sets_constants_and_reads_a_counter(compiled):
    program = compiled("""
        __constant__ float weights[3];
        __constant__ float offset = 1;
        __device__ unsigned int count;
        __device__ float sum(const float* w, int n) { float s = 0; for (int i = 0; i < n; i++) s += w[i]; return s; }
        __global__ void blur(float* x) { x[0] = sum(weights, 3) + offset; x[1] = sum(x + 2, 2); atomicAdd(&count, 1u); }""")
    x = np.array([0, 0, 1, 2], "f4")
    program.run("blur", 1, 1, x)
    assert device_data(x.tolist()) == [1, 3, 1, 2]
    program.variable("weights", "f4").set([10, 20, 30], queue=program.queue)
    program.run("blur", 1, 1, x)
    assert device_data(x.tolist()) == [61, 3, 1, 2]
    program.variable("offset", "f4").set([5], queue=program.queue)
    program.run("blur", 1, 1, x)
    assert device_data(x.tolist()) == [65, 3, 1, 2]
    assert device_data(program.variable("count", "u4").get(queue=program.queue).tolist()) == [3]


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_a_program_of_variables_alone(compiled):
    program = compiled("__device__ int v = 5; __device__ float w[3]; __constant__ double c = 2.5;")
    assert device_data(program.variable("v", "i4").get().tolist()) == [5]
    assert device_data(program.variable("c", "f8").get().tolist()) == [2.5]
    numbers = program.variable("w", "f4")
    numbers.set(np.arange(3, dtype="f4"))
    assert device_data(numbers.get().tolist()) == [0, 1, 2]
