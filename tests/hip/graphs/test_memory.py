"""Nodes that allocate and free memory; what is asked and which errors there are follows hip-tests."""

import ctypes
import gc

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, N, alloc_params, code, instantiate, launch, launched, memset, read

RELAXED = hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed
GLOBAL = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
ATTRIBUTES = hip.hipGraphMemAttributeType
USED, USED_HIGH, RESERVED, RESERVED_HIGH = ATTRIBUTES
AUTO_FREE = hip.hipGraphInstantiateFlags.hipGraphInstantiateFlagAutoFreeOnLaunch
NBYTES = 4 * N


def alloc(graph, nbytes=NBYTES):
    """A node, and the pointer."""
    given = alloc_params(nbytes)
    node = ok(hip.hipGraphAddMemAllocNode(graph, None, 0, given))
    return node, given.dptr


def figure(attribute):
    value = ctypes.c_uint64(1 << 60)
    ok(hip.hipDeviceGetGraphMemAttribute(hip.devices.current_number(), attribute, value))
    return value.value


def settle():
    """Whatever is not used any more goes back; each synchronize may let go of something that keeps something else."""
    for _ in range(4):
        gc.collect()
        ok(hip.hipDeviceSynchronize())


@pytest.fixture
def figures(device):
    """``figures()``: used, its peak, reserved, its peak; without what tests before have used."""
    settle()
    zero = ctypes.c_uint64(0)
    before = figure(USED), figure(RESERVED)
    for attribute in (USED_HIGH, RESERVED_HIGH):
        ok(hip.hipDeviceSetGraphMemAttribute(hip.devices.current_number(), attribute, zero))
    return lambda: tuple(figure(each) - before[at // 2] for at, each in enumerate(ATTRIBUTES))


@pytest.fixture
def out():
    return np.zeros(N, "i4")


def filled(graph, out, value):
    """Have a graph allocate memory, set it and copy it to the host; the pointer."""
    node, pointer = alloc(graph)
    node = ok(hip.hipGraphAddMemsetNode(graph, [node], 1, memset(pointer, value)))
    ok(hip.hipGraphAddMemcpyNode1D(graph, [node], 1, out, pointer, NBYTES, K.hipMemcpyDeviceToHost))
    return pointer


@pytest.mark.executes
@pytest.mark.parametrize("how", ["hipFree", "hipFreeAsync", "another graph"])
def test_freeing_it_outside_of_the_graph(graph, stream, function, out, how):
    pointer = filled(graph, out, 12)
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    other = ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphAddMemFreeNode(other, None, 0, pointer))
    freeing = instantiate(other)
    frees = {
        "hipFree": lambda: hip.hipFree(pointer), "hipFreeAsync": lambda: hip.hipFreeAsync(pointer, stream),
        "another graph": lambda: hip.hipGraphLaunch(freeing, stream),
    }  # fmt: skip
    for _ in range(2):
        ok(hip.hipGraphLaunch(executable, stream))
        launch(function("add"), stream, pointer, 1)
        ok(hip.hipStreamSynchronize(stream))
        assert read(pointer) == [13] * N
        assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
        ok(frees[how]())
        for free in frees.values():
            assert code(free()) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecDestroy(executable))


@pytest.mark.executes
@pytest.mark.parametrize("free", [True, False])
def test_in_a_capture(stream, function, out, free):
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    pointer = ok(hip.hipMallocAsync(NBYTES, stream))
    ok(hip.hipMemsetAsync(pointer, 0, NBYTES, stream))
    launch(function("add"), stream, pointer, 3)
    ok(hip.hipMemcpyAsync(out, pointer, NBYTES, K.hipMemcpyDeviceToHost, stream))
    if free:
        ok(hip.hipFreeAsync(pointer, stream))
        assert code(hip.hipFreeAsync(pointer, stream)) == E.hipErrorInvalidValue
    graph = ok(hip.hipStreamEndCapture(stream))
    nodes, count = ok(hip.hipGraphGetNodes(graph))
    assert count == 4 + free
    assert ok(hip.hipGraphNodeGetType(nodes[0])) == hip.hipGraphNodeType.hipGraphNodeTypeMemAlloc
    if free:
        assert ok(hip.hipGraphNodeGetType(nodes[-1])) == hip.hipGraphNodeType.hipGraphNodeTypeMemFree
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for _ in range(3):
        out[:] = 0
        launched(executable, stream)
        assert (out == 3).all()
        if not free:
            assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
            ok(hip.hipFreeAsync(pointer, stream))
        assert code(hip.hipFreeAsync(pointer, stream)) == E.hipErrorInvalidValue


