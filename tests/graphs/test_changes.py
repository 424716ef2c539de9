"""Changing launches of an executable graph again and again: its recordings are changed, where the driver can do that.

On OpenCL the recordings are the observer's, so that the results tell whether the right ones were changed.
"""

import threading

import pytest

from forebay.queues.drivers.selection import select

from .conftest import made, steps


@pytest.fixture(autouse=True)
def recordings():
    if select().backend != "opencl":
        yield None
        return
    from forebay.queues.drivers.opencl import operations
    from tests.observers import recordings

    recordings.install(operations.table_address(), False)
    yield recordings
    recordings.uninstall()
    assert recordings.counts()[0] == 0


@pytest.fixture
def chain(device, kernels, x):
    """A graph of five launches on `x`, one after the other, and its nodes."""
    graph, nodes = device.graph(), []
    for k in range(5):
        nodes.append(graph.add_kernel(kernels["advance"], 4, 16, x, k, after=nodes[-1:]))
    return graph, nodes


def test_scalars_again_and_again(queue, kernels, chain, x, value_of, recordings, really):
    graph, nodes = chain
    executable, ks, expected = graph.instantiate(), list(range(5)), []
    changed = recordings and recordings.counts()[2]
    for i in range(12):
        at = i % 5
        ks[at] = 10 * i
        executable.set_kernel(nodes[at], kernels["advance"], 4, 16, x, ks[at])
        executable.launch(queue)
        expected += ks
        if i % 3 == 0:
            queue.finish()
    queue.finish()
    assert value_of(x) == steps(*expected) or not really
    if recordings:
        assert recordings.counts()[2] > changed


@pytest.mark.executes
def test_pointers_back_and_forth(queue, kernels, chain, x, y, value_of):
    graph, nodes = chain
    executable, of_x, of_y = graph.instantiate(), [], []
    for i in range(10):
        executable.set_kernel(nodes[2], kernels["advance"], 4, 16, (x, y)[i % 2], i)
        executable.launch(queue)
        of_x += [0, 1, *([i] if i % 2 == 0 else []), 3, 4]
        of_y += [i] if i % 2 else []
        queue.finish()
    assert (value_of(x), value_of(y)) == (steps(*of_x), steps(*of_y))


@pytest.mark.executes
def test_groups_and_what_is_recorded_anew(device, queue, kernels, chain, x, y, value_of):
    """Another block or kernel cannot be a change."""
    graph, nodes = chain
    executable, of_x = graph.instantiate(), []
    for i, (grid, block) in enumerate([(4, 16), (4, 16), (2, 32), (4, 16), (8, 8), (4, 16)]):
        executable.set_kernel(nodes[1], kernels["advance"], grid, block, x, i)
        executable.launch(queue)
        of_x += [0, i, 2, 3, 4]
    executable.set_kernel(nodes[1], kernels["combine"], 4, 16, y, x, 1)
    executable.launch(queue)
    executable.set_kernel(nodes[1], kernels["advance"], 4, 16, x, 9)
    executable.launch(queue)
    of_x += [0, 2, 3, 4, 0, 9, 2, 3, 4]
    queue.finish()
    assert value_of(x) == steps(*of_x)
    executable.set_kernel(nodes[4], kernels["advance"], 2, 16, y, 5)
    executable.launch(queue)
    queue.finish()
    assert set(y.get()[32:]) < set(y.get())


@pytest.mark.executes(run=False)
def test_changes_while_it_runs(device, hold, kernels, chain, x, value_of):
    """The launches that wait have the values that they were launched with."""
    graph, nodes = chain
    queue = device.queue(blocking=False)
    executable, expected = graph.instantiate(), []
    gate = hold(queue)
    for i in range(8):
        executable.set_kernel(nodes[3], kernels["advance"], 4, 16, x, 100 + i)
        executable.launch(queue)
        expected += [0, 1, 2, 100 + i, 4]
    gate.open()
    queue.finish()
    assert value_of(x) == steps(*expected)


@pytest.mark.executes(reads="total")
@pytest.mark.threads
def test_changes_beside_launches(device):
    """Each launch has one of the values, whole: the sum of two nodes that are changed by one update tells."""
    program = device.program("kernel void add(global uint *a, uint k) { a[get_global_id(0)] += k; }")
    y = made(device)
    graph = device.graph()
    first = graph.add_kernel(program["add"], 4, 16, y, 1)
    graph.add_kernel(program["add"], 4, 16, y, 0, after=first)
    executable, stop, launches = graph.instantiate(), threading.Event(), []

    def run():
        queue, count = device.queue(), 0
        while not stop.is_set():
            executable.launch(queue)
            count += 1
            if count % 16 == 0:
                queue.finish()
        queue.finish()
        launches.append(count)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(200):
        executable.set_kernel(first, program["add"], 4, 16, y, 1 + (i % 2) * (1 << 16))
    stop.set()
    for thread in threads:
        thread.join()
    total = int(y.get()[0])
    assert (total & 0xFFFF) == sum(launches) & 0xFFFF
    assert len(set(y.get())) == 1
