"""Modelled on the stream, stream-per-thread and event chapters of HIP's conformance tests; steps are forebay's own."""

import ctypes

import pytest

from forebay import hip
from forebay.hip import ext
from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread

from .conftest import ok
from .helpers import STREAMS, E, N, code, ints, launch, read, waits_for


def is_null(kind):
    return kind in ("null", "legacy")


def ordered(first, second):
    if is_null(first) or is_null(second):
        return "non-blocking" not in (first, second)
    return first == second == "per-thread"


# Order


@pytest.mark.executes
@pytest.mark.parametrize("second", STREAMS)
@pytest.mark.parametrize("first", STREAMS)
def test_each_pair(function, hold, first, second):
    """What is submitted second waits for the first exactly when HIP's rules say so."""
    a, b = STREAMS[first](), STREAMS[second]()
    memory, other = ints(), ints()
    gate = hold(a)
    launch(function("fill"), a, memory, 1)
    launch(function("add"), b, memory if ordered(first, second) else other, 2)
    if ordered(first, second):
        assert code(hip.hipStreamQuery(b)) == E.hipErrorNotReady
    else:
        ok(hip.hipStreamSynchronize(b))  # while the first is held
        assert code(hip.hipStreamQuery(a)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipDeviceSynchronize())
    assert read(memory) == [3 if ordered(first, second) else 1] * N


@pytest.mark.executes
@pytest.mark.parametrize("null", [None, 0, hip.hipStreamLegacy, 1, ctypes.c_void_p(0)], ids=repr)
def test_synchronizing_the_null_stream_waits_for_blocking_streams(device, function, hold, null):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    gate = hold(stream)
    launch(function("fill"), stream, memory, 1)
    assert code(hip.hipStreamQuery(null)) == E.hipErrorNotReady
    assert waits_for(gate, lambda: hip.hipStreamSynchronize(null))
    ok(hip.hipStreamQuery(stream))
    assert read(memory) == [1] * N


# Making and ending


def test_flags_priorities_and_devices(device):
    least, greatest = ok(hip.hipDeviceGetStreamPriorityRange())
    assert greatest <= 0 <= least
    for flags in (hip.hipStreamDefault, hip.hipStreamNonBlocking):
        for asked in (greatest - 5, greatest, 0, least, least + 5):
            stream = ok(hip.hipStreamCreateWithPriority(flags, asked))
            assert ok(hip.hipStreamGetFlags(stream)) == flags
            assert ok(hip.hipStreamGetPriority(stream)) == min(max(asked, greatest), least)
            assert ok(hip.hipStreamGetDevice(stream)) == hip.devices.number_of(device)
            ok(hip.hipStreamDestroy(stream))
    for default in (None, 0, hip.hipStreamLegacy, hip.hipStreamPerThread):
        assert ok(hip.hipStreamGetFlags(default)) == hip.hipStreamDefault
        assert ok(hip.hipStreamGetPriority(default)) == 0


def test_streams_are_told_apart(device):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    assert a != b
    assert len({a, b, hip.ihipStream_t(int(a))}) == 2
    assert int(a) == a
    assert ok(hip.hipStreamGetId(a)) != ok(hip.hipStreamGetId(b))
    ok(hip.hipStreamSynchronize(int(a)))  # by its number
    ok(hip.hipStreamSynchronize(ctypes.c_void_p(int(a))))
    assert hip.ihipStream_t(int(a)).queue is a.queue


def test_handles_as_words_of_c(module):
    def word(handle):
        return ctypes.c_void_p(int(handle))

    stream, event = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(word(event), word(stream)))
    ok(hip.hipStreamWaitEvent(word(stream), word(event), 0))
    fill, memory = ok(hip.hipModuleGetFunction(word(module), b"fill")), ints()
    ok(hip.hipModuleLaunchKernel(word(fill), 1, 1, 1, 1, 1, 1, 0, word(stream), None, (word(memory), ctypes.c_int(1))))
    ok(hip.hipEventDestroy(word(event)))
    ok(hip.hipStreamDestroy(word(stream)))
    ok(hip.hipModuleUnload(word(module)))


# Events


