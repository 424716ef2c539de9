"""What kernels read from textures, against NumPy: address modes, filters, coordinates, types and dimensions."""

import itertools

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import K
from .conftest import Address, array_like, pitched, texture_of
from .conftest import linear as linear_memory
from .reference import as_read, sample

pytestmark = [pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")]

MODES = list(Address)
BORDER = (0.25, -0.5, 0.75, 1.0)
NAMES = {"u1": "uchar", "i1": "char", "u2": "ushort", "i2": "short", "u4": "uint", "i4": "int", "f4": "float"}
CTYPES = {**NAMES, "u1": "unsigned char", "u2": "unsigned short", "u4": "unsigned"}

DIMENSIONS = """
#define AT(name, statement) extern "C" __global__ void name(float* out, hipTextureObject_t t, const float* x, \\
        const float* y, const float* z, int n) { \\
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) statement; }
AT(at1, out[i] = tex1D<float>(t, x[i]))
AT(at2, out[i] = tex2D<float>(t, x[i], y[i]))
AT(at3, tex3D(&out[i], t, x[i], y[i], z[i]))
extern "C" __global__ void levels(float* out, hipTextureObject_t one, hipTextureObject_t two, hipTextureObject_t three,
                                  const float* x, const float* y, const float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float2 d2 = make_float2(1, 2); float4 d4 = make_float4(1, 2, 3, 4);
    bool same = tex1D<float>(one, x[i]) == tex1DLod<float>(one, x[i], 3)
        && tex1D<float>(one, x[i]) == tex1DGrad<float>(one, x[i], 3, 4);
    same = same && tex2D<float>(two, x[i], y[i]) == tex2DLod<float>(two, x[i], y[i], 3)
        && tex2D<float>(two, x[i], y[i]) == tex2DGrad<float>(two, x[i], y[i], d2, d2);
    same = same && tex3D<float>(three, x[i], y[i], z[i]) == tex3DLod<float>(three, x[i], y[i], z[i], 3)
        && tex3D<float>(three, x[i], y[i], z[i]) == tex3DGrad<float>(three, x[i], y[i], z[i], d4, d4);
    out[i] = same; }
"""


def places(extent, normalized, count=400):
    """Coordinates from below to above the texture, finer than weights of 1/256, which floats hold exactly."""
    rng = np.random.default_rng(3)
    found = [rng.integers(-6 * 256 * n, 7 * 256 * n, count) / 1024 for n in extent]
    return [(x / n if normalized else x).astype("f4") for x, n in zip(found, extent, strict=True)]


def volume(dimensions, dtype="f4", channels=1):
    rng = np.random.default_rng(4)
    shape = (*((4, 2, 8)[3 - dimensions :]), channels)
    shape = (1,) * (4 - len(shape)) + shape
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    values.flat[0] = info.min
    return values


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_modes(kernels, dimensions):
    run, values = kernels(DIMENSIONS), volume(dimensions)
    array = array_like(values)
    inner = values.reshape(values.shape[3 - dimensions :])
    combinations = itertools.product(itertools.product(MODES, repeat=min(dimensions, 2)), (False, True), (False, True))
    for modes, linear, normalized in combinations:
        modes = (*modes, *modes, *modes)[:3]
        texture = texture_of(array, modes, linear, normalized, border=list(BORDER))
        coordinates = places((8, 2, 4), normalized)
        got = run(f"at{dimensions}", 400, "f4", texture, *coordinates)
        expected = sample(inner, coordinates[:dimensions], modes, linear, normalized, BORDER)[:, 0]
        case = f"{modes} linear {linear} normalized {normalized}"
        assert (
            np.allclose(device_data(got), expected, rtol=1e-5, atol=1e-6)
            if linear
            else np.array_equal(device_data(got), expected.astype("f4"))
        ), case
        ok(hip.hipDestroyTextureObject(texture))
    ok(hip.hipFreeArray(array))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_extents_of_any_number(kernels, mode, normalized):
    """Coordinates in the middle of elements, of a texture whose extents are no powers of two."""
    values = np.random.default_rng(1).normal(size=(1, 5, 7, 1)).astype("f4")
    x, y = (each.ravel().astype("f4") + np.float32(0.5) for each in np.meshgrid(np.arange(-15, 22), np.arange(-11, 16)))
    coordinates = [x / np.float32(7), y / np.float32(5)] if normalized else [x, y]
    array = array_like(values)
    texture = texture_of(array, mode, normalized=normalized, border=list(BORDER))
    got = kernels(DIMENSIONS)("at2", len(x), "f4", texture, *coordinates, x)
    exact = [(x - 0.5 + 0.5) / (7 if normalized else 1), (y - 0.5 + 0.5) / (5 if normalized else 1)]
    assert np.array_equal(
        device_data(got), sample(values[0], exact, [mode] * 2, False, normalized, BORDER)[:, 0].astype("f4")
    )


def test_no_numbers_and_huge_ones(kernels):
    """They read some element, or the border's colour."""
    values = volume(2)
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 1e-40], "f4")
    run, array = kernels(DIMENSIONS), array_like(values)
    for mode, linear, normalized in itertools.product(MODES, (False, True), (False, True)):
        texture = texture_of(array, mode, linear, normalized, border=list(BORDER))
        got = run("at2", len(x), "f4", texture, x, x[::-1], x)
        most = max(np.abs(values).max(), 0.5)
        assert (np.abs(device_data(got)) <= most * 1.001).all(), (mode, linear, normalized)
        if mode == Address.hipAddressModeClamp and not linear:
            last = values[0, :, -1, 0]
            assert device_data(got[[1, 3, 5]].tolist()) == last[[0, 0, 0]].tolist() or normalized


