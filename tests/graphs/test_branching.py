"""Graphs whose recordings branch: all of a graph is one call, and the driver knows what comes after what."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.drivers.selection import select
from forebay.queues.graphs.lanes import BRANCHES
from tests.helpers.observer import EXECUTES

from .conftest import SIZE, made

BLOCK = 300  # elements that a launch takes by value: their copy is a command of its own
pytestmark = pytest.mark.skipif(select().backend != "opencl", reason="the tests' recordings are for OpenCL")


@pytest.fixture(autouse=True, params=[True, False], ids=["spare running", "do not"])
def recorded(request):
    from forebay.queues.drivers.opencl import operations
    from tests.observers import recordings

    recordings.install(operations.table_address(), request.param, True)
    yield recordings
    recordings.uninstall()
    assert recordings.counts()[0] == 0


@st.composite
def programs(draw):
    """By node: those that it comes after, what it does with the last of them, and a number."""
    found = []
    for i in range(draw(st.integers(2, 14))):
        after = sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else []
        kinds = ["combine", "combine", "copy", "fill", "gather", "empty"] if after else ["advance", "fill", "gather"]
        found.append((after, draw(st.sampled_from(kinds)), draw(st.integers(0, 9))))
    return found


def add(graph, kernels, buffers, i, node, nodes):
    after, kind, k = node
    after, other = [nodes[j] for j in after], buffers[after[-1]] if after else None
    if kind == "advance":
        return graph.add_kernel(kernels["advance"], 4, 16, buffers[i], k, after=after)
    if kind == "combine":
        return graph.add_kernel(kernels["combine"], 4, 16, buffers[i], other, k, after=after)
    if kind == "gather":
        block = fb.by_value(np.full(BLOCK, k, "u4"))
        return graph.add_kernel(kernels["gather"], 4, 16, buffers[i], block, BLOCK, after=after)
    if kind == "copy":
        return graph.add_copy(buffers[i], other, after=after)
    return graph.add_fill(buffers[i], k, after=after) if kind == "fill" else graph.add_empty(after=after)


def effect(values, i, node):
    after, kind, k = node
    other = values[after[-1]] if after else 0
    values[i] = {
        "advance": values[i] * 3 + k,
        "combine": values[i] * 5 + other + k,
        "gather": values[i] * 3 + k * sum(7**j for j in range(BLOCK)),
        "copy": other,
        "fill": k,
        "empty": values[i],
    }[kind] % (1 << 32)


@pytest.mark.executes
@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(), st.lists(st.tuples(st.integers(0, 13), st.integers(0, 99)), max_size=4), st.booleans())
def test_every_node_comes_after_what_it_depends_on(device, kernels, recorded, program, changes, waits):
    """Each node writes a buffer of its own, of what another left there that it comes after."""
    queue, program = device.queue(), list(program)
    buffers, values = [made(device) for _ in program], [0] * len(program)
    graph, nodes = device.graph(), []
    for i, node in enumerate(program):
        nodes.append(add(graph, kernels, buffers, i, node, nodes))
    executable = graph.instantiate()
    for at, k in [(0, None), *((at % len(program), k) for at, k in changes)]:
        after, kind, _ = program[at]
        if k is not None and kind == "advance":
            executable.set_kernel(nodes[at], kernels["advance"], 4, 16, buffers[at], k)
            program[at] = (after, kind, k)
        replays = recorded.counts()[1]
        executable.launch(queue)
        acting = sum(kind != "empty" for _, kind, _ in program) + sum(kind == "gather" for _, kind, _ in program)
        assert recorded.counts()[1] - replays == (acting > 1)
        for i, node in enumerate(program):
            effect(values, i, node)
        if waits:
            queue.finish()
    assert [int(buffer.get(queue=queue)[SIZE - 1]) for buffer in buffers] == values
    queue.close()


def test_more_branches_than_a_recording_has(device, kernels, queue, recorded):
    """They share some. What is recorded is submitted by one call, on the launch queue alone."""
    buffers, graph = [made(device) for _ in range(2 * BRANCHES + 3)], device.graph()
    for k, buffer in enumerate(buffers):
        first = graph.add_kernel(kernels["advance"], 4, 16, buffer, k)
        graph.add_kernel(kernels["advance"], 4, 16, buffer, 1, after=first)
    executable, moved, replays = graph.instantiate(), recorded.reordered(), recorded.counts()[1]
    for _ in range(2):
        executable.launch(queue)
    assert recorded.counts()[1] == replays + 2
    assert recorded.reordered() >= moved
    queue.finish()
    if EXECUTES:
        found = [int(buffer.get(queue=queue)[0]) for buffer in buffers]
        assert found == [((k * 3 + 1) * 3 + k) * 3 + 1 for k in range(len(buffers))]


def test_what_need_not_come_after_another_may_come_before_it(device, kernels, queue, x, y, recorded):
    graph, moved = device.graph(), recorded.reordered()
    graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.add_kernel(kernels["advance"], 4, 16, y, 2)
    graph.launch(queue)
    queue.finish()
    assert recorded.reordered() == moved + 2


@pytest.mark.executes
def test_a_host_function_divides_a_graph(device, kernels, queue, x, y, recorded):
    graph, found, z = device.graph(), [], made(device)
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    called = graph.add_host(lambda: found.append(1), after=first)
    graph.add_kernel(kernels["combine"], 4, 16, y, x, 1, after=called)
    graph.add_fill(z, 5, after=called)
    graph.launch(queue)
    queue.finish()
    assert found == [1]
    assert [int(each.get(queue=queue)[0]) for each in (x, y, z)] == [1, 2, 5]


@pytest.mark.executes
def test_a_captured_fork_and_join_is_one_call(device, kernels, queue, x, y, recorded):
    other, z = device.queue(), made(device)
    with queue.capture() as graph:
        queue.launch(kernels["advance"], 4, 16, x, 1)
        other.wait(queue)
        other.launch(kernels["combine"], 4, 16, y, x, 1)
        queue.launch(kernels["advance"], 4, 16, z, 2)
        queue.wait(other)
        queue.launch(kernels["combine"], 4, 16, z, y, 1)
    replays = recorded.counts()[1]
    graph.launch(queue)
    assert recorded.counts()[1] == replays + 1
    assert [int(each.get(queue=queue)[0]) for each in (x, y, z)] == [1, 2, 2 * 5 + 2 + 1]


@pytest.mark.executes
@pytest.mark.parametrize("down", [True, False])
def test_a_copy_of_pageable_memory_divides_a_graph_too(device, kernels, queue, x, recorded, monkeypatch, down):
    """Where the host thread runs such copies: no recording can have them."""
    monkeypatch.setattr(device.driver, "takes_pageable", False, raising=False)
    monkeypatch.setattr(device.driver, "reads_pageable_late", False)
    graph, host, replays = device.graph(), np.full(SIZE, 4, "u4"), recorded.counts()[1]
    first = graph.add_copy(x, np.full(SIZE, 7, "u4"))
    second = graph.add_kernel(kernels["advance"], 4, 16, x, 1, after=first)
    third = graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=second)
    if down:
        graph.add_copy(host, x, after=third)
    graph.launch(queue)
    queue.finish()
    assert recorded.counts()[1] == replays + 1  # the part on the device
    assert x.get(queue=queue)[0] == (7 * 3 + 1) * 3 + 2
    assert host[0] == ((7 * 3 + 1) * 3 + 2 if down else 4)
