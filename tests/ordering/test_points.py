"""Whoever waits for a point of a queue waits for nothing that comes after it and can be held up."""

import contextlib
import weakref

import pytest

import forebay as fb
from tests.helpers.threads import beside

from .happens_before import Relation
from .program import launch

SECONDS = 20  # far more than any of this takes; only a wait for too much lasts so long


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(3)]


@pytest.mark.parametrize("by", ["a gate", "a wait for another device"])
def test_a_graph_waits_for_its_last_launch_and_not_for_what_came_after(device, another, kernels, hold, queues, by):
    first, second, _ = queues
    buffer = device.zeros(64, "u4")
    device.finish()
    with first.capture() as graph:
        launch(first, kernels, buffer)
    graph.launch(first)
    if by == "a gate":
        gate = hold(first)
    else:
        theirs = another.queue(blocking=False)
        gate = hold(theirs)
        first.wait(theirs)
        launch(first, kernels, buffer)
    graph.launch(second)
    second.finish(timeout=SECONDS)
    assert not first.empty
    gate.open()
    first.finish()


@pytest.fixture
def measuring(device):
    """A kernel whose scratch is as large as the numbers in `counts` say."""
    kernel = device.program(
        "kernel void use(global uint* out, global const uint* counts, global uint* stack) { out[0] = counts[0]; }"
    )["use"]
    kernel.scratch("stack", fb.MaxOver("counts") * 4 + 4)
    return kernel


@pytest.mark.parametrize("last", ["command", "wait"])
def test_a_size_waits_for_the_last_write_and_not_for_what_came_after(device, kernels, measuring, hold, queues, last):
    writer, other, held = queues
    counts, out = device.zeros(64, "u4"), device.zeros(64, "u4")
    device.finish()
    writer.fill(counts, 3)
    if last == "command":
        hold(writer)
    else:
        hold(held)
        writer.wait(held)
        launch(writer, kernels, out)
    other.launch(measuring, 1, 1, out, counts)
    other.finish(timeout=SECONDS)
    assert not writer.empty


def test_a_size_waits_for_the_last_of_several_writes_of_each_queue(device, measuring, calls, queues):
    other, *writers = queues
    counts, out = device.empty(64, "u4"), device.empty(64, "u4")
    for i, writer in enumerate(writers):
        writer.fill(counts[32 * i : 32 * i + 32], 3)
        writer.finish()
    for i, writer in enumerate(writers):
        writer.fill(counts[32 * i : 32 * i + 32], 5)
    other.launch(measuring, 1, 1, out, counts)
    relation = Relation(calls.log, calls.kind)
    last = [relation.commands(calls.handle_of(writer))[-1] for writer in writers]
    own = relation.commands(calls.handle_of(other))
    assert own
    assert all(relation.comes_after(each, write) for each in own for write in last)


def test_a_point_behind_a_wait_for_the_null_queue_is_not_the_point_before_it(device, kernels, calls, hold, queues):
    queue, other, null = device.queue(), queues[0], device.null_queue
    buffer, mine = device.zeros(64, "u4"), device.zeros(64, "u4")
    device.finish()
    with queue.capture() as graph:
        launch(queue, kernels, buffer)
    launch(queue, kernels, mine)
    hold(null)
    graph.launch(queue)  # its wait can be held up, so the point before it was marked
    graph.launch(other)
    relation = Relation(calls.log, calls.kind)
    (first,) = relation.commands(calls.handle_of(queue))[1:]
    (second,) = relation.commands(calls.handle_of(other))
    assert relation.comes_after(second, first)


def test_a_wait_with_a_timeout_is_for_what_was_submitted_by_then(device, kernels, calls, hold, queues):
    queue = queues[0]
    buffer = device.zeros(64, "u4")
    device.finish()
    gate = hold(queue)
    launch(queue, kernels, buffer)
    first = len(calls)
    with beside(lambda: queue.finish(timeout=SECONDS)):
        while not calls.kinds(first)["query"]:  # it has begun
            pass
        later = hold(queue)
        gate.open()
    assert not queue.empty
    later.open()


@pytest.mark.parametrize("done", [True, False])
def test_pending_waits_do_not_pile_up(device, kernels, calls, hold, queues, done):
    """Whether the other queue has reached their points when the next one comes, or is held itself."""
    consumer, producer, held = queues
    buffer, other = device.zeros(64, "u4"), device.zeros(64, "u4")
    device.finish()
    hold(held)
    consumer.wait(held)
    if not done:
        hold(producer)
    for k in range(300 if done else 100):
        launch(producer, kernels, buffer, k)
        consumer.wait(producer)
        if done:
            producer.finish()
    first = len(calls)
    launch(consumer, kernels, other)
    assert sum(len(call.waits) for call in calls.since(first) if call.object == calls.handle_of(consumer)) <= 16


@pytest.mark.needs("OpenCL")
def test_marks_do_not_pile_up_on_a_queue_that_nobody_asks_about(device, kernels, calls, queues, hold):
    queue, buffer = queues[0], device.zeros(64, "u4")
    device.finish()
    for k in range(200):
        launch(queue, kernels, buffer, k)
        gate = hold(queue)
        gate.open()
        if k % 20 == 0:
            queue.native.finish()  # which forebay does not see; or the device may be far behind
    made = {call.event for call in calls.markers_of([queue])}
    assert len(made) >= 200
    assert len(made & set(calls.events_alive())) <= 60


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("ask", [lambda event: event.wait(), lambda event: event.query()], ids=["wait", "query"])
def test_a_wait_that_failed_does_not_make_the_other_queues_done(device, kernels, hold, queues, ask):
    if device.info.platform == "Portable Computing Language":
        pytest.skip("PoCL 3.1 aborts the process when a user event is set to an error (pocl_update_event_failed)")
    consumer, fails, works = queues
    buffer = device.zeros(64, "u4")
    device.finish()
    gate, other = hold(fails), hold(works)
    consumer.wait(fails)
    consumer.wait(works)
    launch(consumer, kernels, buffer)
    event = consumer.record()
    gate.open(failed=True)
    with beside(lambda: [suppressed(lambda: ask(event)) for _ in range(100)]) as (thread,):
        thread.join(1)  # it may return, or wait for the other queue too
        assert not works.empty
        other.open()
    suppressed(device.finish)  # which says that a command failed, once


def suppressed(call):
    with contextlib.suppress(fb.Error):
        call()


def test_an_event_keeps_no_queue(device):
    queue = device.queue()
    event, reference = queue.record(), weakref.ref(queue)
    del queue
    assert reference() is None
    event.wait()
