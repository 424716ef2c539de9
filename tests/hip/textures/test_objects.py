"""Texture objects: made, asked, used in launches and graphs, and destroyed."""

import ctypes
import resource as usage

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints, launched, read
from .conftest import Kind, array_like, description, resource_of, texture_of

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

N = 64
SOURCE = """
extern "C" __global__ void get(int* out, hipTextureObject_t t) { out[threadIdx.x] = tex1D<int>(t, threadIdx.x); }
struct Both { cudaTextureObject_t textures[2]; int which; };
extern "C" __global__ void in_memory(int* out, const hipTextureObject_t* t, Both both) {
    out[threadIdx.x] = tex1D<int>(t[1], threadIdx.x) + 1000 * tex1D<int>(both.textures[both.which], threadIdx.x); }
"""


@pytest.fixture
def array(device):
    return array_like(np.arange(N, dtype="i4").reshape(1, 1, N, 1))


@pytest.fixture
def get(load):
    """``get(texture, out)``: a launch of N threads; ``get.function`` is the kernel."""
    function = ok(hip.hipModuleGetFunction(load(SOURCE), b"get"))

    def get(texture, out, stream=None):
        return hip.hipModuleLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, None, (out, texture))

    get.function = function
    return get


# -- what was given comes back


def test_descriptions(array):
    given = resource_of(array), hip.hipTextureDesc(filterMode=0, normalizedCoords=1, borderColor=[1.0, 2.0, 3.0, 4.0])
    view = hip.hipResourceViewDesc(hip.hipResourceViewFormat.hipResViewFormatFloat1, N)
    texture = ok(hip.hipCreateTextureObject(*given, view))
    assert ok(hip.hipGetTextureObjectResourceDesc(texture)).res.array.array == array
    found = ok(hip.hipGetTextureObjectTextureDesc(int(texture)))
    assert repr(found) == repr(given[1])
    found.borderColor[0] = 9.0
    assert ok(hip.hipGetTextureObjectTextureDesc(texture)).borderColor == [1.0, 2.0, 3.0, 4.0]
    assert ok(hip.hipGetTextureObjectResourceViewDesc(texture)).format == view.format


def test_by_the_drivers_structures(array, get, really):
    given, out = hip.HIP_RESOURCE_DESC(), ints(N)
    given.res.array.hArray = array
    how = hip.HIP_TEXTURE_DESC(flags=hip.HIP_TRSF_READ_AS_INTEGER)
    texture = ok(hip.hipTexObjectCreate(given, how, None))
    ok(get(texture, out))
    assert read(out, N) == list(range(N)) or not really
    assert ok(hip.hipTexObjectGetResourceDesc(texture)).res.array.hArray == array
    assert ok(hip.hipTexObjectGetTextureDesc(texture)).flags == hip.HIP_TRSF_READ_AS_INTEGER
    assert code(hip.hipTexObjectGetResourceViewDesc(texture)) == E.hipErrorInvalidValue
    ok(hip.hipTexObjectDestroy(texture))
    assert code(hip.hipTexObjectDestroy(texture)) == E.hipErrorInvalidValue
    given = hip.HIP_RESOURCE_DESC(hip.hipResourceType.hipResourceTypeLinear)
    of = given.res.linear
    of.devPtr, of.format, of.numChannels, of.sizeInBytes = ints(N), hip.hipArray_Format.HIP_AD_FORMAT_FLOAT, 2, 4 * N
    assert code(hip.hipTexObjectCreate(given, how, hip.HIP_RESOURCE_VIEW_DESC())) == E.hipErrorInvalidValue
    found = ok(hip.hipTexObjectGetResourceDesc(ok(hip.hipTexObjectCreate(given, how)))).res.linear
    assert (found.format, found.numChannels, found.sizeInBytes) == (of.format, 2, 4 * N)


@pytest.mark.parametrize("what", ["the object", "its number", "its array"])
def test_launches_with_what_is_gone(array, get, what):
    """HIP has no error of its own for it; a launch with it is an error, as with memory that was freed."""
    out, texture = ints(N), texture_of(array)
    ok(get(texture, out))
    ok(hip.hipFreeArray(array) if what == "its array" else hip.hipDestroyTextureObject(texture))
    assert code(get(int(texture) if what == "its number" else texture, out)) == E.hipErrorInvalidValue
    if what == "its array":
        ok(hip.hipDestroyTextureObject(texture))
    ok(hip.hipDeviceSynchronize())


# -- launches


def test_as_numbers_and_in_memory(load, array):
    other = texture_of(array_like(np.arange(N, 2 * N, dtype="i4").reshape(1, 1, N, 1)))
    texture, out = texture_of(array), ints(N)
    function = ok(hip.hipModuleGetFunction(load(SOURCE), b"in_memory"))
    table, both = ok(hip.hipMalloc(16)), np.array([int(texture), int(other), 1], "u8")
    ok(hip.hipMemcpy(table, np.array([0, int(texture)], "u8"), 16, K.hipMemcpyHostToDevice))
    values = ctypes.c_void_p(int(out)), ctypes.c_void_p(int(table)), (ctypes.c_ulonglong * 3)(*map(int, both))
    addresses = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    for given in ((None, (out, table, both)), (None, [out, int(table), both.tobytes()]), (addresses, None)):
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, None, *given))
        assert device_data(read(out, N)) == [i + 1000 * (N + i) for i in range(N)]


