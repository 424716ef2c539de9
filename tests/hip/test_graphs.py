"""Graphs made node by node, instantiated, updated and launched, by the chapter on them in HIP's own tests."""

import ctypes

import numpy as np
import pytest

from penstock import hip

from .conftest import ok
from .helpers import E, K, N, code, ints, launch, read

TYPE, RESULT = hip.hipGraphNodeType, hip.hipGraphExecUpdateResult
BYTES = 4 * N


@pytest.fixture
def graph(device):
    return ok(hip.hipGraphCreate(0))


@pytest.fixture
def stream(device):
    return ok(hip.hipStreamCreate())


def kernel(function, *args, grid=N // 10, block=10, **more):
    """The parameters of a kernel node; ints are C's."""
    arguments = tuple(ctypes.c_int(arg) if isinstance(arg, int) else arg for arg in args)
    return hip.hipKernelNodeParams(
        func=function, gridDim=hip.dim3(grid), blockDim=hip.dim3(block), kernelParams=arguments, **more
    )


def add(graph, *args, after=()):
    """A kernel node: a function and its arguments."""
    return ok(hip.hipGraphAddKernelNode(graph, list(after), len(after), kernel(*args)))


def memset(dst, value, width=N, size=4, height=1, pitch=0):
    return hip.hipMemsetParams(dst=dst, elementSize=size, height=height, pitch=pitch, value=value, width=width)


def instantiate(graph):
    return ok(hip.hipGraphInstantiate(graph, 0))[0]


def run(graph, stream):
    executable = instantiate(graph)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipGraphExecDestroy(executable))


# Nodes


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
    params = hip.hipKernelNodeParams(hip.dim3(10), None, function("fill"), (N // 10,), (memory, value), 0)
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
@pytest.mark.parametrize("form", ["values", "pointers", "array of addresses", "extra", "buffer"])
def test_forms_of_arguments(graph, stream, function, form):
    memory = ints()
    pointer, value = ctypes.c_void_p(int(memory)), ctypes.c_int(42)
    params = hip.hipKernelNodeParams(func=function("fill"), gridDim=N // 10, blockDim=10)
    packed = bytes(pointer) + bytes(value)
    size = ctypes.c_size_t(len(packed))
    buffer = ctypes.create_string_buffer(packed, len(packed))
    if form == "values":
        params.kernelParams = [memory, value]
    elif form == "pointers":
        params.kernelParams = (memory, ctypes.pointer(value))
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
    memory = ints()
    nodes = [add(graph, function("add"), memory, 1), add(graph, function("fill"), memory, 10)]
    nodes.append(add(graph, function("add"), memory, 100))
    ok(hip.hipGraphAddDependencies(graph, [nodes[1], nodes[1]], [nodes[0], nodes[2]], 2))
    run(graph, stream)
    assert read(memory) == [111] * N


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


ADDERS = {
    "hipGraphAddEmptyNode": lambda function, memory: (),
    "hipGraphAddHostNode": lambda function, memory: (hip.hipHostNodeParams(print),),
    "hipGraphAddMemsetNode": lambda function, memory: (memset(memory, 1),),
    "hipGraphAddMemcpyNode1D": lambda function, memory: (memory, memory + 8, 8, K.hipMemcpyDeviceToDevice),
    "hipGraphAddKernelNode": lambda function, memory: (kernel(function("fill"), memory, 1),),
}


@pytest.mark.parametrize("name", list(ADDERS))
def test_what_every_adding_refuses(graph, function, name):
    call, params = getattr(hip, name), ADDERS[name](function, ints())
    other = ok(hip.hipGraphCreate(0))
    stranger, node = ok(hip.hipGraphAddEmptyNode(other, None, 0)), ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    gone = ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphDestroy(gone))
    for given, dependencies, count in (
        (None, None, 0),
        (gone, None, 0),
        (12345, None, 0),
        (graph, None, 1),
        (graph, [stranger], 1),
        (graph, [node], 2),
        (graph, [node, node], 2),
        (graph, [None], 1),
        (graph, [node], -1),
    ):
        assert code(call(given, dependencies, count, *params)) == E.hipErrorInvalidValue
    assert ok(hip.hipGraphGetNodes(graph)) == ([node], 1)
    ok(call(graph, [node], 1, *params))
    if params and name != "hipGraphAddMemcpyNode1D":
        assert code(call(graph, None, 0, None)) == E.hipErrorInvalidValue
        with pytest.raises(TypeError, match="Params"):
            call(graph, None, 0, 5)
    with pytest.raises(TypeError, match="int"):
        call(graph, [node], "1", *params)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"func": None}, E.hipErrorInvalidValue),
        ({"func": 12345}, E.hipErrorInvalidDeviceFunction),
        ({"kernelParams": None}, E.hipErrorInvalidValue),
        ({"kernelParams": (5,)}, E.hipErrorInvalidValue),
        ({"extra": (1, 2)}, E.hipErrorInvalidValue),
        ({"gridDim": 0}, E.hipErrorInvalidValue),
        ({"blockDim": (1 << 20, 1 << 10)}, E.hipErrorInvalidValue),
        ({"sharedMemBytes": 1 << 40}, E.hipErrorInvalidValue),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_kernel_nodes(graph, function, change, expected):
    params = kernel(function("fill"), ints(), 1)
    for name, value in change.items():
        setattr(params, name, value)
    assert code(hip.hipGraphAddKernelNode(graph, None, 0, params)) == expected
    node = add(graph, function("fill"), ints(), 1)
    executable = instantiate(graph)
    assert code(hip.hipGraphKernelNodeSetParams(node, params)) == expected
    assert code(hip.hipGraphExecKernelNodeSetParams(executable, node, params)) == expected


