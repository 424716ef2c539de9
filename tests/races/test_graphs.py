"""Races of graphs: nodes among each other, and launches of graphs with what is around them."""

import pytest

from tests.inside import forget_races

SIZE = 64
GRID = SIZE // 16, 16


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(3)]


ADD = {
    "kernel": lambda graph, kernels, x: graph.add_kernel(kernels["scale"], *GRID, x, 2.0),
    "fill": lambda graph, kernels, x: graph.add_fill(x, 2),
    "copy to": lambda graph, kernels, x: graph.add_copy(x, graph.device.empty(SIZE)),
    "copy from": lambda graph, kernels, x: graph.add_copy(graph.device.empty(SIZE), x),
    "read": lambda graph, kernels, x: graph.add_kernel(kernels["take"], *GRID, x, graph.device.empty(SIZE)),
}
READS = {"copy from", "read"}


@pytest.mark.parametrize("second", ADD)
@pytest.mark.parametrize("first", ADD)
def test_nodes_that_do_not_depend_on_each_other(device, kernels, found, first, second):
    x = device.empty(SIZE)
    graph = device.graph()
    one = ADD[first](graph, kernels, x)
    other = ADD[second](graph, kernels, x)
    graph.add_empty()
    graph.instantiate()
    races = found()
    assert len(races) == (not READS.issuperset({first, second}))
    for race in races:
        assert race.missing == "graph.add_dependency(one, other)"
        exec(race.missing)
        assert other.dependencies == (one,)
        forget_races(device)
        graph.instantiate()
        assert device.races == ()


def capture(a, b, kernels, x, waits):
    with a.capture() as graph:
        start = a.record()
        b.wait(start)
        a.launch(kernels["scale"], *GRID, x, 2.0)
        if waits:
            b.wait(a)
        b.launch(kernels["scale"], *GRID, x, 3.0)
        a.wait(b)
    return graph


def test_branches_of_a_capture(device, kernels, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    capture(a, b, kernels, x, False).instantiate()
    (race,) = found()
    assert race.first.node.startswith(__file__)
    assert "b" in race.missing
    capture(a, b, kernels, x, True).instantiate()
    assert found() == ()


@pytest.fixture
def launched(queues, kernels):
    """``launched(auto_free)``: a graph that allocates memory, launched on the first queue, after which the second uses
    the memory; with the memory.
    """

    def launch(auto_free):
        a, b, _ = queues
        with a.capture() as graph:
            memory = a.alloc(SIZE)
            a.launch(kernels["scale"], *GRID, memory, 2.0)
        executable = graph.instantiate(auto_free=auto_free)
        executable.launch(a)
        b.wait(a)
        b.launch(kernels["scale"], *GRID, memory, 3.0)
        return executable, memory

    return launch


def test_memory_that_a_launch_takes_back_by_itself(queues, launched, found):
    a, _, _ = queues
    executable, _ = launched(auto_free=True)
    executable.launch(a)
    races = found()
    assert races
    assert {race.missing for race in races} == {"a.wait(queues[1])"}


def test_memory_that_was_freed_before_the_graph_allocates_it_again(device, queues, kernels, launched, found):
    """The launch comes after the free, and so after all that the queue of the free was given before."""
    a, b, _ = queues
    executable, memory = launched(auto_free=False)
    other = device.empty(SIZE)
    b.launch(kernels["scale"], *GRID, other, 2.0)
    b.free(memory)
    executable.launch(a)
    a.launch(kernels["scale"], *GRID, other, 3.0)
    assert found() == ()
