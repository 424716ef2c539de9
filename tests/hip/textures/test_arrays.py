"""Arrays: allocated, described, copied and freed."""

import numpy as np
import pytest

import forebay as fb
from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints, read
from .conftest import Kind, array_like, contents, description

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

F4, F1 = description("f4", 4), description("f4")
Layered, Cubemap, Gather = hip.hipArrayLayered, hip.hipArrayCubemap, hip.hipArrayTextureGather
AD = hip.hipArray_Format


def test_what_was_asked_for(device):
    made = ok(hip.hipMallocArray(F4, 10, 3, hip.hipArraySurfaceLoadStore))
    desc, extent, flags = ok(hip.hipArrayGetInfo(made))
    assert (desc.x, desc.w, desc.f) == (32, 32, Kind.hipChannelFormatKindFloat)
    assert (extent.width, extent.height, extent.depth, flags) == (10, 3, 0, hip.hipArraySurfaceLoadStore)
    assert repr(ok(hip.hipGetChannelDesc(made))) == repr(desc)
    given = ok(hip.hipArrayGetDescriptor(made))
    assert [given[name] for name in given.PROPERTIES()] == [10, 3, AD.HIP_AD_FORMAT_FLOAT, 4]
    other = hip.HIP_ARRAY3D_DESCRIPTOR(4, 4, 5, AD.HIP_AD_FORMAT_UNSIGNED_INT16, 2, Layered)
    made = ok(hip.hipArray3DCreate(other))
    assert repr(ok(hip.hipArray3DGetDescriptor(int(made)))) == repr(other)
    assert hip.hipCreateChannelDesc(8, 8, 0, 0, Kind.hipChannelFormatKindUnsigned)[1].y == 8
    ok(hip.hipArrayDestroy(made))


def test_memory(device):
    before = ok(hip.hipMemGetInfo())[0]
    array = ok(hip.hipMallocArray(F4, 1024, 1024))
    assert before - ok(hip.hipMemGetInfo())[0] == 1 << 24
    assert code(hip.hipFree(array)) == E.hipErrorInvalidValue
    ok(hip.hipFreeArray(array))
    assert ok(hip.hipMemGetInfo())[0] == before
    for free in (hip.hipFreeArray, hip.hipArrayDestroy):
        assert code(free(array)) == E.hipErrorContextIsDestroyed
        assert code(free(None)) == E.hipErrorInvalidValue
    for ask in (hip.hipArrayGetInfo, hip.hipArrayGetDescriptor, hip.hipArray3DGetDescriptor, hip.hipGetChannelDesc):
        assert code(ask(array)) == code(ask(None)) == E.hipErrorInvalidHandle
    assert code(hip.hipMalloc3DArray(F4, hip.hipExtent(1 << 14, 1 << 14, 1 << 14), 0)) == E.hipErrorOutOfMemory


# -- copies


def numbers(depth=1, height=1, width=1, channels=1, dtype="i4"):
    return np.random.default_rng(1).integers(0, 100, (depth, height, width, channels)).astype(dtype)


@pytest.mark.executes
@pytest.mark.parametrize(
    ("shape", "flags"),
    [((1, 1, 9), 0), ((1, 5, 9), 0), ((3, 5, 9), 0), ((3, 5, 9), Layered), ((6, 4, 4), Cubemap)],
)
def test_there_and_back(device, shape, flags):
    values = numbers(*shape, channels=2, dtype="i2")
    assert np.array_equal(contents(array_like(values, flags), values), values)


