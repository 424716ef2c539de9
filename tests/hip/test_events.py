"""Modelled on the event chapter of HIP's conformance tests."""

import pytest

from forebay import hip

from .conftest import ok
from .helpers import E, N, code, ints, launch, read


def test_an_event_that_was_never_recorded(device):
    event, stream = ok(hip.hipEventCreate()), ok(hip.hipStreamCreate())
    ok(hip.hipEventQuery(event))
    ok(hip.hipEventSynchronize(event))
    before = stream.queue.epoch
    ok(hip.hipStreamWaitEvent(stream, event, 0))
    assert stream.queue.epoch == before
    other = ok(hip.hipEventCreate())
    assert code(hip.hipEventElapsedTime(event, other)) == E.hipErrorInvalidHandle


@pytest.mark.executes(run=False)
def test_recording_again_moves_the_point_but_not_for_those_who_wait(function, hold):
    a, b, c = (ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)) for _ in range(3))
    event, memory = ok(hip.hipEventCreate()), ints()
    launch(function("fill"), a, memory, 1)
    ok(hip.hipEventRecord(event, a))
    ok(hip.hipStreamSynchronize(a))
    ok(hip.hipEventQuery(event))
    gate = hold(a)
    ok(hip.hipStreamWaitEvent(b, event, 0))  # for the first point
    ok(hip.hipEventRecord(event, a))
    assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    ok(hip.hipStreamWaitEvent(c, event, 0))  # for the second
    launch(function("add"), b, memory, 1)
    ok(hip.hipStreamSynchronize(b))
    launch(function("add"), c, memory, 1)
    assert code(hip.hipStreamQuery(c)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipDeviceSynchronize())
    assert read(memory) == [3] * N


# Times


@pytest.mark.executes(run=False)
def test_elapsed_time(function):
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    memory = ints()
    ok(hip.hipEventRecord(start, None))
    for _ in range(10):
        launch(function("add"), None, memory, 1)
    ok(hip.hipEventRecord(stop, None))
    ok(hip.hipEventSynchronize(stop))
    there, back = ok(hip.hipEventElapsedTime(start, stop)), ok(hip.hipEventElapsedTime(stop, start))
    assert isinstance(there, float)
    assert there > 0
    assert there == -back


@pytest.mark.executes(run=False)
def test_elapsed_time_of_what_is_not_done(device, hold):
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(start, None))
    hold(None)
    ok(hip.hipEventRecord(stop, None))
    assert code(hip.hipEventElapsedTime(start, stop)) == E.hipErrorNotReady


# Mistakes


@pytest.mark.parametrize(
    "flags", [hip.hipEventDefault, hip.hipEventBlockingSync, hip.hipEventDisableTiming, hip.hipEventReleaseToSystem, 3]
)
def test_flags(device, flags):
    event = ok(hip.hipEventCreateWithFlags(flags))
    ok(hip.hipEventRecord(event, None))
    ok(hip.hipEventSynchronize(event))
    assert event.event.timing == (not flags & hip.hipEventDisableTiming)
    ok(hip.hipEventDestroy(event))


@pytest.mark.needs("two devices")
def test_an_event_and_a_stream_of_two_devices(device):
    count = ok(hip.hipGetDeviceCount())
    here = ok(hip.hipGetDevice())
    event = ok(hip.hipEventCreate())
    ok(hip.hipSetDevice((here + 1) % count))
    other = ok(hip.hipEventCreate())
    assert code(hip.hipEventRecord(event, None)) == E.hipErrorInvalidHandle
    ok(hip.hipEventRecord(other, None))
    ok(hip.hipEventSynchronize(other))
    ok(hip.hipSetDevice(here))
    ok(hip.hipEventRecord(event, None))
    ok(hip.hipEventSynchronize(event))
    assert code(hip.hipEventElapsedTime(event, other)) == E.hipErrorInvalidHandle
