"""Races of graphs: nodes among each other, and launches of graphs with what is around them."""

import pytest

from tests.inside import forget_races

SIZE = 64
GRID = SIZE // 16, 16


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
        made_at = [f"{__file__}:{ADD[name].__code__.co_firstlineno}" for name in (first, second)]
        assert [race.first.node, race.second.node] == made_at
        assert race.missing == "graph.add_dependency(one, other)"
        exec(race.missing)
        assert other.dependencies == (one,)
        forget_races(device)
        graph.instantiate()
        assert device.races == ()
