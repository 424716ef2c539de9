"""Texture references: variables of a module that the host binds."""

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, K, code
from .conftest import Address, Kernels, array_like, code_of, description
from .reference import sample

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

SOURCE = """
texture<float, 2, hipReadModeElementType> plain;
texture<uchar4, hipTextureType1D, cudaReadModeNormalizedFloat> pixels;
static texture<int, hipTextureType2DLayered> layers;
__device__ int count;
extern "C" __global__ void two(float* out, const float* x, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex2D(plain, x[i], y[i]); }
extern "C" __global__ void one(float4* out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = tex1Dfetch(pixels, threadIdx.x); }
extern "C" __global__ void of_layer(int* out, int layer, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = tex2DLayered(layers, threadIdx.x, 0, layer) + 0 * count; }
"""
WIDTH, HEIGHT = 8, 4


@pytest.fixture
def module(load, device):
    if device.info.backend == "sycl":
        pytest.skip("the driver does not report where variables are")
    return load(SOURCE)


@pytest.fixture
def run(module):
    return Kernels(module)


def reference(module, name):
    return ok(hip.hipModuleGetTexRef(module, name))


def places():
    return [np.random.default_rng(n).integers(-400, 800, 200).astype("f4") / 64 for n in (1, 2)]


def test_declared(module):
    plain, pixels = reference(module, b"plain"), reference(module, "pixels")
    assert ok(hip.hipTexRefGetFormat(plain)) == (hip.hipArray_Format.HIP_AD_FORMAT_FLOAT, 1)
    assert ok(hip.hipTexRefGetFormat(pixels)) == (hip.hipArray_Format.HIP_AD_FORMAT_UNSIGNED_INT8, 4)
    assert (plain.readMode, pixels.readMode) == tuple(hip.hipTextureReadMode)
    assert ok(hip.hipTexRefGetAddressMode(plain, 0)) == ok(hip.hipTexRefGetFilterMode(plain)) == 0
    assert ok(hip.hipDeviceGetTexture1DLinearMaxWidth(description("f4"), 0)) == 1 << 28
    ok(hip.hipTexRefSetMaxAnisotropy(plain, 4))
    assert ok(hip.hipTexRefGetMaxAnisotropy(plain)) == 4
    assert reference(module, b"plain") is plain
    pointer, nbytes = ok(hip.hipModuleGetGlobal(module, b"plain"))
    assert nbytes == 112
    assert ok(hip.hipGetTextureReference(pointer)) is plain


def test_unbound(run):
    assert (device_data(run("two", 200, "f4", *places())) == 0).all()
    assert (device_data(run("one", (32, 4), "f4")) == 0).all()
    assert (device_data(run("of_layer", 8, "i4", 1)) == 0).all()


@pytest.mark.parametrize("linear", [False, True])
def test_an_array(module, run, linear, really):
    values = np.random.default_rng(3).normal(size=(1, HEIGHT, WIDTH, 1)).astype("f4")
    texture, array = reference(module, b"plain"), array_like(values)
    ok(hip.hipTexRefSetFilterMode(texture, hip.hipTextureFilterMode(linear)))
    for dimension in range(2):
        ok(hip.hipTexRefSetAddressMode(texture, dimension, Address.hipAddressModeBorder))
    ok(hip.hipTexRefSetBorderColor(texture, [7.0] * 4))
    ok(hip.hipTexRefSetArray(texture, array, hip.HIP_TRSA_OVERRIDE_FORMAT))
    x, y = places()
    border = [Address.hipAddressModeBorder] * 2
    expected = sample(values[0], (x, y), border, linear, border=[7.0])[:, 0]
    assert np.allclose(run("two", 200, "f4", x, y), expected, rtol=1e-5, atol=1e-6) or not really
    flags = hip.HIP_TRSF_NORMALIZED_COORDINATES
    ok(hip.hipTexRefSetFlags(texture, flags))  # of one that is bound
    assert ok(hip.hipTexRefGetFlags(texture)) & flags
    ok(hip.hipTexRefSetAddressMode(texture, 0, Address.hipAddressModeWrap))
    modes = [Address.hipAddressModeWrap, Address.hipAddressModeBorder]
    expected = sample(values[0], (x / 8, y / 8), modes, linear, True, border=[7.0])[:, 0]
    assert np.allclose(run("two", 200, "f4", x / 8, y / 8), expected, rtol=1e-5, atol=1e-6) or not really
    assert ok(hip.hipTexRefGetArray(texture)) is array
    assert code(hip.hipTexRefGetAddress(texture)) == E.hipErrorInvalidValue
    ok(hip.hipUnbindTexture(texture))
    assert (device_data(run("two", 200, "f4", x, y)) == 0).all()


def test_memory(module, run, really):
    values = np.random.default_rng(3).integers(0, 255, 128).astype("u1")
    memory, texture = ok(hip.hipMalloc(128)), reference(module, b"pixels")
    ok(hip.hipMemcpy(memory, values, 128, K.hipMemcpyHostToDevice))
    expected = np.zeros((32, 4), "f4")
    expected[:32] = values.reshape(32, 4) / 255
    assert ok(hip.hipBindTexture(texture, memory, texture.channelDesc)) == 0
    assert np.allclose(run("one", (32, 4), "f4"), expected) or not really
    assert ok(hip.hipTexRefGetAddress(texture)) == memory
    ok(hip.hipTexRefSetAddress(texture, memory + 64, 32))
    expected[:8], expected[8:] = expected[16:24].copy(), 0
    assert np.allclose(run("one", (32, 4), "f4"), expected) or not really
    plain, floats = reference(module, b"plain"), np.arange(64, dtype="f4").reshape(4, 16)
    rows = ok(hip.hipMalloc(256))
    ok(hip.hipMemcpy(rows, floats, 256, K.hipMemcpyHostToDevice))
    x, y = np.arange(8, dtype="f4"), np.array([0, 1, 2, 3] * 2, "f4")
    ok(hip.hipBindTexture2D(plain, rows, description("f4"), 10, 4, 64))
    assert np.array_equal(run("two", 8, "f4", x, y), floats[y.astype(int), x.astype(int)]) or not really
    flat = hip.HIP_ARRAY_DESCRIPTOR(4, 4, hip.hipArray_Format.HIP_AD_FORMAT_FLOAT, 1)
    ok(hip.hipTexRefSetAddress2D(plain, flat, rows, 64))
    assert np.array_equal(run("two", 8, "f4", x, y), floats[y.astype(int), x.astype(int).clip(0, 3)]) or not really


def test_layers(module, run):
    values = np.arange(24, dtype="i4").reshape(3, 1, 8, 1)
    array = array_like(values, hip.hipArrayLayered, 2)
    ok(hip.hipBindTextureToArray(reference(module, b"layers"), array, description("i4")))
    assert device_data(run("of_layer", 8, "i4", 2).tolist()) == list(range(16, 24))


def test_each_module_has_its_own(module, run, really):
    values = np.ones((1, 1, 8, 1), "f4")
    ok(hip.hipTexRefSetArray(reference(module, b"plain"), array_like(values, dimensions=2)))
    other = ok(hip.hipModuleLoadData(code_of(SOURCE)))
    x = np.zeros(8, "f4")
    assert run("two", 8, "f4", x, x).all() or not really
    assert not Kernels(other)("two", 8, "f4", x, x).any()
    texture = reference(other, b"plain")
    ok(hip.hipModuleUnload(other))
    array = array_like(values, dimensions=2)
    assert code(hip.hipTexRefSetArray(texture, array)) == E.hipErrorInvalidHandle
