"""A graph launch counts as a writer of all that it writes: what was known of that data is looked at again."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data

SOURCE = """
kernel void use(global const uint *rows, global uchar *stack, global uint *out) { out[0] = rows[0]; stack[0] = 1; }
kernel void rewrite(global uint *rows, uint k) { rows[get_global_id(0)] = k; }
kernel void look(global const uint *rows, global uint *out) { out[0] = rows[0]; }
"""


@pytest.fixture
def own(device):
    with device.program(SOURCE) as own:
        own["use"].scratch("stack", fb.MaxOver("rows"))
        yield own


@pytest.fixture
def rows(device):
    buffer = device.zeros(64, "u4")
    device.finish()
    return buffer


def measured(queue, own, rows, out):
    """How many buffers a launch measured for its scratch."""
    before = queue.stats.reductions
    queue.launch(own["use"], 1, 1, rows, out)
    return queue.stats.reductions - before


WRITES = {
    "a kernel": lambda graph, own, rows, other: graph.add_kernel(own["rewrite"], 64, 1, rows, 5),
    "a kernel, a part": lambda graph, own, rows, other: graph.add_kernel(own["rewrite"], 32, 1, rows[:32], 5),
    "a fill": lambda graph, own, rows, other: graph.add_fill(rows, 5),
    "a copy": lambda graph, own, rows, other: graph.add_copy(rows, other),
}
READS = {
    "a kernel": lambda graph, own, rows, other: graph.add_kernel(own["look"], 1, 1, rows, other),
    "a copy": lambda graph, own, rows, other: graph.add_copy(other, rows),
    "a download": lambda graph, own, rows, other: graph.add_copy(fb.host_empty(64, "u4", device=graph.device), rows),
}


@pytest.mark.parametrize("what", list(WRITES))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this queue", "on another"])
def test_what_writes(device, make_queue, own, rows, x, y, what, elsewhere):
    queue = make_queue()
    graph = device.graph()
    WRITES[what](graph, own, rows, y)
    assert measured(queue, own, rows, x) == 1
    graph.instantiate()  # which runs nothing
    assert measured(queue, own, rows, x) == 0
    for _ in range(2):
        graph.launch(make_queue() if elsewhere else queue)
        assert measured(queue, own, rows, x) == 1
        assert measured(queue, own, rows, x) == 0


@pytest.mark.parametrize("what", list(READS))
def test_what_only_reads(device, queue, own, rows, x, y, what):
    graph = device.graph()
    READS[what](graph, own, rows, y)
    assert measured(queue, own, rows, x) == 1
    graph.launch(queue)
    assert measured(queue, own, rows, x) == 0


def test_what_was_put_in_place_of_something(device, queue, own, rows, x, y):
    graph = device.graph()
    node = graph.add_kernel(own["rewrite"], 64, 1, y, 1)
    executable = graph.instantiate()
    assert measured(queue, own, rows, x) == 1
    executable.launch(queue)
    assert measured(queue, own, rows, x) == 0
    executable.set_kernel(node, own["rewrite"], 64, 1, rows, 1)
    executable.launch(queue)
    assert measured(queue, own, rows, x) == 1


def test_a_kernel_that_follows_pointers_may_write_anywhere(device, queue, own, rows, x, y):
    own["look"].follow_pointers()
    assert measured(queue, own, rows, x) == 1
    with queue.capture("relaxed") as graph:
        queue.launch(own["look"], 1, 1, y, x)
    assert measured(queue, own, rows, x) == 0
    graph.launch(queue)
    assert measured(queue, own, rows, x) == 1


def test_a_kernel_that_follows_pointers_since_a_launch_of_it_was_changed(device, queue, own, rows, x, y):
    graph = device.graph()
    node = graph.add_kernel(own["look"], 1, 1, y, x)
    executable = graph.instantiate()
    for follows in (False, False, True):
        if follows:
            own["look"].follow_pointers()
        executable.set_kernel(node, own["look"], 1, 1, y, x)
        measured(queue, own, rows, x)
        executable.launch(queue)
    assert measured(queue, own, rows, x) == 1


def test_the_measure_comes_after_the_graph(device, make_queue, own, rows, x, hold):
    one, two = make_queue(blocking=False), make_queue(blocking=False)
    assert measured(two, own, rows, x) == 1
    graph = device.graph()
    graph.add_fill(rows, 7)
    graph.launch(one)
    assert measured(two, own, rows, x) == 1  # which waits for the other queue
    two.finish()
    assert np.array_equal(device_data(x.get()[:1]), [7])
