"""Waits: which are made, which are dropped, and who carries them."""

from collections import Counter

import numpy as np
import pytest

import forebay as ps

from .program import SOURCE, holds


def launches_only(calls, first):
    return calls.kinds(first) - Counter(argument=1) == {"command": 1} and calls.count(calls.driver.LAUNCH, first) == 1


def state_of(queue):
    return queue.epoch, queue.completed, queue.empty


@pytest.fixture
def held(program):
    """A non-blocking queue with a gate and one command behind it."""
    queue = program.queue(blocking=False)
    memory = program.memory()
    program.gate(queue)
    program.step(queue, memory, 1)
    return queue, memory


def test_a_marker_is_shared_by_all_who_wait(program, held):
    producer, _ = held
    others = [program.queue(blocking=False) for _ in range(4)]
    memories = [program.memory() for _ in others]
    first = len(program.calls)
    points = [program.record(producer) for _ in range(3)]
    for other, point in zip(others, [*points, producer], strict=True):
        program.wait(other, point)
    for other, memory in zip(others, memories, strict=True):
        program.step(other, memory, 1)
    assert program.calls.count(program.calls.driver.MARKER, first) == 1
    assert (producer.stats.markers_made, producer.stats.markers_shared) == (1, 3)
    waited = [call.waits for call in program.calls.since(first) if call.name == program.calls.driver.LAUNCH]
    assert len(set(waited)) == 1
    assert len(waited) == 4


def test_a_new_marker_only_after_new_work(program, held):
    producer, memory = held
    program.record(producer)
    program.query(producer)
    program.record(producer)
    assert producer.stats.markers_made == 1
    program.step(producer, memory, 2)
    program.record(producer)
    assert producer.stats.markers_made == 2


def test_a_wait_for_what_was_never_recorded_calls_nothing(program):
    event = program.device.event()
    queue = program.queue()
    before, stats = len(program.calls), queue.stats
    for each in (queue, program.null):
        each.wait(event)
        assert program.calls.names(before) == []
    assert queue.stats == stats
    assert queue.epoch == 0


def test_a_wait_for_done_work_changes_nothing(program):
    producer, queue = program.queue(blocking=False), program.queue()
    memory = program.memory()
    program.step(producer, memory, 1)
    point = program.record(producer)
    program.finish(producer)
    for consumer in (queue, program.null):
        before, state, stats = len(program.calls), state_of(consumer), consumer.stats
        assert program.wait(consumer, point)
        assert program.calls.names(before) == []
        assert state_of(consumer) == state
        changed = {k: v for k, v in vars(consumer.stats - stats).items() if v}
        assert changed == {"waits_elided_completed": 1}
    program.step(queue, memory, 2)
    assert queue.stats.waits_made == 0
    # it did not enter the list either: the null queue has only the launch to wait for
    program.gate(queue)
    before = program.null.stats
    program.step(program.null, memory, 3)
    assert (program.null.stats - before).waits_made == 1


def test_a_dropped_wait_does_not_enter_the_list(program):
    producer, queue = program.queue(blocking=False), program.queue()
    memory, other = program.memory(), program.memory()
    program.step(producer, memory, 1)
    point = program.record(producer)
    program.finish(producer)
    program.wait(queue, point)
    before = program.null.stats
    program.step(program.null, other, 1)
    changed = program.null.stats - before
    assert (changed.waits_made, changed.waits_elided) == (0, 0)


def test_a_wait_for_what_it_is_ordered_after_changes_nothing(program, held):
    producer, memory = held
    queue = program.queue(blocking=False)
    point = program.record(producer)
    program.wait(queue, point)
    program.step(queue, memory, 2)
    before, state, stats = len(program.calls), state_of(queue), queue.stats
    for _ in range(3):
        assert program.wait(queue, point)
    assert program.calls.names(before) == []
    assert state_of(queue) == state
    assert {k: v for k, v in vars(queue.stats - stats).items() if v} == {"waits_elided_ordered": 3}
    program.step(queue, memory, 3)
    assert launches_only(program.calls, before)


def test_a_wait_for_itself_changes_nothing(program, held):
    producer, _ = held
    point = program.record(producer)
    state = state_of(producer)
    program.wait(producer, producer)
    assert program.wait(producer, point)
    assert state_of(producer) == state
    assert producer.stats.waits_elided_ordered == 1


