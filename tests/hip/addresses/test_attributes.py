"""What a pointer points to, and pools by their handle."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, can_map, code, read

P = hip.hipPointer_attribute
TYPES = {
    P.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: ctypes.c_uint32,
    P.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: ctypes.c_uint64,
    P.HIP_POINTER_ATTRIBUTE_HOST_POINTER: ctypes.c_uint64,
    P.HIP_POINTER_ATTRIBUTE_BUFFER_ID: ctypes.c_uint64,
    P.HIP_POINTER_ATTRIBUTE_IS_MANAGED: ctypes.c_bool,
    P.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: ctypes.c_int,
    P.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: ctypes.c_uint64,
    P.HIP_POINTER_ATTRIBUTE_RANGE_SIZE: ctypes.c_uint64,
    P.HIP_POINTER_ATTRIBUTE_MAPPED: ctypes.c_bool,
}


def attribute(which, pointer):
    value = TYPES[which](77 if TYPES[which] is not ctypes.c_bool else True)
    ok(hip.hipPointerGetAttribute(value, which, pointer))
    return value.value


def test_either_way_to_ask(device):
    pointer, into = ok(hip.hipMalloc(100)), hip.hipPointerAttribute_t()
    assert hip.hipPointerGetAttributes(into, pointer + 10) == (E.hipSuccess,)
    found = ok(hip.hipPointerGetAttributes(pointer + 10))
    assert ok(hip.hipPointerGetAttributes(ptr=pointer)).devicePointer == pointer
    assert isinstance(found, hip.hipPointerAttribute_t)
    assert {name: found[name] for name in found.PROPERTIES()} == {name: into[name] for name in into.PROPERTIES()}
    assert found.devicePointer == pointer + 10
    assert found.type == hip.hipMemoryType.hipMemoryTypeDevice
    for wrong in (None, 0, np.zeros(4), 12345):
        assert code(hip.hipPointerGetAttributes(wrong)) == E.hipErrorInvalidValue
        assert code(hip.hipPointerGetAttributes(into, wrong)) == E.hipErrorInvalidValue
    ok(hip.hipFree(pointer))
    assert code(hip.hipPointerGetAttributes(pointer)) == E.hipErrorInvalidValue
    with pytest.raises(TypeError, match="hipPointerAttribute_t"):
        hip.hipPointerGetAttributes({}, pointer)


def test_one_by_one(device):
    number, pointer = ok(hip.hipGetDevice()), ok(hip.hipMalloc(100))
    inside = pointer + 10
    assert attribute(P.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, inside) == hip.hipMemoryType.hipMemoryTypeDevice
    assert attribute(P.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, inside) == inside
    assert attribute(P.HIP_POINTER_ATTRIBUTE_HOST_POINTER, inside) == 0
    assert attribute(P.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside) == pointer
    assert attribute(P.HIP_POINTER_ATTRIBUTE_RANGE_SIZE, inside) == 100
    assert attribute(P.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside) == number
    assert attribute(P.HIP_POINTER_ATTRIBUTE_IS_MANAGED, inside) is False
    assert attribute(P.HIP_POINTER_ATTRIBUTE_MAPPED, inside) is True
    other = ok(hip.hipMalloc(100))
    ids = [attribute(P.HIP_POINTER_ATTRIBUTE_BUFFER_ID, each) for each in (pointer, inside, other)]
    assert ids[0] == ids[1] != ids[2]
    host = ok(hip.hipHostMalloc(100))
    assert attribute(P.HIP_POINTER_ATTRIBUTE_HOST_POINTER, host) == host
    assert attribute(P.HIP_POINTER_ATTRIBUTE_MAPPED, host) is can_map(device)
    value = ctypes.c_int(0)
    for wrong in (P.HIP_POINTER_ATTRIBUTE_P2P_TOKENS, P.HIP_POINTER_ATTRIBUTE_CONTEXT, 99):
        assert code(hip.hipPointerGetAttribute(value, wrong, pointer)) == E.hipErrorInvalidValue
    assert code(hip.hipPointerGetAttribute(None, P.HIP_POINTER_ATTRIBUTE_IS_MANAGED, pointer)) == E.hipErrorInvalidValue
    assert code(hip.hipPointerGetAttribute(value, P.HIP_POINTER_ATTRIBUTE_IS_MANAGED, 123)) == E.hipErrorInvalidValue
    ok(hip.hipPointerSetAttribute(value, P.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer))
    assert code(hip.hipPointerSetAttribute(value, P.HIP_POINTER_ATTRIBUTE_MAPPED, pointer)) == E.hipErrorInvalidValue
    assert (
        code(hip.hipPointerSetAttribute(None, P.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer)) == E.hipErrorInvalidValue
    )


def test_memory_of_a_pool(device, streams, really):
    number, (stream,) = ok(hip.hipGetDevice()), streams(1)
    pool = ok(hip.hipDeviceGetDefaultMemPool(number))
    ok(hip.hipDeviceSetMemPool(number, pool))
    assert ok(hip.hipDeviceGetMemPool(number)) == pool
    memory = ok(hip.hipMallocFromPoolAsync(400, pool, stream))
    ok(hip.hipMemsetD32Async(memory, 6, 100, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory, 100) == [6] * 100 or not really
    ok(hip.hipFreeAsync(memory, stream))
    assert code(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue
    assert ok(hip.hipMallocFromPoolAsync(0, pool, stream)).is_ptr_null
    here = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, number)
    assert ok(hip.hipMemPoolGetAccess(pool, here)) == hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
    here.id = 99
    assert code(hip.hipMemPoolGetAccess(pool, here)) == E.hipErrorInvalidValue
    assert code(hip.hipMemPoolGetAccess(12, here)) == E.hipErrorInvalidValue
    assert code(hip.hipMallocFromPoolAsync(4, 12, stream)) == E.hipErrorInvalidValue
    assert code(hip.hipDeviceSetMemPool(99, pool)) == E.hipErrorInvalidDevice