def test_a_part_of_an_array(device, really):
    values = numbers(4, 5, 9)
    array, got = array_like(values), np.zeros((2, 2, 3), "i4")
    params = hip.hipMemcpy3DParms(
        srcArray=array, srcPos=hip.hipPos(4, 3, 1), dstPtr=hip.hipPitchedPtr(got, 12, 3, 2),
        extent=hip.hipExtent(3, 2, 2), kind=K.hipMemcpyDeviceToHost,
    )  # fmt: skip
    ok(hip.hipMemcpy3D(params))
    assert np.array_equal(got, values[1:3, 3:5, 4:7, 0]) or not really
    other = array_like(np.zeros_like(values))
    both = hip.hipMemcpy3DParms(
        srcArray=array, srcPos=hip.hipPos(4, 3, 1), dstArray=other, dstPos=hip.hipPos(1, 0, 2),
        extent=hip.hipExtent(3, 2, 2), kind=K.hipMemcpyDeviceToDevice,
    )  # fmt: skip
    ok(hip.hipMemcpy3D(both))
    assert np.array_equal(contents(other, values)[2:4, 0:2, 1:4], values[1:3, 3:5, 4:7]) or not really
    for change in (("srcPos", hip.hipPos(7, 3, 1)), ("dstPos", hip.hipPos(1, 4, 2)), ("extent", hip.hipExtent(3, 2, 4)),
                   ("dstPtr", hip.hipPitchedPtr(got, 12, 3, 2)), ("srcPos", hip.hipPos(-1, 0, 0))):  # fmt: skip
        wrong = both.copy()
        setattr(wrong, *change)
        assert code(hip.hipMemcpy3D(wrong)) == E.hipErrorInvalidValue
    wrong = both.copy()
    wrong.srcArray = ok(hip.hipMallocArray(F4, 20, 20))
    assert code(hip.hipMemcpy3D(wrong)) == E.hipErrorInvalidValue
    ok(hip.hipFreeArray(wrong.srcArray))
    assert code(hip.hipMemcpy3D(wrong)) == E.hipErrorContextIsDestroyed


@pytest.mark.executes
@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows(device, asynchronous):
    values = numbers(1, 6, 10)
    array, rows, got = array_like(np.zeros_like(values)), values[0, :3, :, 0].copy(), np.zeros((3, 12), "i4")
    if asynchronous:
        ok(hip.hipMemcpy2DToArrayAsync(array, 8, 2, rows, 40, 32, 3, K.hipMemcpyHostToDevice, None))
        ok(hip.hipMemcpy2DFromArrayAsync(got, 48, array, 8, 2, 32, 3, K.hipMemcpyDeviceToHost, None))
        ok(hip.hipStreamSynchronize(None))
    else:
        ok(hip.hipMemcpy2DToArray(array, 8, 2, rows, 40, 32, 3, K.hipMemcpyHostToDevice))
        ok(hip.hipMemcpy2DFromArray(got, 48, array, 8, 2, 32, 3, K.hipMemcpyDeviceToHost))
    expected = np.zeros((6, 10), "i4")
    expected[2:5, 2:] = rows[:, :8]
    assert np.array_equal(contents(array, values)[0, :, :, 0], expected)
    assert np.array_equal(got[:, :8], rows[:, :8])
    assert not got[:, 8:].any()
    other = array_like(np.zeros_like(values))
    ok(hip.hipMemcpy2DArrayToArray(other, 0, 1, array, 8, 2, 32, 3))
    assert np.array_equal(contents(other, values)[0, 1:4, :8, 0], rows[:, :8])


