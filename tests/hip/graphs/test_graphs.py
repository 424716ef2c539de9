"""Graphs and their nodes: made, changed, instantiated, updated, launched; by the chapter on them in HIP's own tests."""

import ctypes
from typing import Any, NamedTuple

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, K, N, add, code, instantiate, ints, kernel, launched, memset, read, run

BYTES = 4 * N
UP, DOWN, ACROSS = K.hipMemcpyHostToDevice, K.hipMemcpyDeviceToHost, K.hipMemcpyDeviceToDevice


# -- one node of each kind that writes a value, and what can be asked and changed


class Node(NamedTuple):
    """What adds a node of a kind, its functions' name, what writes a value to memory, and what can be asked of it."""

    add: str
    name: str
    params: Any
    to_host: bool = False
    asked: Any = None


def rows(dst, src, kind, count):
    """A copy of all N ints, in this number of rows."""
    ends = [hip.hipPitchedPtr(pointer, BYTES // count, BYTES // count, count) for pointer in (dst, src)]
    extent = hip.hipExtent(BYTES // count, count, 1)
    return hip.hipMemcpy3DParms(dstPtr=ends[0], srcPtr=ends[1], extent=extent, kind=kind)


def filled(value):
    return np.full(N, value, "i4")


def child_that_fills(fill, memory, value):
    child = ok(hip.hipGraphCreate(0))
    add(child, fill, memory, value)
    return child


NODES = {
    "kernel": Node("KernelNode", "KernelNode", lambda fill, at, k: (kernel(fill, at, k),), False, "extra"),
    "memset": Node("MemsetNode", "MemsetNode", lambda fill, at, k: (memset(at, k),), False, "value"),
    "host": Node("HostNode", "HostNode", lambda fill, at, k: (hip.hipHostNodeParams(at.fill, k),), True, "userData"),
    "copy up": Node("MemcpyNode1D", "MemcpyNode", lambda fill, at, k: (at, filled(k), BYTES, UP)),
    "copy down": Node("MemcpyNode1D", "MemcpyNode", lambda fill, at, k: (at, ints(N, k), BYTES, DOWN), True),
    "copy across": Node("MemcpyNode1D", "MemcpyNode", lambda fill, at, k: (at, ints(N, k), BYTES, ACROSS)),
    "copy of a row": Node(
        "MemcpyNode", "MemcpyNode", lambda fill, at, k: (rows(at, ints(N, k), DOWN, 1),), True, "kind"
    ),
    "graph": Node("ChildGraphNode", "ChildGraphNode", lambda fill, at, k: (child_that_fills(fill, at, k),)),
}


@pytest.mark.executes
@pytest.mark.parametrize("kind", NODES)
def test_what_a_node_does_is_changed(graph, stream, function, hold, kind):
    """In what is instantiated, which changes neither the graph nor launches under way, and in the graph."""
    node_of = NODES[kind]
    memories = [np.zeros(N, "i4") if node_of.to_host else ints() for _ in range(3)]
    first, second, third = (node_of.params(function("fill"), at, k) for k, at in enumerate(memories, 1))
    one_d = "1D" if node_of.add.endswith("1D") else ""
    node = ok(getattr(hip, f"hipGraphAdd{node_of.add}")(graph, None, 0, *first))
    executable = instantiate(graph)

    def asked():
        return getattr(ok(getattr(hip, f"hipGraph{node_of.name}GetParams")(node)), node_of.asked)

    def found():
        return [at[0] if node_of.to_host else read(at, 1)[0] for at in memories]

    before = asked() if node_of.asked else None
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(getattr(hip, f"hipGraphExec{node_of.name}SetParams{one_d}")(executable, node, *second))
    ok(hip.hipGraphLaunch(executable, stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert found() == [1, 2, 0]
    assert not node_of.asked or asked() == before
    if kind == "graph":  # the graph of such a node is not replaced
        return
    ok(getattr(hip, f"hipGraph{node_of.name}SetParams{one_d}")(node, *third))
    assert node_of.asked in (None, "kind") or asked() != before
    for at in memories:
        at.fill(0) if node_of.to_host else ok(hip.hipMemset(at, 0, BYTES))
    launched(executable, stream)
    assert found() == [0, 2, 0]
    run(ok(hip.hipGraphClone(graph)), stream)
    assert found() == [0, 2, 3]
    assert all(len({*(at.tolist() if node_of.to_host else read(at))}) == 1 for at in memories)


@pytest.mark.executes
def test_another_direction_in_the_graph(graph, stream):
    """The other way, within memory of the host, and of rows; what was instantiated before stays as it was."""
    there, host, out = ints(value=5), filled(7), filled(0)
    node = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, there, host, BYTES, UP))
    before = instantiate(graph)
    ok(hip.hipGraphMemcpyNodeSetParams1D(node, out, there, BYTES, DOWN))
    run(graph, stream)
    assert out.tolist() == [5] * N
    launched(before, stream)
    assert read(there) == [7] * N
    ok(hip.hipGraphMemcpyNodeSetParams1D(node, out, host + 1, BYTES, K.hipMemcpyHostToHost))
    run(graph, stream)
    assert out.tolist() == [8] * N
    ok(hip.hipGraphMemcpyNodeSetParams(node, rows(out, there, DOWN, 10)))
    run(graph, stream)
    assert out.tolist() == [7] * N
    assert ok(hip.hipGraphMemcpyNodeGetParams(node)).extent.height == 10


DIRECTIONS = [K.hipMemcpyHostToHost, UP, DOWN, ACROSS]


@pytest.mark.parametrize("kind", DIRECTIONS, ids=lambda kind: kind.name)
def test_the_direction_is_not_changed_in_what_is_instantiated(graph, kind):
    ends = {"Host": (np.zeros(4, "i4"), np.zeros(4, "i4")), "Device": (ints(4), ints(4))}
    source, target = kind.name.removeprefix("hipMemcpy").split("To")
    src, dst = ends[source][0], ends[target][1]
    node = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, dst, src, 16, kind))
    executable = instantiate(graph)
    for other in (*DIRECTIONS, K.hipMemcpyDefault):
        if other != kind:
            result = hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, dst, src, 16, other)
            assert code(result) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, dst, src, 8, kind))


