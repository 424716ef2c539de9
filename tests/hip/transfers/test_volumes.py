"""Rows and planes: allocated, copied and set."""

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, instantiate, together

WIDTH, HEIGHT, DEPTH = 20, 3, 4
HOST = hip.hipMemoryType.hipMemoryTypeHost
DEVICE = hip.hipMemoryType.hipMemoryTypeDevice


def volume():
    return np.arange(WIDTH * HEIGHT * DEPTH, dtype="u1").reshape(DEPTH, HEIGHT, WIDTH)


def host_ptr(array):
    _, height, width = array.shape
    return hip.hipPitchedPtr(array, width, width, height)


def extent(width=WIDTH, height=HEIGHT, depth=DEPTH):
    return hip.hipExtent(width, height, depth)


def parms(dst, src, kind, size=None, **more):
    return hip.hipMemcpy3DParms(dstPtr=dst, srcPtr=src, extent=size or extent(), kind=kind, **more)


@pytest.fixture
def there(device):
    return ok(hip.hipMalloc3D(extent()))


def test_pitches(device):
    pointer, pitch = ok(hip.hipMallocPitch(WIDTH, HEIGHT))
    assert pitch >= WIDTH
    assert pitch % 128 == 0
    assert ok(hip.hipMemPtrGetInfo(pointer)) == pitch * HEIGHT
    ok(hip.hipMemset2D(pointer, pitch, 7, WIDTH, HEIGHT))
    ok(hip.hipFree(pointer))
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue
    for nothing in ((0, 5), (5, 0)):
        pointer, _ = ok(hip.hipMallocPitch(*nothing))
        assert pointer.is_ptr_null
    assert code(hip.hipMallocPitch(-1, 5)) == E.hipErrorInvalidValue
    with pytest.raises(TypeError):
        hip.hipMallocPitch(None, 5)
    pointer, pitch = ok(hip.hipMemAllocPitch(WIDTH, HEIGHT, 4))
    assert pitch % 256 == 0
    for wrong in ((WIDTH, HEIGHT, 3), (0, HEIGHT, 4), (WIDTH, 0, 4)):
        assert code(hip.hipMemAllocPitch(*wrong)) == E.hipErrorInvalidValue


def test_more_than_there_is(device):
    assert code(hip.hipMallocPitch(1 << 40, 1 << 12)) == E.hipErrorOutOfMemory
    assert code(hip.hipMalloc3D(extent(1 << 20, 1 << 20, 1 << 12))) == E.hipErrorOutOfMemory


def test_memory_of_planes(there):
    assert (there.xsize, there.ysize) == (WIDTH, HEIGHT)
    assert ok(hip.hipMemPtrGetInfo(there.ptr)) == there.pitch * HEIGHT * DEPTH
    ok(hip.hipFree(there.ptr))
    with pytest.raises(TypeError, match="hipExtent"):
        hip.hipMalloc3D((1, 2, 3))
    assert code(hip.hipMalloc3D(None)) == E.hipErrorInvalidValue


@pytest.mark.executes
def test_there_and_back(there):
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ok(hip.hipMemcpy3D(parms(there, host_ptr(given), K.hipMemcpyHostToDevice)))
    ok(hip.hipMemcpy3D(parms(host_ptr(got), there, K.hipMemcpyDeviceToHost)))
    assert (got == given).all()