@pytest.mark.executes
def test_freed_by_the_next_launch(graph, stream, out, figures):
    pointer = filled(graph, out, 9)
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, AUTO_FREE))
    for _ in range(3):
        out[:] = 0
        launched(executable, stream)
        assert (out == 9).all()
        assert ok(hip.hipMemPtrGetInfo(pointer)) == NBYTES
        assert figures() == (NBYTES,) * 4
    ok(hip.hipFree(pointer))
    assert figures()[0] == 0
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipGraphExecDestroy(executable))


@pytest.mark.executes
def test_it_outlives_its_graph_until_it_is_freed(graph, stream, out, figures):
    pointer = filled(graph, out, 22)
    executable = instantiate(graph)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipStreamSynchronize(stream))
    assert read(pointer) == [22] * N
    ok(hip.hipFree(pointer))
    del pointer
    settle()
    ok(hip.hipDeviceGraphMemTrim(hip.devices.current_number()))
    assert figures() == (0, NBYTES, 0, NBYTES)


def test_memory_that_was_never_handed_out_goes_with_its_graph(graph, figures):
    pointer = int(alloc(graph)[1])
    assert figures() == (0, 0, NBYTES, NBYTES)
    assert ok(hip.hipMemPtrGetInfo(pointer)) == NBYTES
    ok(hip.hipGraphDestroy(graph))
    settle()
    assert code(hip.hipMemPtrGetInfo(pointer)) == E.hipErrorInvalidValue
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue
    assert figures() == (0, 0, 0, NBYTES)


def test_free_memory_of_the_device(fresh, graph):
    before, total = ok(hip.hipMemGetInfo())
    alloc(graph)
    assert ok(hip.hipMemGetInfo()) == (before - NBYTES, total)


def test_what_nodes_say_of_themselves(graph):
    node, pointer = alloc(graph)
    free = ok(hip.hipGraphAddMemFreeNode(graph, [node], 1, pointer))
    told = ok(hip.hipGraphMemAllocNodeGetParams(node))
    assert (told.bytesize, told.dptr) == (NBYTES, pointer)
    assert repr(told.poolProps) == repr(alloc_params().poolProps)
    at = ctypes.c_void_p()
    ok(hip.hipGraphMemFreeNodeGetParams(free, ctypes.byref(at)))
    assert at.value == int(pointer)


@pytest.mark.parametrize("which", ["allocates", "frees"])
def test_what_is_not_done_with_such_graphs(graph, stream, which):
    _, pointer = alloc(graph)
    given = graph
    if which == "frees":
        given = ok(hip.hipGraphCreate(0))
        ok(hip.hipGraphAddMemFreeNode(given, None, 0, pointer))
    first = instantiate(given)
    assert hip.hipGraphInstantiate(given, 0)[0] == E.hipErrorNotSupported
    assert code(hip.hipGraphClone(given)) == E.hipErrorNotSupported
    ok(hip.hipStreamBeginCapture(stream, RELAXED))
    assert code(hip.hipGraphLaunch(first, stream)) == E.hipErrorNotSupported
    ok(hip.hipStreamEndCapture(stream))
    where = []
    result = hip.hipGraphExecUpdate(first, given, where)
    update = hip.hipGraphExecUpdateResult
    assert result == (E.hipErrorGraphExecUpdateFailure, update.hipGraphExecUpdateErrorNotSupported)
    assert where == ok(hip.hipGraphGetNodes(given))[0]
    ok(hip.hipGraphExecDestroy(first))
    ok(hip.hipGraphExecDestroy(instantiate(given)))


@pytest.mark.executes
def test_memory_freed_in_a_capture_is_handed_out_again_under_the_same_address(stream, function, out, figures):
    """On devices whose memory has addresses: both pointers are good where they are used."""
    ok(hip.hipStreamBeginCapture(stream, GLOBAL))
    pointers = []
    for value in (1, 2):
        pointers.append(ok(hip.hipMallocAsync(NBYTES, stream)))
        ok(hip.hipMemsetD32Async(pointers[-1], value, N, stream))
        launch(function("add"), stream, pointers[-1], value)
        half = N // 2
        part = out[half * (value - 1) :]
        ok(hip.hipMemcpyAsync(part, pointers[-1], 4 * half, K.hipMemcpyDeviceToHost, stream))
        ok(hip.hipFreeAsync(pointers[-1], stream))
    graph = ok(hip.hipStreamEndCapture(stream))
    assert figures()[2] == NBYTES
    executable = instantiate(graph)
    launched(executable, stream)
    assert out.tolist() == [2] * half + [4] * half
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(graph))
    settle()
    for pointer in pointers:
        assert code(hip.hipMemPtrGetInfo(int(pointer))) == E.hipErrorInvalidValue