def test_a_wait_is_dropped_through_another_queue(program, held):
    producer, memory = held
    middle, last = program.queue(blocking=False), program.queue(blocking=False)
    point = program.record(producer)
    program.wait(middle, point)
    program.step(middle, memory, 2)
    program.wait(last, middle)
    assert program.wait(last, point)  # through the middle, though no command has carried that wait yet
    program.step(last, memory, 3)
    assert last.stats.waits_made == 1
    assert last.stats.waits_elided_ordered == 1


def test_a_wait_covers_what_the_producer_was_ordered_after_when_the_marker_was_made_and_no_more(program, held):
    producer, memory = held
    middle, last = program.queue(blocking=False), program.queue(blocking=False)
    early = program.record(middle)  # nothing yet
    other = program.memory()
    program.gate(middle)
    program.step(middle, other, 1)
    point = program.record(middle)
    program.wait(middle, producer)
    program.step(middle, memory, 2)
    program.wait(last, point)  # before the middle waited
    assert program.wait(last, early)
    assert not program.wait(last, producer)
    program.step(last, other, 2)
    assert last.stats.waits_made == 2


def test_a_wait_for_an_early_point_is_none_for_what_came_later(program, held):
    producer, memory = held
    queue, other = program.queue(blocking=False), program.memory()
    early = program.record(producer)
    program.step(producer, other, 5)
    late = program.record(producer)
    program.wait(queue, early)
    program.step(queue, memory, 2)
    with pytest.raises(ValueError, match="may still use"):
        program.step(queue, other, 3)
    assert not program.wait(queue, late)
    program.step(queue, other, 3)
    assert queue.stats.waits_made == 2


def test_the_later_epoch_of_two_is_what_it_is_ordered_after(program, held):
    """Told by the producer itself and, of an earlier point, by another queue; in both orders."""
    producer, memory = held
    middle, first, second = (program.queue(blocking=False) for _ in range(3))
    program.wait(middle, producer)
    program.step(middle, memory, 2)
    other = program.memory()
    program.step(producer, other, 5)
    late = program.record(producer)
    for queue, order in ((first, (late, middle)), (second, (middle, late))):
        for each in order:
            program.wait(queue, each)
        assert queue._clock == {producer.id: producer.epoch, middle.id: middle.epoch}
        epoch = queue.epoch
        assert program.wait(queue, late)
        assert queue.epoch == epoch
        program.step(queue, program.memory(), 3)


def test_a_clock_takes_the_later_epoch_from_another_queue_and_keeps_its_own(program, held):
    producer, memory = held
    queue, middle, other = (program.queue(blocking=False) for _ in range(3))
    program.gate(other)
    program.wait(queue, producer)
    early = queue._clock
    program.wait(queue, other)
    program.step(producer, memory, 2)
    late = program.record(producer)
    program.wait(middle, late)
    program.wait(queue, middle)
    assert early == {producer.id: producer.epoch - 1}
    assert queue._clock == {producer.id: producer.epoch, other.id: 1, middle.id: 1}
    assert program.wait(queue, late)
    program.step(queue, memory, 3)


def test_clocks_name_only_what_is_not_known_to_be_done(program, held):
    producer, _ = held
    others = [program.queue(blocking=False) for _ in range(3)]
    queue, last = program.queue(blocking=False), program.queue(blocking=False)
    for other in others:
        program.step(other, program.memory(), 1)
        program.wait(queue, other)
    assert queue._clock == {other.id: 1 for other in others}
    for other in others:
        program.finish(other)
    program.wait(queue, producer)
    assert queue._clock == {producer.id: producer.epoch}
    program.wait(last, queue)
    assert last._clock == {producer.id: producer.epoch, queue.id: queue.epoch}
    program.finish_device()
    assert not program.gates
    program.gate(producer)
    program.wait(last, producer)
    assert last._clock == {producer.id: producer.epoch}


def test_clocks_that_are_shared_do_not_change(program, held):
    """Two queues wait for one marker, then for others: each has its own clock from there on."""
    producer, _ = held
    first, second, third = (program.queue(blocking=False) for _ in range(3))
    more = [program.queue(blocking=False) for _ in range(2)]
    for each in more:
        program.gate(each)
    point = program.record(producer)
    shared = {producer.id: producer.epoch}
    program.wait(first, point)
    program.wait(second, point)
    assert first._clock == second._clock == shared
    program.wait(first, more[0])
    assert (first._clock, second._clock) == (shared | {more[0].id: 1}, shared)
    program.wait(third, first)
    before = third._clock
    program.wait(first, more[1])
    program.gate(producer)
    program.wait(first, producer)
    assert third._clock == before
    program.wait(second, point)
    assert second._clock == shared