def test_an_event_that_was_never_recorded(device):
    event, stream = ok(hip.hipEventCreate()), ok(hip.hipStreamCreate())
    ok(hip.hipEventQuery(event))
    ok(hip.hipEventSynchronize(event))
    before = stream.queue.epoch
    ok(hip.hipStreamWaitEvent(stream, event, 0))
    assert stream.queue.epoch == before
    other = ok(hip.hipEventCreate())
    assert code(hip.hipEventElapsedTime(event, other)) == E.hipErrorInvalidHandle


@pytest.mark.executes
def test_elapsed_time_of_what_is_not_done(device, hold):
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(start, None))
    hold(None)
    ok(hip.hipEventRecord(stop, None))
    assert code(hip.hipEventElapsedTime(start, stop)) == E.hipErrorNotReady


@pytest.mark.parametrize(
    "flags", [hip.hipEventDefault, hip.hipEventBlockingSync, hip.hipEventDisableTiming, hip.hipEventReleaseToSystem, 3]
)
def test_flags_of_events(device, flags):
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


# Steps


@pytest.mark.parametrize("kind", ["a stream", "the null stream", "the per-thread stream"])
def test_a_step_that_repeats(function, kind):
    stream = {"a stream": hip.hipStreamCreate, "the null stream": lambda: (E.hipSuccess, None)}.get(
        kind, lambda: (E.hipSuccess, hip.hipStreamPerThread)
    )()[1]
    memory = ints()
    for i in range(6):
        ok(ext.hipStreamStepBegin(stream))
        for k in (i, 1, 2):
            launch(function("add"), stream, memory, k)
        ok(ext.hipStreamStepEnd(stream))
    ok(hip.hipStreamSynchronize(stream))
    assert device_data(read(memory)) == [sum(range(6)) + 18] * N


def test_a_stream_that_is_destroyed_in_its_step(function):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    for _ in range(3):
        ok(ext.hipStreamStepBegin(stream))
        launch(function("add"), stream, memory, 1)
        launch(function("add"), stream, memory, 2)
        ok(ext.hipStreamStepEnd(stream))
    ok(ext.hipStreamStepBegin(stream))
    launch(function("add"), stream, memory, 1)
    ok(hip.hipStreamDestroy(stream))
    assert code(ext.hipStreamStepEnd(stream)) == E.hipErrorContextIsDestroyed
    other = ok(hip.hipStreamCreate())
    ok(ext.hipStreamStepBegin(other))
    ok(ext.hipStreamStepEnd(other))


# Functions whose null stream is the thread's own


@pytest.mark.executes
def test_a_wait_concerns_the_threads_own_stream(hold, device):
    gate, event = hold(hip.hipStreamPerThread), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord_spt(event))
    assert code(hip.hipStreamQuery_spt(None)) == E.hipErrorNotReady
    assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    assert in_thread(hip.hipStreamQuery_spt, None) == (E.hipSuccess,)
    gate.open()
    ok(hip.hipStreamSynchronize_spt(None))
    ok(hip.hipStreamQuery_spt(None))
    ok(hip.hipEventQuery(event))


def test_other_streams_are_as_given(streams, device, really):
    (stream,) = streams(1)
    memory = ints(10)
    ok(hip.hipMemsetAsync_spt(memory, 3, 40, stream))
    ok(hip.hipStreamSynchronize_spt(stream))
    assert read(memory, 1) == [0x03030303] or not really
    ok(hip.hipStreamBeginCapture_spt(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert ok(hip.hipStreamIsCapturing_spt(stream)) == hip.hipStreamCaptureStatus.hipStreamCaptureStatusActive
    ok(hip.hipMemsetAsync_spt(memory, 4, 40, stream))
    graph = ok(hip.hipStreamEndCapture_spt(stream))
    ok(hip.hipGraphLaunch_spt(ok(hip.hipGraphInstantiateWithFlags(graph, 0))))
    ok(hip.hipStreamSynchronize_spt(None))
    assert read(memory, 1) == [0x04040404] or not really
    assert ok(hip.hipStreamGetFlags_spt(None)) == 0
    assert ok(hip.hipStreamGetPriority_spt(stream)) == 0
