"""HIP C++ given to Device.program."""

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

from .results.tables import case, kernel_differences

SCALE = "__global__ void scale(float* x, float by, int n) { int i = threadIdx.x; if (i < n) x[i] *= by; }"


@pytest.mark.needs("a compiler of HIP C++")
def test_it_runs(device, queue):
    program = device.program(SCALE)
    assert list(program) == ["scale"]
    x = device.array(np.arange(8, dtype="f4"))
    queue.launch(program["scale"], 1, 8, x, 2.5, 6)
    assert device_data(x.get(queue=queue).tolist()) == [0, 2.5, 5, 7.5, 10, 12.5, 6, 7]
    with refused(fb.Error, TypeError, "view"):
        queue.launch(program["scale"], 1, 8, device.zeros(8, "f8"), 2.5, 6)


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.long
def test_instances_and_variables_by_their_names_in_the_source(device, queue):
    source = """
    namespace deep { __device__ int count = 3; }
    template <class T> __global__ void scale(T* x) { x[0] *= deep::count; }
    template __global__ void scale<float>(float*);
    template __global__ void scale<int>(int*);"""
    with device.program(source, "-std=c++20 -O3") as program:
        assert set(program) == {"_Z5scaleIfEvPT_", "_Z5scaleIiEvPT_"}
        for name in ("scale<float>", "_Z5scaleIfEvPT_"):
            assert name in program
        assert program["scale<float>"] is program["_Z5scaleIfEvPT_"]
        assert "scale<double>" not in program
        with refused(fb.InvalidArgumentError, ValueError, "scale<double>"):
            program["scale<double>"]
        x = device.array(np.full(1, 2, "i4"))
        queue.launch(program["scale<int>"], 1, 1, x)
        assert device_data(x.get(queue=queue).tolist()) == [6]
        if device.info.backend != "sycl":
            assert device_data(program.get_global("count").view("i4").get(queue=queue).tolist()) == [3]
            assert program.get_global("_ZN4deep5countE") is program.get_global("count")


def test_an_unknown_option_is_named(device):
    with refused(fb.InvalidArgumentError, ValueError, "--frobnicate"):
        device.program(SCALE, ["--frobnicate"])


@pytest.mark.needs("SPIR-V")
def test_without_a_compiler_it_says_what_to_install(device):
    off = mock.patch.dict(os.environ, FOREBAY_CLANG="none")
    with off, refused(fb.NotSupportedError, ImportError, "turns clang off"):
        device.program(SCALE)
    with device.program("kernel void k(global float* x) { x[0] = 1; }") as program:
        assert "k" in program


@pytest.mark.needs("no compiler of HIP C++")
def test_a_device_without_a_compiler_names_both_ways_out(device):
    with pytest.raises(fb.NotSupportedError) as caught:
        device.program(SCALE)
    for words in (device.name, "takes no SPIR-V", "forebay[cpu,hip]", "forebay[cuda]"):
        assert words in str(caught.value)
    for other in fb.devices():
        assert other.name == device.name or (other.reason or f"{other.name} ({other.platform})") in str(caught.value)


def test_a_closed_device_is_refused_before_it_compiles(device):
    other = fb.Device(device.name, private=True)
    other.close()
    with pytest.raises(fb.ClosedError):
        other.program("__global__ nonsense")


# Whole programs: the same is left in memory as on the host


RNG = np.random.default_rng(11)


def whole_program(name, grid, block, *args, **more):
    source = (Path(__file__).parent / "programs" / f"{name.partition('<')[0]}.hip").read_text()
    return case(source, grid, block, *args, kernel=name, **more)


def floats(*shape):
    return RNG.random(shape, dtype="f4")


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


def integers(low, high, *shape, dtype="i4"):
    return RNG.integers(low, high, shape, dtype=dtype)


def sparse(density):
    """Which of a matrix are there, where each row begins, and the column of each."""
    there = RNG.random((500, 500)) < density
    return np.concatenate([[0], np.cumsum(there.sum(1))]).astype("i4"), np.nonzero(there)[1].astype("i4")


ROWS, COLUMNS = sparse(0.02)
REACHED = np.where(np.arange(500) < 5, 3, -1).astype("i4")
PROGRAMS = (
    whole_program("saxpy", 40, 256, 2.5, floats(10_000), floats(10_000), 10_000),
    whole_program("matmul", (8, 8), (16, 16), floats(128, 128), floats(128, 128), zeros(128, 128), 128),
    whole_program("reduction", 8, 256, floats(50_000), zeros(8), 50_000),
    whole_program("histogram", 8, 256, integers(0, 256, 50_000, dtype="u1"), zeros(256, dtype="u4"), 50_000),
    whole_program("nbody", 4, 128, floats(512, 4), zeros(512, 4), 512, 0.01, rtol=1e-3, atol=0.05),
    whole_program("scan", 16, 256, integers(-99, 99, 16, 256), zeros(16, 256, dtype="i4"), zeros(16, dtype="i4"), shared=2048),
    whole_program("sort", 16, 256, floats(16, 512)),
    whole_program("stencil", (7, 13), (32, 8), floats(100, 200), zeros(100, 200), 200, 100),
    whole_program("transpose<float>", (8, 8), (16, 16), floats(128, 128), zeros(128, 128), 128),
    whole_program("fft", 16, 128, RNG.normal(size=(16, 512)).astype("f4"), zeros(16, 512), rtol=1e-3, atol=1e-3),
    whole_program("spmv", 32, 128, ROWS, COLUMNS, RNG.random(len(COLUMNS)), RNG.random(500), np.zeros(500), 500, rtol=1e-12),
    whole_program("life", (4, 8), (32, 8), integers(0, 2, 60, 100, dtype="u1"), zeros(60, 100, dtype="u1"), 100, 60),
    whole_program("kmeans", 8, 128, floats(5_000, 2), zeros(5_000, dtype="i4"), zeros(5, 2), zeros(5, dtype="i4"), 5_000, rtol=1e-4),
    whole_program("black_scholes<double>", 8, 128, *(RNG.uniform(5, 30, 1024) for _ in range(3)), 0.02, 0.3, *np.zeros((2, 1024)),
            rtol=1e-9, atol=1e-9),
    whole_program("merge", 8, 128, np.sort(integers(0, 500, 1000)), 1000, np.sort(integers(0, 500, 777)), 777, zeros(1777, dtype="i4")),
    whole_program("search", 4, 128, ROWS, COLUMNS, REACHED, 3, 500, zeros(1, dtype="i4")),
)  # fmt: skip


@pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")
def test_the_same_is_left_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, {each.kernel: each for each in PROGRAMS})) == []


# Variables at file scope


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
