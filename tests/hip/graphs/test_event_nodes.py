"""Nodes that record events, and nodes that wait for them."""

import ctypes

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, N, add, code, instantiate, ints, kernel, launch, memset, read, together

T = hip.hipGraphNodeType


@pytest.fixture
def stream(streams):
    return streams(1)[0]


def record(graph, event, *after):
    return ok(hip.hipGraphAddEventRecordNode(graph, list(after), len(after), event))


def wait(graph, event, *after):
    return ok(hip.hipGraphAddEventWaitNode(graph, list(after), len(after), event))


def test_what_is_known_of_them(graph, events):
    first, second = record(graph, events[0]), wait(graph, events[1])
    assert ok(hip.hipGraphNodeGetType(first)) == T.hipGraphNodeTypeEventRecord
    assert ok(hip.hipGraphNodeGetType(second)) == T.hipGraphNodeTypeWaitEvent
    assert ok(hip.hipGraphEventRecordNodeGetEvent(first)) == events[0]
    assert ok(hip.hipGraphEventWaitNodeGetEvent(second)) == events[1]
    ok(hip.hipGraphEventRecordNodeSetEvent(first, events[2]))
    ok(hip.hipGraphEventWaitNodeSetEvent(second, int(events[3])))
    assert ok(hip.hipGraphEventRecordNodeGetEvent(first)) == events[2]
    assert ok(hip.hipGraphEventWaitNodeGetEvent(second)) == events[3]
    clone = ok(hip.hipGraphClone(graph))
    copied = ok(hip.hipGraphNodeFindInClone(first, clone))
    assert ok(hip.hipGraphNodeGetType(copied)) == T.hipGraphNodeTypeEventRecord
    ok(hip.hipGraphEventRecordNodeSetEvent(copied, events[0]))
    assert ok(hip.hipGraphEventRecordNodeGetEvent(first)) == events[2]


def test_a_record_marks_its_place(graph, events, stream, hold, device):
    """The gate holds the stream, so nothing is recorded before it is opened, and all of it afterwards."""
    early, late = events[:2]
    for event in (early, late):
        ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamSynchronize(stream))
    memory = ints()
    first = record(graph, early)
    fill = ok(hip.hipGraphAddMemsetNode(graph, [first], 1, memset(memory, 1)))
    record(graph, late, fill)
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    for event in (early, late):
        assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipEventSynchronize(late))
    ok(hip.hipEventQuery(early))


@pytest.mark.executes
def test_what_comes_after_the_event_sees_what_was_before(graph, function, events, streams):
    stream, other = streams(2, hip.hipStreamNonBlocking)
    memory, copied = ints(), ints()
    fill, done = add(graph, function("fill"), memory, 0), events[0]
    record(graph, done, fill)
    executable = instantiate(graph)
    for value in range(1, 20):
        ok(hip.hipGraphExecKernelNodeSetParams(executable, fill, kernel(function("fill"), memory, value)))
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamWaitEvent(other, done, 0))
        ok(hip.hipMemcpyDtoDAsync(copied, memory, 4 * N, other))
        ok(hip.hipStreamSynchronize(other))
        assert read(copied) == [value] * N