@pytest.mark.executes
@pytest.mark.parametrize("kind", [K.hipMemcpyDefault, K.hipMemcpyDeviceToDevice])
def test_a_part_of_it(there, streams, kind):
    """The second plane's last two rows from byte 5 on, to the beginning of another volume."""
    (stream,) = streams(1)
    given, got = volume(), np.zeros((1, 2, 10), "u1")
    ok(hip.hipMemcpy3DAsync(parms(there, host_ptr(given), K.hipMemcpyHostToDevice), stream))
    other = ok(hip.hipMalloc3D(extent(10, 2, 1)))
    part = extent(10, 2, 1)
    ok(hip.hipMemcpy3DAsync(parms(other, there, kind, part, srcPos=hip.hipPos(5, 1, 1)), stream))
    ok(hip.hipMemcpy3DAsync(parms(host_ptr(got), other, K.hipMemcpyDefault, part), stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (got == given[1:2, 1:3, 5:15]).all()


@pytest.mark.executes
def test_between_memory_of_the_host(device):
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ok(hip.hipMemcpy3D(parms(host_ptr(got), host_ptr(given), K.hipMemcpyHostToHost)))
    assert (got == given).all()


@pytest.mark.executes
def test_many_times(there):
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    for i in range(50):
        given[:] = i
        ok(hip.hipMemcpy3D(parms(there, host_ptr(given), K.hipMemcpyHostToDevice)))
    ok(hip.hipMemcpy3D(parms(host_ptr(got), there, K.hipMemcpyDeviceToHost)))
    assert (got == 49).all()


@pytest.mark.executes(reads="both")
@pytest.mark.threads
def test_two_threads(there):
    given, number = volume(), ok(hip.hipGetDevice())

    def both():
        ok(hip.hipSetDevice(number))
        got = np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        memory = ok(hip.hipMalloc3D(extent()))
        for _ in range(20):
            ok(hip.hipMemcpy3DAsync(parms(memory, host_ptr(given), K.hipMemcpyHostToDevice), stream))
        ok(hip.hipMemcpy3DAsync(parms(host_ptr(got), memory, K.hipMemcpyDeviceToHost), stream))
        ok(hip.hipStreamSynchronize(stream))
        return bool((got == given).all())

    assert together(both, both) == [True, True]


@pytest.mark.executes(run=False)
def test_captured(there, streams):
    (stream,) = streams(1)
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    ok(hip.hipMemcpy3DAsync(parms(there, host_ptr(given), K.hipMemcpyHostToDevice), stream))
    ok(hip.hipMemcpy3DAsync(parms(host_ptr(got), there, K.hipMemcpyDeviceToHost), stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    given[:] = 9
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (got == 9).all()


@pytest.mark.parametrize("name", ["hipMemcpy3D", "hipMemset3D", "hipMemsetD2D32", "hipMemcpyParam2D"])
def test_synchronous_ones_end_a_capture(there, streams, name):
    (stream,) = streams(1)
    arguments = {
        "hipMemcpy3D": (parms(there, host_ptr(volume()), K.hipMemcpyHostToDevice),),
        "hipMemset3D": (there, 1, extent()),
        "hipMemsetD2D32": (there.ptr, there.pitch, 1, 2, 2),
        "hipMemcpyParam2D": (hip.hip_Memcpy2D(),),
    }[name]
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert code(getattr(hip, name)(*arguments)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


WRONG = {
    "no destination": (lambda p: setattr(p.dstPtr, "ptr", None), E.hipErrorInvalidValue),
    "no source": (lambda p: setattr(p.srcPtr, "ptr", None), E.hipErrorInvalidValue),
    "a pitch below the width": (lambda p: setattr(p.dstPtr, "pitch", WIDTH - 1), E.hipErrorInvalidPitchValue),
    "the source's": (lambda p: setattr(p.srcPtr, "pitch", WIDTH - 1), E.hipErrorInvalidPitchValue),
    "planes that overlap": (lambda p: setattr(p.dstPtr, "ysize", HEIGHT - 1), E.hipErrorInvalidValue),
    "more planes than there are": (lambda p: setattr(p.extent, "depth", DEPTH + 1), E.hipErrorInvalidValue),
    "beyond the end": (lambda p: setattr(p.dstPos, "z", DEPTH), E.hipErrorInvalidValue),
    "a negative position": (lambda p: setattr(p.dstPos, "x", -1), E.hipErrorInvalidValue),
    "an array": (lambda p: setattr(p, "srcArray", 1), E.hipErrorInvalidValue),
    "no kind": (lambda p: setattr(p, "kind", 99), E.hipErrorInvalidMemcpyDirection),
    "the other way": (lambda p: setattr(p, "kind", K.hipMemcpyDeviceToHost), E.hipErrorInvalidValue),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_copies(there, works, what):
    given = parms(there, host_ptr(volume()), K.hipMemcpyHostToDevice)
    given.dstPtr = there.copy()
    change, expected = WRONG[what]
    change(given)
    for result in (hip.hipMemcpy3D(given), hip.hipMemcpy3DAsync(given, None)):
        assert code(result) == expected
    works(None)


def test_nothing_to_copy(there):
    for size in (extent(0), extent(height=0), extent(depth=0)):
        ok(hip.hipMemcpy3D(parms(there, host_ptr(volume()), K.hipMemcpyHostToDevice, size)))
    assert code(hip.hipMemcpy3D(None)) == E.hipErrorInvalidValue
    with pytest.raises(TypeError, match="hipMemcpy3DParms"):
        hip.hipMemcpy3D(hip.hipExtent())


# The structures of the driver's functions


def test_rows_by_the_drivers_structure(device, really):
    given, got = volume()[0], np.zeros((HEIGHT, WIDTH), "u1")
    pointer, pitch = ok(hip.hipMallocPitch(WIDTH, HEIGHT))
    up = hip.hip_Memcpy2D(
        srcMemoryType=HOST, srcHost=given, srcPitch=WIDTH, dstMemoryType=DEVICE, dstDevice=pointer, dstPitch=pitch,
        WidthInBytes=WIDTH, Height=HEIGHT,
    )  # fmt: skip
    ok(hip.hipMemcpyParam2D(up))
    down = hip.hip_Memcpy2D(
        srcMemoryType=DEVICE, srcDevice=pointer, srcPitch=pitch, srcXInBytes=2, srcY=1, dstMemoryType=HOST, dstHost=got,
        dstPitch=WIDTH, WidthInBytes=10, Height=2,
    )  # fmt: skip
    for copy in (hip.hipMemcpyParam2D, hip.hipDrvMemcpy2DUnaligned, lambda p: hip.hipMemcpyParam2DAsync(p, None)):
        got[:] = 0
        ok(copy(down))
        ok(hip.hipStreamSynchronize(None))
        assert (got[:2, :10] == given[1:, 2:12]).all() or not really
        assert got[2].sum() == 0
    down.dstPitch = 9
    assert code(hip.hipMemcpyParam2D(down)) == E.hipErrorInvalidPitchValue
    down.dstMemoryType = hip.hipMemoryType.hipMemoryTypeArray
    assert code(hip.hipMemcpyParam2D(down)) == E.hipErrorInvalidHandle
    assert code(hip.hipMemcpyParam2D(hip.hip_Memcpy2D(WidthInBytes=1, Height=1))) == E.hipErrorInvalidValue


@pytest.mark.executes
def test_planes_by_the_drivers_structure(there):
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ends = {
        "WidthInBytes": WIDTH, "Height": HEIGHT, "Depth": DEPTH,
    }  # fmt: skip
    up = hip.HIP_MEMCPY3D(
        srcMemoryType=HOST, srcHost=given, srcPitch=WIDTH, srcHeight=HEIGHT, dstMemoryType=DEVICE, dstDevice=there.ptr,
        dstPitch=there.pitch, dstHeight=HEIGHT, **ends,
    )  # fmt: skip
    ok(hip.hipDrvMemcpy3D(up))
    down = hip.HIP_MEMCPY3D(
        srcMemoryType=DEVICE, srcDevice=there.ptr, srcPitch=there.pitch, srcHeight=HEIGHT, dstMemoryType=HOST,
        dstHost=got, **ends,
    )  # fmt: skip
    ok(hip.hipDrvMemcpy3DAsync(down, None))
    ok(hip.hipStreamSynchronize(None))
    assert (got == given).all()


def test_between_devices(there, really):
    """Of one and the same; others are tried where there are two."""
    number = hip.devices.number_of(hip.current_device())
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ok(hip.hipMemcpy3D(parms(there, host_ptr(given), K.hipMemcpyHostToDevice)))
    other = ok(hip.hipMalloc3D(extent()))
    p = hip.hipMemcpy3DPeerParms(dstPtr=other, dstDevice=number, srcPtr=there, srcDevice=number, extent=extent())
    for copy in (hip.hipMemcpy3DPeer, lambda p: hip.hipMemcpy3DPeerAsync(p, None)):
        ok(hip.hipMemset3D(other, 0, extent()))
        ok(copy(p))
        ok(hip.hipMemcpy3D(parms(host_ptr(got), other, K.hipMemcpyDeviceToHost)))
        assert (got == given).all() or not really
    p.dstDevice = 99
    assert code(hip.hipMemcpy3DPeer(p)) == E.hipErrorInvalidDevice


# Memsets


@pytest.mark.executes
@pytest.mark.parametrize("asynchronous", [False, True])
def test_bytes_of_planes(there, asynchronous):
    got = np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    ok(hip.hipMemset3D(there, 1, extent()))
    inner = hip.hipPitchedPtr(there.ptr + 2 + there.pitch, there.pitch, WIDTH, HEIGHT)
    if asynchronous:
        ok(hip.hipMemset3DAsync(inner, 0x107, extent(5, 2, 3), None))
    else:
        ok(hip.hipMemset3D(inner, 0x107, extent(5, 2, 3)))
    ok(hip.hipMemcpy3D(parms(host_ptr(got), there, K.hipMemcpyDeviceToHost)))
    expected = np.ones((DEPTH, HEIGHT, WIDTH), "u1")
    expected[:3, 1:, 2:7] = 7
    assert (got == expected).all()


@pytest.mark.executes
@pytest.mark.parametrize(("name", "dtype"), [("D2D8", "u1"), ("D2D16", "u2"), ("D2D32", "u4")])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_elements_of_rows(device, name, dtype, asynchronous):
    pointer, pitch = ok(hip.hipMallocPitch(32, 4))
    ok(hip.hipMemset(pointer, 0, pitch * 4))
    arguments = (pointer, pitch, 0x12345678, 5, 3)
    call = getattr(hip, f"hipMemset{name}{'Async' * asynchronous}")
    ok(call(*arguments, None) if asynchronous else call(*arguments))
    got = np.zeros((4, pitch // np.dtype(dtype).itemsize), dtype)
    ok(hip.hipMemcpy(got, pointer, got.nbytes, K.hipMemcpyDeviceToHost))
    assert (got[:3, :5] == 0x12345678 & np.iinfo(dtype).max).all()
    got[:3, :5] = 0
    assert got.sum() == 0


def test_wrong_memsets(there, works):
    for wrong in (
        hip.hipMemset3D(there, 0, extent(there.pitch + 1)),
        hip.hipMemset3D(there, 0, extent(depth=DEPTH + 1)),
        hip.hipMemset3D(there, 0, extent(height=HEIGHT + 1)),
        hip.hipMemset3D(there, 0, None),
        hip.hipMemset3D(None, 0, extent()),
        hip.hipMemset3D(hip.hipPitchedPtr(None, 8, 8, 8), 0, extent(8, 1, 1)),
        hip.hipMemsetD2D32(there.ptr, 3, 0, 1, 2),
        hip.hipMemsetD2D32(there.ptr, 6, 0, 1, 2),
        hip.hipMemsetD2D8(there.ptr, -1, 0, 1, 2),
        hip.hipMemsetD2D16(there.ptr, there.pitch, 0, 1, 1000),
    ):
        assert code(wrong) == E.hipErrorInvalidValue
    ok(hip.hipMemset3D(there, 0, extent(0)))
    ok(hip.hipMemsetD2D32(there.ptr, 4, 0, 0, 5))
    works(None)


@pytest.mark.needs("two devices")
@pytest.mark.executes
def test_between_two_devices(device):
    given, got = volume(), np.zeros((DEPTH, HEIGHT, WIDTH), "u1")
    memory = []
    for number in (0, 1):
        ok(hip.hipSetDevice(number))
        memory.append(ok(hip.hipMalloc3D(extent())))
    ok(hip.hipMemcpy3D(parms(memory[0], host_ptr(given), K.hipMemcpyDefault)))
    p = hip.hipMemcpy3DPeerParms(dstPtr=memory[1], dstDevice=1, srcPtr=memory[0], srcDevice=0, extent=extent())
    ok(hip.hipMemcpy3DPeer(p))
    ok(hip.hipMemcpy3D(parms(host_ptr(got), memory[1], K.hipMemcpyDeviceToHost)))
    assert (got == given).all()
