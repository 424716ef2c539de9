"""Capture of streams, by the chapter on it in HIP's own tests: what is captured, and what is refused with what code."""

import ctypes
import threading

import numpy as np
import pytest

from penstock import hip

from .conftest import ok
from .helpers import E, K, N, code, ints, launch, read

MODES = list(hip.hipStreamCaptureMode)
GLOBAL, THREAD_LOCAL, RELAXED = MODES
NONE, ACTIVE, INVALIDATED = hip.hipStreamCaptureStatus
MEMCPY, MEMSET = hip.hipGraphNodeType.hipGraphNodeTypeMemcpy, hip.hipGraphNodeType.hipGraphNodeTypeMemset


@pytest.fixture
def streams(device):
    """``streams(2)``: so many, with `flags`."""
    made = []

    def streams(count, flags=0):
        made.extend(ok(hip.hipStreamCreateWithFlags(flags)) for _ in range(count))
        return made[-count:]

    yield streams
    for stream in made:
        if stream.queue._capture is not None:
            stream.queue._capture.abandon()


@pytest.fixture
def stream(streams):
    return streams(1)[0]


@pytest.fixture
def events(device):
    return [ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming)) for _ in range(4)]


@pytest.fixture
def works(device, module, really):
    """``works(stream)``: it runs what it is given."""

    def works(stream):
        assert ok(hip.hipStreamIsCapturing(stream)) == NONE
        memory = ints(value=1)
        ok(hip.hipMemsetD32Async(memory, 7, N, stream))
        ok(hip.hipStreamSynchronize(stream))
        if really:
            assert read(memory) == [7] * N

    return works


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


def replay(graph, stream, times=1):
    executable, node, log = ok(hip.hipGraphInstantiate(graph, 0))
    assert (node, log) == (None, b"")
    for _ in range(times):
        ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipGraphExecDestroy(executable))


def in_thread(function, *args):
    """What it returns in a thread of its own."""
    returned = []
    thread = threading.Thread(target=lambda: returned.append(function(*args)))
    thread.start()
    thread.join()
    return returned[0]


def fork(event, origin, *others):
    ok(hip.hipEventRecord(event, origin))
    for other in others:
        ok(hip.hipStreamWaitEvent(other, event, 0))


# What is captured


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("which", ["created", "non-blocking", "per thread"])
@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_is_captured_and_replayed(device, streams, function, mode, which):
    stream = {
        "created": lambda: streams(1)[0],
        "non-blocking": lambda: streams(1, hip.hipStreamNonBlocking)[0],
        "per thread": lambda: hip.hipStreamPerThread,
    }[which]()
    a, b = ints(), ints()
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
        replay(graph, stream)
        assert got.tolist() == list(range(start + 5, start + 5 + N))
    assert called == ["here", "here"]
    ok(hip.hipGraphDestroy(graph))


class Block(ctypes.Structure):
    _fields_ = (("values", ctypes.c_int * 64),)


SUM = b"""
typedef struct { int values[64]; } Block;
kernel void sum(global int *out, Block block, int at) {
    int all = 0;
    for (int i = 0; i < 64; i++) all += block.values[i];
    out[at] = all;
}
"""


@pytest.mark.executes
def test_one_kernel_three_times_with_three_argument_blocks(device, stream):
    function = ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(SUM)), b"sum"))
    out, block = ints(4), Block()
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    for at in range(3):
        block.values[:] = [at + 1] * 64
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, (out, block, ctypes.c_int(at))))
    graph = ok(hip.hipStreamEndCapture(stream))
    block.values[:] = [0] * 64
    for _ in range(2):
        ok(hip.hipMemset(out, 0, 16))
        replay(graph, stream)
        assert read(out, 4) == [64, 128, 192, 0]


@pytest.mark.executes
@pytest.mark.parametrize("flags", [0, hip.hipStreamNonBlocking])
def test_forks_and_joins(streams, events, function, flags):
    one, two, three = streams(3, flags)
    memory, other = ints(), ints()
    for stream in (one, two, three):
        launch(function("add"), stream, other, 1)  # before, which is no part of it
        ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    launch(function("fill"), one, memory, 1)
    fork(events[0], one, two, three)
    assert ok(hip.hipStreamIsCapturing(two)) == ok(hip.hipStreamIsCapturing(three)) == ACTIVE
    launch(function("add"), two, memory, 10)
    launch(function("add"), three, other, 100)
    ok(hip.hipEventRecord(events[1], two))
    ok(hip.hipEventRecord(events[2], three))
    ok(hip.hipStreamWaitEvent(one, events[1], 0))
    ok(hip.hipStreamWaitEvent(one, events[2], 0))
    launch(function("copy"), one, other, memory)
    graph = ok(hip.hipStreamEndCapture(one))
    assert [ok(hip.hipStreamIsCapturing(stream)) for stream in (one, two, three)] == [NONE] * 3
    nodes, count = ok(hip.hipGraphGetNodes(graph))
    assert count == 4
    assert ok(hip.hipGraphGetRootNodes(graph)) == ([nodes[0]], 1)
    assert ok(hip.hipGraphNodeGetDependencies(nodes[3])) == (nodes[:3], 3)
    assert ok(hip.hipGraphNodeGetDependentNodes(nodes[0])) == (nodes[1:], 3)
    assert read(other) == [3] * N
    replay(graph, two)
    assert read(other) == read(memory) == [11] * N


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