@pytest.mark.executes(run=False)
def test_a_wait_is_for_what_was_recorded_last(graph, function, events, streams, hold):
    stream, other = streams(2, hip.hipStreamNonBlocking)
    memory = ints()
    before = wait(graph, events[0])
    add(graph, function("add"), memory, 1, after=[before])
    executable = instantiate(graph)
    ok(hip.hipGraphLaunch(executable, stream))  # the event was never recorded
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [1] * N
    gate = hold(other)
    ok(hip.hipMemsetD32Async(memory, 10, N, other))
    ok(hip.hipEventRecord(events[0], other))
    ok(hip.hipGraphLaunch(executable, stream))
    assert code(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [11] * N


@pytest.mark.executes
def test_captured(function, events, streams):
    """With the flags for it; without them they are dependencies of the capture."""
    stream, other = streams(2, hip.hipStreamNonBlocking)
    memory, copied = ints(), ints()
    ok(hip.hipEventRecordWithFlags(events[0], stream, hip.hipEventRecordExternal))
    ok(hip.hipStreamWaitEvent(stream, events[0], hip.hipEventWaitExternal))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipStreamWaitEvent(stream, events[1], hip.hipEventWaitExternal))
    launch(function("fill"), stream, memory, 7)
    ok(hip.hipEventRecordWithFlags(events[0], stream, hip.hipEventRecordExternal))
    graph = ok(hip.hipStreamEndCapture(stream))
    nodes, _ = ok(hip.hipGraphGetNodes(graph))
    kinds = [ok(hip.hipGraphNodeGetType(node)) for node in nodes]
    assert kinds == [T.hipGraphNodeTypeWaitEvent, T.hipGraphNodeTypeKernel, T.hipGraphNodeTypeEventRecord]
    assert ok(hip.hipGraphEventWaitNodeGetEvent(nodes[0])) == events[1]
    assert ok(hip.hipGraphGetEdges(graph))[2] == 2
    executable = instantiate(graph)
    ok(hip.hipMemsetD32Async(memory, 1, N, other))
    ok(hip.hipEventRecord(events[1], other))
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamWaitEvent(other, events[0], 0))
    ok(hip.hipMemcpyDtoDAsync(copied, memory, 4 * N, other))
    ok(hip.hipStreamSynchronize(other))
    assert read(copied) == [7] * N


@pytest.mark.executes
def test_branches_between_events(graph, function, events, stream):
    one, two = ints(), ints()
    start = record(graph, events[0])
    left, right = (add(graph, function("fill"), m, v, after=[start]) for m, v in ((one, 3), (two, 4)))
    middle = record(graph, events[1], left, right)
    add(graph, function("copy"), one, two, after=[middle])
    executable = instantiate(graph)
    for _ in range(10):
        ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(one) == read(two) == [4] * N


@pytest.mark.executes(run=False)
def test_times_between_them(graph, function, stream):
    first, last = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    begin = record(graph, first)
    fill = add(graph, function("fill"), ints(), 1, after=[begin])
    record(graph, last, fill)
    ok(hip.hipGraphLaunch(instantiate(graph), stream))
    ok(hip.hipEventSynchronize(last))
    assert ok(hip.hipEventElapsedTime(first, last)) >= 0


def test_another_event_in_what_is_instantiated(graph, events, stream, hold):
    node, waiting = record(graph, events[0]), wait(graph, events[2])
    executable = instantiate(graph)
    ok(hip.hipGraphExecEventRecordNodeSetEvent(executable, node, events[1]))
    ok(hip.hipGraphExecEventWaitNodeSetEvent(executable, waiting, events[3]))
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipEventQuery(events[0]))  # never recorded
    assert code(hip.hipEventQuery(events[1])) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert ok(hip.hipGraphEventRecordNodeGetEvent(node)) == events[0]


def test_update(device, function, events, stream, really):
    memory, graphs = ints(), []
    for value in (1, 2):
        graph = ok(hip.hipGraphCreate(0))
        graphs.append(graph)
        record(graph, events[value], add(graph, function("fill"), memory, value))
    executable, node = instantiate(graphs[0]), ctypes.c_uint64(0)
    assert hip.hipGraphExecUpdate(executable, graphs[1], node)[0] == E.hipSuccess
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipEventSynchronize(events[2]))
    assert read(memory) == [2] * N or not really
    plain = ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphAddEmptyNode(plain, [add(plain, function("fill"), memory, 3)], 1))
    waits = ok(hip.hipGraphCreate(0))
    wait(waits, events[2], add(waits, function("fill"), memory, 3))
    for other in (plain, waits):
        assert hip.hipGraphExecUpdate(executable, other, node)[0] == E.hipErrorGraphExecUpdateFailure
    assert hip.hipGraphExecUpdate(instantiate(plain), graphs[0], node)[0] == E.hipErrorGraphExecUpdateFailure
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [2] * N or not really