@pytest.mark.parametrize(
    "change",
    [{"dst": None}, {"dst": 1 << 50}, {"elementSize": 3}, {"width": 0}, {"width": N + 1}, {"height": 0},
     {"height": 2, "pitch": 4}, {"height": 2, "pitch": BYTES}],
    ids=str,
)  # fmt: skip
def test_wrong_memset_nodes(graph, change):
    params = memset(ints(), 1)
    for name, value in change.items():
        setattr(params, name, value)
    assert code(hip.hipGraphAddMemsetNode(graph, None, 0, params)) == E.hipErrorInvalidValue


def test_wrong_copies(graph):
    memory, host = ints(), np.zeros(N, "i4")
    for dst, src, count, kind, expected in (
        (None, host, 4, K.hipMemcpyHostToDevice, E.hipErrorInvalidValue),
        (memory, None, 4, K.hipMemcpyHostToDevice, E.hipErrorInvalidValue),
        (memory, host, 0, K.hipMemcpyHostToDevice, E.hipErrorInvalidValue),
        (memory, host, BYTES + 1, K.hipMemcpyHostToDevice, E.hipErrorInvalidValue),
        (host, memory, 4, K.hipMemcpyHostToDevice, E.hipErrorInvalidValue),
        (memory, host, 4, 77, E.hipErrorInvalidMemcpyDirection),
        (memory, memory + 1, 4, K.hipMemcpyDeviceToDevice, E.hipErrorInvalidValue),
    ):
        assert code(hip.hipGraphAddMemcpyNode1D(graph, None, 0, dst, src, count, kind)) == expected
    ptrs = {"srcPtr": hip.hipPitchedPtr(host, 8, 8, 2), "dstPtr": hip.hipPitchedPtr(memory, 8, 8, 2)}
    for more, expected in (
        ({"extent": hip.hipExtent(8, 1, 0)}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(9, 2, 1)}, E.hipErrorInvalidPitchValue),
        ({"extent": hip.hipExtent(8, 3, 2)}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(8, N, 1)}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(BYTES, 1, 1), "srcPos": hip.hipPos(4)}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(BYTES, 1, 1), "dstPos": hip.hipPos(4)}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(8, 1, 1), "srcArray": 5}, E.hipErrorInvalidValue),
        ({"extent": hip.hipExtent(8, 1, 1), "srcPtr": hip.hipPitchedPtr()}, E.hipErrorInvalidValue),
    ):
        params = hip.hipMemcpy3DParms(**{**ptrs, **more})
        assert code(hip.hipGraphAddMemcpyNode(graph, None, 0, params)) == expected


def test_wrong_dependencies(graph):
    one, two = (ok(hip.hipGraphAddEmptyNode(graph, None, 0)) for _ in range(2))
    stranger = ok(hip.hipGraphAddEmptyNode(ok(hip.hipGraphCreate(0)), None, 0))
    for given in (
        (None, [one], [two], 1),
        (graph, None, None, 1),
        (graph, [one], None, 1),
        (graph, [one], [stranger], 1),
        (graph, [stranger], [one], 1),
        (graph, [one], [one], 1),
        (graph, [one, one], [two, two], 2),
        (graph, [one], [two], 2),
    ):
        assert code(hip.hipGraphAddDependencies(*given)) == E.hipErrorInvalidValue
    assert ok(hip.hipGraphGetEdges(graph)) == ([], [], 0)
    ok(hip.hipGraphAddDependencies(graph, None, None, 0))
    ok(hip.hipGraphAddDependencies(graph, [one, two], [two, one], 1))  # as many as are asked for
    assert ok(hip.hipGraphGetEdges(graph)) == ([one], [two], 1)
    assert code(hip.hipGraphAddDependencies(graph, [one], [two], 1)) == E.hipErrorInvalidValue
    ok(hip.hipGraphAddDependencies(graph, [two], [one], 1))
    assert code(hip.hipGraphInstantiate(graph, 0)) == E.hipErrorInvalidValue  # a circle
    assert "depends on itself" in str(hip.last_exception())


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