def test_one_level(kernels):
    textures = [texture_of(array_like(volume(n)), linear=True) for n in (1, 2, 3)]
    assert kernels(DIMENSIONS)("levels", 400, "f4", *textures, *places((8, 2, 4), False)).all()


def source_of_types():
    kernel = """extern "C" __global__ void at_{name}({ctype}* out, hipTextureObject_t t, const float* x, const float* y,
                                                   int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex2D<{ctype}>(t, x[i], y[i]); }}\n"""
    names = [(name + (str(n) if n > 1 else ""), CTYPES[key] if n == 1 else name + str(n))
             for key, name in NAMES.items() for n in (1, 2, 4)]  # fmt: skip
    return "".join(kernel.format(name=name, ctype=ctype) for name, ctype in names)


@pytest.fixture
def typed(kernels):
    return kernels(source_of_types())


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", [*NAMES, "f2"])
@pytest.mark.long
def test_types(typed, dtype, channels):
    values = volume(2, dtype, channels)
    array, coordinates = array_like(values), places((8, 2), False)
    for floats, linear in itertools.product((False, True), (False, True)):
        read = as_read(values[0], floats)
        if linear and read.dtype.kind != "f":
            continue
        as_float = read.dtype.kind == "f"
        texture = texture_of(array, linear=linear, floats=floats)
        name = ("float" if as_float else NAMES[dtype]) + (str(channels) if channels > 1 else "")
        got = typed(f"at_{name}", (400, channels), "f4" if as_float else dtype, texture, *coordinates)
        expected = sample(read, coordinates, [Address.hipAddressModeClamp] * 2, linear)
        if as_float:
            assert np.allclose(device_data(got), expected, rtol=1e-5, atol=1e-6), (floats, linear)
        else:
            assert np.array_equal(device_data(got), expected.astype(dtype)), (floats, linear)
        ok(hip.hipDestroyTextureObject(texture))


def test_special_halves(typed):
    """Infinities, numbers below the normal ones and zeros are the same as floats."""
    values = np.array([np.inf, -np.inf, 6e-8, -6e-5, 65504, -0.0, 1 / 3, 0], "f2").reshape(1, 1, 8, 1)
    texture = texture_of(array_like(values, dimensions=2))
    got = typed("at_float", 8, "f4", texture, np.arange(8, dtype="f4"), np.zeros(8, "f4"))
    assert np.array_equal(device_data(got), values.ravel().astype("f4"))
    assert np.signbit(device_data(got[5]))


def test_other_channels_than_there_are(typed):
    """Fewer are the first ones; of those that there are not the first three are 0 and the last is 1, as on GPUs."""
    values = volume(2, "f4", 2)
    texture, x = texture_of(array_like(values)), np.zeros(1, "f4")
    assert device_data(typed("at_float4", (1, 4), "f4", texture, x, x)[0].tolist()) == [*values[0, 0, 0].tolist(), 0, 1]
    assert device_data(typed("at_float", (1, 1), "f4", texture, x, x)[0].tolist()) == [values[0, 0, 0, 0]]


# -- memory that is no array

FETCH = """
extern "C" __global__ void fetch(float4* out, hipTextureObject_t t, int from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex1Dfetch<float4>(t, from + i); }
extern "C" __global__ void rows(float2* out, cudaTextureObject_t t, const float* x, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex2D<float2>(t, x[i], y[i]); }
"""


@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_linear_memory(kernels, dtype):
    """From an element of an allocation on; outside it reads 0."""
    values = volume(3, dtype, 4).reshape(-1, 4)
    memory = ok(hip.hipMalloc(values.nbytes))
    ok(hip.hipMemcpy(memory, values, values.nbytes, K.hipMemcpyHostToDevice))
    skipped = 3 * values.itemsize * 4
    resource = linear_memory(memory + skipped, values.nbytes - skipped, dtype, 4)
    texture = texture_of(resource, floats=True, linear=True)
    got = kernels(FETCH)("fetch", (80, 4), "f4", texture, -10)
    expected = np.zeros((80, 4))
    expected[10:71] = as_read(values, True)[3:]
    assert np.allclose(device_data(got), expected, rtol=1e-6)


