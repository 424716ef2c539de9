"""Who comes after whom: null, blocking, non-blocking and per-thread queues, in pairs and through each other.

Every program here checks its results and its driver calls against HIP's rules; see `happens_before`.
"""

import contextlib
import os

import pytest

import forebay as fb
from tests.helpers.threads import beside
from tests.observers.internals import is_listed, locked, nothing_is_listed

from .happens_before import Relation
from .program import SOURCE, launch, program_on


def test_markers_made_are_the_queues_with_new_work(checked):
    queues = [checked.queue() for _ in range(8)]
    memories = [checked.memory() for _ in queues]
    checked.queue(blocking=False)
    sink = checked.memory()
    for queue in queues:
        checked.gate(queue)
    for busy in (8, 0, 1, 5, 8, 3):
        for queue, memory in zip(queues[:busy], memories, strict=False):
            checked.step(queue, memory, 1)
        first = len(checked.calls)
        before = checked.device.stats
        checked.step(checked.null, sink, 2)
        made = checked.device.stats - before
        new = 8 if busy == 8 and made.waits_made == 8 else busy
        assert made.waits_made == new
        own = len(checked.calls.markers_of([checked.null], first))
        assert own <= 1  # of its own point before what the gates hold up
        assert made.markers_made == checked.calls.count(checked.calls.driver.MARKER, first) == new + own
        # the next one beside them waits for nothing
        first = len(checked.calls)
        checked.step(checked.null, sink, 3)
        driver = checked.calls.driver
        assert checked.calls.names(first) in ([driver.LAUNCH], [driver.ARGUMENT, driver.LAUNCH])


def test_one_marker_of_the_null_queue_for_all_blocking_queues(checked):
    queues = [checked.queue() for _ in range(8)]
    memory = checked.memory()
    checked.gate(checked.null)
    checked.step(checked.null, memory, 1)
    others = [checked.memory() for _ in queues]
    first = len(checked.calls)
    before = checked.device.stats
    for queue, other in zip(queues, others, strict=True):
        checked.step(queue, other, 1)
        checked.step(queue, other, 2)
    made = checked.device.stats - before
    assert (made.markers_made, made.markers_shared, made.waits_made) == (1, 7, 8)
    assert checked.calls.count(checked.calls.driver.MARKER, first) == 1


def test_the_null_queue_speaks_for_blocking_queues_it_was_never_used_beside(kernels):
    """HIP's own tests ask for it: nothing was ever submitted to the null queue of this device."""
    with fb.Device(private=True) as fresh, program_on(fresh, fresh.program(SOURCE)) as program:
        queue, free = program.queue(), program.queue(blocking=False)
        memory = program.memory()
        program.gate(free)
        gate = program.gate(queue)
        program.step(queue, memory, 1)
        assert (program.null.epoch, program.null.empty) == (0, True)
        assert not program.query(program.null)
        with pytest.raises(fb.TimeoutError):
            program.null.finish(timeout=0.02)
        program.open(gate)
        program.finish(program.null)
        assert queue.empty
        assert not program.query(free)


def test_a_query_of_the_null_queue_orders_nothing(checked):
    free, blocking = checked.queue(blocking=False), checked.queue()
    checked.gate(free)
    checked.wait(blocking, free)
    epoch = checked.null.epoch
    assert not checked.query(checked.null)
    assert checked.null.epoch == epoch
    assert not checked.wait(checked.null, free)


def test_finishing_the_null_queue_finishes_the_blocking_ones(checked):
    queues = [checked.queue() for _ in range(5)]
    memories = [checked.memory() for _ in queues]
    for queue, memory in zip(queues, memories, strict=True):
        checked.step(queue, memory, 1)
    first, before = len(checked.calls), checked.null.stats
    checked.finish(checked.null)
    kinds = checked.calls.kinds(first)
    assert (checked.null.stats - before).host_syncs == 1
    assert kinds["finish"] + kinds["wait"] in (1, 1 + checked.calls.driver.POLLS)  # a look may find work outstanding
    assert all(queue.empty for queue in queues)
    first = len(checked.calls)
    checked.finish(checked.null)
    printed = "cuStreamSynchronize"  # after any wait where a program of this process prints: docs/cuda.md
    assert not set(checked.calls.names(first)) - {printed}


def are_ordered(calls, first, second):
    """Whether the last commands of two queues are, one way or the other."""
    relation = Relation(calls.log, calls.kind)
    a, b = (relation.commands(calls.handle_of(queue))[-1] for queue in (first, second))
    return relation.comes_after(a, b) or relation.comes_after(b, a)


@pytest.mark.threads
def test_a_queue_that_gets_work_while_the_null_queue_gathers_is_ordered_against_it(device, kernels, calls, hold):
    """The null queue's command has looked which queues have work, and is not submitted yet."""
    null, listed, queue = device.null_queue, device.queue(), device.queue()
    buffers = [device.zeros(64, "u4") for _ in range(2)]
    for each in (null, queue):  # with a plan and known to be done, it asks nobody before it enters the list
        each.launch(kernels["advance"], 4, 16, buffers[0], 1)
    device.finish()
    null.launch(kernels["advance"], 4, 16, buffers[0], 1)
    device.finish()
    hold(listed)
    with contextlib.ExitStack() as threads, locked(listed):  # where the null queue's command stops
        threads.enter_context(beside(lambda: launch(null, kernels, buffers[0], 2)))
        while not nothing_is_listed(null):
            os.sched_yield()
        threads.enter_context(beside(lambda: launch(queue, kernels, buffers[1], 2)))
        while not is_listed(queue):
            os.sched_yield()
    assert are_ordered(calls, null, queue)


@pytest.mark.threads
@pytest.mark.needs("OpenCL")  # whose observer can stop a call
def test_a_command_of_the_null_queue_that_comes_while_a_queue_gathers_is_ordered_against_it(
    device, kernels, calls, hold
):
    """The queue's command has asked how far the null queue is, and is not in the list yet."""
    null, queue = device.null_queue, device.queue()
    buffers = [device.zeros(64, "u4") for _ in range(2)]
    device.finish()
    queue.launch(kernels["advance"], 4, 16, buffers[1], 1)
    hold(null)
    calls.driver.pause(calls.driver.MARKER)
    with beside(lambda: launch(queue, kernels, buffers[1], 2)):
        calls.driver.wait_until_paused()  # in a marker of the null queue
        with locked(queue):
            calls.driver.go_on()
            null.launch(kernels["advance"], 4, 16, buffers[0], 1)
    assert are_ordered(calls, null, queue)