def test_a_null_command_is_ordered_after_what_those_it_gathered_waited_for(program):
    first, second = (program.queue(blocking=False) for _ in range(2))
    a, b, c = (program.queue() for _ in range(3))
    for queue in (first, second):
        program.gate(queue)
    program.wait(program.null, first)
    program.wait(c, second)
    program.wait(b, first)
    program.wait(a, first)  # listed last, so gathered first; the next has nothing new in its clock, and the last has
    program.step(program.null, program.memory(), 1)
    assert program.null._clock.keys() >= {first.id, second.id, a.id, b.id, c.id}


def test_a_null_command_is_ordered_after_all_it_gathered(program):
    queues = [program.queue() for _ in range(5)]
    for queue in queues:
        program.gate(queue)
    memory = program.memory()
    program.step(program.null, memory, 1)
    assert program.null._clock == {queue.id: queue.epoch for queue in queues}
    for queue in queues:
        program.step(queue, program.memory(), 1)
    null = {program.null.id: program.null.epoch}
    for queue in queues:
        assert queue._clock == null | {other.id: 1 for other in queues}
    program.step(program.null, memory, 2)
    assert program.null._clock | null == null | {queue.id: 2 for queue in queues}


def test_a_later_epoch_of_an_ordered_queue_is_waited_for(program, held):
    producer, memory = held
    queue = program.queue(blocking=False)
    program.wait(queue, producer)
    program.step(queue, memory, 2)
    other = program.memory()
    program.step(producer, other, 5)
    assert not program.wait(queue, producer)
    program.mix(queue, memory, other, 3)
    assert queue.stats.waits_made == 2


def test_completion_travels_along_clocks(program):
    """Three queues in a row; the host asks about the last only, and knows about all."""
    queues = [program.queue(blocking=False) for _ in range(3)]
    memory = program.memory()
    for i, queue in enumerate(queues):
        if i:
            program.wait(queue, queues[i - 1])
        program.step(queue, memory, i)
    outsider = program.queue(blocking=False)
    other = program.memory()
    program.step(outsider, other, 1)
    first = len(program.calls)
    program.finish(queues[2])
    assert [queue.empty for queue in queues] == [True] * 3
    assert not outsider.empty
    assert program.calls.kinds(first)["finish"] == 1
    first = len(program.calls)
    for queue in queues:
        program.finish(queue)
        assert program.query(queue)
    assert program.wait(outsider, queues[0])
    assert program.calls.names(first) == []
    assert outsider.stats.waits_elided_completed == 1


@pytest.mark.parametrize("timing", [False, True])
def test_a_record_that_had_to_wait_passes_on_what_it_waited_for(device, kernels, calls, hold, timing):
    """Its marker is a command of the null queue, with waits of its own."""
    with ps.Device(timing=True) as fresh:
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


def test_completion_travels_from_an_event_and_from_a_query(program):
    memory = program.memory()
    for how in ("wait", "done", "query", "device"):
        first, second = program.queue(blocking=False), program.queue(blocking=False)
        program.step(first, memory, 1)
        program.wait(second, first)
        program.step(second, memory, 2)
        point = program.record(second)
        if how == "wait":
            program.finish_point(point)
        elif how == "device":
            program.finish_device()
        else:
            while not (program.query_point(point) if how == "done" else program.query(second)):
                pass
        assert first.empty
        assert first.completed == first.epoch


def test_completion_stops_where_the_marker_was(program):
    queue = program.queue(blocking=False)
    memory = program.memory()
    program.step(queue, memory, 1)
    point = program.record(queue)
    program.gate(queue)
    program.step(queue, memory, 2)
    point.event.wait()
    assert queue.completed == 1
    assert not queue.empty
    assert not program.query(queue)


