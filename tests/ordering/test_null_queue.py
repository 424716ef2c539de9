"""Who comes after whom: null, blocking, non-blocking and per-thread queues, in pairs and through each other.

Every program here checks its results and its driver calls against HIP's rules; see `happens_before`.
"""

import threading

import pytest

import forebay as ps

from .program import SOURCE, program_on

KINDS = ("null", "blocking", "non-blocking", "per-thread")


def queue_of(program, kind):
    if kind == "null":
        return program.null
    if kind == "per-thread":
        return program.adopt(program.device.per_thread_queue)
    return program.queue(blocking=kind == "blocking")


def implicitly_ordered(first, second):
    return "null" in (first, second) and "non-blocking" not in (first, second)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_each_pair(program, first, second):
    producer, consumer = queue_of(program, first), queue_of(program, second)
    memory, other = program.memory(), program.memory()
    program.gate(producer)
    program.step(producer, memory, 1)
    before = len(program.calls)
    waits = consumer.stats.waits_made
    if producer is consumer or implicitly_ordered(first, second):
        program.step(consumer, memory, 2)  # would be refused if the rules did not order it
        assert consumer.stats.waits_made - waits == (producer is not consumer)
    else:
        program.step(consumer, other, 2)
        assert program.calls.kinds(before).keys() <= {"command", "argument", "other"}
        program.finish(consumer)  # while the other is held
        assert program.gates
    assert not producer.query()


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_there_and_back(program, first, second):
    """One queue's work, then the other's, then again, each ordered by a wait where no rule does it."""
    a, b = queue_of(program, first), queue_of(program, second)
    memory = program.memory()
    program.gate(a)
    for k in range(6):
        queue = (a, b)[k % 2]
        if k and a is not b and not implicitly_ordered(first, second):
            program.wait(queue, (a, b)[(k + 1) % 2])
        program.step(queue, memory, k)


def test_a_wait_counts_where_no_rule_orders(program):
    a, b = program.queue(blocking=False), program.queue()
    memory = program.memory()
    program.gate(a)
    program.step(a, memory, 1)
    with pytest.raises(ValueError, match="may still use"):
        program.step(b, memory, 2)
    program.wait(b, a)
    program.step(b, memory, 2)


@pytest.mark.parametrize("what", ["step", "copy", "upload", "fill", "host", "record", "wait", "gate"])
def test_every_command_of_the_null_queue_comes_after_blocking_work(program, what):
    queue, other, third = program.queue(), program.queue(), program.queue(blocking=False)
    memory, source = program.memory(), program.memory(3)
    program.gate(queue)
    program.step(queue, memory, 1)
    if what == "step":
        program.step(program.null, memory, 2)
    elif what == "copy":
        program.copy(program.null, memory, source)
    elif what == "upload":
        program.upload(program.null, memory, 9)
    elif what == "fill":
        program.fill(program.null, memory, 9)
    elif what == "host":
        program.host(program.null)
    elif what == "gate":
        program.gate(program.null)
    elif what == "record":
        program.wait(third, program.record(program.null))
        program.step(third, memory, 7)
        return
    elif what == "wait":
        program.gate(third)
        program.wait(program.null, third)
    program.step(other, memory, 3)  # after the null queue's command, and so after the first queue's
    assert program.null.stats.waits_made >= 1
    assert other.stats.waits_made == 1


@pytest.mark.parametrize("what", ["step", "copy", "upload", "fill", "host", "record", "wait", "gate"])
def test_every_command_of_a_blocking_queue_comes_after_null_work(program, what):
    queue, third = program.queue(), program.queue(blocking=False)
    memory, source = program.memory(), program.memory(3)
    program.gate(program.null)
    program.step(program.null, memory, 1)
    if what == "step":
        program.step(queue, memory, 2)
    elif what == "copy":
        program.copy(queue, memory, source)
    elif what == "upload":
        program.upload(queue, memory, 9)
    elif what == "fill":
        program.fill(queue, memory, 9)
    elif what == "host":
        program.host(queue)
    elif what == "gate":
        program.gate(queue)
    elif what == "record":
        program.wait(third, program.record(queue))
        program.step(third, memory, 7)
        return
    elif what == "wait":
        program.gate(third)
        program.wait(queue, third)
    assert queue.stats.waits_made == 1 + (what == "wait")
    program.step(queue, memory, 2)
    assert queue.stats.waits_made == 1 + (what == "wait")


def test_markers_made_are_the_queues_with_new_work(program):
    queues = [program.queue() for _ in range(8)]
    memories = [program.memory() for _ in queues]
    program.queue(blocking=False)
    sink = program.memory()
    for queue in queues:
        program.gate(queue)
    for busy in (8, 0, 1, 5, 8, 3):
        for queue, memory in zip(queues[:busy], memories, strict=False):
            program.step(queue, memory, 1)
        first = len(program.calls)
        before = program.device.stats
        program.step(program.null, sink, 2)
        made = program.device.stats - before
        new = 8 if busy == 8 and made.waits_made == 8 else busy
        assert made.markers_made == made.waits_made == new
        assert program.calls.count(program.calls.driver.MARKER, first) == new
        # the next one beside them waits for nothing
        first = len(program.calls)
        program.step(program.null, sink, 3)
        driver = program.calls.driver
        assert program.calls.names(first) in ([driver.LAUNCH], [driver.ARGUMENT, driver.LAUNCH])


def test_a_queue_that_another_one_waited_for_is_not_waited_for_as_well(program):
    first, second = program.queue(), program.queue()
    memory = program.memory()
    program.gate(first)
    program.step(first, memory, 1)
    program.wait(second, program.record(first))
    program.step(second, memory, 2)
    stats = program.null.stats
    program.step(program.null, memory, 3)
    made = program.null.stats - stats
    assert (made.waits_made, made.waits_elided_ordered) == (1, 1)


