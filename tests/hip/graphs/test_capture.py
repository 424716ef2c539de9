"""Capture of streams, by the chapter on it in HIP's own tests: what is captured, and replayed; and what is refused."""

import ctypes
from functools import partial

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread, together

from ..conftest import ok
from ..helpers import STREAMS, E, K, N, code, fork, ints, launch, read, run

MODES = list(hip.hipStreamCaptureMode)
GLOBAL, THREAD_LOCAL, RELAXED = MODES
NONE, ACTIVE, INVALIDATED = hip.hipStreamCaptureStatus
MEMCPY, MEMSET = hip.hipGraphNodeType.hipGraphNodeTypeMemcpy, hip.hipGraphNodeType.hipGraphNodeTypeMemset


@pytest.mark.executes
@pytest.mark.parametrize("which", ["blocking", "non-blocking", "per-thread"])
@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_is_captured_and_replayed(function, mode, which):
    stream, a, b = STREAMS[which](), ints(), ints()
    given, got, called = np.arange(N, dtype="i4"), np.zeros(N, "i4"), []
    ok(hip.hipStreamBeginCapture(stream, mode))
    ok(hip.hipMemcpyAsync(a, given, given.nbytes, K.hipMemcpyHostToDevice, stream))
    ok(hip.hipMemsetAsync(b, 0, given.nbytes, stream))
    launch(function("copy"), stream, b, a)
    launch(function("add"), stream, b, 5)
    ok(hip.hipLaunchHostFunc(stream, called.append, "here"))
    ok(hip.hipMemcpyDtoDAsync(a, b, given.nbytes, stream))
    ok(hip.hipMemcpyDtoHAsync(got, a, given.nbytes, stream))
    graph = ok(hip.hipStreamEndCapture(stream))
    assert not called
    assert got.tolist() == read(b) == [0] * N  # nothing of it has run
    kinds = [ok(hip.hipGraphNodeGetType(node)).name.removeprefix("hipGraphNodeType")
             for node in ok(hip.hipGraphGetNodes(graph))[0]]  # fmt: skip
    assert kinds == ["Memcpy", "Memset", "Kernel", "Kernel", "Host", "Memcpy", "Memcpy"]
    for start in (0, 100):
        given[:] = np.arange(start, start + N)  # memory of the host is read when the graph runs
        run(graph, stream)
        assert got.tolist() == list(range(start + 5, start + 5 + N))
    assert called == ["here", "here"]
    ok(hip.hipGraphDestroy(graph))


def test_only_what_joins_is_captured(streams, events, function):
    one, two = streams(2)
    memory = ints()
    ok(hip.hipStreamBeginCapture(one, RELAXED))
    ok(hip.hipEventRecord(events[0], one))
    launch(function("fill"), two, memory, 1)  # has not joined yet
    ok(hip.hipStreamWaitEvent(two, events[0], 0))
    launch(function("fill"), two, memory, 2)
    ok(hip.hipEventRecord(events[1], two))
    ok(hip.hipStreamWaitEvent(one, events[1], 0))
    assert ok(hip.hipGraphGetNodes(ok(hip.hipStreamEndCapture(one))))[1] == 1


def test_streams_capture_one_after_the_other_and_at_once(streams, events, function):
    one, two = streams(2)
    memory = ints()
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    fork(events[0], one, two)
    launch(function("fill"), one, memory, 1)
    first = ok(hip.hipStreamEndCapture(one))  # the fork did nothing, so there is nothing to join
    ok(hip.hipStreamBeginCapture(two, GLOBAL))
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    assert ok(hip.hipStreamGetCaptureInfo(one))[1] != ok(hip.hipStreamGetCaptureInfo(two))[1]
    launch(function("fill"), two, memory, 1)
    launch(function("fill"), two, memory, 1)
    third, second = ok(hip.hipStreamEndCapture(one)), ok(hip.hipStreamEndCapture(two))
    assert [ok(hip.hipGraphGetNodes(graph))[1] for graph in (first, second, third)] == [1, 2, 0]


