"""Waits: which are made, which are dropped, and who carries them."""

from collections import Counter

import numpy as np
import pytest

import forebay as fb
from tests.inside import clock_of

from .program import SOURCE


def launches_only(calls, first):
    return calls.kinds(first) - Counter(argument=1) == {"command": 1} and calls.count(calls.driver.LAUNCH, first) == 1


def state_of(queue):
    return queue.epoch, queue.completed, queue.empty


@pytest.fixture
def held(checked):
    """A non-blocking queue with a gate and one command behind it."""
    queue = checked.queue(blocking=False)
    memory = checked.memory()
    checked.gate(queue)
    checked.step(queue, memory, 1)
    return queue, memory


def test_a_marker_is_shared_by_all_who_wait(checked, held):
    producer, _ = held
    others = [checked.queue(blocking=False) for _ in range(4)]
    memories = [checked.memory() for _ in others]
    first = len(checked.calls)
    points = [checked.record(producer) for _ in range(3)]
    for other, point in zip(others, [*points, producer], strict=True):
        checked.wait(other, point)
    for other, memory in zip(others, memories, strict=True):
        checked.step(other, memory, 1)
    assert checked.calls.count(checked.calls.driver.MARKER, first) == 1
    assert (producer.stats.markers_made, producer.stats.markers_shared) == (1, 3)
    waited = [call.waits for call in checked.calls.since(first) if call.name == checked.calls.driver.LAUNCH]
    assert len(set(waited)) == 1
    assert len(waited) == 4


def test_a_new_marker_only_after_new_work(checked, held):
    producer, memory = held
    checked.record(producer)
    checked.query(producer)
    checked.record(producer)
    assert producer.stats.markers_made == 1
    checked.step(producer, memory, 2)
    checked.record(producer)
    assert producer.stats.markers_made == 2


def test_a_wait_for_what_was_never_recorded_calls_nothing(checked):
    event = checked.device.event()
    queue = checked.queue()
    before, stats = len(checked.calls), queue.stats
    for each in (queue, checked.null):
        each.wait(event)
        assert checked.calls.names(before) == []
    assert queue.stats == stats
    assert queue.epoch == 0


def test_a_wait_for_done_work_changes_nothing(checked):
    producer, queue = checked.queue(blocking=False), checked.queue()
    memory = checked.memory()
    checked.step(producer, memory, 1)
    point = checked.record(producer)
    checked.finish(producer)
    for consumer in (queue, checked.null):
        before, state, stats = len(checked.calls), state_of(consumer), consumer.stats
        assert checked.wait(consumer, point)
        assert checked.calls.names(before) == []
        assert state_of(consumer) == state
        changed = {k: v for k, v in vars(consumer.stats - stats).items() if v}
        assert changed == {"waits_elided_completed": 1}
    checked.step(queue, memory, 2)
    assert queue.stats.waits_made == 0
    # it did not enter the list either: the null queue has only the launch to wait for
    checked.gate(queue)
    before = checked.null.stats
    checked.step(checked.null, memory, 3)
    assert (checked.null.stats - before).waits_made == 1


def test_a_wait_for_what_it_is_ordered_after_changes_nothing(checked, held):
    producer, memory = held
    queue = checked.queue(blocking=False)
    point = checked.record(producer)
    checked.wait(queue, point)
    checked.step(queue, memory, 2)
    before, state, stats = len(checked.calls), state_of(queue), queue.stats
    for _ in range(3):
        assert checked.wait(queue, point)
    assert checked.calls.names(before) == []
    assert state_of(queue) == state
    assert {k: v for k, v in vars(queue.stats - stats).items() if v} == {"waits_elided_ordered": 3}
    checked.step(queue, memory, 3)
    assert launches_only(checked.calls, before)


def test_a_wait_for_itself_changes_nothing(checked, held):
    producer, _ = held
    point = checked.record(producer)
    state = state_of(producer)
    checked.wait(producer, producer)
    assert checked.wait(producer, point)
    assert state_of(producer) == state
    assert producer.stats.waits_elided_ordered == 1


