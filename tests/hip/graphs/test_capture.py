"""Capture of streams, by the chapter on it in HIP's own tests: what is captured, and replayed."""

from functools import partial

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread, together

from ..conftest import ok
from ..helpers import STREAMS, E, K, N, code, fork, ints, launch, read, run

MODES = list(hip.hipStreamCaptureMode)
GLOBAL, _, RELAXED = MODES
NONE, ACTIVE, _ = hip.hipStreamCaptureStatus
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
