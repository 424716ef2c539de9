"""How many driver calls things take: counted, not timed."""

from collections import Counter

import pytest

import forebay as fb
from tests.observers.internals import room_of

from .program import launch


def without_filling(queue, most, commands=1):
    """How often so many commands can follow each other, once at least and at most so often, before the queue has to be
    asked how far it is: it is full, as far as is known. So few commands in flight are never marked.
    """
    return min(most, max((room_of(queue) - 4) // commands, 1))


def test_steady_launches_make_one_call_and_nothing_else(device, kernels, buffer, calls):
    for queue in (device.null_queue, device.queue(), device.queue(blocking=False)):
        launch(queue, kernels, buffer)
        queue.finish()
        bound = kernels["advance"].bind(queue, 4, 16, buffer, 1)
        bound()
        first, stats, turns = len(calls), device.stats, without_filling(queue, 100, 2)
        for _ in range(turns):
            launch(queue, kernels, buffer)
            bound()
        assert calls.names(first) == [calls.driver.LAUNCH] * 2 * turns
        assert {(call.event, call.waits) for call in calls.since(first)} == {(0, ())}
        made = device.stats - stats
        assert (made.launches, made.events_made, made.markers_made, made.waits_made) == (2 * turns, 0, 0, 0)
        queue.finish()


def test_copies_between_buffers_and_pinned_memory_make_one_call_and_nothing_else(device, buffer, calls):
    other, host = device.zeros(64, "u4"), fb.host_empty(64, "u4", device=device)
    for queue in (device.null_queue, device.queue(), device.queue(blocking=False)):
        for to, source in ((buffer, host), (host, buffer), (buffer, other)):
            queue.copy(to, source)
            queue.finish()
            first, stats, turns = len(calls), device.stats, without_filling(queue, 100)
            for _ in range(turns):
                queue.copy(to, source)
            events = turns if device.info.backend == "opencl" else 0  # given back when the next one is made
            assert calls.kinds(first) == Counter(command=turns) + Counter(other=events - 1)
            assert {call.waits for call in calls.since(first)} == {()}
            made = device.stats - stats
            assert (made.copies, made.events_made, made.markers_made) == (turns, events, 0)
            queue.finish()


def test_copies_of_pageable_memory_are_asked_for_together(device, buffer, calls, hold):
    """One marker shows for many of them that their memory of the host may go."""
    queue, stats = device.queue(blocking=False), device.stats
    hold(queue)
    turns = without_filling(queue, 160)
    for _ in range(turns):
        queue.copy(buffer, bytes(buffer.nbytes))
    made = device.stats - stats
    assert made.copies == turns
    assert made.markers_made == 1 or (turns < 160 and made.markers_made == 0)
    events = turns if device.info.backend == "opencl" else 0
    assert made.events_made == made.markers_made + calls.count(calls.driver.HOLD) + events


def test_two_integers_are_compared_and_nothing_is_gathered(device, kernels, buffer, calls, hold):
    """A blocking queue looks at the null queue's work once, not at every launch."""
    queue = device.queue()
    gate = hold(device.null_queue)
    launch(device.null_queue, kernels, buffer)
    for done in (False, True):
        launch(queue, kernels, buffer)
        first, stats = len(calls), queue.stats
        for _ in range(10):
            launch(queue, kernels, buffer)
        assert calls.names(first) == [calls.driver.LAUNCH] * 10
        changed = queue.stats - stats
        assert (changed.waits_made, changed.waits_elided) == (0, 0)
        if not done:
            gate.open()
            device.finish()
            launch(device.null_queue, kernels, buffer)
            device.null_queue.finish()


def test_only_changed_arguments_are_set(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    other = device.empty(64, "u4")
    launch(queue, kernels, buffer, 1)
    first = len(calls)
    launch(queue, kernels, buffer, 2)
    assert calls.names(first) == [calls.driver.ARGUMENT, calls.driver.LAUNCH]
    first = len(calls)
    launch(queue, kernels, other, 2)
    assert calls.kinds(first) == {"argument": 1, "command": 1}
    queue.finish()


def test_nothing_is_allocated_by_launches(device, kernels, buffer, calls):
    queues = [device.queue() for _ in range(4)]
    for queue in queues:
        launch(queue, kernels, buffer)
    device.finish()
    first = len(calls)
    for k in range(50):
        for queue in (*queues, device.null_queue):
            launch(queue, kernels, buffer, k)
    device.finish()
    assert calls.kinds(first)["allocate"] == 0


@pytest.mark.parametrize("blocking", [True, False])
def test_a_launch_beside_1024_idle_queues(device, kernels, buffer, calls, blocking):
    queue = device.null_queue if blocking else device.queue(blocking=False)
    idle = [device.queue() for _ in range(1024)]
    launch(queue, kernels, buffer)
    first, stats = len(calls), device.stats
    for _ in range(10):
        launch(queue, kernels, buffer)
    assert calls.names(first) == [calls.driver.LAUNCH] * 10
    assert (device.stats - stats).waits_elided == 0  # they were not even looked at
    queue.finish()
    del idle


def test_a_null_launch_beside_busy_queues_without_new_work(device, kernels, buffer, calls, hold):
    queues = [device.queue() for _ in range(64)]
    gates = [hold(queue) for queue in queues]
    for queue in queues:
        launch(queue, kernels, buffer)
    first = len(calls)
    launch(device.null_queue, kernels, buffer)
    assert calls.kinds(first)["marker"] == 64
    (call,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    assert len(set(call.waits)) == 64
    first = len(calls)
    for _ in range(10):
        launch(device.null_queue, kernels, buffer)
    assert calls.names(first) == [calls.driver.LAUNCH] * 10
    assert all(call.waits == () for call in calls.since(first))
    for gate in gates:
        gate.open()
    device.finish()


def finishes(driver):
    """The calls by which one queue is finished: a poll where there is one, or a marker and a wait for it, if the poll
    says no or the last one did.
    """
    by_marker = [name for name in (driver.MARKER, driver.FLUSH, driver.WAIT) if name]
    if driver.FINISH == driver.WAIT:
        return [by_marker]
    return [[driver.FINISH], *([[driver.FINISH, *by_marker], by_marker] if driver.FINISH_IS_POLL else [])]


def test_finishing_a_queue_is_one_synchronize(device, kernels, buffer, calls):
    for queue in (device.null_queue, device.queue(), device.queue(blocking=False)):
        for _ in range(5):
            launch(queue, kernels, buffer)
        first, stats = len(calls), queue.stats
        queue.finish()  # which may give back an earlier marker
        names = [name for name in calls.names(first) if name not in ("clReleaseEvent", "DPCTLEvent_Delete")]
        assert names in finishes(calls.driver)
        assert (queue.stats - stats).host_syncs == 1
        asked = calls.kinds(first) - Counter(other=99)  # others give back events
        for _ in range(3):
            queue.finish()
            assert queue.query()
            assert queue.empty
        assert calls.kinds(first) - Counter(other=99) == asked
        assert (queue.stats - stats).host_syncs == 1


def test_finishing_a_device_is_one_synchronize(device, kernels, buffer, calls, hold):
    queues = [device.queue(blocking=i % 2 == 0) for i in range(64)]
    gates = [hold(queue) for queue in queues[:4]]
    for queue in queues:
        launch(queue, kernels, buffer)
    for gate in gates:
        gate.open()
    first, stats = len(calls), device.stats
    device.finish()
    kinds = calls.kinds(first)
    assert kinds["wait"] + kinds["finish"] == 1
    assert len(calls.markers_of(queues, first)) == 64
    assert (device.stats - stats).host_syncs == 1
    assert all(queue.empty for queue in queues)
    first = len(calls)
    device.finish()
    for queue in queues:
        queue.finish()
    assert calls.kinds(first) - Counter(other=99) == {}
    assert (device.stats - stats).host_syncs == 1


def test_waiting_for_an_event_is_one_synchronize(device, kernels, buffer, calls):
    queue = device.queue()
    launch(queue, kernels, buffer)
    event = queue.record()
    first, stats = len(calls), device.stats
    event.wait()
    event.wait()
    assert event.query()
    assert calls.kinds(first) == {"wait": 1}
    assert (device.stats - stats).host_syncs == 1
    assert queue.empty
    queue.finish()
    assert calls.kinds(first) == {"wait": 1}


def test_events_do_not_pile_up(device, kernels, buffer, calls):
    """Bounded by the number of queues, not by that of launches and waits."""
    queues = [device.queue(blocking=i % 2 == 0) for i in range(20)]
    for k in range(1000):
        a, b = queues[k % 20], queues[k * 7 % 19]
        launch(a, kernels, buffer, k)
        b.wait(a)
        if k % 50 == 0:
            launch(device.null_queue, kernels, buffer, k)
    device.finish()
    assert len(calls.events_alive()) <= len(queues) + 1
    del queues, a, b
    for _ in range(3):
        device.queue()  # looks for queues that are gone
    assert len(calls.events_alive()) <= 1


def test_emptiness_asks_nobody(device, kernels, buffer, calls, hold):
    queue = device.queue(blocking=False)
    gate = hold(queue)
    launch(queue, kernels, buffer)
    first = len(calls)
    for _ in range(10):
        assert not queue.empty
        assert queue.completed < queue.epoch
    assert calls.names(first) == []
    gate.open()
    queue.finish()
    assert queue.empty


def test_statistics_are_those_of_the_calls(device, kernels, buffer, calls, hold):
    """What the stats claim was made is what the driver was asked for."""
    stats, first = device.stats, len(calls)
    queues = [device.queue() for _ in range(6)]
    gate = hold(queues[0])
    for k in range(60):
        queue = queues[k % 6]
        launch(queue, kernels, buffer, k // 2)
        if k % 7 == 0:
            launch(device.null_queue, kernels, buffer, k)
        if k % 5 == 0:
            queues[(k + 1) % 6].wait(queue)
        if k % 11 == 0:
            queue.record()
    gate.open()
    device.finish()
    made, counts, log = device.stats - stats, calls.counts(first), calls.since(first)
    assert made.launches == counts[calls.driver.LAUNCH]
    markers = calls.markers_of((*queues, device.null_queue), first)
    assert made.markers_made == len(markers) - calls.driver.GATE_MARKERS * counts[calls.driver.OPEN]
    assert made.events_made == made.markers_made + counts[calls.driver.OPEN]
    assert made.host_syncs == sum(counts[name] for name in {calls.driver.WAIT, calls.driver.FINISH}) == 1
    gates = {call.event for call in log if calls.kind(call) == "gate"}
    lists = {calls.handle_of(queue) for queue in (*queues, device.null_queue)}
    waits = [event for call in log if call.object in lists for event in call.waits if event not in gates]
    assert made.waits_made == len(waits)
