"""Graphs instantiated, updated, launched and destroyed, by the chapter on them in HIP's own tests."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, N, add, code, instantiate, ints, kernel, launch, launched, memset, read

TYPE, RESULT = hip.hipGraphNodeType, hip.hipGraphExecUpdateResult
BYTES = 4 * N


# Life


def test_launching_on_a_destroyed_stream_and_with_freed_memory(graph, stream, function):
    memory = ints()
    add(graph, function("fill"), memory, 1)
    executable = instantiate(graph)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipFree(memory))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamDestroy(stream))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorContextIsDestroyed


@pytest.mark.executes
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
    assert code(hip.hipGraphDebugDotPrint(graph, None, 0)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphDebugDotPrint(graph, str(tmp_path), 0)) == E.hipErrorOperatingSystem


def test_flags(graph):
    flags = hip.hipGraphInstantiateFlags.hipGraphInstantiateFlagUpload
    assert ok(hip.hipGraphExecGetFlags(ok(hip.hipGraphInstantiateWithFlags(graph, flags)))) == flags
    assert ok(hip.hipGraphExecGetFlags(instantiate(graph))) == 0


# Launching


@pytest.mark.parametrize("other", [False, True], ids=["the same stream", "another stream"])
def test_launched_again_while_the_last_launch_still_runs(graph, stream, function, hold, other, really):
    second = ok(hip.hipStreamCreate()) if other else stream
    memory = ints()
    first = add(graph, function("add"), memory, 1)
    add(graph, function("add"), memory, 10, after=[first])
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphLaunch(executable, second))
    ok(hip.hipGraphLaunch(executable, second))
    assert hip.hipStreamQuery(second) == (E.hipErrorNotReady,) or not really
    gate.open()
    ok(hip.hipStreamSynchronize(second))
    assert read(memory) == [33] * N or not really


# Updates


@pytest.mark.executes
def test_update(graph, stream, function, hold):
    memory, other = ints(), ints()
    add(graph, function("add"), memory, 2, after=[add(graph, function("add"), memory, 1)])
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    launch(function("fill"), stream, other, 7)
    launch(function("add"), stream, other, 70)
    captured = ok(hip.hipStreamEndCapture(stream))
    node = hip.hipGraphNode()
    assert ok(hip.hipGraphExecUpdate(executable, captured, node)) == RESULT.hipGraphExecUpdateSuccess
    assert not node
    ok(hip.hipGraphLaunch(executable, stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [3] * N
    assert read(other) == [77] * N


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
