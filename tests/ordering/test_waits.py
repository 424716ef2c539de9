"""Waits: which are made, which are dropped, and who carries them."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.threads import beside
from tests.observers.internals import not_empty_after

from .program import SOURCE


def test_a_wait_for_what_was_never_recorded_calls_nothing(checked):
    event = checked.device.event()
    queue = checked.queue()
    before, stats = len(checked.calls), queue.stats
    for each in (queue, checked.null):
        each.wait(event)
        assert checked.calls.names(before) == []
    assert queue.stats == stats
    assert queue.epoch == 0


def test_completion_travels_along_clocks(checked):
    """Three queues in a row; the host asks about the last only, and knows about all."""
    queues = [checked.queue(blocking=False) for _ in range(3)]
    memory = checked.memory()
    for i, queue in enumerate(queues):
        if i:
            checked.wait(queue, queues[i - 1])
        checked.step(queue, memory, i)
    outsider = checked.queue(blocking=False)
    other = checked.memory()
    checked.step(outsider, other, 1)
    first = len(checked.calls)
    checked.finish(queues[2])
    assert [queue.empty for queue in queues] == [True] * 3
    assert not outsider.empty
    kinds = checked.calls.kinds(first)  # on OpenCL a finish would not tell whether one of its waits failed
    assert kinds["wait"] + kinds["finish"] == 1
    first = len(checked.calls)
    for queue in queues:
        checked.finish(queue)
        assert checked.query(queue)
    assert checked.wait(outsider, queues[0])
    assert checked.calls.names(first) == []
    assert outsider.stats.waits_elided_completed == 1


@pytest.mark.parametrize("timing", [False, True])
def test_a_record_that_had_to_wait_passes_on_what_it_waited_for(device, kernels, calls, hold, timing):
    """Its marker is a command of the null queue, with waits of its own."""
    with fb.Device(timing=True, private=True) as fresh:
        queue, free = fresh.queue(), fresh.queue(blocking=False)
        buffer = fresh.array(np.zeros(64, "u4"))
        fresh.finish()
        launches = fresh.program(SOURCE)
        gate = hold(queue)
        queue.launch(launches["advance"], 4, 16, buffer, 1)
        early = queue.record()
        event = fresh.null_queue.record(timing=timing)
        free.wait(event)
        stats, first = free.stats, len(calls)
        free.wait(early)
        assert (free.stats - stats).waits_elided_ordered == 1
        assert calls.names(first) == []
        gate.open()
        event.wait()
        assert queue.empty
        assert fresh.null_queue.empty
        assert not free.empty


def test_completion_travels_from_an_event_and_from_a_query(checked):
    memory = checked.memory()
    for how in ("wait", "done", "query", "device"):
        first, second = checked.queue(blocking=False), checked.queue(blocking=False)
        checked.step(first, memory, 1)
        checked.wait(second, first)
        checked.step(second, memory, 2)
        point = checked.record(second)
        if how == "wait":
            checked.finish_point(point)
        elif how == "device":
            checked.finish_device()
        else:
            while not (checked.query_point(point) if how == "done" else checked.query(second)):
                pass
        assert first.empty
        assert first.completed == first.epoch


def test_completion_stops_where_the_marker_was(checked):
    queue = checked.queue(blocking=False)
    memory = checked.memory()
    checked.step(queue, memory, 1)
    point = checked.record(queue)
    checked.gate(queue)
    checked.step(queue, memory, 2)
    point.event.wait()
    assert queue.completed == 1
    assert not queue.empty
    assert not checked.query(queue)


def test_what_was_recorded_on_an_empty_queue_is_done(checked):
    queue, other = checked.queue(), checked.queue(blocking=False)
    first = len(checked.calls)
    point = checked.record(queue)
    assert checked.query_point(point)
    assert checked.wait(other, point)
    point.event.wait()
    assert checked.calls.names(first) == []


@pytest.mark.parametrize("newest", range(9))
def test_the_newest_of_many_waits_that_wait_counts(checked, newest):
    """For each queue of which there are several, wherever it stands among those of others when they are thinned."""
    consumer, producer = checked.queue(blocking=False), checked.queue(blocking=False)
    others = [checked.queue(blocking=False) for _ in range(9)]
    memories = [checked.memory() for _ in range(10)]
    checked.gate(producer)
    for i in range(9):
        if i in (0, newest):
            checked.step(producer, memories[9], i + 1)
            checked.wait(consumer, producer)
        else:
            checked.gate(others[i])
            checked.step(others[i], memories[i], 1)
            checked.wait(consumer, others[i])
    checked.mix(consumer, memories[0], memories[9], 1)
    for i in set(range(1, 9)) - {newest}:
        checked.step(consumer, memories[i], 2)


# What a queue is known to have reached, and what is then known of the queues that it comes after


QUEUES, TURNS = 256, 40


def finish_later(device):
    """Finish a queue that comes after the null queue, and so after all others."""
    later = device.queue()
    later.record()
    later.finish()


WAYS = {
    "finish": lambda device: device.null_queue.finish(),
    "query": lambda device: until(device.null_queue.query),
    "event waited": lambda device: device.null_queue.record().wait(),
    "event queried": lambda device: until(device.null_queue.record().query),
    "device": lambda device: device.finish(),
    "later": finish_later,
}


def until(done):
    while not done():
        pass


@pytest.mark.threads
@pytest.mark.parametrize("way", WAYS)
def test_whoever_sees_the_null_queue_done_sees_the_others_done(device, way):
    """The null queue speaks for the blocking queues, also to a thread that looks while another notes what is done."""
    null, queues = device.null_queue, [device.queue() for _ in range(QUEUES)]
    buffer = device.empty(1, "u4")
    device.finish()
    for _ in range(TURNS):
        for queue in queues:
            queue.fill(buffer, 1)
        null.fill(buffer, 2)
        found = []
        with beside(lambda epoch=null.epoch, found=found: found.append(not_empty_after(null, epoch, queues))):
            WAYS[way](device)
        assert found == [0]