def test_a_wait_is_dropped_through_another_queue(checked, held):
    producer, memory = held
    middle, last = checked.queue(blocking=False), checked.queue(blocking=False)
    point = checked.record(producer)
    checked.wait(middle, point)
    checked.step(middle, memory, 2)
    checked.wait(last, middle)
    assert checked.wait(last, point)  # through the middle, though no command has carried that wait yet
    checked.step(last, memory, 3)
    assert last.stats.waits_made == 1
    assert last.stats.waits_elided_ordered == 1


def test_a_wait_covers_what_the_producer_was_ordered_after_when_the_marker_was_made_and_no_more(checked, held):
    producer, memory = held
    middle, last = checked.queue(blocking=False), checked.queue(blocking=False)
    early = checked.record(middle)  # nothing yet
    other = checked.memory()
    checked.gate(middle)
    checked.step(middle, other, 1)
    point = checked.record(middle)
    checked.wait(middle, producer)
    checked.step(middle, memory, 2)
    checked.wait(last, point)  # before the middle waited
    assert checked.wait(last, early)
    assert not checked.wait(last, producer)
    checked.step(last, other, 2)
    assert last.stats.waits_made == 2


def test_the_later_epoch_of_two_is_what_it_is_ordered_after(checked, held):
    """Told by the producer itself and, of an earlier point, by another queue; in both orders."""
    producer, memory = held
    middle, first, second = (checked.queue(blocking=False) for _ in range(3))
    checked.wait(middle, producer)
    checked.step(middle, memory, 2)
    other = checked.memory()
    checked.step(producer, other, 5)
    late = checked.record(producer)
    for queue, order in ((first, (late, middle)), (second, (middle, late))):
        for each in order:
            checked.wait(queue, each)
        assert clock_of(queue) == {producer.id: producer.epoch, middle.id: middle.epoch}
        epoch = queue.epoch
        assert checked.wait(queue, late)
        assert queue.epoch == epoch
        checked.step(queue, checked.memory(), 3)


def test_a_clock_takes_the_later_epoch_from_another_queue_and_keeps_its_own(checked, held):
    producer, memory = held
    queue, middle, other = (checked.queue(blocking=False) for _ in range(3))
    checked.gate(other)
    checked.wait(queue, producer)
    early = clock_of(queue)
    checked.wait(queue, other)
    checked.step(producer, memory, 2)
    late = checked.record(producer)
    checked.wait(middle, late)
    checked.wait(queue, middle)
    assert early == {producer.id: producer.epoch - 1}
    assert clock_of(queue) == {producer.id: producer.epoch, other.id: 1, middle.id: 1}
    assert checked.wait(queue, late)
    checked.step(queue, memory, 3)


def test_clocks_name_only_what_is_not_known_to_be_done(checked, held):
    producer, _ = held
    others = [checked.queue(blocking=False) for _ in range(3)]
    queue, last = checked.queue(blocking=False), checked.queue(blocking=False)
    for other in others:
        checked.step(other, checked.memory(), 1)
        checked.wait(queue, other)
    assert clock_of(queue) == {other.id: 1 for other in others}
    for other in others:
        checked.finish(other)
    checked.wait(queue, producer)
    assert clock_of(queue) == {producer.id: producer.epoch}
    checked.wait(last, queue)
    assert clock_of(last) == {producer.id: producer.epoch, queue.id: queue.epoch}
    checked.finish_device()
    assert not checked.gates
    checked.gate(producer)
    checked.wait(last, producer)
    assert clock_of(last) == {producer.id: producer.epoch}


def test_clocks_that_are_shared_do_not_change(checked, held):
    """Two queues wait for one marker, then for others: each has its own clock from there on."""
    producer, _ = held
    first, second, third = (checked.queue(blocking=False) for _ in range(3))
    more = [checked.queue(blocking=False) for _ in range(2)]
    for each in more:
        checked.gate(each)
    point = checked.record(producer)
    shared = {producer.id: producer.epoch}
    checked.wait(first, point)
    checked.wait(second, point)
    assert clock_of(first) == clock_of(second) == shared
    checked.wait(first, more[0])
    assert (clock_of(first), clock_of(second)) == (shared | {more[0].id: 1}, shared)
    checked.wait(third, first)
    before = clock_of(third)
    checked.wait(first, more[1])
    checked.gate(producer)
    checked.wait(first, producer)
    assert clock_of(third) == before
    checked.wait(second, point)
    assert clock_of(second) == shared


