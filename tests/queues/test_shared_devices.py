"""Devices of one name are one device: they share the driver's context and the null queue, and close only their own."""

import gc
import threading

import numpy as np
import pytest

import forebay as fb
from tests.conftest import DEVICES
from tests.helpers import kernels as sources
from tests.helpers.device_data import device_data
from tests.inside import clock_of, without_shared_contexts


@pytest.fixture(params=DEVICES, ids=str)
def name(request):
    return request.param


@pytest.fixture(autouse=True)
def shared():
    """The driver contexts that may be joined: other tests may have left Devices open."""
    with without_shared_contexts() as shared:
        yield shared


@pytest.fixture
def pair(name):
    """Two Devices of one name."""
    with fb.Device(name) as first, fb.Device(name) as second:
        yield first, second


def fill_of(device):
    return device.program(sources.SOURCE)["fill"]


def test_they_share_the_null_queue(pair):
    first, second = pair
    assert first is not second
    assert first.null_queue == second.null_queue
    assert hash(first.null_queue) == hash(second.null_queue)
    assert first.null_queue.id == second.null_queue.id
    assert first.null_queue.device is first
    assert second.null_queue.device is second
    with pytest.raises(fb.InvalidArgumentError, match="close the Device"):
        first.null_queue.close()


def test_a_private_device_shares_nothing(pair, name):
    first, _ = pair
    with fb.Device(name, private=True) as apart:
        assert apart.null_queue != first.null_queue
        with pytest.raises(fb.InvalidArgumentError, match="belongs to"):
            apart.null_queue.fill(first.zeros(4), 1)


def test_what_belongs_to_one_can_be_used_with_the_other(pair):
    first, second = pair
    buffer, fill = first.zeros(100, "i4"), fill_of(second)
    queue, other = first.queue(blocking=False), second.queue(blocking=False)
    queue.wait(first.null_queue)
    queue.launch(fill, 10, 10, buffer, 1)
    other.wait(queue.record())
    copied = second.empty(100, "i4")
    other.copy(copied, buffer)
    bound = fill.bind(queue, 10, 10, copied, 7)
    queue.wait(other)
    assert device_data(copied.get(queue=other).tolist()) == [1] * 100
    bound()
    with queue.capture() as graph:
        queue.launch(fill, 10, 10, buffer, 3)
        event = queue.record()
        other.wait(event)
        other.copy(copied, buffer)
        queue.wait(other)
    graph.launch(other)
    assert device_data(copied.get(queue=other).tolist()) == [3] * 100
    allocated = queue.alloc(10, "i4")
    other.wait(queue)
    other.fill(allocated, 4)
    assert device_data(allocated.get(queue=other).tolist()) == [4] * 10
    other.free(allocated)


def test_the_null_queue_is_ordered_against_the_queues_of_both(pair):
    first, second = pair
    queue, buffer = second.queue(), second.zeros(8)
    gate = queue.gate()
    try:
        first.null_queue.fill(buffer, 1)
        assert queue.id in clock_of(first.null_queue)
    finally:
        gate.open()
    first.null_queue.finish()


def test_closing_one_leaves_the_other(pair):
    first, second = pair
    mine, theirs = first.zeros(8, "i4"), second.array(np.arange(8, dtype="i4"))
    queue, other, fill = first.queue(), second.queue(), fill_of(second)
    null = first.null_queue
    bound = fill.bind(other, 1, 8, mine, 1)
    first.close()
    first.close()
    assert first.closed
    assert queue.closed
    assert mine.closed
    assert not second.closed
    assert not other.closed
    assert not theirs.closed
    for attempt in (
        lambda: other.copy(theirs, mine),
        lambda: other.launch(fill, 1, 8, mine, 1),
        bound,
        lambda: queue.fill(theirs, 1),
        lambda: first.null_queue,
        lambda: first.zeros(4),
    ):
        with pytest.raises(fb.ClosedError):
            attempt()
    null.close()  # belongs to both
    second.null_queue.fill(theirs, 3)
    other.launch(fill, 1, 8, theirs, 5)
    second.finish()
    second.close()
    assert null.closed
    with pytest.raises(fb.ClosedError):
        null.fill(theirs, 1)


def test_closing_one_does_not_wait_for_queues_of_the_other(pair):
    first, second = pair
    held, buffer = second.queue(blocking=False), first.zeros(8, "i4")
    first.finish()
    gate = held.gate()
    held.fill(buffer, 1)  # goes on using it after it was closed
    closer = threading.Thread(target=first.close)
    closer.start()
    closer.join(60)
    try:
        assert not closer.is_alive()
        assert buffer.closed
    finally:
        gate.open()
    held.finish()


@pytest.mark.executes
def test_closing_one_does_not_wait_for_what_the_null_queue_would_wait_for(pair):
    """The next command of the null queue, not those so far, would come after the other's blocking queue."""
    first, second = pair
    buffer, held = first.zeros(8, "i4"), second.queue()  # nobody knows yet that the zeros are there
    assert not first.null_queue.empty
    gate = held.gate()
    closer = threading.Thread(target=first.close)
    closer.start()
    closer.join(60)
    try:
        assert not closer.is_alive()
        assert buffer.closed
        assert not held.query()
    finally:
        gate.open()
    closer.join()


def test_dropping_one_counts_as_closing(name):
    first, second = fb.Device(name), fb.Device(name)
    queue = second.queue()
    null = second.null_queue
    del first
    gc.collect()
    queue.fill(second.zeros(8), 1)
    second.finish()
    assert not null.closed
    second.close()
    assert null.closed


def test_counters_settings_and_errors_belong_to_each(name):
    with fb.Device(name) as first:
        first.null_queue.fill(first.zeros(4), 1)
        with fb.Device(name, debug=True) as second:
            assert second.debug
            assert not first.debug
            assert second.stats.fills == 0
            before = first.stats
            queue = second.queue()
            for _ in range(3):
                queue.fill(second.zeros(4), 2)  # the zeros are filled on the null queue
            assert second.stats.fills == 6
            assert first.stats.fills == before.fills + 3
            assert first.stats.allocations == before.allocations
            del queue
            second.finish()
            gc.collect()
            assert second.stats.fills == 6
            assert second.per_thread_queue is not first.per_thread_queue
        first.finish()


@pytest.mark.executes
def test_what_a_host_function_raises_goes_to_the_device_of_its_queue(pair):
    first, second = pair

    def fail():
        raise ZeroDivisionError("mine")

    second.null_queue.host(fail)
    first.finish()
    with pytest.raises(ZeroDivisionError, match="mine"):
        second.finish()
