"""Texture objects: made, asked, used in launches and graphs, and destroyed."""

import ctypes
import resource as usage

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints, read, together
from .conftest import array_like, resource_of, texture_of

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

Type, View = hip.hipResourceType, hip.hipResourceViewFormat
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
    view = hip.hipResourceViewDesc(View.hipResViewFormatFloat1, N)
    texture = ok(hip.hipCreateTextureObject(*given, view))
    assert ok(hip.hipGetTextureObjectResourceDesc(texture)).res.array.array == array
    found = ok(hip.hipGetTextureObjectTextureDesc(int(texture)))
    assert repr(found) == repr(given[1])
    found.borderColor[0] = 9.0
    assert ok(hip.hipGetTextureObjectTextureDesc(texture)).borderColor == [1.0, 2.0, 3.0, 4.0]
    assert ok(hip.hipGetTextureObjectResourceViewDesc(texture)).format == View.hipResViewFormatFloat1
    ok(hip.hipDestroyTextureObject(texture))
    plain = texture_of(array)
    assert code(hip.hipGetTextureObjectResourceViewDesc(plain)) == E.hipErrorInvalidValue
    for ask in (
        hip.hipGetTextureObjectResourceDesc,
        hip.hipGetTextureObjectTextureDesc,
        hip.hipTexObjectGetTextureDesc,
    ):
        assert code(ask(texture)) == code(ask(None)) == E.hipErrorInvalidValue


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
    memory = ints(N)
    given = hip.HIP_RESOURCE_DESC(Type.hipResourceTypeLinear)
    of = given.res.linear
    of.devPtr, of.format, of.numChannels, of.sizeInBytes = memory, hip.hipArray_Format.HIP_AD_FORMAT_FLOAT, 2, 4 * N
    view = hip.HIP_RESOURCE_VIEW_DESC()
    assert code(hip.hipTexObjectCreate(given, how, view)) == E.hipErrorInvalidValue
    texture = ok(hip.hipTexObjectCreate(given, how))
    found = ok(hip.hipTexObjectGetResourceDesc(texture)).res.linear
    assert (found.format, found.numChannels, found.sizeInBytes) == (of.format, 2, 4 * N)


# -- wrong arguments


def test_destroyed(array, get):
    """HIP has no error of its own for it; a launch with it is an error, as with memory that was freed."""
    out, texture = ints(N), texture_of(array)
    ok(get(texture, out))
    ok(hip.hipDestroyTextureObject(texture))
    for object in (texture, int(texture)):
        assert code(hip.hipDestroyTextureObject(object)) == E.hipErrorInvalidValue
        assert code(get(object, out)) == E.hipErrorInvalidValue
    ok(hip.hipDestroyTextureObject(None))
    ok(hip.hipDestroyTextureObject(0))
    assert code(hip.hipFree(texture_of(array))) == E.hipErrorInvalidValue
    ok(hip.hipDeviceSynchronize())


def test_the_array_is_freed_first(array, get):
    out, texture = ints(N), texture_of(array)
    ok(hip.hipFreeArray(array))
    assert code(get(texture, out)) == E.hipErrorInvalidValue
    assert (
        code(hip.hipCreateTextureObject(resource_of(array), hip.hipTextureDesc(), None)) == E.hipErrorContextIsDestroyed
    )
    ok(hip.hipDestroyTextureObject(texture))
    assert code(hip.hipDestroyTextureObject(texture)) == E.hipErrorInvalidValue


# -- launches


@pytest.mark.executes
def test_as_numbers_and_in_memory(load, array):
    other = texture_of(array_like(np.arange(N, 2 * N, dtype="i4").reshape(1, 1, N, 1)))
    texture, out = texture_of(array), ints(N)
    function = ok(hip.hipModuleGetFunction(load(SOURCE), b"in_memory"))
    table, both = ok(hip.hipMalloc(16)), np.array([int(texture), int(other), 1], "u8")
    ok(hip.hipMemcpy(table, np.array([0, int(texture)], "u8"), 16, K.hipMemcpyHostToDevice))
    for given in ((out, table, both), [out, int(table), both.tobytes()]):
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, None, None, given))
        assert read(out, N) == [i + 1000 * (N + i) for i in range(N)]


@pytest.mark.executes
def test_kernel_params(array, get):
    out, texture = ints(N), texture_of(array)
    values = ctypes.c_void_p(int(out)), ctypes.c_ulonglong(int(texture))
    addresses = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    ok(hip.hipModuleLaunchKernel(get.function, 1, 1, 1, N, 1, 1, 0, None, addresses, None))
    assert read(out, N) == list(range(N))


@pytest.mark.executes
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
    assert read(out, N) == list(range(N))
    for each in made:
        ok(hip.hipDestroyTextureObject(each))


@pytest.mark.executes
def test_made_while_streams_are_held(array, get, streams, hold):
    """It waits for nothing that the streams are busy with."""
    one, other = streams(2, hip.hipStreamNonBlocking)
    blocking = ok(hip.hipStreamCreate())
    out = ints(N)
    gates = [hold(one), hold(blocking)]
    texture = texture_of(array)
    ok(get(texture, out, other))
    ok(hip.hipStreamSynchronize(other))
    for gate in gates:
        gate.open()
    assert read(out, N) == list(range(N))


@pytest.mark.executes(run=False)
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
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))
        assert read(out, N) == host.tolist()
    ok(hip.hipDestroyTextureObject(texture))
    result = hip.hipGraphLaunch(executable, stream)  # HIP leaves it open; the process goes on
    ok(hip.hipStreamSynchronize(stream))
    assert result[0] in (E.hipSuccess, E.hipErrorInvalidValue, E.hipErrorContextIsDestroyed)
    ok(hip.hipGraphExecDestroy(executable))


@pytest.mark.long
def test_many(array, get):
    """Ten thousand made, used now and then, and destroyed: memory stays as it is."""
    out = ints(N)

    def some(count):
        for i in range(count):
            texture = texture_of(array)
            if i % 50 == 0:
                ok(get(texture, out))
                ok(hip.hipDeviceSynchronize())
            ok(hip.hipDestroyTextureObject(texture))

    some(2000)
    before = ok(hip.hipMemGetInfo())[0], usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
    some(10_000)
    assert ok(hip.hipMemGetInfo())[0] == before[0]
    assert usage.getrusage(usage.RUSAGE_SELF).ru_maxrss - before[1] < 20_000  # KiB
    assert not array.objects


def test_many_while_launches_are_out(array, get):
    """Nobody waits; a query of the stream now and then is enough to give their memory back."""
    out = ints(N)

    def some(count):
        for i in range(count):
            texture = texture_of(array)
            ok(get(texture, out))
            ok(hip.hipDestroyTextureObject(texture))
            if i % 50 == 0:
                assert hip.hipStreamQuery(None)[0] in (E.hipSuccess, E.hipErrorNotReady)

    some(500)
    before = usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
    some(2500)
    assert usage.getrusage(usage.RUSAGE_SELF).ru_maxrss - before < 12_000  # KiB
    ok(hip.hipDeviceSynchronize())


@pytest.mark.executes(reads="both")
@pytest.mark.threads
def test_two_threads(array, get, streams):
    number = ok(hip.hipGetDevice())

    def both():
        ok(hip.hipSetDevice(number))
        out = ints(N)
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        for _ in range(50):
            texture = texture_of(array)
            ok(get(texture, out, stream))
            ok(hip.hipDestroyTextureObject(texture))
        ok(hip.hipStreamSynchronize(stream))
        return read(out, N)

    assert together(both, both) == [list(range(N))] * 2
