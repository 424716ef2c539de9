"""Launches with arrays of the host in a capture, and with scratch besides."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

from .conftest import SIZE

SOURCE = """
kernel void use(global const uint *rows, global uint *room, global uint *out, uint n)
{
    for (uint i = 0; i < n; i++) room[i] = rows[0] + i;
    for (uint i = 0; i < n; i++) out[i] = room[i];
}
"""


@pytest.fixture
def own(device):
    with device.program(SOURCE) as own:
        yield own["use"]


@pytest.mark.executes
def test_arrays_are_read_and_written_when_the_graph_runs(queue, kernels, x, value_of):
    given, written = np.full(SIZE, 1, "u4"), np.full(SIZE, 2, "u4")
    with queue.capture() as graph:
        queue.launch(kernels["advance"], 4, 16, written, 5)
        queue.launch(kernels["combine"], 4, 16, x, given, 0)
    assert [node.kind for node in graph.nodes] == ["copy", "kernel", "copy", "copy", "kernel"]
    assert (written == 2).all()
    for start in (3, 4):
        written[:], given[:] = start, start
        queue.fill(x, 0)
        graph.launch(queue)
        queue.finish()
        assert (written == start * 3 + 5).all()
        assert value_of(x) == start


@pytest.mark.executes
def test_such_graphs_are_like_others(device, queue, kernels):
    """What they have of memory is no node: they are updated, and become parts of others."""

    def captured(array, k):
        with queue.capture() as graph:
            queue.launch(kernels["advance"], 4, 16, array, k)
        return graph

    one, two = np.zeros(SIZE, "u4"), np.zeros(SIZE, "u4")
    graph = captured(one, 1)
    graph.update(captured(two, 2))
    outer = device.graph()
    outer.add_graph(graph)
    outer.launch(queue)
    queue.finish()
    assert (one.tolist(), two.tolist()) == ([0] * SIZE, [2] * SIZE)


def test_arrays_that_cannot_be_copied_leave_the_capture_as_it_was(queue, kernels):
    with queue.capture() as graph, refused(fb.InvalidArgumentError, ValueError, "contiguous"):
        queue.launch(kernels["advance"], 4, 16, np.zeros(2 * SIZE, "u4")[::2], 1)
    assert len(graph) == 0


@pytest.mark.executes
def test_both_at_once(queue, own):
    own.scratch("room", 4 * SIZE)
    rows, out = np.full(4, 9, "u4"), np.zeros(SIZE, "u4")
    with queue.capture() as graph:
        queue.launch(own, 1, 1, rows, out, SIZE)
    graph.launch(queue)
    queue.finish()
    assert out.tolist() == list(range(9, 9 + SIZE))


def test_an_array_for_a_structure_is_no_array_to_copy(device, queue):
    source = "kernel void take(global uint *out, uint2 pair, global uint *room) { room[0] = pair.y; out[0] = room[0]; }"
    with device.program(source) as own:
        own["take"].scratch("room", 4)
        out = device.zeros(1, "u4")
        with queue.capture() as graph:
            queue.launch(own["take"], 1, 1, out, np.array([3, 4], "u4"))
        assert [node.kind for node in graph.nodes] == ["kernel"]
        graph.launch(queue)
        assert device_data(out.get().tolist()) == [4]
