"""A graph, and a launch of it in flight, keep all that they use; and let it go when they are done."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.themes.test_lifetimes import memory_pressure

from .conftest import SIZE, SOURCE, made


class Function:
    """A host function that can be asked whether it still is."""

    def __init__(self, ran):
        self.ran = ran

    def __call__(self):
        self.ran.append(1)


@pytest.mark.executes
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
    kept = memory_pressure(device)
    graph.launch(queue)
    queue.finish()
    assert (result.get() == (5 + 1) * 3 + 4).all()
    assert ran == [1]
    assert all(array[0] == 0xAB for array in kept)


@pytest.mark.parametrize("nested", [False, True])
def test_a_host_function_that_refers_to_its_graph(device, nested):
    """The collector of cycles finds both."""
    graph, inner, function = device.graph(), device.graph(), Function([])
    (inner if nested else graph).add_host(function)
    if nested:
        graph.add_graph(inner)
    function.ran.append(graph.instantiate())
    known = weakref.ref(function)
    del graph, inner, function
    gc.collect()
    assert known() is None


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
