"""Reading and writing arrays through surfaces."""

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from .conftest import array_like, contents, surface_of, texture_of

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

SOURCE = """
#define AT int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
template <class T> __device__ void at2(T* out, hipSurfaceObject_t s, const int* x, const int* y, int mode, int i) {
    out[i] = surf2Dread<T>(s, x[i], y[i], mode); }
#define READ(name, T, statement) extern "C" __global__ void name( \\
    T* out, hipSurfaceObject_t s, const int* x, const int* y, int mode, int n) { AT statement; }
READ(read1, unsigned, surf1Dread(&out[i], s, x[i], mode))
extern "C" __global__ void read2(unsigned* out, cudaSurfaceObject_t s, const int* x, const int* y, int mode, int n) {
    AT out[i] = surf2Dread<unsigned>(s, x[i], y[i], mode); }
READ(read2c, uchar4, at2(out, s, x, y, mode, i))
READ(read2v, float4, at2(out, s, x, y, mode, i))
READ(read2s, short2, at2(out, s, x, y, mode, i))
READ(read2b, signed char, at2(out, s, x, y, mode, i))
READ(read2h, __half, at2(out, s, x, y, mode, i))
READ(read2d, double, at2(out, s, x, y, mode, i))
extern "C" __global__ void write1(int* out, hipSurfaceObject_t s, int from, int mode, int n) {
    AT surf1Dwrite(i, s, (from + i) * 4, mode); out[i] = 1; }
extern "C" __global__ void write2(int* out, hipSurfaceObject_t s, int from, int mode, int n) {
    AT surf2Dwrite(make_int2(i, -i), s, (from + i % 8) * sizeof(int2), from + i / 8, mode); out[i] = 1; }
extern "C" __global__ void write3(int* out, hipSurfaceObject_t s, int from, int mode, int n) {
    AT surf3Dwrite((short)i, s, (i % 4) * 2, i / 4 % 3, i / 12, cudaBoundaryModeTrap);
    out[i] = surf3Dread<short>(s, (i % 4) * 2, i / 4 % 3, i / 12); }
extern "C" __global__ void layers(int* out, hipSurfaceObject_t one, hipSurfaceObject_t two, hipSurfaceObject_t cube,
                                  hipSurfaceObject_t cubes, int n) {
    AT surf1DLayeredwrite(i, one, (i % 4) * 4, i / 4); int v; surf1DLayeredread(&v, one, (i % 4) * 4, i / 4);
    surf2DLayeredwrite(v + 1, two, (i % 4) * 4, 1, i / 4);
    v = surf2DLayeredread<int>(two, (i % 4) * 4, 1, i / 4, hipBoundaryModeZero);
    surfCubemapwrite(v + 1, cube, (i % 4) * 4, 2, i / 4); v = surfCubemapread<int>(cube, (i % 4) * 4, 2, i / 4);
    surfCubemapLayeredwrite(v + 1, cubes, (i % 4) * 4, 3, i / 4 + 6);
    out[i] = surfCubemapLayeredread<int>(cubes, (i % 4) * 4, 3, i / 4, 1); }
extern "C" __global__ void step(int* out, hipSurfaceObject_t s, hipTextureObject_t t, int n) {
    AT surf1Dwrite(tex1D<int>(t, i) + 1, s, i * 4); out[i] = 0; }
"""
ZERO, TRAP, CLAMP = hip.hipSurfaceBoundaryMode
TYPES = {"c": ("u1", 4), "v": ("f4", 4), "s": ("i2", 2), "b": ("i1", 1), "h": ("f2", 1), "": ("u4", 1)}


@pytest.fixture
def run(kernels):
    return kernels(SOURCE)


def numbers(shape, dtype):
    return np.random.default_rng(3).integers(0, 100, shape).astype(dtype)


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("mode", [ZERO, CLAMP])
@pytest.mark.parametrize("kind", TYPES)
def test_reading(run, kind, mode):
    dtype, channels = TYPES[kind]
    values = numbers((1, 5, 9, channels), dtype)
    x, y = (each.ravel() for each in np.meshgrid(np.arange(-4, 14), np.arange(-3, 9)))
    size = values.itemsize * channels
    given = (x * size).astype("i4"), y.astype("i4")
    got = run(f"read2{kind}", (len(x), channels), dtype, surface_of(array_like(values)), *given, int(mode))
    expected = values[0, y.clip(0, 4), x.clip(0, 8)]
    if mode == ZERO:
        expected = np.where(((x >= 0) & (x < 9) & (y >= 0) & (y < 5))[:, None], expected, 0)
    assert np.array_equal(device_data(got), expected)