def test_structures_are_copied_and_those_of_captured_nodes_are_unknown(graph, stream, function):
    there = ints()
    given = memset(there, 9)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, given))
    given.value = 8
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 9
    ok(hip.hipGraphMemsetNodeSetParams(node, given))
    given.value = 7
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 8
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipMemsetAsync(there, 1, BYTES, stream))
    captured = ok(hip.hipStreamEndCapture(stream))
    (node,), _ = ok(hip.hipGraphGetNodes(captured))
    assert code(hip.hipGraphMemsetNodeGetParams(node)) == E.hipErrorNotSupported
    ok(hip.hipGraphExecMemsetNodeSetParams(instantiate(captured), node, memset(there, 2)))
    ok(hip.hipGraphMemsetNodeSetParams(node, memset(there, 2)))
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 2


# -- graphs of several nodes


@pytest.mark.executes
def test_nodes_of_every_kind(graph, stream, function):
    a, b = ints(), ints()
    given, got, called = np.arange(N, dtype="i4"), filled(0), []
    up = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, a, given, BYTES, UP))
    clear = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(b, 7)))
    both = ok(hip.hipGraphAddEmptyNode(graph, [up, clear], 2))
    one = add(graph, function("copy"), b, a, after=[both])
    two = add(graph, function("add"), b, 1000, after=[one])
    call = ok(hip.hipGraphAddHostNode(graph, [two], 1, hip.hipHostNodeParams(called.append, "x")))
    down = ok(hip.hipGraphAddMemcpyNode1D(graph, [call], 1, got, b, BYTES, DOWN))
    assert ok(hip.hipGraphGetNodes(graph)) == ([up, clear, both, one, two, call, down], 7)
    kinds = [ok(hip.hipGraphNodeGetType(node)).name for node in ok(hip.hipGraphGetNodes(graph))[0]]
    assert [kind.removeprefix("hipGraphNodeType") for kind in kinds] == [
        "Memcpy", "Memset", "Empty", "Kernel", "Kernel", "Host", "Memcpy"]  # fmt: skip
    assert ok(hip.hipGraphGetRootNodes(graph)) == ([up, clear], 2)
    assert ok(hip.hipGraphGetEdges(graph)) == (
        [up, clear, both, one, two, call], [both, both, one, two, call, down], 6)  # fmt: skip
    run(graph, stream)
    run(graph, stream)
    assert got.tolist() == list(range(1000, 1000 + N))
    assert called == ["x", "x"]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_memset_of_rows(graph, stream, size):
    memory = ints(16, -1)
    params = memset(memory, 0x01020304, width=8 // size, size=size, height=3, pitch=16)
    ok(hip.hipGraphAddMemsetNode(graph, None, 0, params))
    run(graph, stream)
    value = {1: 0x04040404, 2: 0x03040304, 4: 0x01020304}[size]
    assert device_data(read(memory, 16)) == [value, value, -1, -1] * 3 + [-1] * 4


def test_dependencies_decide_the_order(graph, stream, function):
    memory, result = ints(), ints()
    last = add(graph, function("copy"), result, memory)
    middle = add(graph, function("add"), memory, 1)
    first = add(graph, function("fill"), memory, 10)
    ok(hip.hipGraphAddDependencies(graph, [first, middle], [middle, last], 2))
    run(graph, stream)
    assert device_data(read(result)) == [11] * N
    # One that is removed is no dependency, and makes no circle.
    ok(hip.hipGraphRemoveDependencies(graph, [middle], [last], 1))
    assert ok(hip.hipGraphGetEdges(graph))[2] == 1
    ok(hip.hipGraphAddDependencies(graph, [last], [first], 1))
    run(graph, stream)
    assert (device_data(read(memory)), device_data(read(result))) == ([11] * N, [11] * N)


def test_dependencies_in_every_form(graph):
    nodes = [ok(hip.hipGraphAddEmptyNode(graph, None, 0)) for _ in range(2)]
    numbers = (ctypes.c_void_p * 2)(*map(int, nodes))
    for given in (
        nodes, tuple(nodes), numbers, np.array([int(node) for node in nodes], "u8"), ctypes.addressof(numbers)
    ):  # fmt: skip
        for count in range(3):
            node = ok(hip.hipGraphAddEmptyNode(graph, given, count))
            assert ok(hip.hipGraphNodeGetDependencies(node)) == (nodes[:count], count)


def test_records():
    params = hip.hipMemsetParams(value=3, width=4)
    assert (params.value, params["width"], params.dst) == (3, 4, None)
    assert hip.hipHostNodeParams.PROPERTIES() == ["fn", "userData"]
    assert "value=3" in repr(params)
    for args, keywords in (((1, 2, 3, 4), {}), ((1,), {"x": 2}), ((), {"w": 1})):
        with pytest.raises(TypeError, match="hipPos"):
            hip.hipPos(*args, **keywords)


# -- graphs as nodes


@pytest.mark.executes
def test_a_graph_as_a_node(graph, stream, function):
    """It is copied; a graph may be a node of itself as it was."""
    there = ints()
    child = ok(hip.hipGraphCreate(0))
    first, second = (add(child, function("add"), there, k) for k in (2, 3))
    ok(hip.hipGraphAddDependencies(child, [first], [second], 1))
    before = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(there, 10)))
    node = ok(hip.hipGraphAddChildGraphNode(graph, [before], 1, child))
    add(child, function("add"), there, 100)  # later
    ok(hip.hipGraphDestroy(child))
    assert ok(hip.hipGraphNodeGetType(node)) == hip.hipGraphNodeType.hipGraphNodeTypeGraph
    assert len(ok(hip.hipGraphGetNodes(ok(hip.hipGraphChildGraphNodeGetGraph(node))))[0]) == 2
    run(graph, stream)
    assert read(there) == [15] * N
    ok(hip.hipMemset(there, 0, BYTES))
    run(ok(hip.hipGraphClone(graph)), stream)
    assert read(there) == [15] * N
    itself = ok(hip.hipGraphCreate(0))
    last = add(itself, function("add"), there, 1)
    for _ in range(2):
        last = ok(hip.hipGraphAddChildGraphNode(itself, [last], 1, itself))
    assert ok(hip.hipGraphGetNodes(itself))[1] == 3
    run(itself, stream)
    assert read(there) == [19] * N


