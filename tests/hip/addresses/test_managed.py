"""Hints about managed memory: remembered, and checked."""

import ctypes

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, code, ints

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


def test_wrong_hints(memory, works):
    number = ok(hip.hipGetDevice())
    value, device = ctypes.c_int32(5), ints(1000)
    read_mostly = ADVICE.hipMemAdviseSetReadMostly
    for wrong, count in ((None, 4), (device, 4), (memory, 0), (memory, NBYTES + 1), (memory + 1, NBYTES), (memory, -1)):
        assert code(hip.hipMemAdvise(wrong, count, read_mostly, number)) == E.hipErrorInvalidValue
        assert code(hip.hipMemPrefetchAsync(wrong, count, number)) == E.hipErrorInvalidValue
        assert code(
            hip.hipMemRangeGetAttribute(value, 4, RANGE.hipMemRangeAttributeReadMostly, wrong, count)
        ) == E.hipErrorInvalidValue  # fmt: skip
    assert value.value == 5
    for place in (99, NOWHERE):
        assert code(hip.hipMemAdvise(memory, 4, read_mostly, place)) == E.hipErrorInvalidDevice
        assert code(hip.hipMemPrefetchAsync(memory, 4, place)) == E.hipErrorInvalidDevice
    assert code(hip.hipMemAdvise(memory, 4, 77, number)) == E.hipErrorInvalidValue
    nowhere = hip.hipMemLocation()
    assert code(hip.hipMemAdvise_v2(memory, 4, read_mostly, nowhere)) == E.hipErrorInvalidValue
    assert code(hip.hipMemPrefetchAsync_v2(memory, 4, nowhere)) == E.hipErrorInvalidValue
    here = hip.hipMemLocation(PLACE.hipMemLocationTypeDevice, number)
    assert code(hip.hipMemPrefetchAsync_v2(memory, 4, here, 1)) == E.hipErrorInvalidValue
    for size, which in ((3, 1), (8, RANGE.hipMemRangeAttributeReadMostly), (0, RANGE.hipMemRangeAttributeAccessedBy),
                        (4, 77)):  # fmt: skip
        assert code(hip.hipMemRangeGetAttribute(value, size, which, memory, 4)) == E.hipErrorInvalidValue
    for wrong in (
        (None, device), (None, memory + 4), (None, memory, 12), (None, memory, 0, 9), (None, None),
    ):  # fmt: skip
        assert code(hip.hipStreamAttachMemAsync(*wrong)) == E.hipErrorInvalidValue
    assert code(hip.hipStreamAttachMemAsync(12345, memory)) == E.hipErrorContextIsDestroyed
    ok(hip.hipFree(memory))
    assert code(hip.hipMemAdvise(memory, 4, read_mostly, number)) == E.hipErrorInvalidValue
    works(None)


@pytest.mark.parametrize("what", ["prefetch", "attach"])
def test_not_in_a_capture(memory, streams, what):
    (stream,) = streams(1)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    result = (
        hip.hipMemPrefetchAsync(memory, 4, 0, stream)
        if what == "prefetch"
        else hip.hipStreamAttachMemAsync(stream, memory)
    )
    assert code(result) == E.hipErrorStreamCaptureUnsupported
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated
