"""Capture of streams, by the chapter on it in HIP's own tests: what is refused, and with which code."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, fork, in_thread, ints, launch

MODES = list(hip.hipStreamCaptureMode)
GLOBAL, THREAD_LOCAL, RELAXED = MODES
NONE, ACTIVE, INVALIDATED = hip.hipStreamCaptureStatus


@pytest.fixture
def stream(streams):
    return streams(1)[0]


@pytest.fixture
def invalid(works, function):
    """``invalid(stream)``: its capture can only be ended, and after that all is well."""
    nothing = function("nothing")
    event = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))

    def invalid(stream):
        assert ok(hip.hipStreamIsCapturing(stream)) == INVALIDATED
        for result in (
            hip.hipModuleLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, None, (ctypes.c_int(1),)),
            hip.hipLaunchHostFunc(stream, print),
            hip.hipEventRecord(event, stream),
        ):
            assert code(result) == E.hipErrorStreamCaptureInvalidated
        assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated
        works(stream)

    return invalid


@pytest.mark.parametrize("null", [None, 0, hip.hipStreamLegacy], ids=["None", "0", "legacy"])
def test_the_null_stream_is_not_captured(device, null, works, stream):
    assert code(hip.hipStreamBeginCapture(null, GLOBAL)) == E.hipErrorStreamCaptureUnsupported
    assert code(hip.hipStreamEndCapture(null)) == E.hipErrorIllegalState
    assert ok(hip.hipStreamIsCapturing(null)) == NONE
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    assert code(hip.hipStreamIsCapturing(null)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamGetCaptureInfo(null)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamGetCaptureInfo_v2(null)) == E.hipErrorStreamCaptureImplicit
    ok(hip.hipStreamEndCapture(stream))  # asking has not disturbed it
    works(stream)


@pytest.mark.parametrize("mode", [-1, 3, 2**31 - 1, None, "global"])
def test_modes(device, stream, mode, works):
    assert code(hip.hipStreamBeginCapture(stream, mode)) == E.hipErrorInvalidValue
    assert code(hip.hipThreadExchangeStreamCaptureMode(mode)) == E.hipErrorInvalidValue
    works(stream)


def test_beginning_twice_and_ending_what_did_not_begin(streams, events, works):
    one, two = streams(2)
    assert code(hip.hipStreamEndCapture(one)) == E.hipErrorIllegalState
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    assert code(hip.hipStreamBeginCapture(one, GLOBAL)) == E.hipErrorIllegalState
    fork(events[0], one, two)
    assert code(hip.hipStreamBeginCapture(two, GLOBAL)) == E.hipErrorIllegalState
    assert code(hip.hipStreamEndCapture(two)) == E.hipErrorStreamCaptureUnmatched
    ok(hip.hipStreamEndCapture(one))
    works(one)
    works(two)


def test_a_destroyed_stream(device):
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipStreamDestroy(stream))
    for result in (
        hip.hipStreamBeginCapture(stream, GLOBAL),
        hip.hipStreamEndCapture(stream),
        hip.hipStreamIsCapturing(stream),
        hip.hipStreamGetCaptureInfo(stream),
        hip.hipStreamGetCaptureInfo_v2(stream),
    ):
        assert code(result) == E.hipErrorContextIsDestroyed


WAITS = {
    "hipStreamSynchronize": (lambda stream, _: hip.hipStreamSynchronize(stream), E.hipErrorStreamCaptureUnsupported),
    "hipStreamQuery": (lambda stream, event: hip.hipStreamQuery(stream), E.hipErrorStreamCaptureUnsupported),
    "hipDeviceSynchronize": (lambda stream, event: hip.hipDeviceSynchronize(), E.hipErrorStreamCaptureUnsupported),
    "hipEventSynchronize": (lambda stream, event: hip.hipEventSynchronize(event), E.hipErrorCapturedEvent),
    "hipEventQuery": (lambda stream, event: hip.hipEventQuery(event), E.hipErrorCapturedEvent),
}  # fmt: skip


@pytest.mark.parametrize("what", list(WAITS))
@pytest.mark.parametrize("flags", [0, hip.hipStreamNonBlocking], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("mode", MODES)
def test_synchronizing_while_capturing(streams, events, invalid, what, flags, mode):
    (stream,) = streams(1, flags)
    ok(hip.hipStreamBeginCapture(stream, mode))
    ok(hip.hipEventRecord(events[0], stream))
    call, expected = WAITS[what]
    assert code(call(stream, events[0])) == expected
    assert hip.hipGetLastError() == (expected,)
    invalid(stream)


UNSAFE = {
    "hipMalloc": lambda other, memory: hip.hipMalloc(4),
    "hipHostMalloc": lambda other, memory: hip.hipHostMalloc(4),
    "hipFree": lambda other, memory: hip.hipFree(memory),
    "hipStreamSynchronize": lambda other, memory: hip.hipStreamSynchronize(other),
    "hipStreamQuery": lambda other, memory: hip.hipStreamQuery(other),
}


@pytest.mark.parametrize("what", list(UNSAFE))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in this thread", "in another"])
@pytest.mark.parametrize("mode", MODES)
def test_what_might_wait_depends_on_the_mode(device, streams, invalid, works, what, elsewhere, mode):
    stream, other = streams(2)
    memory, call = ints(1), UNSAFE[what]
    number = ok(hip.hipGetDevice())
    ok(hip.hipStreamBeginCapture(stream, mode))

    def do():
        ok(hip.hipSetDevice(number))
        return call(other, memory)

    result = in_thread(do) if elsewhere else do()
    if mode == GLOBAL or (mode == THREAD_LOCAL and not elsewhere):
        assert code(result) == E.hipErrorStreamCaptureUnsupported
        invalid(stream)
        ok(do())
    else:
        ok(result)
        ok(hip.hipStreamEndCapture(stream))
        works(stream)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", [hip.hipStreamSynchronize, hip.hipStreamQuery], ids=["synchronize", "query"])
def test_the_null_stream_while_a_non_blocking_stream_is_captured(streams, invalid, works, what, mode):
    (stream,) = streams(1, hip.hipStreamNonBlocking)
    ok(hip.hipStreamBeginCapture(stream, mode))
    if mode == RELAXED:
        ok(what(None))
        ok(hip.hipStreamEndCapture(stream))
        works(stream)
    else:
        assert code(what(None)) == E.hipErrorStreamCaptureUnsupported
        invalid(stream)


SYNCHRONOUS = {
    "hipMemcpy": lambda memory, host: hip.hipMemcpy(memory, host, 4, K.hipMemcpyHostToDevice),
    "hipMemcpyDtoD": lambda memory, host: hip.hipMemcpyDtoD(memory, memory + 8, 4),
    "hipMemcpy2D": lambda memory, host: hip.hipMemcpy2D(host, 4, memory, 8, 4, 1, K.hipMemcpyDeviceToHost),
    "hipMemset": lambda memory, host: hip.hipMemset(memory, 0, 4),
    "hipMemset2D": lambda memory, host: hip.hipMemset2D(memory, 8, 0, 4, 2),
}


@pytest.mark.parametrize("what", list(SYNCHRONOUS))
@pytest.mark.parametrize("flags", [0, hip.hipStreamNonBlocking], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("mode", MODES)
def test_synchronous_copies_and_memsets(streams, invalid, what, flags, mode):
    (stream,) = streams(1, flags)
    memory, host = ints(), np.zeros(1, "i4")
    ok(hip.hipStreamBeginCapture(stream, mode))
    assert code(SYNCHRONOUS[what](memory, host)) == E.hipErrorStreamCaptureImplicit
    invalid(stream)
    ok(SYNCHRONOUS[what](memory, host))


@pytest.mark.parametrize("what", ["launch", "hipMemsetAsync", "hipEventRecord", "hipStreamSynchronize"])
def test_the_null_stream_while_a_blocking_stream_is_captured(stream, events, function, invalid, what):
    memory, fill = ints(), function("fill")
    ok(hip.hipStreamBeginCapture(stream, RELAXED))
    arguments = (memory, ctypes.c_int(1))
    result = {
        "launch": lambda: hip.hipModuleLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, None, None, arguments),
        "hipMemsetAsync": lambda: hip.hipMemsetAsync(memory, 0, 4, None),
        "hipEventRecord": lambda: hip.hipEventRecord(events[0], None),
        "hipStreamSynchronize": lambda: hip.hipStreamSynchronize(None),
    }[what]()
    assert code(result) == E.hipErrorStreamCaptureImplicit
    invalid(stream)


@pytest.mark.parametrize(
    "call",
    [
        lambda stream, memory: hip.hipStreamWaitValue32(stream, memory, 0, hip.hipStreamWaitValueEq),
        lambda stream, memory: hip.hipMemcpyWithStream(memory, memory + 8, 4, K.hipMemcpyDeviceToDevice, stream),
    ],
    ids=["hipStreamWaitValue32", "hipMemcpyWithStream"],
)
def test_what_cannot_be_captured(stream, invalid, call):
    memory = ok(hip.hipMallocAsync(16, stream))
    ok(hip.hipStreamBeginCapture(stream, RELAXED))
    assert code(call(stream, memory)) == E.hipErrorStreamCaptureUnsupported
    invalid(stream)


def test_an_event_from_outside(streams, events, invalid):
    stream, other = streams(2)
    ok(hip.hipEventRecord(events[0], other))
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    assert code(hip.hipStreamWaitEvent(stream, events[0], 0)) == E.hipErrorStreamCaptureIsolation
    invalid(stream)


def test_the_graph_of_a_capture_that_failed_is_gone(stream, invalid):
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    graph = ok(hip.hipStreamGetCaptureInfo_v2(stream))[2]
    assert code(hip.hipStreamQuery(stream)) == E.hipErrorStreamCaptureUnsupported
    invalid(stream)
    assert code(hip.hipGraphGetNodes(graph)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphDestroy(graph)) == E.hipErrorInvalidValue


def test_two_captures_do_not_merge(streams, events, invalid):
    one, two = streams(2)
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    ok(hip.hipStreamBeginCapture(two, GLOBAL))
    ok(hip.hipEventRecord(events[0], one))
    assert code(hip.hipStreamWaitEvent(two, events[0], 0)) == E.hipErrorStreamCaptureMerge
    assert code(hip.hipStreamEndCapture(one)) == E.hipErrorStreamCaptureInvalidated
    invalid(two)


@pytest.mark.parametrize("again", [False, True], ids=["never joined", "more after the join"])
def test_a_fork_that_is_not_joined(streams, events, function, works, again):
    one, two = streams(2)
    memory = ints()
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    launch(function("fill"), one, memory, 1)
    fork(events[0], one, two)
    launch(function("fill"), two, memory, 2)
    if again:
        fork(events[1], two, one)
        launch(function("fill"), two, memory, 3)
    assert code(hip.hipStreamEndCapture(one)) == E.hipErrorStreamCaptureUnjoined
    works(one)
    works(two)


@pytest.mark.parametrize("mode", MODES)
def test_ending_in_another_thread(stream, function, mode, works):
    memory = ints()
    ok(hip.hipStreamBeginCapture(stream, mode))
    launch(function("fill"), stream, memory, 1)
    if mode == RELAXED:
        graph = ok(in_thread(hip.hipStreamEndCapture, stream))
    else:
        assert code(in_thread(hip.hipStreamEndCapture, stream)) == E.hipErrorStreamCaptureWrongThread
        graph = ok(hip.hipStreamEndCapture(stream))
    assert ok(hip.hipGraphGetNodes(graph))[1] == 1
    works(stream)


def test_no_time_passes_in_a_capture(device, stream, invalid):
    start, end = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(start))
    ok(hip.hipStreamSynchronize(None))
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    ok(hip.hipEventRecord(end, stream))
    assert code(hip.hipEventElapsedTime(start, end)) == E.hipErrorCapturedEvent
    invalid(stream)


def test_a_wrong_launch_is_refused_and_the_capture_goes_on(stream, function, works):
    memory = ints()
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    wrong = hip.hipModuleLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, None, (memory,))
    assert code(wrong) == E.hipErrorInvalidValue
    launch(function("fill"), stream, memory, 1)
    assert ok(hip.hipGraphGetNodes(ok(hip.hipStreamEndCapture(stream))))[1] == 1
    works(stream)


# The mode of a thread


def test_a_relaxed_thread_may_wait(streams, works):
    stream, other = streams(2)
    assert ok(hip.hipThreadExchangeStreamCaptureMode()) == GLOBAL
    assert ok(hip.hipThreadExchangeStreamCaptureMode(RELAXED)) == GLOBAL
    try:
        ok(hip.hipStreamBeginCapture(stream, GLOBAL))
        ok(hip.hipFree(ok(hip.hipMalloc(4))))
        ok(hip.hipStreamSynchronize(other))
        ok(hip.hipStreamEndCapture(stream))
    finally:
        mode = ctypes.c_int(int(GLOBAL))
        assert ok(hip.hipThreadExchangeStreamCaptureMode(mode)) == RELAXED
    assert mode.value == RELAXED
    assert ok(hip.hipThreadExchangeStreamCaptureMode()) == GLOBAL
    works(stream)


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_beside_a_global_capture(streams, invalid, works, mode):
    stream, other = streams(2)
    number = ok(hip.hipGetDevice())
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))

    def beside():
        ok(hip.hipSetDevice(number))
        ok(hip.hipThreadExchangeStreamCaptureMode(mode))
        return hip.hipStreamSynchronize(other)

    result = in_thread(beside)
    if mode == GLOBAL:
        assert code(result) == E.hipErrorStreamCaptureUnsupported
        invalid(stream)
    else:
        ok(result)
        ok(hip.hipStreamEndCapture(stream))
        works(stream)