def test_a_graph_of_another_shape_does_not_replace_a_node(graph, function):
    there = ints()
    one, two = (child_that_fills(function("fill"), there, 1) for _ in range(2))
    add(two, function("add"), there, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, one))
    result = hip.hipGraphExecChildGraphNodeSetParams(instantiate(graph), node, two)
    assert code(result) == E.hipErrorInvalidValue


# -- graphs instantiated, updated, launched and destroyed

RESULT = hip.hipGraphExecUpdateResult


def test_a_clone(graph, stream, function):
    memory = ints(16)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(memory, 5, width=2, height=4, pitch=16)))
    later = add(graph, function("add"), memory, 1, after=[])
    ok(hip.hipGraphAddDependencies(graph, [later], [node], 1))
    clone = ok(hip.hipGraphClone(graph))
    ok(hip.hipGraphDestroy(graph))
    nodes, count = ok(hip.hipGraphGetNodes(clone))
    assert count == 2
    assert ok(hip.hipGraphGetEdges(clone)) == ([nodes[1]], [nodes[0]], 1)
    assert nodes[0] not in (node, later)


def test_debug_dot(graph, function, tmp_path):
    first = add(graph, function("fill"), ints(), 1)
    add(graph, function("add"), ints(), 1, after=[first])
    ok(hip.hipGraphDebugDotPrint(graph, str(tmp_path / "graph.dot").encode(), 0))
    text = (tmp_path / "graph.dot").read_text()
    assert "fill" in text
    assert "n0 -> n1;" in text


