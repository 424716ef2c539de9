"""Nodes of graphs, and what they depend on, by the chapter on them in HIP's own tests."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import K, N, add, instantiate, ints, kernel, memset, read, run

TYPE, RESULT = hip.hipGraphNodeType, hip.hipGraphExecUpdateResult
BYTES = 4 * N


@pytest.fixture
def stream(device):
    return ok(hip.hipStreamCreate())


@pytest.mark.executes(run=False)
def test_nodes_of_every_kind(graph, stream, function):
    a, b = ints(), ints()
    given, got, called = np.arange(N, dtype="i4"), np.zeros(N, "i4"), []
    up = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, a, given, BYTES, K.hipMemcpyHostToDevice))
    clear = ok(hip.hipGraphAddMemsetNode(graph, None, 0, memset(b, 7)))
    both = ok(hip.hipGraphAddEmptyNode(graph, [up, clear], 2))
    one = add(graph, function("copy"), b, a, after=[both])
    two = add(graph, function("add"), b, 1000, after=[one])
    call = ok(hip.hipGraphAddHostNode(graph, [two], 1, hip.hipHostNodeParams(called.append, "x")))
    down = ok(hip.hipGraphAddMemcpyNode1D(graph, [call], 1, got, b, BYTES, K.hipMemcpyDeviceToHost))
    nodes, count = ok(hip.hipGraphGetNodes(graph))
    assert nodes == [up, clear, both, one, two, call, down]
    assert count == 7
    kinds = [ok(hip.hipGraphNodeGetType(node)) for node in nodes]
    assert [kind.name.removeprefix("hipGraphNodeType") for kind in kinds] == [
        "Memcpy", "Memset", "Empty", "Kernel", "Kernel", "Host", "Memcpy"]  # fmt: skip
    assert ok(hip.hipGraphGetRootNodes(graph)) == ([up, clear], 2)
    assert ok(hip.hipGraphGetEdges(graph)) == (
        [up, clear, both, one, two, call], [both, both, one, two, call, down], 6)  # fmt: skip
    run(graph, stream)
    run(graph, stream)
    assert got.tolist() == list(range(1000, 1000 + N))
    assert called == ["x", "x"]


@pytest.mark.executes
def test_an_executable_outlives_its_graph_and_a_node_what_made_it(graph, stream, function):
    memory, value = ints(), ctypes.c_int(5)
    pointer = ctypes.c_void_p(int(memory))
    addresses = (ctypes.addressof(pointer), ctypes.addressof(value))
    params = hip.hipKernelNodeParams(hip.dim3(10), None, function("fill"), (N // 10,), addresses, 0)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    value.value, params.func = 6, None
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipGraphUpload(executable, stream))
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [5] * N


@pytest.mark.executes
@pytest.mark.parametrize("form", ["addresses", "pointers", "array of addresses", "extra", "buffer"])
def test_forms_of_arguments(graph, stream, function, form):
    memory = ints()
    pointer, value = ctypes.c_void_p(int(memory)), ctypes.c_int(42)
    params = hip.hipKernelNodeParams(func=function("fill"), gridDim=N // 10, blockDim=10)
    packed = bytes(pointer) + bytes(value)
    size = ctypes.c_size_t(len(packed))
    buffer = ctypes.create_string_buffer(packed, len(packed))
    if form == "addresses":
        params.kernelParams = [ctypes.addressof(pointer), ctypes.addressof(value)]
    elif form == "pointers":
        params.kernelParams = (ctypes.pointer(pointer), ctypes.pointer(value))
    elif form == "array of addresses":
        params.kernelParams = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(value))
    elif form == "extra":
        params.extra = (memory, value)
    else:
        params.extra = (ctypes.c_void_p * 5)(
            hip.HIP_LAUNCH_PARAM_BUFFER_POINTER, ctypes.addressof(buffer),
            hip.HIP_LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(size), hip.HIP_LAUNCH_PARAM_END)  # fmt: skip
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    run(graph, stream)
    assert read(memory) == [42] * N


@pytest.mark.executes
def test_local_memory(graph, stream, function):
    memory = ints(10)
    ok(hip.hipMemcpy(memory, np.arange(10, dtype="i4"), 40, K.hipMemcpyHostToDevice))
    params = kernel(function("reverse"), memory, grid=1, sharedMemBytes=40)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    run(graph, stream)
    assert read(memory, 10) == list(range(9, -1, -1))


@pytest.mark.executes
@pytest.mark.parametrize("size", [1, 2, 4])
def test_memset_of_rows(graph, stream, size):
    memory = ints(16, -1)
    params = memset(memory, 0x01020304, width=8 // size, size=size, height=3, pitch=16)
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, params))
    after = ok(hip.hipGraphAddEmptyNode(graph, [node], 1))
    assert ok(hip.hipGraphGetNodes(graph)) == ([node, after], 2)
    assert ok(hip.hipGraphNodeGetType(node)) == TYPE.hipGraphNodeTypeMemset
    assert ok(hip.hipGraphGetRootNodes(graph)) == ([node], 1)
    assert ok(hip.hipGraphGetEdges(graph)) == ([node], [after], 1)
    run(graph, stream)
    value = {1: 0x04040404, 2: 0x03040304, 4: 0x01020304}[size]
    assert read(memory, 16) == [value, value, -1, -1] * 3 + [-1] * 4


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("to", ["device", "host"])
def test_copy_of_rows_and_planes(graph, stream, to):
    host = np.arange(4 * 5 * 6, dtype="u1").reshape(4, 5, 6)
    result = np.zeros((2, 3, 4), "u1")
    there = ok(hip.hipMalloc(host.nbytes))
    ok(hip.hipMemcpy(there, host, host.nbytes, K.hipMemcpyHostToDevice))
    back = ok(hip.hipMalloc(result.nbytes))
    params = hip.hipMemcpy3DParms(
        srcPos=hip.hipPos(1, 2, 1),
        srcPtr=hip.hipPitchedPtr(host if to == "device" else there, 6, 6, 5),
        dstPtr=hip.hipPitchedPtr(back if to == "device" else result, 4, 4, 3),
        extent=hip.hipExtent(4, 3, 2),
        kind=K.hipMemcpyDefault,
    )
    node = ok(hip.hipGraphAddMemcpyNode(graph, None, 0, params))
    assert ok(hip.hipGraphGetNodes(graph)) == ([node], 1)
    assert ok(hip.hipGraphNodeGetType(node)) == TYPE.hipGraphNodeTypeMemcpy
    run(graph, stream)
    if to == "device":
        ok(hip.hipMemcpy(result, back, result.nbytes, K.hipMemcpyDeviceToHost))
    assert result.tolist() == host[1:3, 2:5, 1:5].tolist()


@pytest.mark.executes(run=False)
def test_copies_within_the_host_and_within_the_device(graph, stream):
    given, got = np.arange(8, dtype="u1"), np.zeros(8, "u1")
    memory = ints(4, 5)
    params = hip.hipMemcpy3DParms(
        srcPtr=hip.hipPitchedPtr(given, 8, 8, 1), dstPtr=hip.hipPitchedPtr(got, 8, 8, 1),
        extent=hip.hipExtent(8, 1, 1), kind=K.hipMemcpyHostToHost)  # fmt: skip
    node = ok(hip.hipGraphAddMemcpyNode(graph, None, 0, params))
    assert ok(hip.hipGraphNodeGetType(node)) == TYPE.hipGraphNodeTypeMemcpy
    ok(hip.hipMemcpy(memory, given, 8, K.hipMemcpyHostToDevice))
    ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, memory + 8, memory, 8, K.hipMemcpyDeviceToDevice))
    run(graph, stream)
    assert got.tolist() == list(range(8))
    assert read(memory, 4)[:2] == read(memory, 4)[2:]


@pytest.mark.executes
def test_dependencies_decide_the_order(graph, stream, function):
    memory, result = ints(), ints()
    last = add(graph, function("copy"), result, memory)
    middle = add(graph, function("add"), memory, 1)
    first = add(graph, function("fill"), memory, 10)
    ok(hip.hipGraphAddDependencies(graph, [first, middle], [middle, last], 2))
    run(graph, stream)
    assert read(result) == [11] * N


def test_dependencies_in_every_form(graph):
    nodes = [ok(hip.hipGraphAddEmptyNode(graph, None, 0)) for _ in range(2)]
    numbers = (ctypes.c_void_p * 2)(*map(int, nodes))
    for given in (
        nodes,
        tuple(nodes),
        numbers,
        np.array([int(node) for node in nodes], "u8"),
        ctypes.addressof(numbers),
    ):
        node = ok(hip.hipGraphAddEmptyNode(graph, given, 2))
        assert ok(hip.hipGraphNodeGetDependencies(node)) == (nodes, 2)
        assert ok(hip.hipGraphNodeGetDependencies(ok(hip.hipGraphAddEmptyNode(graph, given, 1)))) == (nodes[:1], 1)
    assert ok(hip.hipGraphNodeGetDependencies(ok(hip.hipGraphAddEmptyNode(graph, nodes, 0)))) == ([], 0)


def test_records():
    params = hip.hipMemsetParams(value=3, width=4)
    assert (params.value, params["width"], params.dst) == (3, 4, None)
    assert hip.hipHostNodeParams.PROPERTIES() == ["fn", "userData"]
    assert "value=3" in repr(params)
    for make in (
        lambda: hip.hipPos(1, 2, 3, 4),
        lambda: hip.hipPos(1, x=2),
        lambda: hip.hipPos(w=1),
    ):
        with pytest.raises(TypeError, match="hipPos"):
            make()
