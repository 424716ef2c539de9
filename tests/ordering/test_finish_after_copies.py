"""A finish right after a copy: on OpenCL it waits for the copy's own event, everywhere for all that was submitted."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.threads import beside

SIZE = 64


@pytest.fixture
def buffer(device):
    return device.empty(SIZE, "u4")


@pytest.fixture
def host(device):
    host = fb.host_empty(SIZE, "u4", device=device)
    host[:] = np.arange(SIZE)
    return host


@pytest.fixture
def ends(device, buffer, host):
    """``ends(direction)``: the two ends of a copy."""
    other = device.empty(SIZE, "u4")
    return {"up": (buffer, host), "down": (host, buffer), "across": (buffer, other)}.__getitem__


def assert_finish_waits_for(gate, queue):
    """A thread that finishes the queue goes on when the gate is opened, and not before."""
    before = queue.stats.host_syncs
    with beside(queue.finish) as (thread,):
        while queue.stats.host_syncs == before:
            pass
        thread.join(0.05)
        assert thread.is_alive()
        gate.open()


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("direction", ["up", "down", "across"])
def test_it_makes_no_marker_and_gives_the_event_back(device, buffer, calls, ends, direction):
    queue = device.queue()
    queue.fill(buffer, 3)
    queue.finish()
    first, alive, stats = len(calls), len(calls.events_alive()), queue.stats
    queue.copy(*ends(direction))
    queue.finish()
    copied, *asked, released = calls.since(first)
    assert calls.kind(copied) == "command"
    assert copied.event
    names = {calls.driver.QUERY, calls.driver.WAIT}
    assert {call.name for call in asked} <= names
    assert {call.event for call in asked if call.name == calls.driver.QUERY} <= {copied.event}
    assert released.event == copied.event
    assert len(calls.events_alive()) == alive
    made = queue.stats - stats
    assert (made.markers_made, made.events_made, made.host_syncs) == (0, 1, 1)
    before = len(calls)
    queue.finish()
    assert queue.empty
    assert len(calls) == before


def test_copies_keep_one_event_at_most(device, calls, ends):
    queue, pair = device.queue(blocking=False), ends("up")
    device.finish()
    alive = len(calls.events_alive())
    for _ in range(20):
        queue.copy(*pair)
        assert len(calls.events_alive()) <= alive + 1
    queue.finish()
    assert len(calls.events_alive()) <= alive + 1


AFTER = {
    "launch": lambda queue, kernels, buffer: queue.launch(kernels["advance"], 1, SIZE, buffer, 1),
    "fill": lambda queue, kernels, buffer: queue.fill(buffer, 5),
    "nothing": lambda queue, kernels, buffer: None,
}


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.parametrize("behind", ["a wait", "a gate"])
@pytest.mark.parametrize("what", AFTER)
def test_what_comes_after_the_copy_is_waited_for(device, kernels, buffer, ends, hold, what, behind):
    """Behind a wait for another queue that is held, or held itself: the copy is done long before."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    pair, filled = ends("down"), device.zeros(SIZE, "u4")
    device.finish()
    gate = hold(other)
    other.fill(filled, 1)
    queue.copy(*pair)
    if behind == "a wait":
        queue.wait(other)
    else:
        gate.open()
        gate = hold(queue)
    AFTER[what](queue, kernels, buffer)
    assert_finish_waits_for(gate, queue)
    assert queue.empty
    other.finish()


@pytest.mark.threads
@pytest.mark.executes
def test_a_finish_of_the_null_queue_after_its_copy_is_for_the_blocking_queues_too(device, kernels, ends, hold):
    null, queue = device.null_queue, device.queue()
    launched = device.zeros(SIZE, "u4")
    null.finish()
    null.copy(*ends("down"))
    gate = hold(queue)
    queue.launch(kernels["advance"], 1, SIZE, launched, 1)
    assert_finish_waits_for(gate, null)
    assert queue.query()


def test_an_event_recorded_after_the_copy_can_be_asked_for(device, calls, ends):
    """The copy's own event is not flushed: nobody may ask for that, nor let another queue wait for it."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    for _ in range(20):
        first = len(calls)
        queue.copy(*ends("up"))
        event = queue.record()
        (marker,) = calls.markers_of([queue], first)
        other.wait(event)
        other.fill(ends("across")[1], 1)
        (fill,) = (call for call in calls.since(first) if call.object == calls.handle_of(other) and call.waits)
        assert fill.waits == (marker.event,)
        while not event.query():
            pass
        other.finish()


def test_a_wait_that_fails_leaves_a_finish_that_works(device, calls, buffer, ends, hold):
    queue = device.queue()
    gate = hold(queue)
    queue.copy(*ends("up"))
    calls.fail(calls.driver.WAIT, calls.driver.FAILURE[0])
    with pytest.raises(fb.DriverError, match=calls.driver.FAILURE[1]):
        queue.finish()
    calls.forgive()
    assert not queue.query()
    gate.open()
    queue.finish()
    assert queue.empty
