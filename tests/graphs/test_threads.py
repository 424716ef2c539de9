"""Threads that launch, change and close the same graph: a launch is of one state of it, and no change is lost."""

import itertools
import threading
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.threads import together
from tests.inside import executables_made

from .conftest import made, steps

THREADS = 4


# -- the first launch


@pytest.mark.threads
@pytest.mark.parametrize("memory", [False, True])
def test_first_launches_make_one_executable(device, make_queue, kernels, value_of, memory):
    """Of a graph with memory nodes there may be only one."""
    queues = [make_queue(blocking=False) for _ in range(THREADS)]
    for _ in range(20):
        x, graph, last = made(device), device.graph(), ()
        for k in (1, 2, 3):
            last = graph.add_kernel(kernels["advance"], 4, 16, x, k, after=last)
        if memory:
            node = graph.add_alloc(4, after=last)
            graph.add_free(node.work.buffer, after=node)
        with executables_made() as made_here:
            together(*[lambda queue=queue, graph=graph: graph.launch(queue) for queue in queues])
        assert len(made_here) == 1
        device.finish()
        assert device_data(value_of(x)) == steps(*[1, 2, 3] * THREADS)


@pytest.mark.threads
def test_a_node_that_is_added_while_the_first_launch_prepares(device, queue, kernels, x, value_of):
    graph = device.graph()
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.add_kernel(kernels["gather"], 4, 16, made(device), fb.by_value(np.zeros(300, "u4")), 300, after=first)
    adding = threading.Thread(target=lambda: graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=first))

    def add():
        adding.start()
        adding.join(0.2)  # it gets no further before the launch has what it launches, or the node would be lost

    with amid_preparing(device, add):
        graph.launch(queue)
    adding.join()
    assert device_data(value_of(x)) == steps(1)
    graph.launch(queue)
    assert device_data(value_of(x)) == steps(1, 1, 2)


# -- changes


@pytest.fixture
def staged(device, queue, kernels, x, y):
    """A graph of two changes of memory with bytes by value in between, which are staged when it is prepared."""
    graph = device.graph()
    one = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    block = graph.add_kernel(kernels["gather"], 4, 16, made(device), fb.by_value(np.zeros(300, "u4")), 300, after=one)
    two = graph.add_kernel(kernels["advance"], 4, 16, y, 1, after=block)
    executable = graph.instantiate()
    executable.set_kernel(one, kernels["advance"], 4, 16, x, 2)
    zeros = fb.by_value(np.zeros(300, "u4"))  # which is prepared anew, and not changed in place
    executable.set_kernel(block, kernels["gather"], 4, 16, made(device), zeros, 300)
    return executable, one, two


def amid_preparing(device, do):
    """Call ``do()`` in the middle of the next preparing of a graph that has bytes by value."""
    stage, calls = device.driver.stage, itertools.count()

    def staging(nbytes):
        if next(calls) == 0:
            do()
        return stage(nbytes)

    return mock.patch.object(device.driver, "stage", staging)


def test_a_change_while_a_launch_prepares_changes_the_next(device, queue, kernels, staged, x, y, value_of):
    executable, one, two = staged

    def change():
        executable.set_kernel(one, kernels["advance"], 4, 16, x, 5)
        executable.set_kernel(two, kernels["advance"], 4, 16, y, 5)

    with amid_preparing(device, change):
        executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2), steps(1))
    executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2, 5), steps(1, 5))


def test_an_update_while_a_launch_prepares(device, queue, kernels, staged, x, y, value_of):
    executable, _, _ = staged
    other = device.graph()
    last = ()
    for k, buffer in ((7, x), (7, made(device)), (7, y)):
        last = other.add_kernel(kernels["advance"], 4, 16, buffer, k, after=last)
    with amid_preparing(device, lambda: executable.update(other)):
        executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2), steps(1))
    executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2, 7), steps(1, 7))


def test_a_launch_while_a_launch_prepares(device, queue, staged, x, y, value_of):
    executable, _, _ = staged
    with amid_preparing(device, lambda: executable.launch(queue)):
        executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2, 2), steps(1, 1))


@pytest.mark.threads
def test_the_last_change_stays(device, make_queue, kernels, value_of):
    """One thread launches while others change a node each, all the time: in the end each does what was set last."""
    queues = [make_queue(blocking=False) for _ in range(2)]
    buffers = [made(device) for _ in range(3)]
    graph, last = device.graph(), ()

    def node(i, k):
        return kernels["gather"], 4, 16, buffers[i], fb.by_value(np.full(300, k, "u4")), 1

    for i in range(3):
        last = graph.add_kernel(*node(i, 0), after=last)
    executable = graph.instantiate()
    for turn in range(10):

        def launch(queue):
            for _ in range(20):
                executable.launch(queue)

        def change(i, turn=turn):
            for k in range(20):
                executable.set_kernel(graph.nodes[i], *node(i, 100 * turn + k))

        launches = [lambda queue=queue: launch(queue) for queue in queues]
        together(*launches, *[lambda i=i: change(i) for i in range(3)])
        device.finish()
        for buffer in buffers:
            queues[0].fill(buffer, 0)
        executable.launch(queues[0])
        queues[0].finish()
        assert [device_data(value_of(buffer)) for buffer in buffers] == [100 * turn + 19] * 3


@pytest.mark.threads
def test_no_launch_is_half_old_and_half_new(device, make_queue):
    source = """
    kernel void put(global uint *to, uint k) { to[0] = k; }
    kernel void same(global const uint *a, global const uint *b, global uint *errors) { errors[0] += a[0] != b[0]; }
    """
    with device.program(source) as own:
        a, b, errors = (device.zeros(1, "u4") for _ in range(3))
        device.finish()

        def graph_of(k):
            graph, last = device.graph(), ()
            for node in ((own["put"], 1, 1, a, k), (own["put"], 1, 1, b, k), (own["same"], 1, 1, a, b, errors)):
                last = graph.add_kernel(*node, after=last)
            return graph

        inner, graph = graph_of(0), device.graph()
        child = graph.add_graph(inner)
        executable, queue = graph.instantiate(), make_queue()

        def launch():
            for _ in range(100):
                executable.launch(queue)

        def change():
            for k in range(50):
                executable.set_graph(child, graph_of(k))

        together(launch, launch, change)
        queue.finish()
        assert device_data(errors.get().tolist()) == [0]


# -- ends


def test_what_was_closed_can_be_replaced(device, queue, kernels, y, value_of):
    x, graph = made(device), device.graph()
    node = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    executable = graph.instantiate()
    executable.launch(queue)
    x.close()
    for _ in range(2):
        with pytest.raises(fb.ClosedError):
            executable.launch(queue)
    executable.set_kernel(node, kernels["advance"], 4, 16, y, 2)
    executable.launch(queue)
    assert device_data(value_of(y)) == steps(2)


def test_it_is_closed_while_a_launch_prepares(device, queue, staged, x, y, value_of):
    """The launch goes on; it is the last."""
    executable, _, _ = staged
    with amid_preparing(device, executable.close):
        executable.launch(queue)
    with pytest.raises(fb.ClosedError):
        executable.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(2), steps(1))
