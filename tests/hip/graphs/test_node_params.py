"""Changing what nodes do, and graphs as nodes of others; which errors there are follows hip-tests."""

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, N, add, code, instantiate, ints, kernel, memset, read, run

NBYTES = 4 * N


@pytest.fixture
def stream(streams):
    return streams(1)[0]


def memcpy(graph, dst, src, kind, nbytes=NBYTES, after=()):
    return ok(hip.hipGraphAddMemcpyNode1D(graph, list(after), len(after), dst, src, nbytes, kind))


def rows(dst, src, kind, width, height, pitch):
    """A copy of rows."""
    ends = [hip.hipPitchedPtr(pointer, pitch, width, height) for pointer in (dst, src)]
    extent = hip.hipExtent(width, height, 1)
    return hip.hipMemcpy3DParms(dstPtr=ends[0], srcPtr=ends[1], extent=extent, kind=kind)


def launched(executable, stream):
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("how", ["1D", "3D"])
@pytest.mark.parametrize("kind", [K.hipMemcpyHostToDevice, K.hipMemcpyDeviceToHost, K.hipMemcpyDeviceToDevice])
def test_another_copy_in_what_is_instantiated(graph, stream, how, kind):
    one, two = ints(value=1), ints(value=2)
    source = np.full(N, 3, "i4") if kind == K.hipMemcpyHostToDevice else ints(value=3)
    target = np.zeros(N, "i4") if kind == K.hipMemcpyDeviceToHost else ints(value=0)
    first = (one, source) if not isinstance(target, np.ndarray) else (target[4:], two)
    node = memcpy(graph, *first, kind, 16)
    executable = instantiate(graph)
    if how == "1D":
        ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, target, source, NBYTES, kind))
    else:
        params = rows(target, source, kind, NBYTES, 1, NBYTES)
        ok(hip.hipGraphExecMemcpyNodeSetParams(executable, node, params))
    launched(executable, stream)
    assert (target.tolist() if isinstance(target, np.ndarray) else read(target)) == [3] * N
    told = ok(hip.hipGraphMemcpyNodeGetParams(node))
    assert (told.extent.width, told.kind) == (16, kind)
    run(graph, stream)
    assert isinstance(target, np.ndarray) or read(one)[:5] == [3] * 4 + [1]