@pytest.mark.executes
def test_writing_a_value_and_a_callback_with_the_stream(device, stream):
    memory, seen = ints(2), []
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    ok(hip.hipStreamWriteValue32(stream, memory, 77, 0))
    ok(hip.hipStreamAddCallback(stream, lambda *given: seen.append(given), 5, 0))
    run(ok(hip.hipStreamEndCapture(stream)), stream)
    assert read(memory, 2) == [77, 0]
    assert seen == [(stream, E.hipSuccess, 5)]


@pytest.mark.parametrize("mode", MODES)
def test_capture_info(device, stream, mode, works):
    memory = ints()
    assert ok(hip.hipStreamGetCaptureInfo(stream)) == (NONE, 0)
    ok(hip.hipStreamBeginCapture(stream, mode))
    ok(hip.hipMemsetAsync(memory, 0, 4 * N, stream))
    status, number = ok(hip.hipStreamGetCaptureInfo(stream))
    assert status == ok(hip.hipStreamIsCapturing(stream)) == ACTIVE
    assert number > 0
    assert in_thread(hip.hipStreamIsCapturing, stream) == (E.hipSuccess, ACTIVE)
    nodes = ["anything"]
    status, again, graph, count = ok(hip.hipStreamGetCaptureInfo_v2(stream, nodes))
    assert (status, again, count, len(nodes)) == (ACTIVE, number, 1, 1)
    assert ok(hip.hipGraphNodeGetType(nodes[0])) == MEMSET
    assert code(hip.hipGraphDestroy(graph)) == E.hipErrorInvalidValue
    assert ok(hip.hipStreamEndCapture(stream)) == graph
    assert ok(hip.hipStreamGetCaptureInfo_v2(stream)) == (NONE, 0, None, 0)
    works(stream)


@pytest.mark.parametrize("mode", MODES)
def test_two_threads_capture_at_once(device, streams, function, mode):
    number, graphs, memories = ok(hip.hipGetDevice()), {}, [ints(), ints()]
    fill, add = function("fill"), function("add")

    def capture(at, stream):
        ok(hip.hipSetDevice(number))
        ok(hip.hipStreamBeginCapture(stream, mode))
        launch(fill, stream, memories[at], at)
        for _ in range(200):
            launch(add, stream, memories[at], 1 + at)
        graphs[at] = ok(hip.hipStreamEndCapture(stream))

    pair = streams(2)
    together(*(partial(capture, *each) for each in enumerate(pair)))
    for at, stream in enumerate(pair):
        assert ok(hip.hipGraphGetNodes(graphs[at]))[1] == 201
        run(graphs[at], stream, times=2)
        assert device_data(read(memories[at])) == [at + 200 * (1 + at)] * N


# What is refused, and with which code


BLOCKING, NON_BLOCKING = 0, hip.hipStreamNonBlocking
UNSUPPORTED, IMPLICIT = E.hipErrorStreamCaptureUnsupported, E.hipErrorStreamCaptureImplicit


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
            hip.hipStreamEndCapture(stream),
        ):
            assert code(result) == E.hipErrorStreamCaptureInvalidated
        works(stream)

    return invalid


