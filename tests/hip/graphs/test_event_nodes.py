"""Nodes that record events, and nodes that wait for them."""

import ctypes

import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, N, add, code, instantiate, ints, launch, launched, read

T = hip.hipGraphNodeType


def record(graph, event, *after):
    return ok(hip.hipGraphAddEventRecordNode(graph, list(after), len(after), event))


def wait(graph, event, *after):
    return ok(hip.hipGraphAddEventWaitNode(graph, list(after), len(after), event))


def test_what_is_known_of_them(graph, events, stream, hold):
    """Another event in the graph, in a clone, and in what is instantiated: each changes there alone."""
    node, waiting = record(graph, events[0]), wait(graph, events[1])
    assert ok(hip.hipGraphNodeGetType(node)) == T.hipGraphNodeTypeEventRecord
    assert ok(hip.hipGraphNodeGetType(waiting)) == T.hipGraphNodeTypeWaitEvent
    ok(hip.hipGraphEventWaitNodeSetEvent(waiting, int(events[3])))
    assert ok(hip.hipGraphEventWaitNodeGetEvent(waiting)) == events[3]
    clone = ok(hip.hipGraphClone(graph))
    copied = ok(hip.hipGraphNodeFindInClone(node, clone))
    assert ok(hip.hipGraphNodeGetType(copied)) == T.hipGraphNodeTypeEventRecord
    ok(hip.hipGraphEventRecordNodeSetEvent(copied, events[2]))
    executable = instantiate(graph)
    ok(hip.hipGraphExecEventRecordNodeSetEvent(executable, node, events[1]))
    ok(hip.hipGraphExecEventWaitNodeSetEvent(executable, waiting, events[2]))
    assert ok(hip.hipGraphEventRecordNodeGetEvent(node)) == events[0]
    ok(hip.hipEventRecord(events[1], stream))
    ok(hip.hipStreamSynchronize(stream))
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipEventQuery(events[0]))  # never recorded
    assert code(hip.hipEventQuery(events[1])) == E.hipErrorNotReady  # though it was done before
    gate.open()
    ok(hip.hipEventSynchronize(events[1]))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipGraphExecDestroy(executable))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue


@pytest.mark.executes
def test_a_wait_is_for_what_was_recorded_last(graph, function, events, streams, hold):
    stream, other = streams(2, hip.hipStreamNonBlocking)
    memory = ints()
    add(graph, function("add"), memory, 1, after=[wait(graph, events[0])])
    executable = instantiate(graph)
    launched(executable, stream)  # the event was never recorded
    assert read(memory) == [1] * N
    gate = hold(other)
    ok(hip.hipMemsetD32Async(memory, 10, N, other))
    ok(hip.hipEventRecord(events[0], other))
    ok(hip.hipGraphLaunch(executable, stream))
    assert code(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [11] * N


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
    ok(hip.hipMemsetD32Async(memory, 1, N, other))
    ok(hip.hipEventRecord(events[1], other))
    ok(hip.hipGraphLaunch(instantiate(graph), stream))
    ok(hip.hipStreamWaitEvent(other, events[0], 0))
    ok(hip.hipMemcpyDtoDAsync(copied, memory, 4 * N, other))
    ok(hip.hipStreamSynchronize(other))
    assert device_data(read(copied)) == [7] * N


@pytest.mark.executes
def test_branches_and_the_time_between_events(graph, function, stream):
    one, two, first, last = ints(), ints(), ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    start = record(graph, first)
    left, right = (add(graph, function("fill"), m, v, after=[start]) for m, v in ((one, 3), (two, 4)))
    add(graph, function("copy"), one, two, after=[record(graph, last, left, right)])
    executable = instantiate(graph)
    for _ in range(10):
        launched(executable, stream)
    assert read(one) == read(two) == [4] * N
    assert ok(hip.hipEventElapsedTime(first, last)) >= 0


def test_update(device, function, events, stream, really):
    memory, graphs = ints(), []
    for make, value in ((record, 1), (record, 2), (wait, 3), (None, 3)):
        graphs.append(ok(hip.hipGraphCreate(0)))
        fill = add(graphs[-1], function("fill"), memory, value)
        if make is None:
            ok(hip.hipGraphAddEmptyNode(graphs[-1], [fill], 1))
        else:
            make(graphs[-1], events[value], fill)
    executable, node = instantiate(graphs[0]), ctypes.c_uint64(0)
    assert ok(hip.hipGraphExecUpdate(executable, graphs[1], node)) == 0
    assert node.value == 0
    launched(executable, stream)
    ok(hip.hipEventQuery(events[2]))
    assert read(memory) == [2] * N or not really
    for other, into in ((graphs[2], executable), (graphs[3], executable), (graphs[0], instantiate(graphs[3]))):
        assert hip.hipGraphExecUpdate(into, other, node)[0] == E.hipErrorGraphExecUpdateFailure
    launched(executable, stream)
    assert read(memory) == [2] * N or not really


def test_what_such_graphs_cannot_be(graph, events, streams, works):
    stream, other = streams(2)
    first, second = record(graph, events[0]), wait(graph, events[1])
    executable = instantiate(graph)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorNotSupported
    ok(hip.hipStreamEndCapture(stream))
    parent = ok(hip.hipGraphCreate(0))
    assert code(hip.hipGraphAddChildGraphNode(parent, None, 0, graph)) == E.hipErrorNotSupported
    assert ok(hip.hipGraphGetNodes(parent))[1] == 0
    ok(hip.hipGraphLaunch(executable, other))
    ok(hip.hipGraphAddDependencies(graph, [first, second], [second, first], 2))
    assert hip.hipGraphInstantiate(graph)[0] == E.hipErrorInvalidValue  # a circle
    works(stream)
