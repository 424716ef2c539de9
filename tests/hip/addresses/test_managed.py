"""Hints about managed memory: remembered, and checked."""

import ctypes

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E

ADVICE, RANGE, PLACE = hip.hipMemoryAdvise, hip.hipMemRangeAttribute, hip.hipMemLocationType
CPU, NOWHERE = hip.hipCpuDeviceId, hip.hipInvalidDeviceId
NBYTES = 1 << 12


@pytest.fixture
def memory(device):
    made = hip.hipMallocManaged(NBYTES)
    if made[0] == E.hipErrorNotSupported:
        pytest.skip("the device has no managed memory")
    return ok(made)


def attribute(memory, which, count=1):
    values = (ctypes.c_int32 * count)()
    ok(hip.hipMemRangeGetAttribute(values, 4 * count, which, memory, NBYTES))
    return values[0] if count == 1 else list(values)


def test_advice_is_remembered(memory):
    number = ok(hip.hipGetDevice())
    assert attribute(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert attribute(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert attribute(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetReadMostly, number))
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation, CPU))
    for place in (number, CPU, number):
        ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetAccessedBy, place))
    ok(hip.hipMemAdvise(memory, NBYTES, int(ADVICE.hipMemAdviseSetCoarseGrain), number))
    assert attribute(memory, RANGE.hipMemRangeAttributeReadMostly) == 1
    assert attribute(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    assert attribute(memory, RANGE.hipMemRangeAttributeAccessedBy, 3) == [CPU, number, NOWHERE]
    assert attribute(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 1
    for advice in (ADVICE.hipMemAdviseUnsetReadMostly, ADVICE.hipMemAdviseUnsetPreferredLocation,
                   ADVICE.hipMemAdviseUnsetAccessedBy, ADVICE.hipMemAdviseUnsetCoarseGrain):  # fmt: skip
        ok(hip.hipMemAdvise(memory, NBYTES, advice, number))
    assert attribute(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert attribute(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert attribute(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [CPU, NOWHERE]
    assert attribute(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 0
    other = ok(hip.hipMallocManaged(NBYTES))
    assert attribute(other, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]


def test_prefetches(memory, streams):
    number, (stream,) = ok(hip.hipGetDevice()), streams(1)
    last = RANGE.hipMemRangeAttributeLastPrefetchLocation
    assert attribute(memory, last) == NOWHERE
    ok(hip.hipMemPrefetchAsync(memory, NBYTES, number, stream))
    assert attribute(memory, last) == number
    ok(hip.hipMemPrefetchAsync(memory + 16, 16, CPU))
    assert attribute(memory, last) == CPU
    ok(
        hip.hipMemPrefetchAsync_v2(
            memory, NBYTES, hip.hipMemLocation(PLACE.hipMemLocationTypeDevice, number), 0, stream
        )
    )
    assert attribute(memory, last) == number
    ok(hip.hipMemAdvise_v2(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation,
                           hip.hipMemLocation(PLACE.hipMemLocationTypeHost)))  # fmt: skip
    assert attribute(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    ok(hip.hipStreamAttachMemAsync(stream, memory))
    ok(hip.hipStreamAttachMemAsync(stream, memory, NBYTES, hip.hipMemAttachGlobal))
    ok(hip.hipStreamSynchronize(stream))