@pytest.fixture
def call(function, events):
    """``call(name, stream, other)``: a call of that function while `stream` is captured."""
    memory, host, fill = ints(), np.arange(1000, dtype="i4"), function("fill")
    pooled, timed = ok(hip.hipMallocAsync(16, None)), [ok(hip.hipEventCreate()) for _ in range(2)]
    ok(hip.hipEventRecord(timed[0]))
    ok(hip.hipDeviceSynchronize())

    def call(name, stream, other=None):
        if name.startswith("hipEvent") and name != "hipEventRecord":
            ok(hip.hipEventRecord(events[0], stream))
            ok(hip.hipEventRecord(timed[1], stream))
        return {
            "hipModuleLaunchKernel": lambda f: f(fill, 1, 1, 1, 1, 1, 1, 0, other, None, (memory, ctypes.c_int(1))),
            "hipStreamSynchronize": lambda f: f(other), "hipStreamQuery": lambda f: f(other),
            "hipEventRecord": lambda f: f(events[0], other), "hipMemsetAsync": lambda f: f(memory, 0, 4, other),
            "hipDeviceSynchronize": lambda f: f(), "hipEventSynchronize": lambda f: f(events[0]),
            "hipEventQuery": lambda f: f(events[0]), "hipEventElapsedTime": lambda f: f(*timed),
            "hipMalloc": lambda f: f(4), "hipHostMalloc": lambda f: f(4), "hipFree": lambda f: f(ints(1)),
            "hipHostRegister": lambda f: f(host, host.nbytes),
            "hipMemset": lambda f: f(memory, 0, 4), "hipMemset2D": lambda f: f(memory, 8, 0, 4, 2),
            "hipMemset3D": lambda f: f(hip.hipPitchedPtr(memory, 8, 8, 2), 0, hip.hipExtent(4, 2, 1)),
            "hipMemsetD2D32": lambda f: f(memory, 8, 0, 2, 2),
            "hipStreamWaitValue32": lambda f: f(stream, pooled, 0, hip.hipStreamWaitValueEq),
            "hipMemcpyWithStream": lambda f: f(pooled, pooled + 8, 4, K.hipMemcpyDeviceToDevice, stream),
            "hipMemPrefetchAsync": lambda f: f(ok(hip.hipMallocManaged(4096)), 4, 0, stream),
            "hipStreamAttachMemAsync": lambda f: f(stream, ok(hip.hipMallocManaged(4096))),
        }[name](getattr(hip, name))  # fmt: skip

    return call


# What always ends the capture of `stream`: the call, the kinds of stream, whether it is given it or the null stream.
ENDS = [
    *((name, UNSUPPORTED, kind, "own") for kind in (BLOCKING, NON_BLOCKING)
      for name in ("hipStreamSynchronize", "hipStreamQuery", "hipDeviceSynchronize")),
    *((name, E.hipErrorCapturedEvent, kind, "own") for kind in (BLOCKING, NON_BLOCKING)
      for name in ("hipEventSynchronize", "hipEventQuery", "hipEventElapsedTime")),
    *((name, IMPLICIT, kind, "null") for kind in (BLOCKING, NON_BLOCKING)
      for name in ("hipMemset", "hipMemset2D", "hipMemset3D", "hipMemsetD2D32")),
    *((name, IMPLICIT, BLOCKING, "null")
      for name in ("hipModuleLaunchKernel", "hipMemsetAsync", "hipEventRecord", "hipStreamSynchronize")),
    ("hipStreamWaitValue32", UNSUPPORTED, BLOCKING, "own"), ("hipMemcpyWithStream", UNSUPPORTED, BLOCKING, "own"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "flags", "given"), ENDS)
@pytest.mark.parametrize("mode", MODES)
def test_what_ends_a_capture(streams, call, invalid, name, expected, flags, given, mode):
    (stream,) = streams(1, flags)
    ok(hip.hipStreamBeginCapture(stream, mode))
    assert code(call(name, stream, stream if given == "own" else None)) == expected
    assert hip.hipGetLastError() == (expected,)
    invalid(stream)


@pytest.mark.parametrize("name", ["hipMemPrefetchAsync", "hipStreamAttachMemAsync"])
def test_hints_for_managed_memory_end_a_capture(stream, call, invalid, name):
    if hip.hipMallocManaged(4096)[0] == E.hipErrorNotSupported:
        pytest.skip("the device has no managed memory")
    ok(hip.hipStreamBeginCapture(stream, RELAXED))
    assert code(call(name, stream)) == UNSUPPORTED
    invalid(stream)


