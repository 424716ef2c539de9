"""Rows and planes: allocated, copied and set."""

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code

WIDTH, HEIGHT, DEPTH = 20, 3, 4


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


def test_memory_of_planes(there):
    assert (there.xsize, there.ysize) == (WIDTH, HEIGHT)
    assert ok(hip.hipMemPtrGetInfo(there.ptr)) == there.pitch * HEIGHT * DEPTH
    ok(hip.hipFree(there.ptr))
    with pytest.raises(TypeError, match="hipExtent"):
        hip.hipMalloc3D((1, 2, 3))
    assert code(hip.hipMalloc3D(None)) == E.hipErrorInvalidValue


# The structures of the driver's functions


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