@pytest.mark.executes(run=False)
def test_launches_come_one_after_the_other(graph, events, streams, hold):
    stream, other = streams(2, hip.hipStreamNonBlocking)
    record(graph, events[0])
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphLaunch(executable, other))
    assert code(hip.hipStreamQuery(other)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(other))
    ok(hip.hipStreamQuery(stream))


@pytest.mark.executes
@pytest.mark.threads
def test_two_threads_launch(graph, function, events):
    number, memory = ok(hip.hipGetDevice()), ints()
    record(graph, events[0], add(graph, function("add"), memory, 1))
    add(graph, function("add"), memory, 1, after=ok(hip.hipGraphGetNodes(graph))[0][1:])
    executable = instantiate(graph)

    def run():
        ok(hip.hipSetDevice(number))
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        for _ in range(20):
            ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))

    together(run, run)
    assert read(memory) == [80] * N


def test_circles_are_found(graph, events):
    first, second = record(graph, events[0]), wait(graph, events[1])
    ok(hip.hipGraphAddDependencies(graph, [first, second], [second, first], 2))
    assert hip.hipGraphInstantiate(graph)[0] == E.hipErrorInvalidValue


def test_what_such_graphs_cannot_be(graph, events, streams, works):
    stream, other = streams(2)
    record(graph, events[0])
    executable = instantiate(graph)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorNotSupported
    ok(hip.hipStreamEndCapture(stream))
    parent = ok(hip.hipGraphCreate(0))
    assert code(hip.hipGraphAddChildGraphNode(parent, None, 0, graph)) == E.hipErrorNotSupported
    assert ok(hip.hipGraphGetNodes(parent))[1] == 0
    ok(hip.hipGraphLaunch(executable, other))
    works(stream)


# Dependencies


@pytest.mark.executes
def test_a_dependency_that_is_removed(graph, function, stream):
    memory = ints()
    first, second = (add(graph, function("add"), memory, value) for value in (1, 2))
    ok(hip.hipGraphAddDependencies(graph, [first], [second], 1))
    for wrong in (([second], [first]), ([first, first], [second, second])):
        assert code(hip.hipGraphRemoveDependencies(graph, *wrong, len(wrong[0]))) == E.hipErrorInvalidValue
    assert ok(hip.hipGraphGetEdges(graph))[2] == 1
    ok(hip.hipGraphRemoveDependencies(graph, [first], [second], 1))
    assert ok(hip.hipGraphGetEdges(graph))[2] == 0
    assert code(hip.hipGraphRemoveDependencies(graph, [first], [second], 1)) == E.hipErrorInvalidValue
    ok(hip.hipGraphAddDependencies(graph, [second], [first], 1))  # no circle any more
    ok(hip.hipGraphLaunch(instantiate(graph), stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [3] * N


def test_copies_and_flags(graph, function, device):
    node = add(graph, function("fill"), ints(), 1)
    clone, other = ok(hip.hipGraphClone(graph)), ok(hip.hipGraphCreate(0))
    copied = ok(hip.hipGraphNodeFindInClone(node, clone))
    assert copied != node
    assert copied in ok(hip.hipGraphGetNodes(clone))[0]
    for wrong in ((node, other), (node, graph), (copied, clone), (None, clone), (node, None)):
        assert code(hip.hipGraphNodeFindInClone(*wrong)) == E.hipErrorInvalidValue
    ok(hip.hipGraphDestroy(clone))
    assert code(hip.hipGraphNodeFindInClone(node, clone)) == E.hipErrorInvalidValue
    flags = hip.hipGraphInstantiateFlags.hipGraphInstantiateFlagUpload
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, flags))
    assert ok(hip.hipGraphExecGetFlags(executable)) == flags
    assert ok(hip.hipGraphExecGetFlags(instantiate(graph))) == 0
    ok(hip.hipGraphExecDestroy(executable))
    assert code(hip.hipGraphExecGetFlags(executable)) == E.hipErrorInvalidValue