@pytest.mark.parametrize(
    ("name", "null"),
    [
        *((name, False) for name in ("hipMalloc", "hipHostMalloc", "hipFree", "hipHostRegister")),
        *((name, null) for name in ("hipStreamSynchronize", "hipStreamQuery") for null in (False, True)),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in this thread", "in another"])
@pytest.mark.parametrize("mode", MODES)
def test_what_might_wait_depends_on_the_mode(device, streams, call, invalid, works, name, null, elsewhere, mode):
    """Of another stream, and of the null stream while a non-blocking stream is captured."""
    stream, other = streams(2, NON_BLOCKING if null else BLOCKING)
    number = ok(hip.hipGetDevice())
    memory = ints(1)
    ok(hip.hipStreamBeginCapture(stream, mode))

    def do():
        ok(hip.hipSetDevice(number))
        return hip.hipFree(memory) if name == "hipFree" else call(name, stream, None if null else other)

    result = in_thread(do) if elsewhere else do()
    if mode == GLOBAL or (mode == THREAD_LOCAL and not elsewhere):
        assert code(result) == UNSUPPORTED
        invalid(stream)
        ok(do())
    else:
        ok(result)
        ok(hip.hipStreamEndCapture(stream))
        works(stream)


@pytest.mark.parametrize("null", [None, 0, hip.hipStreamLegacy], ids=["None", "0", "legacy"])
def test_the_null_stream_is_not_captured(device, null, works, stream):
    assert code(hip.hipStreamBeginCapture(null, GLOBAL)) == UNSUPPORTED
    assert code(hip.hipStreamEndCapture(null)) == E.hipErrorIllegalState
    assert ok(hip.hipStreamIsCapturing(null)) == NONE
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    for ask in (hip.hipStreamIsCapturing, hip.hipStreamGetCaptureInfo, hip.hipStreamGetCaptureInfo_v2):
        assert code(ask(null)) == IMPLICIT
    ok(hip.hipStreamEndCapture(stream))  # asking has not disturbed it
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


def test_events_from_outside_and_captures_that_would_merge(streams, events, invalid):
    one, two, other = streams(3)
    ok(hip.hipEventRecord(events[0], other))
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    assert code(hip.hipStreamWaitEvent(one, events[0], 0)) == E.hipErrorStreamCaptureIsolation
    invalid(one)
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    graph = ok(hip.hipStreamGetCaptureInfo_v2(one))[2]
    ok(hip.hipStreamBeginCapture(two, GLOBAL))
    ok(hip.hipEventRecord(events[0], one))
    assert code(hip.hipStreamWaitEvent(two, events[0], 0)) == E.hipErrorStreamCaptureMerge
    assert code(hip.hipStreamEndCapture(one)) == E.hipErrorStreamCaptureInvalidated
    invalid(two)
    for call in (hip.hipGraphGetNodes, hip.hipGraphDestroy):  # the graph went with its capture
        assert code(call(graph)) == E.hipErrorInvalidValue


def test_a_fork_that_is_not_joined(streams, events, function, works):
    one, two = streams(2)
    memory = ints()
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    fork(events[0], one, two)
    launch(function("fill"), two, memory, 2)
    assert code(hip.hipStreamEndCapture(one)) == E.hipErrorStreamCaptureUnjoined
    works(one)
    works(two)


@pytest.mark.parametrize("mode", MODES)
def test_ending_in_another_thread(stream, function, mode, works):
    memory = ints()
    ok(hip.hipStreamBeginCapture(stream, mode))
    wrong = hip.hipModuleLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, None, (memory,))
    assert code(wrong) == E.hipErrorInvalidValue  # and the capture goes on
    launch(function("fill"), stream, memory, 1)
    if mode == RELAXED:
        graph = ok(in_thread(hip.hipStreamEndCapture, stream))
    else:
        assert code(in_thread(hip.hipStreamEndCapture, stream)) == E.hipErrorStreamCaptureWrongThread
        graph = ok(hip.hipStreamEndCapture(stream))
    assert ok(hip.hipGraphGetNodes(graph))[1] == 1
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
        assert code(result) == UNSUPPORTED
        invalid(stream)
    else:
        ok(result)
        ok(hip.hipStreamEndCapture(stream))
        works(stream)