@pytest.mark.parametrize("linear", [False, True])
def test_rows(kernels, linear):
    values = volume(2, "f4", 2)
    _, height, width, _ = values.shape
    memory, pitch = ok(hip.hipMallocPitch(width * 8, height))
    ok(hip.hipMemset(memory, 0xFF, pitch * height))
    ok(hip.hipMemcpy2D(memory, pitch, values, width * 8, width * 8, height, K.hipMemcpyHostToDevice))
    resource = pitched(memory, width, height, pitch, "f4", 2)
    coordinates = places((8, 2), True)
    mode = Address.hipAddressModeMirror
    got = kernels(FETCH)("rows", (400, 2), "f4", texture_of(resource, mode, linear, True), *coordinates)
    assert np.allclose(device_data(got), sample(values[0], coordinates, [mode] * 2, linear, True), rtol=1e-5, atol=1e-6)


# -- layers, cubes, gathers

LAYERS = """
extern "C" __global__ void layers(float* out, hipTextureObject_t one, hipTextureObject_t two, const float* x,
                                  const float* y, const int* layer, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    out[2 * i] = tex1DLayered<float>(one, x[i], layer[i]); tex2DLayered(&out[2 * i + 1], two, x[i], y[i], layer[i]); }
extern "C" __global__ void cubes(float* out, hipTextureObject_t one, hipTextureObject_t two, const float* x,
                                 const float* y, const float* z, const int* layer, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    out[2 * i] = texCubemap<float>(one, x[i], y[i], z[i]);
    out[2 * i + 1] = texCubemapLayered<float>(two, x[i], y[i], z[i], layer[i]); }
extern "C" __global__ void gather(uchar4* out, hipTextureObject_t t, const float* x, const float* y,
                                  int channel, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex2Dgather<uchar4>(t, x[i], y[i], channel); }
"""


@pytest.mark.parametrize("linear", [False, True])
def test_layers(kernels, linear):
    rng = np.random.default_rng(2)
    one, two = (rng.normal(size=(3, height, 8, 1)).astype("f4") for height in (1, 4))
    textures = [
        texture_of(array_like(values, hip.hipArrayLayered, dimensions), linear=linear)
        for values, dimensions in ((one, 1), (two, 2))
    ]
    layer = rng.integers(-2, 6, 400).astype("i4")  # those outside are the first and the last
    x, y = places((8, 4), False)
    got = kernels(LAYERS)("layers", (400, 2), "f4", *textures, x, y, layer)
    clamp, inside = [Address.hipAddressModeClamp] * 2, np.clip(layer, 0, 2)
    for i in range(3):
        of = inside == i
        assert np.allclose(
            device_data(got[of, 0]), sample(one[i, 0], [x[of]], clamp, linear)[:, 0], rtol=1e-5, atol=1e-6
        )
        assert np.allclose(
            device_data(got[of, 1]), sample(two[i], [x[of], y[of]], clamp, linear)[:, 0], rtol=1e-5, atol=1e-6
        )


FACES = [  # the axis that is largest, its sign; what s and t are of the other coordinates
    (0, 1, lambda x, y, z: (-z, -y)), (0, -1, lambda x, y, z: (z, -y)),
    (1, 1, lambda x, y, z: (x, z)), (1, -1, lambda x, y, z: (x, -z)),
    (2, 1, lambda x, y, z: (x, -y)), (2, -1, lambda x, y, z: (-x, -y)),
]  # fmt: skip


def test_cubes(kernels):
    rng = np.random.default_rng(5)
    one, two = (rng.normal(size=(faces, 4, 4, 1)).astype("f4") for faces in (6, 12))
    flags = hip.hipArrayCubemap
    textures = [texture_of(array_like(one, flags)), texture_of(array_like(two, flags | hip.hipArrayLayered))]
    at = rng.normal(size=(3, 300)).astype("f4")
    layer = rng.integers(0, 2, 300).astype("i4")
    got = kernels(LAYERS)("cubes", (300, 2), "f4", *textures, *at, layer)
    largest = np.abs(at).argmax(0)
    for face, (axis, sign, turned) in enumerate(FACES):
        of = (largest == axis) & (np.sign(at[axis]) == sign)
        assert of.any()
        s, t = ((each / np.abs(at[axis]) + 1)[of] / 2 for each in turned(*at))
        column, row = (np.clip(each * 4, 0, 3).astype(int) for each in (s, t))
        assert np.array_equal(device_data(got[of, 0]), one[face, row, column, 0])
        assert np.array_equal(device_data(got[of, 1]), two[layer[of] * 6 + face, row, column, 0])


def test_gather(kernels):
    values = volume(2, "u1", 4)
    x, y = places((8, 2), False)
    texture, run = texture_of(array_like(values, hip.hipArrayTextureGather)), kernels(LAYERS)
    for channel in range(4):
        got = run("gather", (400, 4), "u1", texture, x, y, channel)
        i, j = np.floor(x - 0.5), np.floor(y - 0.5)
        for component, (di, dj) in enumerate([(0, 1), (1, 1), (1, 0), (0, 0)]):
            column, row = np.clip(i + di, 0, 7).astype(int), np.clip(j + dj, 0, 1).astype(int)
            assert np.array_equal(device_data(got[:, component]), values[0, row, column, channel])