@pytest.mark.parametrize("carrier", ["launch", "copy", "marker", "query", "finish", "device", "close", "gate", "host"])
def test_a_wait_that_is_not_dropped_is_a_command_and_is_submitted(program, held, carrier):
    producer, memory = held
    queue = program.queue(blocking=False)
    before = len(program.calls)
    point = program.record(producer)
    (event,) = {call.event for call in program.calls.since(before) if program.calls.kind(call) == "marker"}
    other = program.memory()
    first = len(program.calls)
    assert not program.wait(queue, point)
    assert queue.epoch == 1
    assert not queue.empty
    assert program.calls.names(first) == []  # nothing has carried it
    if carrier == "launch":
        program.step(queue, other, 1)
    elif carrier == "copy":
        program.upload(queue, other, 1)
    elif carrier == "marker":
        program.record(queue)
    elif carrier == "query":
        assert not program.query(queue)
    elif carrier == "gate":
        program.gate(queue)
    elif carrier == "host":
        program.host(queue)
    elif carrier == "close":
        program.close(queue)
    elif carrier == "finish":
        program.finish(queue)  # which opens the gate first
        assert queue.empty
        assert producer.empty
    else:
        program.finish_device()
        assert queue.empty
    carried = [call for call in program.calls.since(first) if event in call.waits
               and call.object == program.calls.handle_of(queue)]  # fmt: skip
    assert len(carried) == 1
    if carrier != "finish":
        program.finish_device()
    # only once
    before = len(program.calls)
    if carrier != "close":
        program.step(queue, other, 2)
        assert not [call for call in program.calls.since(before) if call.waits]
        del memory


def test_waits_that_wait_are_carried_together(program):
    queue = program.queue(blocking=False)
    memory = program.memory()
    producers = [program.queue(blocking=False) for _ in range(5)]
    for producer in producers:
        program.gate(producer)
        program.wait(queue, producer)
    assert queue.epoch == 5
    first = len(program.calls)
    program.step(queue, memory, 1)
    (launch,) = (call for call in program.calls.since(first) if call.name == program.calls.driver.LAUNCH)
    assert len(launch.waits) == 5


def test_null_waits_for_a_queue_whose_only_command_is_a_wait(program, held):
    producer, memory = held
    queue = program.queue()
    program.wait(queue, producer)
    program.step(program.null, memory, 2)  # race-free only through that wait
    assert (program.null.stats.waits_made) >= 1


def test_an_event_recorded_again_leaves_earlier_waiters_alone(program):
    first, second = program.queue(blocking=False), program.queue(blocking=False)
    early, late = program.queue(blocking=False), program.queue(blocking=False)
    a, b = program.memory(), program.memory()
    program.gate(first)
    gate = program.gate(second)
    program.step(first, a, 1)
    program.step(second, b, 1)
    point = program.record(first)
    program.wait(early, point)
    program.record(second, point)
    program.wait(late, point)
    program.step(early, a, 2)
    program.step(late, b, 2)
    program.open(gate)
    program.finish(late)
    assert not program.query(early)
    assert program.query_point(point)
    with pytest.raises(ValueError, match="may still use"):
        program.step(late, a, 3)


def test_an_event_recorded_again_on_its_own_queue(program):
    queue, waiter = program.queue(blocking=False), program.queue(blocking=False)
    memory, other = program.memory(), program.memory()
    program.step(queue, memory, 1)
    point = program.record(queue)
    program.wait(waiter, point)
    program.step(waiter, other, 1)
    program.gate(queue)
    program.record(queue, point)
    program.finish(waiter)
    assert not program.query_point(point)


def test_events_of_queues_in_a_ring(program):
    """Each waits for its neighbour's record, none for ever."""
    queues = [program.queue(blocking=False) for _ in range(4)]
    memories = [program.memory(i) for i in range(4)]
    for turn in range(5):
        points = [program.record(queue) for queue in queues]
        for i, queue in enumerate(queues):
            program.wait(queue, points[(i + 1) % 4])
        for i, queue in enumerate(queues):
            program.step(queue, memories[(i + turn) % 4], turn)
    program.finish_device()
    assert all(queue.empty for queue in queues)


def test_what_was_recorded_on_an_empty_queue_is_done(program):
    queue, other = program.queue(), program.queue(blocking=False)
    first = len(program.calls)
    point = program.record(queue)
    assert program.query_point(point)
    assert program.wait(other, point)
    point.event.wait()
    assert program.calls.names(first) == []


def test_results_and_not_only_calls(device, kernels, hold):
    """A longer chain across queues of all kinds, unobserved, held back by a gate, and compared with NumPy."""
    queues = [device.null_queue, device.queue(), device.queue(blocking=False), device.per_thread_queue]
    buffer = device.array(np.arange(16, dtype="u4"))
    device.finish()
    expected = np.arange(16, dtype="u4")
    previous = queues[0]
    gate = hold(previous)
    for k in range(400):
        queue = queues[(k * 7 + k // 5) % 4]
        queue.wait(previous)
        queue.launch(kernels["advance"], 1, 16, buffer, k)
        expected = expected * np.uint32(3) + np.uint32(k)
        previous = queue
    gate.open()
    device.finish()
    assert holds(buffer, expected)
