"""What a pointer points to, and pools by their handle."""

import ctypes

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, can_map, code, read

T, P = hip.hipMemoryType, hip.hipPointer_attribute
KINDS = {
    "hipMalloc": T.hipMemoryTypeDevice, "hipMallocAsync": T.hipMemoryTypeDevice,
    "hipHostMalloc": T.hipMemoryTypeHost, "hipMallocManaged": T.hipMemoryTypeManaged,
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_way_to_ask(device, name):
    """The structure that is given or returned, and one attribute after the other."""
    result, pointer = getattr(hip, name)(100)
    if result == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    kind, number, inside = KINDS[name], hip.devices.number_of(device), pointer + 50
    mapped = kind != T.hipMemoryTypeHost or can_map(device)
    there = inside if mapped else 0
    on_host = kind != T.hipMemoryTypeDevice
    expected = {
        P.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: (ctypes.c_uint32, kind),
        P.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: (ctypes.c_uint64, there),
        P.HIP_POINTER_ATTRIBUTE_HOST_POINTER: (ctypes.c_uint64, inside if on_host else 0),
        P.HIP_POINTER_ATTRIBUTE_IS_MANAGED: (ctypes.c_bool, kind == T.hipMemoryTypeManaged),
        P.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: (ctypes.c_int, number),
        P.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: (ctypes.c_uint64, pointer),
        P.HIP_POINTER_ATTRIBUTE_RANGE_SIZE: (ctypes.c_uint64, 100),
        P.HIP_POINTER_ATTRIBUTE_MAPPED: (ctypes.c_bool, mapped),
    }
    for attribute, (of, wanted) in expected.items():
        value = of(77 if of is not ctypes.c_bool else not wanted)
        ok(hip.hipPointerGetAttribute(value, attribute, inside))
        assert value.value == wanted, attribute
    into = hip.hipPointerAttribute_t()
    assert hip.hipPointerGetAttributes(into, inside) == (E.hipSuccess,)
    found = ok(hip.hipPointerGetAttributes(ptr=inside))
    assert isinstance(found, hip.hipPointerAttribute_t)
    assert {name: found[name] for name in found.PROPERTIES()} == {name: into[name] for name in into.PROPERTIES()}
    assert (found.type, found.device, found.devicePointer) == (kind, number, there or None)
    assert (bool(found.hostPointer), found.isManaged) == (on_host, kind == T.hipMemoryTypeManaged)
    ok(hip.hipPointerSetAttribute(ctypes.c_int(0), P.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer))


def test_each_allocation_has_an_id(device):
    ids, first, other = [], ok(hip.hipMalloc(100)), ok(hip.hipMalloc(100))
    for pointer in (first, first + 10, other):
        value = ctypes.c_uint64(0)
        ok(hip.hipPointerGetAttribute(value, P.HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer))
        ids.append(value.value)
    assert ids[0] == ids[1] != ids[2]


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


# Hints about managed memory: remembered, and checked


ADVICE, RANGE, PLACE = hip.hipMemoryAdvise, hip.hipMemRangeAttribute, hip.hipMemLocationType
CPU, NOWHERE = hip.hipCpuDeviceId, hip.hipInvalidDeviceId
NBYTES = 1 << 12


@pytest.fixture
def memory(device):
    made = hip.hipMallocManaged(NBYTES)
    if made[0] == E.hipErrorNotSupported:
        pytest.skip("the device has no managed memory")
    return ok(made)


def hint(memory, which, count=1):
    values = (ctypes.c_int32 * count)()
    ok(hip.hipMemRangeGetAttribute(values, 4 * count, which, memory, NBYTES))
    return values[0] if count == 1 else list(values)


def test_advice_is_remembered(memory):
    number = ok(hip.hipGetDevice())
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetReadMostly, number))
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation, CPU))
    for place in (number, CPU, number):
        ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetAccessedBy, place))
    ok(hip.hipMemAdvise(memory, NBYTES, int(ADVICE.hipMemAdviseSetCoarseGrain), number))
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 1
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 3) == [CPU, number, NOWHERE]
    assert hint(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 1
    for advice in (ADVICE.hipMemAdviseUnsetReadMostly, ADVICE.hipMemAdviseUnsetPreferredLocation,
                   ADVICE.hipMemAdviseUnsetAccessedBy, ADVICE.hipMemAdviseUnsetCoarseGrain):  # fmt: skip
        ok(hip.hipMemAdvise(memory, NBYTES, advice, number))
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [CPU, NOWHERE]
    assert hint(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 0
    other = ok(hip.hipMallocManaged(NBYTES))
    assert hint(other, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]


def test_prefetches(memory, streams):
    number, (stream,) = ok(hip.hipGetDevice()), streams(1)
    last = RANGE.hipMemRangeAttributeLastPrefetchLocation
    assert hint(memory, last) == NOWHERE
    ok(hip.hipMemPrefetchAsync(memory, NBYTES, number, stream))
    assert hint(memory, last) == number
    ok(hip.hipMemPrefetchAsync(memory + 16, 16, CPU))
    assert hint(memory, last) == CPU
    ok(
        hip.hipMemPrefetchAsync_v2(
            memory, NBYTES, hip.hipMemLocation(PLACE.hipMemLocationTypeDevice, number), 0, stream
        )
    )
    assert hint(memory, last) == number
    ok(hip.hipMemAdvise_v2(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation,
                           hip.hipMemLocation(PLACE.hipMemLocationTypeHost)))  # fmt: skip
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    ok(hip.hipStreamAttachMemAsync(stream, memory))
    ok(hip.hipStreamAttachMemAsync(stream, memory, NBYTES, hip.hipMemAttachGlobal))
    ok(hip.hipStreamSynchronize(stream))