def test_one_marker_of_the_null_queue_for_all_blocking_queues(program):
    queues = [program.queue() for _ in range(8)]
    memory = program.memory()
    program.gate(program.null)
    program.step(program.null, memory, 1)
    others = [program.memory() for _ in queues]
    first = len(program.calls)
    before = program.device.stats
    for queue, other in zip(queues, others, strict=True):
        program.step(queue, other, 1)
        program.step(queue, other, 2)
    made = program.device.stats - before
    assert (made.markers_made, made.markers_shared, made.waits_made) == (1, 7, 8)
    assert program.calls.count(program.calls.driver.MARKER, first) == 1


def test_queues_already_ordered_after_are_not_waited_for_again(program):
    first, second = program.queue(), program.queue()
    a, b = program.memory(), program.memory()
    program.gate(first)
    program.step(first, a, 1)
    point = program.record(first)
    program.wait(program.null, point)
    program.step(program.null, b, 1)
    before = program.null.stats
    program.step(program.null, b, 2)
    assert (program.null.stats - before).waits_made == 0
    program.step(second, b, 3)  # after null, which is after first
    assert program.wait(second, point)  # nothing new
    assert second.stats.waits_elided_ordered == 1
    program.step(second, a, 4)


def test_through_the_null_queue(program):
    """A wait on the null queue is a command: blocking work after it comes after other blocking queues' too."""
    first, second, free = program.queue(), program.queue(), program.queue(blocking=False)
    memory, other = program.memory(), program.memory()
    program.gate(first)
    program.gate(free)
    program.step(first, memory, 1)
    program.step(free, other, 1)
    assert not program.wait(program.null, program.record(free))
    program.step(second, memory, 2)
    program.mix(second, memory, other, 3)
    assert second.stats.waits_made == 1


def test_a_dropped_wait_on_the_null_queue_is_no_command(program):
    first, second = program.queue(), program.queue()
    memory, other = program.memory(), program.memory()
    program.step(second, other, 1)
    point = program.record(second)
    program.finish(second)
    program.gate(first)
    program.step(first, memory, 1)
    assert program.wait(program.null, point)
    before = len(program.calls)
    program.step(second, other, 2)  # not held by the first queue's gate
    assert program.calls.count(program.calls.driver.MARKER, before) == 0
    program.finish(second)
    assert program.gates


def test_the_null_queue_speaks_for_blocking_queues_it_was_never_used_beside(kernels):
    """HIP's own tests ask for it: nothing was ever submitted to the null queue of this device."""
    with ps.Device() as fresh, program_on(fresh, fresh.program(SOURCE)) as program:
        queue, free = program.queue(), program.queue(blocking=False)
        memory = program.memory()
        program.gate(free)
        gate = program.gate(queue)
        program.step(queue, memory, 1)
        assert (program.null.epoch, program.null.empty) == (0, True)
        assert not program.query(program.null)
        with pytest.raises(ps.TimeoutError):
            program.null.finish(timeout=0.02)
        program.open(gate)
        program.finish(program.null)
        assert queue.empty
        assert not program.query(free)


def test_the_first_finish_of_the_null_queue_speaks_too():
    with ps.Device() as fresh, program_on(fresh, fresh.program(SOURCE)) as program:
        queue = program.queue()
        memory = program.memory()
        program.step(queue, memory, 1)
        assert program.null.epoch == 0
        program.finish(program.null)
        assert queue.empty


def test_waiting_for_a_queue_records_it_and_a_record_is_a_command(program):
    """So the wait below is not superfluous: the record comes after the null queue's command, which comes later."""
    first, second = program.queue(), program.queue()
    a, b = program.memory(), program.memory()
    program.gate(first)
    program.step(first, a, 1)
    program.step(program.null, b, 1)
    program.step(second, b, 2)
    epoch = first.epoch
    assert not program.wait(second, first)
    assert first.epoch == epoch + 1
    program.step(second, a, 3)


def test_finishing_a_blocking_queue_speaks_for_its_own_work_only(program):
    first, second = program.queue(), program.queue()
    a, b = program.memory(), program.memory()
    program.gate(first)
    program.step(first, a, 1)
    program.step(second, b, 1)
    program.finish(second)
    assert program.gates
    assert second.empty
    assert not first.empty
    assert not program.query(first)
    assert program.query(second)
    # what the null queue has is not the blocking queue's
    program.step(program.null, a, 2)
    assert program.query(second)
    second.finish()
    assert program.gates


def test_finishing_the_null_queue_finishes_the_blocking_ones(program):
    queues = [program.queue() for _ in range(5)]
    memories = [program.memory() for _ in queues]
    for queue, memory in zip(queues, memories, strict=True):
        program.step(queue, memory, 1)
    first = len(program.calls)
    program.finish(program.null)
    kinds = program.calls.kinds(first)
    assert kinds["finish"] + kinds["wait"] == 1
    assert all(queue.empty for queue in queues)
    first = len(program.calls)
    program.finish(program.null)
    assert program.calls.names(first) == []


def test_a_per_thread_queue_is_a_blocking_queue_of_one_thread_at_a_time(program):
    device = program.device
    own = device.per_thread_queue  # else it could be one of those that the threads give back
    seen = []

    def work():
        seen.append(device.per_thread_queue)
        assert device.per_thread_queue is seen[-1]

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen[0] is seen[1] is seen[2]  # recycled
    assert seen[0] is not own is device.per_thread_queue
    assert seen[0].blocking
    assert not seen[0].is_null
    assert not seen[0].closed
