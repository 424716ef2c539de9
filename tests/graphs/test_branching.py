"""Graphs whose recordings branch: all of a graph is one call, and the driver knows what comes after what."""

import numpy as np
import pytest

from forebay.queues.graphs.shape import BRANCHES
from forebay.queues.selection import select
from tests.helpers.device_data import device_data
from tests.helpers.observer import EXECUTES
from tests.helpers.recordings import recordings_installed

from .conftest import SIZE, made

pytestmark = pytest.mark.skipif(select().backend != "opencl", reason="the tests' recordings are for OpenCL")


@pytest.fixture(autouse=True, params=[True, False], ids=["spare running", "do not"])
def recorded(request):
    with recordings_installed(request.param, True) as recordings:
        yield recordings


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


def test_a_host_function_divides_a_graph(device, kernels, queue, x, y, recorded):
    graph, found, z = device.graph(), [], made(device)
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    called = graph.add_host(lambda: found.append(1), after=first)
    graph.add_kernel(kernels["combine"], 4, 16, y, x, 1, after=called)
    graph.add_fill(z, 5, after=called)
    graph.launch(queue)
    queue.finish()
    assert found == [1]
    assert [device_data(int(each.get(queue=queue)[0])) for each in (x, y, z)] == [1, 2, 5]


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
    assert [device_data(int(each.get(queue=queue)[0])) for each in (x, y, z)] == [1, 2, 2 * 5 + 2 + 1]


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
    assert device_data(x.get(queue=queue)[0]) == (7 * 3 + 1) * 3 + 2
    assert host[0] == ((7 * 3 + 1) * 3 + 2 if down else 4)