def test_flags(graph):
    flags = hip.hipGraphInstantiateFlags.hipGraphInstantiateFlagUpload
    assert ok(hip.hipGraphExecGetFlags(ok(hip.hipGraphInstantiateWithFlags(graph, flags)))) == flags
    assert ok(hip.hipGraphExecGetFlags(instantiate(graph))) == 0


UPDATE_FAILURES = {
    "fewer nodes": (RESULT.hipGraphExecUpdateErrorTopologyChanged, False),
    "other dependencies": (RESULT.hipGraphExecUpdateErrorTopologyChanged, True),
    "another kind": (RESULT.hipGraphExecUpdateErrorNodeTypeChanged, True),
    "another direction": (RESULT.hipGraphExecUpdateErrorParametersChanged, True),
}


@pytest.mark.parametrize("what", list(UPDATE_FAILURES))
def test_updates_that_do_not_fit(graph, stream, what, really):
    memory, host = ints(), np.zeros(N, "i4")
    made = {}

    def build(graph, variant=""):
        up = (memory, host, 4, K.hipMemcpyHostToDevice)
        down = (host, memory, 4, K.hipMemcpyDeviceToHost)
        first = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, *up))
        if variant == "fewer nodes":
            return None
        after = [] if variant == "other dependencies" else [first]
        if variant == "another kind":
            return ok(hip.hipGraphAddMemsetNode(graph, after, len(after), memset(memory, 1)))
        copy = down if variant == "another direction" else up
        return ok(hip.hipGraphAddMemcpyNode1D(graph, after, len(after), *copy))

    build(graph)
    executable = instantiate(graph)
    other = ok(hip.hipGraphCreate(0))
    made = build(other, what)
    expected, names_a_node = UPDATE_FAILURES[what]
    for out in (hip.hipGraphNode(), [], (ctypes.c_uint64 * 1)(5)):
        result = hip.hipGraphExecUpdate(executable, other, out)
        assert result == (E.hipErrorGraphExecUpdateFailure, expected)
        found = (out[0] if out else 0) if not isinstance(out, hip.hipGraphNode) else out
        assert int(found) == (int(made) if names_a_node else 0)
    assert hip.hipGetLastError() == (E.hipErrorGraphExecUpdateFailure,)
    if really:  # host functions, which bring pageable memory there on Level Zero, are never called on null hardware
        launched(executable, stream)


@pytest.mark.needs("two devices")
def test_two_devices(graph, stream, function):
    count, here = ok(hip.hipGetDeviceCount()), ok(hip.hipGetDevice())
    memory = ints()
    node = add(graph, function("fill"), memory, 1)
    executable = instantiate(graph)
    ok(hip.hipSetDevice((here + 1) % count))
    other, peer = ok(hip.hipGraphCreate(0)), ints()
    there = ok(hip.hipGraphAddMemsetNode(other, None, 0, memset(peer, 1)))
    out = hip.hipGraphNode()
    assert hip.hipGraphExecUpdate(executable, other, out) == (
        E.hipErrorGraphExecUpdateFailure, RESULT.hipGraphExecUpdateErrorUnsupportedFunctionChange)  # fmt: skip
    assert out == there
    params = kernel(function("fill"), memory, 1)
    assert code(hip.hipGraphAddKernelNode(other, None, 0, params)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphAddMemsetNode(other, None, 0, memset(memory, 1))) == E.hipErrorInvalidValue
    assert code(hip.hipGraphLaunch(executable, None)) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecKernelNodeSetParams(executable, node, params))
    launched(executable, stream)
    ok(hip.hipSetDevice(here))
