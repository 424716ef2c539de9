"""A Device that is closed and dropped is gone at once: drivers have only so many contexts for a process."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay.queues.device import open_devices
from tests.helpers import kernels
from tests.helpers.observer import observe
from tests.helpers.turns import turns

SIZED_BY_DATA = """
kernel void work(global int *out, global const int *counts, global int *room) {
    room[get_global_id(0)] = counts[get_global_id(0)];
    out[get_global_id(0)] = room[get_global_id(0)];
}
kernel void table(global const int *numbers, global int *out) { out[0] = numbers[7]; }
"""


@pytest.fixture
def opened(device):
    """``opened()``: another Device for the same one. Nothing is given back by the garbage collector."""
    gc.collect()
    gc.disable()
    yield lambda: fb.Device(device.name, private=True)
    gc.enable()


def use_nothing(device):
    pass


def use_queues(device):
    queues = [device.queue(blocking=k % 2 == 0) for k in range(4)]
    buffer = device.zeros(100, "i4")
    fill = device.program(kernels.SOURCE)["fill"]
    for k in range(20):
        queues[k % 4].launch(fill, 10, 10, buffer, k)
        queues[(k + 1) % 4].wait(queues[k % 4].record())
    fill.bind(device.null_queue, 10, 10, buffer, 1)()
    fill[10, 10](buffer, 2)
    buffer.get()


def use_per_thread_queues(device):
    buffer = device.zeros(100, "i4")
    device.per_thread_queue.fill(buffer, 1)
    other = threading.Thread(target=lambda: device.per_thread_queue.fill(buffer, 2))
    other.start()
    other.join()
    with device.queue() as queue:
        device.current_queue.fill(buffer, 3)
        assert device.current_queue is queue


def use_memory_of_launches(device):
    counts, queue = device.array(np.full(100, 3, "i4")), device.queue()
    program = device.program(SIZED_BY_DATA)
    work, out = program["work"], np.zeros(100, "i4") if device.driver.takes_pageable else device.zeros(100, "i4")
    work.scratch("room", fb.MaxOver("counts") * 400)
    queue.launch(work, 10, 10, out, counts)
    queue.launch(program["table"], 1, 1, bytes(5000), device.zeros(1, "i4"))
    queue.launch(program["table"], 1, 1, bytes(64), result="i4").get()
    queue.free(queue.alloc(1000))


def use_graphs(device):
    queue, buffer = device.queue(), device.zeros(100, "i4")
    with queue.capture() as graph:
        queue.fill(buffer, 1)
    graph.launch(queue)
    graph.instantiate().launch(queue)
    queue.gate().open()


USES = [use_nothing, use_queues, use_per_thread_queues, use_memory_of_launches, use_graphs]


@pytest.mark.parametrize("use", USES)
def test_a_closed_device_is_gone_when_it_is_dropped(opened, use):
    device = opened()
    use(device)
    gone = [weakref.ref(device), weakref.ref(device.driver)]
    device.close()
    del device
    assert [each() for each in gone] == [None, None]


@pytest.fixture
def calls(device, opened):
    with observe(device) as calls:
        yield calls


def handles_left(calls, *queues):
    """A function: which of their handles are not released since now. What earlier tests left may go meanwhile."""
    first, handles = len(calls), {calls.handle_of(queue) for queue in queues}
    return lambda: handles - {call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE}


@pytest.mark.executes(run=False)
def test_a_device_that_called_host_functions_is_gone_when_it_is_dropped(opened, device, calls):
    other, ran = opened(), []
    queue = other.queue()
    left = handles_left(calls, queue, other.null_queue)
    queue.host(lambda: ran.append(1))
    other.finish()
    del queue
    gone = [weakref.ref(other), weakref.ref(other.driver)]
    other.close()
    del other
    device.null_queue.host(lambda: ran.append(2))  # they run one after the other: the first one is over then
    device.finish()
    assert [each() for each in gone] == [None, None]
    assert not left()
    assert ran == [1, 2]


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("opens", [True, False])
def test_what_is_still_at_work_is_given_back_when_it_is_done(opened, calls, opens):
    other = opened()
    queue, buffer = other.queue(), other.zeros(100, "i4")
    left, held = handles_left(calls, queue, other.null_queue), calls.handle_of(queue)
    gate = queue.gate()
    queue.fill(buffer, 1)
    del other, queue, buffer
    gc.collect()
    opened().close()
    assert held in left()
    if opens:
        gate.open()
    del gate
    deadline = time.monotonic() + 20
    while left() and time.monotonic() < deadline:
        opened().close()  # looks whether it is done
    assert not left()


def test_more_devices_than_a_driver_has_contexts(opened):
    """NVIDIA's makes about a hundred at once, and gave none back in which memory had been filled by its own command."""
    before = set(open_devices())
    for _ in turns(120, least=12, seconds=40):  # each takes it more than a second, beside other processes
        device = opened()
        device.zeros(3)
        device.close()
    assert set(open_devices()) == before
