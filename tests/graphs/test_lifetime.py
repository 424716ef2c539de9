"""A graph, and a launch of it in flight, keep all that they use; and let it go when they are done."""

import gc
import time
import weakref

import numpy as np
import pytest

import forebay as fb

from .conftest import SIZE, SOURCE, made, steps


def memory_pressure(device):
    """Memory that was given back too early is another buffer's now, and has other contents."""
    kept = [np.full(1 << 16, 0xAB, "u4") for _ in range(40)]
    for nbytes in (SIZE * 4, 4096, 64):
        for _ in range(40):
            queue = device.queue(blocking=False)
            queue.fill(device.empty(nbytes, "u1"), 0xAB)
            queue.finish()
    assert all(array[0] == 0xAB for array in kept)


class Function:
    """A host function that can be asked whether it still is."""

    def __init__(self, ran):
        self.ran = ran

    def __call__(self):
        self.ran.append(1)


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("how", ["drop", "close"])
def test_everything_is_dropped_while_a_launch_is_in_flight(device, hold, how):
    """The graph, its kernels, their program, its inputs, bytes by value, host memory and functions."""
    result, ran = made(device), []
    queue = device.queue(blocking=False)
    program = device.program(SOURCE)
    source = made(device)
    source.set(np.full(SIZE, 5, "u4"))
    large, much = device.zeros(1 << 16, "u4"), np.full(1 << 16, 6, "u4")
    device.finish()
    host = np.full(SIZE, 3, "u4")
    block = np.arange(1, 1025, dtype="u4")
    with queue.capture() as graph:
        queue.launch(program["combine"], 4, 16, result, source, 1)
        queue.launch(program["gather"], 4, 16, result, fb.by_value(block), 1024)
        queue.copy(source, host)
        queue.copy(large, much)
        queue.host(Function(ran))
        queue.launch(program["combine"], 4, 16, result, source, 2)
    executable = graph.instantiate()
    gate = hold(queue)
    executable.launch(queue)
    total = 0
    for each in block:
        total = (total * 7 + int(each)) % (1 << 32)
    if how == "close":
        executable.close()
        graph.close()
        program.close()
        source.close()
        queue.close()
    del graph, executable, program, source, host, much, block, queue
    gc.collect()
    memory_pressure(device)
    gate.open()
    device.finish()
    expected = ((0 * 5 + 5 + 1) * 3 + total) * 5 + 3 + 2
    assert (result.get() == expected % (1 << 32)).all()
    assert (large.get() == 6).all()
    assert ran == [1]


@pytest.mark.executes(run=False)
def test_a_graph_keeps_what_it_uses(device, queue):
    result, ran = made(device), []
    program = device.program(SOURCE)
    source = device.array(np.full(SIZE, 5, "u4"))
    host = np.full(SIZE, 3, "u4")
    block = np.array([4], "u4")
    graph = device.graph()
    first = graph.add_kernel(program["combine"], 4, 16, result, source, 1)
    second = graph.add_kernel(program["gather"], 4, 16, result, fb.by_value(block), 1, after=first)
    third = graph.add_copy(source, host, after=second)
    graph.add_host(Function(ran), after=third)
    device.finish()
    del program, source, host, block, first, second, third
    gc.collect()
    memory_pressure(device)
    graph.launch(queue)
    queue.finish()
    assert (result.get() == (5 + 1) * 3 + 4).all()
    assert ran == [1]


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("how", ["drop", "close"])
def test_and_lets_it_go(device, queue, kernels, how):
    buffer, function = made(device), Function([])
    kept = [weakref.ref(function)]
    graph = device.graph()
    graph.add_kernel(kernels["advance"], 4, 16, buffer, 1)
    graph.add_host(function)
    executable = graph.instantiate()
    executable.launch(queue)
    queue.finish()
    kept += [weakref.ref(graph), weakref.ref(executable)]
    gc.disable()  # nothing of it waits for the collector
    try:
        if how == "close":
            graph.close()
            executable.close()
        del graph, executable, function
        for _ in range(500):  # PoCL may say that all is done before it has told those who wanted to know
            device.finish()
            if not any(each() for each in kept):
                break
            time.sleep(0.01)
    finally:
        gc.enable()
    assert [each() for each in kept] == [None] * 3


def test_host_memory_of_a_graph_cannot_be_resized(device, x):
    host = bytearray(x.nbytes)
    graph = device.graph()
    graph.add_copy(host, x)
    with pytest.raises(BufferError):
        host.extend(b"more")
    graph.close()
    del graph
    gc.collect()
    host.extend(b"more")


@pytest.mark.executes
def test_an_update_leaves_launches_in_flight_alone(device, queue, kernels, hold, x, value_of):
    def graph_of(k):
        graph = device.graph()
        graph.add_kernel(kernels["gather"], 4, 16, x, np.array([k], "u4").tobytes(), 1)
        return graph

    executable = graph_of(1).instantiate()
    gate = hold(queue)
    for k in range(2, 12):
        executable.launch(queue)
        executable.update(graph_of(k))
    executable.launch(queue)
    gc.collect()
    memory_pressure(device)
    gate.open()
    assert value_of(x) == steps(*range(1, 12))


def test_a_queue_it_was_launched_on_is_not_kept(device, kernels, x):
    queue = device.queue()
    known = weakref.ref(queue)
    graph = device.graph()
    graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.launch(queue)
    device.finish()
    del queue
    gc.collect()
    assert known() is None
    graph.launch(device.null_queue)
    device.finish()


def test_a_device_is_not_kept_by_a_dropped_graph():
    device = fb.Device(private=True)
    known = weakref.ref(device)
    queue = device.queue()
    buffer = device.zeros(4, "u4")
    with queue.capture() as graph:
        queue.fill(buffer, 1)
        queue.fill(buffer, 2)
    graph.launch(queue)
    device.finish()
    del graph, queue, buffer, device
    gc.collect()
    assert known() is None