@pytest.mark.executes(run=False)
def test_launches_under_way_are_not_changed(graph, stream, hold):
    one, two = ints(value=1), ints(value=2)
    out, other = np.zeros(N, "i4"), np.zeros(N, "i4")
    node = memcpy(graph, out, one, K.hipMemcpyDeviceToHost)
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, other, two, NBYTES, K.hipMemcpyDeviceToHost))
    ok(hip.hipGraphLaunch(executable, stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert (out.tolist(), other.tolist()) == ([1] * N, [2] * N)


@pytest.mark.executes(run=False)
def test_another_copy_in_the_graph(graph, stream):
    """Also the other way, within memory of the host, and of rows."""
    there, host, out = ints(value=5), np.full(N, 7, "i4"), np.zeros(N, "i4")
    node = memcpy(graph, there, host, K.hipMemcpyHostToDevice)
    before = instantiate(graph)
    ok(hip.hipGraphMemcpyNodeSetParams1D(node, out, there, NBYTES, K.hipMemcpyDeviceToHost))
    run(graph, stream)
    assert out.tolist() == [5] * N
    launched(before, stream)
    assert read(there) == [7] * N
    ok(hip.hipGraphMemcpyNodeSetParams1D(node, out, host + 1, NBYTES, K.hipMemcpyHostToHost))
    run(graph, stream)
    assert out.tolist() == [8] * N
    out[:] = 0
    ok(hip.hipGraphMemcpyNodeSetParams(node, rows(out, there, K.hipMemcpyDeviceToHost, 8, 2, 16)))
    run(graph, stream)
    assert out[:8].tolist() == [7, 7, 0, 0, 7, 7, 0, 0]
    assert len(ok(hip.hipGraphGetNodes(graph))[0]) == 1
    assert ok(hip.hipGraphMemcpyNodeGetParams(node)).extent.height == 2


DIRECTIONS = [K.hipMemcpyHostToHost, K.hipMemcpyHostToDevice, K.hipMemcpyDeviceToHost, K.hipMemcpyDeviceToDevice]


@pytest.mark.parametrize("kind", DIRECTIONS, ids=lambda kind: kind.name)
def test_the_direction_is_not_changed_in_what_is_instantiated(graph, kind):
    ends = {"Host": (np.zeros(4, "i4"), np.zeros(4, "i4")), "Device": (ints(4), ints(4))}
    source, target = kind.name.removeprefix("hipMemcpy").split("To")
    src, dst = ends[source][0], ends[target][1]
    node = memcpy(graph, dst, src, kind, 16)
    executable = instantiate(graph)
    for other in (*DIRECTIONS, K.hipMemcpyDefault):
        if other != kind:
            result = hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, dst, src, 16, other)
            assert code(result) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, dst, src, 8, kind))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_another_memset(graph, stream, size, really):
    one, two = ints(value=0), ints(value=0)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(one, 1, 2, size)))
    executable = instantiate(graph)
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, memset(two, 42, NBYTES // size, size)))
    told = ok(hip.hipGraphMemsetNodeGetParams(node))
    assert (told.dst, told.elementSize, told.width, told.height, told.value) == (one, size, 2, 1, 1)
    launched(executable, stream)
    expected = int.from_bytes((42).to_bytes(size, "little") * (4 // size), "little")
    assert (read(one), read(two)) == ([0] * N, [expected] * N) or not really
    given = memset(one, 9, 2, 4, 2, 16)
    ok(hip.hipGraphMemsetNodeSetParams(node, given))
    given.value = 0
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 9
    run(graph, stream)
    assert read(one)[:8] == [9, 9, 0, 0, 9, 9, 0, 0] or not really


@pytest.mark.executes(run=False)
def test_another_host_function(graph, stream):
    called = []
    node = ok(hip.hipGraphAddHostNode(graph, None, 0, hip.hipHostNodeParams(fn=called.append, userData="first")))
    executable = instantiate(graph)
    ok(hip.hipGraphExecHostNodeSetParams(executable, node, hip.hipHostNodeParams(called.append, "second")))
    launched(executable, stream)
    assert called == ["second"]
    told = ok(hip.hipGraphHostNodeGetParams(node))
    assert (told.fn, told.userData) == (called.append, "first")
    ok(hip.hipGraphHostNodeSetParams(node, hip.hipHostNodeParams(called.append, "third")))
    run(graph, stream)
    assert called == ["second", "third"]


def test_what_a_kernel_node_was_made_from(graph, function):
    there = ints()
    node = add(graph, function("fill"), there, 1)
    assert ok(hip.hipGraphKernelNodeGetParams(node)).func is function("fill")
    ok(hip.hipGraphKernelNodeSetParams(node, kernel(function("add"), there, 2)))
    told = ok(hip.hipGraphKernelNodeGetParams(node))
    assert told.func is function("add")
    assert (told.extra[0], told.extra[1].value) == (there, 2)
    ok(hip.hipGraphKernelNodeSetParams(node, told))
    clone = ok(hip.hipGraphClone(graph))
    (cloned,), _ = ok(hip.hipGraphGetNodes(clone))
    assert ok(hip.hipGraphKernelNodeGetParams(cloned)).func is function("add")
    for wrong in (None, ok(hip.hipGraphAddEmptyNode(graph, None, 0))):
        assert code(hip.hipGraphKernelNodeGetParams(wrong)) == E.hipErrorInvalidValue


def test_captured_nodes_are_set_but_have_no_structure(stream):
    there = ints()
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipMemsetAsync(there, 1, NBYTES, stream))
    graph = ok(hip.hipStreamEndCapture(stream))
    (node,), _ = ok(hip.hipGraphGetNodes(graph))
    assert code(hip.hipGraphMemsetNodeGetParams(node)) == E.hipErrorNotSupported
    ok(hip.hipGraphExecMemsetNodeSetParams(instantiate(graph), node, memset(there, 2)))
    ok(hip.hipGraphMemsetNodeSetParams(node, memset(there, 2)))
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 2


# -- graphs as nodes


@pytest.mark.executes(run=False)
def test_a_graph_as_a_node(graph, stream, function):
    there, out = ints(value=1), np.zeros(N, "i4")
    child = ok(hip.hipGraphCreate(0))
    first = add(child, function("add"), there, 2)
    second = add(child, function("add"), there, 3)
    ok(hip.hipGraphAddDependencies(child, [first], [second], 1))
    before = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(there, 10)))
    node = ok(hip.hipGraphAddChildGraphNode(graph, [before], 1, child))
    memcpy(graph, out, there, K.hipMemcpyDeviceToHost, after=[node])
    add(child, function("add"), there, 100)  # later
    ok(hip.hipGraphDestroy(child))
    assert ok(hip.hipGraphNodeGetType(node)) == hip.hipGraphNodeType.hipGraphNodeTypeGraph
    assert len(ok(hip.hipGraphGetNodes(ok(hip.hipGraphChildGraphNodeGetGraph(node))))[0]) == 2
    run(graph, stream)
    assert out.tolist() == [15] * N
    clone = ok(hip.hipGraphClone(graph))
    run(clone, stream)
    assert out.tolist() == [15] * N


@pytest.mark.executes
def test_a_graph_within_a_graph_within_itself(graph, stream, function):
    there = ints(value=0)
    first = add(graph, function("add"), there, 1)
    second = ok(hip.hipGraphAddChildGraphNode(graph, [first], 1, graph))
    ok(hip.hipGraphAddChildGraphNode(graph, [second], 1, graph))
    assert ok(hip.hipGraphGetNodes(graph))[1] == 3
    run(graph, stream)
    assert read(there) == [4] * N


@pytest.mark.executes
def test_another_graph_as_a_node(graph, stream, function):
    one, two, other = (ints(value=0) for _ in range(3))
    children = []
    for there, count in ((one, 1), (two, 1), (two, 2)):
        children.append(ok(hip.hipGraphCreate(0)))
        for _ in range(count):
            add(children[-1], function("add"), there, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, children[0]))
    plain = add(graph, function("add"), other, 0)  # nothing orders it and the child
    executable = instantiate(graph)
    for call in (
        lambda: hip.hipGraphExecChildGraphNodeSetParams(None, node, children[1]),
        lambda: hip.hipGraphExecChildGraphNodeSetParams(executable, None, children[1]),
        lambda: hip.hipGraphExecChildGraphNodeSetParams(executable, plain, children[1]),
        lambda: hip.hipGraphExecChildGraphNodeSetParams(executable, node, None),
        lambda: hip.hipGraphExecChildGraphNodeSetParams(executable, node, graph),
        lambda: hip.hipGraphExecChildGraphNodeSetParams(executable, node, children[2]),
    ):
        assert code(call()) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecChildGraphNodeSetParams(executable, node, children[1]))
    launched(executable, stream)
    assert (read(one), read(two)) == ([0] * N, [1] * N)
