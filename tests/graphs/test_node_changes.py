"""Changing what nodes of an executable graph do, and graphs as nodes of others."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

from .conftest import SIZE, steps


@pytest.mark.executes
def test_each_kind_of_node(device, queue, kernels, x, y, value_of):
    called, host = [], np.full(SIZE, 4, "u4")
    graph = device.graph()
    fill = graph.add_fill(x, 1)
    function = graph.add_host(lambda: called.append("first"), after=fill)
    copy = graph.add_copy(y, x, after=function)
    with graph.instantiate() as executable:
        executable.set_fill(fill, x[: SIZE // 2], 2)
        executable.set_host(function, lambda: called.append("second"))
        executable.set_copy(copy, x[: SIZE // 4], y[: SIZE // 4])
        queue.fill(x, 0)
        queue.fill(y, 9)
        executable.launch(queue)
        got = x.get()
        assert got.tolist() == [9] * (SIZE // 4) + [2] * (SIZE // 4) + [0] * (SIZE // 2)
    graph.launch(queue)
    assert (value_of(x), value_of(y)) == (1, 1)
    assert called == ["second", "first"]
    upload = device.graph()
    node = upload.add_copy(x, host)
    with upload.instantiate() as executable:
        executable.set_copy(node, y, host)
        executable.launch(queue)
        assert (value_of(x), value_of(y)) == (1, 4)


@pytest.mark.executes
def test_what_is_refused_leaves_it_as_it_was(device, queue, kernels, x, y, works):
    graph = device.graph()
    fill, copy, function, child = (
        graph.add_fill(x, 1), graph.add_copy(y, x), graph.add_host(int), graph.add_graph(device.graph()),
    )  # fmt: skip
    executable = graph.instantiate()
    late = graph.add_fill(x, 2)
    other = device.graph()
    other.add_fill(x, 1)
    value, type_ = (fb.InvalidArgumentError, ValueError), (fb.ArgumentTypeError, TypeError)
    for error, do in (
        (value, lambda: executable.set_fill(late, x, 1)),
        (value, lambda: executable.set_fill(copy, x, 1)),
        (value, lambda: executable.set_fill(fill, x, -1)),
        (type_, lambda: executable.set_fill(fill, 3, 1)),
        (value, lambda: executable.set_copy(fill, x, y)),
        (value, lambda: executable.set_copy(copy, x[1:], y)),
        (value, lambda: executable.set_copy(copy, x, np.zeros(SIZE, "u4"))),
        (value, lambda: executable.set_host(copy, int)),
        (type_, lambda: executable.set_host(function, 3)),
        (value, lambda: executable.set_graph(copy, other)),
        (value, lambda: executable.set_graph(child, other)),
    ):
        with refused(*error):
            do()
    executable.launch(queue)
    works(queue)
    executable.close()
    with refused(fb.ClosedError, RuntimeError):
        executable.set_fill(fill, x, 1)


def test_a_graph_as_a_node(device, queue, step, x, value_of):
    with queue.capture() as inner:
        step(queue, x, 1)
        step(queue, x, 2)
    graph = device.graph()
    first = graph.add_graph(inner)
    second = graph.add_graph(inner, after=first)
    inner.add_fill(x, 0)
    assert [node.kind for node in graph.nodes] == ["graph", "graph"]
    assert len(second.work.works) == 2
    graph.launch(queue)
    assert device_data(value_of(x)) == steps(1, 2, 1, 2)
    with queue.capture() as outer:
        graph.launch(queue)
    queue.fill(x, 0)
    outer.launch(queue)
    assert device_data(value_of(x)) == steps(1, 2, 1, 2)


def test_updating_a_graph_with_graphs_in_it(device, queue, step, x, y, value_of):
    def nested(buffer, *ks):
        with queue.capture() as inner:
            for k in ks:
                step(queue, buffer, k)
        graph = device.graph()
        graph.add_graph(inner)
        return graph

    graph = nested(x, 1, 2)
    with pytest.raises(fb.GraphUpdateError, match="node 0") as caught:
        graph.update(nested(y, 1))
    assert caught.value.reason == "nodes"
    graph.update(nested(y, 3, 4))
    graph.launch(queue)
    assert (device_data(value_of(x)), device_data(value_of(y))) == (0, steps(3, 4))
    with queue.capture() as other:
        step(queue, x, 5)
        step(queue, x, 6)
    with graph.instantiate() as executable:
        executable.set_graph(graph.nodes[0], other)
        executable.launch(queue)
    assert device_data(value_of(x)) == steps(5, 6)


def test_wrong_graphs_as_nodes(device, another, x):
    graph = device.graph()
    allocating = device.graph()
    allocating.add_alloc(4)
    circle = device.graph()
    one, two = circle.add_empty(), circle.add_empty()
    circle.add_dependency(one, two)
    circle.add_dependency(two, one)
    with refused(fb.ArgumentTypeError, TypeError, "Graph"):
        graph.add_graph(3)
    with refused(fb.NotSupportedError, NotImplementedError, "memory"):
        graph.add_graph(allocating)
    with refused(fb.InvalidArgumentError, ValueError, another.name):
        graph.add_graph(another.graph())
    with refused(fb.InvalidArgumentError, ValueError, "depends on itself"):
        graph.add_graph(circle)
    closed = device.graph()
    closed.close()
    with refused(fb.ClosedError, RuntimeError):
        graph.add_graph(closed)
    assert len(graph) == 0


def test_closed_buffers_in_a_graph_in_a_graph(device, queue, step, x):
    own = device.empty(SIZE, "u4")
    inner = device.graph()
    inner.add_fill(own, 1)
    graph = device.graph()
    graph.add_graph(inner)
    executable = graph.instantiate()
    own.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        executable.launch(queue)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        graph.instantiate()