def test_a_null_command_is_ordered_after_what_those_it_gathered_waited_for(checked):
    first, second = (checked.queue(blocking=False) for _ in range(2))
    a, b, c = (checked.queue() for _ in range(3))
    for queue in (first, second):
        checked.gate(queue)
    checked.wait(checked.null, first)
    checked.wait(c, second)
    checked.wait(b, first)
    checked.wait(a, first)  # listed last, so gathered first; the next has nothing new in its clock, and the last has
    checked.step(checked.null, checked.memory(), 1)
    assert clock_of(checked.null).keys() >= {first.id, second.id, a.id, b.id, c.id}


def test_a_null_command_is_ordered_after_all_it_gathered(checked):
    queues = [checked.queue() for _ in range(5)]
    for queue in queues:
        checked.gate(queue)
    memory = checked.memory()
    checked.step(checked.null, memory, 1)
    assert clock_of(checked.null) == {queue.id: queue.epoch for queue in queues}
    for queue in queues:
        checked.step(queue, checked.memory(), 1)
    null = {checked.null.id: checked.null.epoch}
    for queue in queues:
        assert clock_of(queue) == null | {other.id: 1 for other in queues}
    checked.step(checked.null, memory, 2)
    assert clock_of(checked.null) | null == null | {queue.id: 2 for queue in queues}


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


@pytest.mark.parametrize("carrier", ["query", "finish", "device", "close"])
def test_a_wait_that_is_not_dropped_is_submitted_by_what_asks_for_the_queue(checked, held, carrier):
    """`tests.themes` has the commands that carry it."""
    producer, _ = held
    queue = checked.queue(blocking=False)
    before = len(checked.calls)
    point = checked.record(producer)
    (event,) = {call.event for call in checked.calls.since(before) if checked.calls.kind(call) == "marker"}
    first = len(checked.calls)
    assert not checked.wait(queue, point)
    assert queue.epoch == 1
    assert not queue.empty
    assert checked.calls.names(first) == []  # nothing has carried it
    if carrier == "query":
        assert not checked.query(queue)
    elif carrier == "close":
        checked.close(queue)
    else:
        checked.finish(queue) if carrier == "finish" else checked.finish_device()
        assert queue.empty
        assert producer.empty
    handle = checked.calls.handle_of(queue)
    assert sum(event in call.waits and call.object == handle for call in checked.calls.since(first)) == 1


def test_an_event_recorded_again_leaves_earlier_waiters_alone(checked):
    first, second = checked.queue(blocking=False), checked.queue(blocking=False)
    early, late = checked.queue(blocking=False), checked.queue(blocking=False)
    a, b = checked.memory(), checked.memory()
    checked.gate(first)
    gate = checked.gate(second)
    checked.step(first, a, 1)
    checked.step(second, b, 1)
    point = checked.record(first)
    checked.wait(early, point)
    checked.record(second, point)
    checked.wait(late, point)
    checked.step(early, a, 2)
    checked.step(late, b, 2)
    checked.open(gate)
    checked.finish(late)
    assert not checked.query(early)
    assert checked.query_point(point)
    with pytest.raises(ValueError, match="may still use"):
        checked.step(late, a, 3)


def test_an_event_recorded_again_on_its_own_queue(checked):
    queue, waiter = checked.queue(blocking=False), checked.queue(blocking=False)
    memory, other = checked.memory(), checked.memory()
    checked.step(queue, memory, 1)
    point = checked.record(queue)
    checked.wait(waiter, point)
    checked.step(waiter, other, 1)
    checked.gate(queue)
    checked.record(queue, point)
    checked.finish(waiter)
    assert not checked.query_point(point)


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
