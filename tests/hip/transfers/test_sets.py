"""Every function of HIP that sets memory, and memory of rows and planes."""

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import K

SHAPE = (4, 4, 64)  # planes, rows, bytes of a row
VALUE = -0x12345678  # of which the last bytes are taken


def planes(memory):
    return hip.hipPitchedPtr(memory, 64, 64, 4)


# Name: the type of an element, the elements that are set in an array of this shape, and the arguments.
SETS = {
    "hipMemset": ("u1", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 1024)),
    "hipMemsetD8": ("u1", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 1024)),
    "hipMemsetD16": ("u2", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 512)),
    "hipMemsetD32": ("u4", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 256)),
    "hipMemset2D": ("u1", np.s_[0, :3, :10], lambda m: (m, 64, VALUE, 10, 3), SHAPE),
    "hipMemsetD2D8": ("u1", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), SHAPE),
    "hipMemsetD2D16": ("u2", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), (4, 4, 32)),
    "hipMemsetD2D32": ("u4", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), (4, 4, 16)),
    "hipMemset3D": ("u1", np.s_[:3, :2, :5], lambda m: (planes(m), VALUE, hip.hipExtent(5, 2, 3)), SHAPE),
}
SETS |= {f"{name}{suffix}": row for name, row in SETS.items() for suffix in ("Async", "_spt", "Async_spt")
         if hasattr(hip, f"{name}{suffix}")}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_it_sets_what_it_is_given_and_no_more(device, name):
    dtype, where, arguments, shape = SETS[name]
    memory, got, expected = ok(hip.hipMalloc(1024)), np.zeros(1024, "u1"), np.full(1024, 0x55, "u1")
    ok(hip.hipMemset(memory, 0x55, 1024))
    stream = (ok(hip.hipStreamCreate()),) if "Async" in name else ()
    ok(getattr(hip, name)(*arguments(memory), *stream))
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemcpy(got, memory, 1024, K.hipMemcpyDeviceToHost))
    expected.view(dtype).reshape(shape)[where] = VALUE & np.iinfo(dtype).max
    assert device_data(got.tolist()) == expected.tolist()


def test_pitches(device):
    pointer, pitch = ok(hip.hipMallocPitch(20, 3))
    assert pitch >= 20
    assert pitch % 128 == 0
    assert ok(hip.hipMemPtrGetInfo(pointer)) == pitch * 3
    for nothing in ((0, 5), (5, 0)):
        assert ok(hip.hipMallocPitch(*nothing))[0].is_ptr_null
    assert ok(hip.hipMemAllocPitch(20, 3, 4))[1] % 256 == 0
    volume = ok(hip.hipMalloc3D(hip.hipExtent(20, 3, 4)))
    assert (volume.xsize, volume.ysize) == (20, 3)
    assert ok(hip.hipMemPtrGetInfo(volume.ptr)) == volume.pitch * 3 * 4
    for each in (pointer, volume.ptr):
        ok(hip.hipFree(each))
