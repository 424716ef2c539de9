"""Arrays: allocated, described, copied and freed."""

import pytest

from forebay import hip

from ..conftest import ok
from .conftest import Kind, description

pytestmark = [pytest.mark.needs("a compiler of HIP C++")]

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


def test_memory(device):
    before = ok(hip.hipMemGetInfo())[0]
    array = ok(hip.hipMallocArray(F4, 1024, 1024))
    assert before - ok(hip.hipMemGetInfo())[0] == 1 << 24
    ok(hip.hipFreeArray(array))
    assert ok(hip.hipMemGetInfo())[0] == before


def test_many(device):
    """Made and freed ten thousand times."""
    before = ok(hip.hipMemGetInfo())[0]
    for _ in range(10_000):
        ok(hip.hipFreeArray(ok(hip.hipMallocArray(F4, 64, 64))))
    assert ok(hip.hipMemGetInfo())[0] == before
