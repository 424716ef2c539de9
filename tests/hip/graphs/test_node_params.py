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


def test_what_setting_a_copy_refuses(graph):
    there, host, small = ints(4), np.zeros(4, "i4"), ints(1)
    default = K.hipMemcpyDefault
    node = memcpy(graph, there, host, default, 16)
    fill = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(there, 1, 4)))
    executable = instantiate(graph)
    late = memcpy(graph, there, host, default, 16)

    def in_graph(*given):
        return hip.hipGraphMemcpyNodeSetParams1D(*given)

    def in_executable(*given):
        return hip.hipGraphExecMemcpyNodeSetParams1D(executable, *given)

    for call in (in_graph, in_executable):
        for given, wanted in (
            ((None, there, host, 16, default), E.hipErrorInvalidValue),
            ((fill, there, host, 16, default), E.hipErrorInvalidValue),
            ((node, None, host, 16, default), E.hipErrorInvalidValue),
            ((node, there, None, 16, default), E.hipErrorInvalidValue),
            ((node, there, host, 0, default), E.hipErrorInvalidValue),
            ((node, small, host, 16, default), E.hipErrorInvalidValue),
            ((node, there, host, 32, default), E.hipErrorInvalidValue),
        ):
            assert code(call(*given)) == wanted, given
        assert code(call(node, there, host, 16, 9)) == E.hipErrorInvalidMemcpyDirection
    assert code(in_executable(late, there, host, 16, default)) == E.hipErrorInvalidValue
    assert code(in_executable(node, host, there, 16, default)) == E.hipErrorInvalidValue  # the other way
    many = rows(there, host, default, 4, 2, 8)
    for call in (
        lambda: hip.hipGraphExecMemcpyNodeSetParams1D(None, node, there, host, 16, default),
        lambda: hip.hipGraphExecMemcpyNodeSetParams(executable, node, many),
        lambda: hip.hipGraphExecMemcpyNodeSetParams(executable, node, None),
        lambda: hip.hipGraphMemcpyNodeSetParams(node, None),
        lambda: hip.hipGraphMemcpyNodeGetParams(fill),
        lambda: hip.hipGraphMemcpyNodeGetParams(None),
    ):
        assert code(call()) == E.hipErrorInvalidValue
    with pytest.raises(TypeError):
        hip.hipGraphMemcpyNodeSetParams(node, memset(there, 1))
    ok(hip.hipGraphMemcpyNodeSetParams(node, many))
    ok(hip.hipGraphExecDestroy(executable))
    executable = instantiate(graph)
    assert code(in_executable(node, there, host, 16, default)) == E.hipErrorInvalidValue  # it has rows now


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


WRONG = [
    {"dst": None},
    {"elementSize": 0},
    {"elementSize": 3},
    {"width": 0},
    {"width": 1001},
    {"height": 0},
    {"width": 2, "height": 2, "pitch": 4},
    {"width": 2, "height": 2, "pitch": 4000},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_memsets(graph, wrong):
    params = memset(ints(4), 42, 1)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, params))
    executable = instantiate(graph)
    for name, value in wrong.items():
        setattr(params, name, value)
    assert code(hip.hipGraphExecMemsetNodeSetParams(executable, node, params)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphMemsetNodeSetParams(node, params)) == E.hipErrorInvalidValue
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).value == 42


def test_what_setting_a_memset_refuses(graph):
    there = ints(8)
    flat = memset(there, 1, 2)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, flat))
    in_rows = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(there, 1, 1, 4, 2, 8)))
    empty = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    executable = instantiate(graph)
    late = ok(hip.hipGraphAddMemsetNode(graph, None, 0, flat))
    for call in (
        lambda: hip.hipGraphExecMemsetNodeSetParams(None, node, flat),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, None, flat),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, node, None),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, empty, flat),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, late, flat),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, in_rows, flat),
        lambda: hip.hipGraphExecMemsetNodeSetParams(executable, node, memset(there, 1, 1, 4, 2, 8)),
        lambda: hip.hipGraphMemsetNodeSetParams(None, flat),
        lambda: hip.hipGraphMemsetNodeSetParams(empty, flat),
        lambda: hip.hipGraphMemsetNodeSetParams(node, None),
        lambda: hip.hipGraphMemsetNodeGetParams(empty),
    ):
        assert code(call()) == E.hipErrorInvalidValue


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


def test_what_setting_a_host_function_refuses(graph):
    good = hip.hipHostNodeParams(fn=print)
    node = ok(hip.hipGraphAddHostNode(graph, None, 0, good))
    on_host = memcpy(graph, np.zeros(4), np.ones(4), K.hipMemcpyHostToHost, 32)
    executable = instantiate(graph)
    late = ok(hip.hipGraphAddHostNode(graph, None, 0, good))
    for call in (
        lambda: hip.hipGraphExecHostNodeSetParams(None, node, good),
        lambda: hip.hipGraphExecHostNodeSetParams(executable, None, good),
        lambda: hip.hipGraphExecHostNodeSetParams(executable, node, None),
        lambda: hip.hipGraphExecHostNodeSetParams(executable, node, hip.hipHostNodeParams()),
        lambda: hip.hipGraphExecHostNodeSetParams(executable, late, good),
        lambda: hip.hipGraphExecHostNodeSetParams(executable, on_host, good),
        lambda: hip.hipGraphHostNodeSetParams(on_host, good),
        lambda: hip.hipGraphHostNodeSetParams(node, hip.hipHostNodeParams()),
        lambda: hip.hipGraphHostNodeGetParams(on_host),
    ):
        assert code(call()) == E.hipErrorInvalidValue


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


def test_wrong_graphs_as_nodes(graph):
    child, allocating = ok(hip.hipGraphCreate(0)), ok(hip.hipGraphCreate(0))
    allocating.graph.add_alloc(4)
    for given, wanted in (
        ((None, None, 0, child), E.hipErrorInvalidValue),
        ((graph, None, 0, None), E.hipErrorInvalidValue),
        ((graph, None, 10, child), E.hipErrorInvalidValue),
        ((graph, None, 0, allocating), E.hipErrorNotSupported),
    ):
        assert code(hip.hipGraphAddChildGraphNode(*given)) == wanted
    ok(hip.hipGraphAddChildGraphNode(graph, None, 0, child))  # an empty one
    assert code(hip.hipGraphChildGraphNodeGetGraph(ok(hip.hipGraphAddEmptyNode(graph, None, 0)))) == (
        E.hipErrorInvalidValue
    )
    assert ok(hip.hipGraphGetNodes(graph))[1] == 2