# Life


def test_destroying(graph):
    assert code(hip.hipGraphCreate(1)) == E.hipErrorInvalidValue
    node = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    for result in (
        hip.hipGraphDestroy(graph),
        hip.hipGraphDestroy(None),
        hip.hipGraphGetNodes(graph),
        hip.hipGraphInstantiate(graph, 0),
        hip.hipGraphNodeGetType(node),
        hip.hipGraphNodeGetType(None),
        hip.hipGraphInstantiate(None, 0),
        hip.hipGraphClone(graph),
        hip.hipGraphDebugDotPrint(graph, "nowhere", 0),
    ):
        assert code(result) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecDestroy(executable))
    for result in (
        hip.hipGraphExecDestroy(executable),
        hip.hipGraphExecDestroy(None),
        hip.hipGraphLaunch(executable, None),
        hip.hipGraphLaunch(None, None),
        hip.hipGraphUpload(executable, None),
    ):
        assert code(result) == E.hipErrorInvalidValue
    with pytest.raises(TypeError, match="graph"):
        hip.hipGraphDestroy("graph")


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


def test_flags(graph, stream):
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 1)), stream))
    assert code(hip.hipGraphInstantiateWithFlags(graph, 1 << 20)) == E.hipErrorInvalidValue


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


# Launching


@pytest.mark.executes
@pytest.mark.parametrize("other", [False, True], ids=["the same stream", "another stream"])
def test_launched_again_while_the_last_launch_still_runs(graph, stream, function, hold, other):
    second = ok(hip.hipStreamCreate()) if other else stream
    memory = ints()
    first = add(graph, function("add"), memory, 1)
    add(graph, function("add"), memory, 10, after=[first])
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphLaunch(executable, second))
    ok(hip.hipGraphLaunch(executable, second))
    assert hip.hipStreamQuery(second) == (E.hipErrorNotReady,)
    gate.open()
    ok(hip.hipStreamSynchronize(second))
    assert read(memory) == [33] * N


@pytest.mark.executes
@pytest.mark.parametrize("null", [None, hip.hipStreamPerThread], ids=["null", "per thread"])
def test_default_streams(graph, function, null):
    memory = ints()
    add(graph, function("add"), memory, 1)
    executable = instantiate(graph)
    for _ in range(3):
        ok(hip.hipGraphLaunch(executable, null))
    ok(hip.hipStreamSynchronize(null))
    assert read(memory) == [3] * N


# Updates


@pytest.mark.executes
def test_set_params_of_an_executables_kernel(graph, stream, function, hold):
    memory, other = ints(), ints()
    node = add(graph, function("add"), memory, 1)
    executable = instantiate(graph)
    gate = hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecKernelNodeSetParams(executable, node, kernel(function("fill"), other, 5)))
    ok(hip.hipGraphLaunch(executable, stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [1] * N  # the launch under way was not changed
    assert read(other) == [5] * N
    graph.graph.launch(stream.queue)  # nor was the graph
    assert read(memory) == [2] * N
    ok(hip.hipGraphKernelNodeSetParams(node, kernel(function("add"), memory, 40)))
    graph.graph.launch(stream.queue)
    run(graph, stream)
    assert read(memory) == [82] * N


def test_set_params_of_what_it_cannot_be(graph, function):
    memory = ints()
    node, empty = add(graph, function("add"), memory, 1), ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    executable = instantiate(graph)
    later = add(graph, function("add"), memory, 1)
    params = kernel(function("add"), memory, 2)
    for given in (
        (None, node, params),
        (executable, None, params),
        (executable, node, None),
        (executable, empty, params),
        (executable, later, params),
    ):
        assert code(hip.hipGraphExecKernelNodeSetParams(*given)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphKernelNodeSetParams(empty, params)) == E.hipErrorInvalidValue


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
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))


def test_updates_without_something(graph):
    executable, node = instantiate(graph), hip.hipGraphNode()
    for given in ((None, graph, node), (executable, None, node), (executable, graph, None)):
        assert hip.hipGraphExecUpdate(*given)[0] == E.hipErrorInvalidValue
    with pytest.raises(TypeError, match="str is no pointer"):
        hip.hipGraphExecUpdate(executable, graph, "here")


def test_two_devices(graph, stream, function):
    count, here = ok(hip.hipGetDeviceCount()), ok(hip.hipGetDevice())
    if count < 2:
        pytest.skip("there is one device")
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
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipSetDevice(here))