@pytest.mark.needs("a compiler of its own", "SPIR-V")  # it ends a context of CUDA: tests/drivers/cuda/test_ended.py
def test_a_trap_is_told_and_reads_zero(run, capfd):
    values = numbers((1, 1, 4, 1), "u4")
    x = np.array([0, 16, -4, 12], "i4")
    got = run("read1", 4, "u4", surface_of(array_like(values)), x, x, int(TRAP))
    assert device_data(got.tolist()) == [values[0, 0, 0, 0], 0, 0, values[0, 0, 3, 0]]


@pytest.mark.needs("a compiler of its own")
def test_other_types_of_the_same_bytes(run):
    """A surface has bytes: it may be read as another type."""
    values = numbers((1, 2, 4, 4), "u1")
    x, y = np.arange(4, dtype="i4") * 4, np.ones(4, "i4")
    got = run("read2", 4, "u4", surface_of(array_like(values)), x, y, int(ZERO))
    assert np.array_equal(device_data(got), values[0, 1].view("u4").ravel())


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("mode", [ZERO, CLAMP])
@pytest.mark.parametrize("begin", [0, -3, 2])
def test_writing(run, begin, mode):
    one, two = np.full((1, 1, 8, 1), -7, "i4"), np.full((1, 4, 8, 2), -7, "i4")
    arrays = array_like(one, hip.hipArraySurfaceLoadStore), array_like(two)
    run("write1", 8, "i4", surface_of(arrays[0]), begin, int(ZERO))
    for i in range(8):
        if 0 <= begin + i < 8:
            one[0, 0, begin + i] = i
    assert np.array_equal(device_data(contents(arrays[0], one)), one)
    run("write2", 32, "i4", surface_of(arrays[1]), begin, int(mode))
    got = contents(arrays[1], two)
    for i in range(32):
        x, y = begin + i % 8, begin + i // 8
        if 0 <= x < 8 and 0 <= y < 4:
            two[0, y, x] = i, -i
    inside = np.ones((4, 8), bool)
    if mode == CLAMP:  # several threads write to the edges, in no order
        inside[[0, -1]] = inside[:, [0, -1]] = False
    assert np.array_equal(device_data(got[0][inside]), two[0][inside])


@pytest.mark.needs("a compiler of its own")
def test_three_dimensions(run):
    values = np.zeros((5, 3, 4, 1), "i2")
    array = array_like(values)
    assert np.array_equal(device_data(run("write3", 60, "i4", surface_of(array), 0, 0)), np.arange(60))
    assert np.array_equal(device_data(contents(array, values).ravel()), np.arange(60))


@pytest.mark.needs("a compiler of its own")
def test_layers_and_faces(run):
    L, C = hip.hipArrayLayered, hip.hipArrayCubemap
    one, two = (array_like(np.zeros((6, height, 4, 1), "i4"), L, n) for n, height in ((1, 1), (2, 2)))
    cube, cubes = (array_like(np.zeros((faces, 4, 4, 1), "i4"), flags) for faces, flags in ((6, C), (12, C | L)))
    got = run("layers", 24, "i4", *map(surface_of, (one, two, cube, cubes)))
    assert np.array_equal(device_data(got), np.arange(24) + 3)
    assert np.array_equal(device_data(contents(one, np.zeros((6, 1, 4, 1), "i4")).ravel()), np.arange(24))
    there = contents(cubes, np.zeros((12, 4, 4, 1), "i4"))
    assert np.array_equal(device_data(there[6:, 3].ravel()), np.arange(24) + 3)
    assert (device_data(there[:6]) == 0).all()


def test_a_texture_sees_what_a_surface_wrote(run):
    values = np.arange(32, dtype="i4").reshape(1, 1, 32, 1)
    array = array_like(values)
    surface, texture = surface_of(array), texture_of(array)
    for _ in range(20):
        run("step", 32, "i4", surface, texture)
    assert np.array_equal(device_data(contents(array, values)), values + 20)