def test_destroyed_behind_a_gate(array, get, streams, hold):
    """A launch that was submitted reads what it was given, though other objects come and go."""
    (stream,) = streams(1, hip.hipStreamNonBlocking)
    out, texture = ints(N), texture_of(array)
    zeros = array_like(np.zeros((1, 1, N, 1), "i4"))
    gate = hold(stream)
    ok(get(texture, out, stream))
    ok(hip.hipDestroyTextureObject(texture))
    made = [texture_of(zeros) for _ in range(50)]
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert device_data(read(out, N)) == list(range(N))
    for each in made:
        ok(hip.hipDestroyTextureObject(each))


@pytest.mark.executes
def test_in_a_captured_graph(array, get, streams):
    (stream,) = streams(1)
    out, texture, host = ints(N), texture_of(array), np.arange(N, dtype="i4")
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    other = texture_of(array)  # needs memory, so it would end a capture of the mode global, as hipMalloc does
    ok(hip.hipMemcpyHtoAAsync(array, 0, host, host.nbytes, stream))
    ok(get(other, out, stream))
    ok(get(texture, out, stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    for step in range(5):
        host[:] = np.arange(N) * step
        launched(executable, stream)
        assert read(out, N) == host.tolist()
    ok(hip.hipDestroyTextureObject(texture))
    result = hip.hipGraphLaunch(executable, stream)  # HIP leaves it open; the process goes on
    ok(hip.hipStreamSynchronize(stream))
    assert result[0] in (E.hipSuccess, E.hipErrorInvalidValue, E.hipErrorContextIsDestroyed)
    ok(hip.hipGraphExecDestroy(executable))


@pytest.mark.parametrize("launches", [pytest.param(50, marks=pytest.mark.long), 1], ids=["now and then", "each"])
def test_many(array, get, launches):
    """Made, launched with and destroyed thousands of times: memory stays as it is, though no call waits."""
    out = ints(N)

    def some(count):
        for i in range(count):
            texture = texture_of(array)
            if i % launches == 0:
                ok(get(texture, out))
            ok(hip.hipDestroyTextureObject(texture))
            if i % 50 == 0:
                assert hip.hipStreamQuery(None)[0] in (E.hipSuccess, E.hipErrorNotReady)

    some(500 * min(launches, 4))
    before = ok(hip.hipMemGetInfo())[0], usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
    some(2500 * min(launches, 4))
    assert usage.getrusage(usage.RUSAGE_SELF).ru_maxrss - before[1] < 20_000  # KiB
    ok(hip.hipDeviceSynchronize())
    assert ok(hip.hipMemGetInfo())[0] == before[0]
    assert launches == 1 or not array.objects


# Arrays: allocated, described and freed


F4 = description("f4", 4)
AD = hip.hipArray_Format


def test_what_was_asked_for(device):
    made = ok(hip.hipMallocArray(F4, 10, 3, hip.hipArraySurfaceLoadStore))
    desc, extent, flags = ok(hip.hipArrayGetInfo(made))
    assert (desc.x, desc.w, desc.f) == (32, 32, Kind.hipChannelFormatKindFloat)
    assert (extent.width, extent.height, extent.depth, flags) == (10, 3, 0, hip.hipArraySurfaceLoadStore)
    assert repr(ok(hip.hipGetChannelDesc(made))) == repr(desc)
    given = ok(hip.hipArrayGetDescriptor(made))
    assert [given[name] for name in given.PROPERTIES()] == [10, 3, AD.HIP_AD_FORMAT_FLOAT, 4]
    other = hip.HIP_ARRAY3D_DESCRIPTOR(4, 4, 5, AD.HIP_AD_FORMAT_UNSIGNED_INT16, 2, hip.hipArrayLayered)
    made = ok(hip.hipArray3DCreate(other))
    assert repr(ok(hip.hipArray3DGetDescriptor(int(made)))) == repr(other)
    assert hip.hipCreateChannelDesc(8, 8, 0, 0, Kind.hipChannelFormatKindUnsigned)[1].y == 8
    ok(hip.hipArrayDestroy(made))


def test_many_arrays(device):
    """Made and freed ten thousand times."""
    ok(hip.hipDeviceSynchronize())  # what the pool had of earlier tests goes back
    before = ok(hip.hipMemGetInfo())[0]
    for _ in range(10_000):
        array = ok(hip.hipMallocArray(F4, 64, 64))
        assert before - ok(hip.hipMemGetInfo())[0] == 1 << 16
        ok(hip.hipFreeArray(array))
    assert ok(hip.hipMemGetInfo())[0] == before
