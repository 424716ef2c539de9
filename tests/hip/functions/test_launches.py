"""Other ways to launch: from C++'s interface, with events, and cooperatively."""

import ctypes
import math

import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, N, code, function_of, instantiate, ints, launch, launched, read, run

# Each group waits until all are there, but not for ever: what it sees then is its result.
MEETING = b"""
kernel void meet(global int *arrived, global int *out, int groups) {
    int tries = 0;
    atomic_inc(arrived);
    while (atomic_add(arrived, 0) < groups && tries < 50000000) tries++;
    out[get_group_id(0)] = atomic_add(arrived, 0);
}
"""


def values(*args):
    """What ``kernelParams`` takes; keep it while it is used."""
    return [ctypes.c_void_p(int(arg)) if hasattr(arg, "is_ptr_null") else ctypes.c_int(arg) for arg in args]


def addresses(given):
    return [ctypes.addressof(value) for value in given]


@pytest.fixture
def meet(device):
    return function_of(MEETING, b"meet")


@pytest.mark.parametrize("dimensions", [(hip.dim3(N // 10), hip.dim3(10)), (N // 10, 10), ((N // 10, 1), (10,))])
def test_as_in_cplusplus(function, streams, dimensions):
    memory, (stream,) = ints(), streams(1)
    given = values(memory, 5)
    ok(hip.hipLaunchKernel(function("fill"), *dimensions, addresses(given), 0, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert device_data(read(memory)) == [5] * N


PLACES = b"""kernel void places(global int *out, local int *room) {
    int group = get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
    int threads = get_local_size(0) * get_local_size(1) * get_local_size(2);
    int here = get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2));
    room[here] = here;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[group * threads + here] = room[threads - 1 - here] + 1000 * group;
}"""


@pytest.mark.parametrize(("grid", "block"), [((2, 3, 1), (8, 8, 1)), ((1, 2, 4), (3, 2, 7)), ((1, 1, 5), (42, 1, 1))])
def test_dimensions(device, stream, grid, block):
    """Of a launch, of one that is captured and of a node."""
    places, threads, groups = function_of(PLACES, b"places"), math.prod(block), math.prod(grid)
    out, graph = ints(threads * groups), ok(hip.hipGraphCreate(0))
    launched = (places, *grid, *block, 4 * threads, stream, None, (out,))
    params = hip.hipKernelNodeParams(
        func=places, gridDim=grid, blockDim=block, sharedMemBytes=4 * threads, extra=(out,)
    )  # fmt: skip
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipModuleLaunchKernel(*launched))
    captured = ok(hip.hipStreamEndCapture(stream))
    for go in (lambda: ok(hip.hipModuleLaunchKernel(*launched)), lambda: run(captured, stream),
                lambda: run(graph, stream)):  # fmt: skip
        ok(hip.hipMemset(out, 0, 4 * threads * groups))
        go()
        ok(hip.hipStreamSynchronize(stream))
        expected = [here + 1000 * group for group in range(groups) for here in reversed(range(threads))]
        assert device_data(read(out, threads * groups)) == expected


@pytest.mark.executes
def test_with_events(function, streams):
    memory, (stream,), before, after = ints(), streams(1), ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    given = addresses(keep := values(memory, 5))
    ok(hip.hipExtLaunchKernel(function("fill"), N // 10, 10, given, 0, stream, before, after, 0))
    ok(hip.hipEventSynchronize(after))
    ok(hip.hipEventQuery(before))
    assert ok(hip.hipEventElapsedTime(before, after)) >= 0
    assert device_data(read(memory)) == [5] * N
    ok(hip.hipExtLaunchKernel(function("fill"), N // 10, 10, given, 0, stream))
    del keep


# Cooperative launches


def test_all_groups_run_at_once(meet, device):
    """As many as there may be; again and again, and beside other work."""
    most = meet.kernel.groups_at_once(1)
    assert most >= 1
    arrived, out, busy = ints(1), ints(most), ints()
    given = values(arrived, out, most)
    other = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    for i in range(20):
        ok(hip.hipMemsetD32(arrived, 0, 1))
        ok(hip.hipMemsetD32Async(busy, i, N, other))
        ok(hip.hipLaunchCooperativeKernel(meet, most, 1, addresses(given), 0, None))
        assert device_data(read(out, most)) == [most] * most
    ok(hip.hipStreamDestroy(other))


@pytest.mark.executes
def test_they_run_one_after_the_other(function, streams, hold):
    """Half of the groups of two that run at once would wait for the others for ever."""
    stream, other = streams(2, hip.hipStreamNonBlocking)
    given = addresses(keep := values(ints(), 5))
    gate = hold(stream)
    ok(hip.hipLaunchCooperativeKernel(function("fill"), 1, 1, given, 0, stream))
    ok(hip.hipLaunchCooperativeKernel(function("fill"), 1, 1, given, 0, other))
    assert code(hip.hipStreamQuery(other)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(other))
    ok(hip.hipStreamSynchronize(stream))
    del keep


def test_captured(function, streams):
    memory, (stream,) = ints(), streams(1)
    given = addresses(keep := values(memory, 5))
    ok(hip.hipLaunchCooperativeKernel(function("fill"), 1, 10, given, 0, stream))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    keep[1].value = 7
    ok(hip.hipLaunchCooperativeKernel(function("fill"), 1, 10, given, 0, stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    assert device_data(read(memory, 10)) == [5] * 10
    launched(executable, stream)
    assert device_data(read(memory, 10)) == [7] * 10


ROOM = b"""
extern "C" __global__ void maybe(int* out, int uses) {
    extern __shared__ int room[];
    if (uses) room[threadIdx.x] = 7;
    out[threadIdx.x] = uses ? room[threadIdx.x] : 5;
}
"""


@pytest.mark.needs("a compiler of HIP C++")
def test_dynamic_shared_memory_may_have_no_bytes(device, streams):
    (stream,), memory, maybe = streams(1), ints(), function_of(ROOM, b"maybe")
    for uses, shared, expected in ((0, 0, 5), (1, 40, 7), (0, 0, 5)):
        launch(maybe, stream, memory, uses, groups=1, block=10, shared=shared)
        ok(hip.hipStreamSynchronize(stream))
        assert device_data(read(memory)[:10]) == [expected] * 10
    ok(hip.hipMemset(memory, 0, 40))
    given = values(memory, 0)
    params = hip.hipKernelNodeParams(hip.dim3(10), None, maybe, (1,), addresses(given), 0)
    graph = ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    run(graph, stream)
    assert device_data(read(memory)[:10]) == [5] * 10