def test_empty_streams_make_an_empty_graph(streams, events, works):
    one, two, three = streams(3)
    ok(hip.hipStreamBeginCapture(one, GLOBAL))
    fork(events[0], one, two, three)
    fork(events[1], two, one)
    fork(events[2], three, one)
    graph = ok(hip.hipStreamEndCapture(one))
    assert ok(hip.hipGraphGetNodes(graph)) == ([], 0)
    replay(graph, one)
    works(one)


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


@pytest.mark.executes(run=False)
def test_a_copy_between_two_places_of_the_host(device, stream):
    given, got = np.arange(N, dtype="i4"), np.zeros(N, "i4")
    rows = np.zeros((10, 8), "u1")
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    ok(hip.hipMemcpyAsync(got, given, got.nbytes, K.hipMemcpyHostToHost, stream))
    ok(hip.hipMemcpy2DAsync(rows, 8, given, 4, 3, 10, K.hipMemcpyHostToHost, stream))
    graph = ok(hip.hipStreamEndCapture(stream))
    assert [ok(hip.hipGraphNodeGetType(node)) for node in ok(hip.hipGraphGetNodes(graph))[0]] == [MEMCPY] * 2
    assert not got.any()
    given += 1
    replay(graph, stream)
    assert got.tolist() == list(range(1, N + 1))
    assert rows[:, 0].tolist() == list(range(1, 11))


@pytest.mark.executes(run=False)
def test_writing_a_value_and_a_callback_with_the_stream(device, stream):
    memory, seen = ints(2), []
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    ok(hip.hipStreamWriteValue32(stream, memory, 77, 0))
    ok(hip.hipStreamAddCallback(stream, lambda *given: seen.append(given), 5, 0))
    replay(ok(hip.hipStreamEndCapture(stream)), stream)
    assert read(memory, 2) == [77, 0]
    assert seen == [(stream, E.hipSuccess, 5)]


@pytest.mark.executes(run=False)
def test_what_a_captured_callback_raises_reaches_the_program(device, stream, works):
    def fails(data):
        raise KeyError(data)

    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    ok(hip.hipLaunchHostFunc(stream, fails, "why"))
    graph = ok(hip.hipStreamEndCapture(stream))
    with pytest.raises(KeyError, match="why"):
        replay(graph, stream)
    works(stream)


def test_launching_a_graph_in_a_capture(streams, function):
    (stream,) = streams(1)
    memory = ints()
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    launch(function("add"), stream, memory, 1)
    launch(function("add"), stream, memory, 2)
    executable = ok(hip.hipGraphInstantiateWithFlags(ok(hip.hipStreamEndCapture(stream)), 0))
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    launch(function("add"), stream, memory, 3)
    ok(hip.hipGraphLaunch(executable, stream))
    assert ok(hip.hipGraphGetNodes(ok(hip.hipStreamEndCapture(stream))))[1] == 3


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


def test_many_captures_have_numbers_of_their_own(streams):
    some = streams(20)
    for stream in some:
        ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    assert len({ok(hip.hipStreamGetCaptureInfo(stream))[1] for stream in some}) == 20
    for stream in some:
        ok(hip.hipStreamEndCapture(stream))


# What is refused


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
        lambda stream, memory: hip.hipMallocAsync(4, stream),
        lambda stream, memory: hip.hipFreeAsync(memory, stream),
        lambda stream, memory: hip.hipStreamWaitValue32(stream, memory, 0, hip.hipStreamWaitValueEq),
        lambda stream, memory: hip.hipMemcpyWithStream(memory, memory + 8, 4, K.hipMemcpyDeviceToDevice, stream),
    ],
    ids=["hipMallocAsync", "hipFreeAsync", "hipStreamWaitValue32", "hipMemcpyWithStream"],
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


def test_graphs_have_no_nodes_for_events(stream, events, works):
    ok(hip.hipEventRecordWithFlags(events[0], stream, hip.hipEventRecordExternal))
    ok(hip.hipStreamWaitEvent(stream, events[0], hip.hipEventWaitExternal))
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    assert code(hip.hipStreamWaitEvent(stream, events[0], hip.hipEventWaitExternal)) == E.hipErrorNotSupported
    record = hip.hipEventRecordWithFlags(events[0], stream, hip.hipEventRecordExternal)
    assert code(record) == E.hipErrorNotSupported
    ok(hip.hipStreamEndCapture(stream))
    works(stream)


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


@pytest.mark.executes
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
    threads = [threading.Thread(target=capture, args=each) for each in enumerate(pair)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, stream in enumerate(pair):
        assert ok(hip.hipGraphGetNodes(graphs[at]))[1] == 201
        replay(graphs[at], stream, times=2)
        assert read(memories[at]) == [at + 200 * (1 + at)] * N