@pytest.mark.executes
def test_bytes(device, streams):
    """They go on in the next row."""
    (stream,) = streams(1)
    values = np.arange(60, dtype="i4")
    array, got = array_like(np.zeros((1, 6, 10, 1), "i4")), np.zeros(60, "i4")
    ok(hip.hipMemcpyToArray(array, 8, 1, values, 100, K.hipMemcpyHostToDevice))
    ok(hip.hipMemcpyFromArray(got, array, 0, 0, 240, K.hipMemcpyDeviceToHost))
    assert got.tolist() == [0] * 12 + list(range(25)) + [0] * 23
    ok(hip.hipMemcpyHtoAAsync(array, 0, values, 240, stream))
    ok(hip.hipMemcpyAtoHAsync(got, array, 40, 200, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert got[:50].tolist() == list(range(10, 60))
    memory = ints(50)
    ok(hip.hipMemcpyAtoD(memory, array, 40, 200))
    assert read(memory, 50) == list(range(10, 60))
    ok(hip.hipMemcpyDtoA(array, 0, memory, 200))
    ok(hip.hipMemcpyAtoA(array, 0, array, 120, 40))
    ok(hip.hipMemcpyAtoH(got, array, 0, 240))
    assert got.tolist() == [*range(40, 50), *range(20, 60), *range(50, 60)]
    assert ok(hip.hipMemcpyFromArray_spt(got, array, 0, 0, 4, K.hipMemcpyDeviceToHost)) is None


def test_by_the_drivers_structures(device, really):
    values, T = numbers(3, 4, 5), hip.hipMemoryType
    array, got = array_like(np.zeros_like(values)), np.zeros((2, 3), "i4")
    volume = hip.HIP_MEMCPY3D(
        srcMemoryType=T.hipMemoryTypeHost, srcHost=values, srcPitch=20, srcHeight=4,
        dstMemoryType=T.hipMemoryTypeArray, dstArray=array, WidthInBytes=20, Height=4, Depth=3,
    )  # fmt: skip
    ok(hip.hipDrvMemcpy3D(volume))
    assert np.array_equal(contents(array, values), values) or not really
    flat = hip.hip_Memcpy2D(
        srcMemoryType=T.hipMemoryTypeArray, srcArray=array, srcXInBytes=4, srcY=2,
        dstMemoryType=T.hipMemoryTypeHost, dstHost=got, dstPitch=12, WidthInBytes=12, Height=2,
    )  # fmt: skip
    ok(hip.hipMemcpyParam2D(flat))
    assert np.array_equal(got, values[0, 2:4, 1:4, 0]) or not really
    flat.srcXInBytes = 12
    assert code(hip.hipMemcpyParam2D(flat)) == E.hipErrorInvalidValue


@pytest.mark.executes(reads="ok_not_ready")
def test_in_the_order_of_the_stream(device, streams, hold):
    (stream,) = streams(1, hip.hipStreamNonBlocking)
    values = numbers(1, 4, 8)
    array, got = array_like(np.zeros_like(values)), fb.host_empty(values.shape, values.dtype, device=device)
    gate = hold(stream)
    ok(hip.hipMemcpy2DToArrayAsync(array, 0, 0, values, 32, 32, 4, K.hipMemcpyHostToDevice, stream))
    ok(hip.hipMemcpy2DFromArrayAsync(got, 32, array, 0, 0, 32, 4, K.hipMemcpyDeviceToHost, stream))
    assert not contents(array, values).any()
    assert ok_not_ready(hip.hipStreamQuery(stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert np.array_equal(got, values)


def ok_not_ready(result):
    return result[0] == E.hipErrorNotReady


@pytest.mark.executes(run=False)
def test_captured(device, streams):
    (stream,) = streams(1)
    values = numbers(1, 4, 8)
    array, got = array_like(np.zeros_like(values)), np.zeros_like(values)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipMemcpy2DToArrayAsync(array, 0, 0, values, 32, 32, 4, K.hipMemcpyHostToDevice, stream))
    ok(hip.hipMemcpy2DFromArrayAsync(got, 32, array, 0, 0, 32, 4, K.hipMemcpyDeviceToHost, stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    values[:] = 9
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (got == 9).all()


@pytest.mark.parametrize("name", ["hipMemcpy2DToArray", "hipMemcpyToArray", "hipMemcpyHtoA"])
def test_synchronous_ones_end_a_capture(device, streams, name):
    (stream,) = streams(1)
    array, rows = ok(hip.hipMallocArray(description("i4"), 10, 6)), np.zeros(10, "i4")
    arguments = {
        "hipMemcpy2DToArray": (array, 0, 0, rows, 40, 40, 1, K.hipMemcpyHostToDevice),
        "hipMemcpyToArray": (array, 0, 0, rows, 40, K.hipMemcpyHostToDevice),
        "hipMemcpyHtoA": (array, 0, rows, 40),
    }[name]
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert code(getattr(hip, name)(*arguments)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


def test_many(device):
    """Made and freed ten thousand times."""
    before = ok(hip.hipMemGetInfo())[0]
    for _ in range(10_000):
        ok(hip.hipFreeArray(ok(hip.hipMallocArray(F4, 64, 64))))
    assert ok(hip.hipMemGetInfo())[0] == before
