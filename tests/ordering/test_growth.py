"""What a wait copies, and what is remembered of an allocation, does not grow with the queues there have been."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.threads import beside
from tests.observers.internals import KeptClock, locked, reductions_of, uses_of

CHUNK = 32  # entries of a clock
RECENT = 8  # that are in no chunk
FEW = 16  # uses that are done, before they are looked for


@pytest.fixture
def made(device):
    """Queues, made before one is held: with this many that wait CUDA's driver may make none (docs/cuda.md)."""
    return [device.queue(blocking=False) for _ in range(9 * CHUNK + 3 * RECENT)]


def behind(made, holder, buffer, kernels, count):
    """Queues with work that waits for another one's."""
    queues = [made.pop() for _ in range(count)]
    for queue in queues:
        queue.wait(holder)
        queue.launch(kernels["advance"], 4, 16, buffer, 1)
    return queues


@pytest.fixture
def holder(made, buffer, hold):
    queue = made.pop()
    hold(queue)
    return queue


@pytest.fixture
def waiter(made, kernels, buffer, holder):
    """A queue that is ordered after many others, all at work."""
    waiter = made.pop()
    for queue in behind(made, holder, buffer, kernels, 8 * CHUNK):
        waiter.wait(queue)
    return waiter


# What a wait copies


def test_waits_copy_few_chunks_of_a_clock_that_others_have(made, kernels, buffer, holder, waiter):
    """Most waits copy none: what is new stands in the clock itself until that is full."""
    before, copied = KeptClock(waiter), []
    assert sum(before.chunks.values()) > 7 * CHUNK
    assert max(before.chunks.values()) <= CHUNK
    for queue in behind(made, holder, buffer, kernels, 3 * RECENT):
        waiter.wait(queue)
        after = KeptClock(waiter)
        copied.append(len(after.chunks.keys() - before.chunks.keys()))
        assert len(after.chunks) >= len(before.chunks) >= 8
        before = after
    assert max(copied) <= 2
    assert sum(count != 0 for count in copied) == 3


def test_who_waits_for_it_shares_the_chunks(made, holder, waiter):
    """A queue that waited for nothing before, and one that did."""
    waiter.record()
    given = KeptClock(waiter)
    fresh, other = made.pop(), made.pop()
    other.wait(holder)
    for queue in (fresh, other):
        queue.wait(waiter)
        assert len(KeptClock(queue).chunks.keys() - given.chunks.keys()) <= 2  # the holder's, and the waiter's own


def test_chunks_that_are_done_are_dropped(device, kernels, buffer):
    """Queues that come and go, each waited for, while the waiter never ends."""
    waiter = device.queue(blocking=False)
    for _ in range(10 * CHUNK):
        queue = device.queue(blocking=False)
        queue.launch(kernels["advance"], 4, 16, buffer, 1)
        event = queue.record()
        waiter.wait(event)
        waiter.launch(kernels["advance"], 4, 16, buffer, 2)
        event.wait()
        assert len(KeptClock(waiter).chunks) <= 3


# What is remembered of an allocation


def test_uses_of_many_queues_at_once_are_forgotten_when_they_are_done(device, made, kernels, buffer, hold):
    holder, other = made.pop(), device.empty(64, "u4")
    gate = hold(holder)
    queues = behind(made, holder, other, kernels, 100)
    for queue in queues:
        queue.fill(buffer, 1)
    assert uses_of(buffer)[0] >= 100  # each is still to come
    gate.open()
    device.finish()
    for _ in range(200):
        queue = device.queue(blocking=False)
        queue.fill(buffer, 1)
        queue.finish()
    assert uses_of(buffer)[0] <= FEW


def test_arguments_that_were_replaced_are_not_held(device, kernels, buffer):
    queue, others = device.queue(blocking=False), [device.empty(64, "u4") for _ in range(100)]
    for other in others:
        queue.launch(kernels["advance"], 4, 16, buffer, 1)
        queue.launch(kernels["advance"], 4, 16, other, 1)
    assert uses_of(buffer) == (2, 0)  # the null queue wrote the zeros
    assert [uses_of(other)[1] for other in others] == [0] * 99 + [1]
    queue.finish()


# What is remembered of the values of an allocation

LAST = """
kernel void last(global const int *rows, global int *to) { *to = rows[15]; }
kernel void use(global const int *rows, global uchar *stack) { stack[0] = (uchar)rows[0]; }
"""
MANY = 1024


@pytest.fixture
def last(device):
    with device.program(LAST) as program:
        program["use"].scratch("stack", fb.MaxOver("rows") + 1)
        yield program


@pytest.fixture
def use(last):
    return last["use"]


def test_sizes_are_remembered_of_the_last_values_only(device, use):
    queue, rows = device.queue(blocking=False), device.zeros(64, "i4")
    device.finish()
    for turn in range(100):
        queue.fill(rows, turn)
        for first in range(3):
            before = queue.stats.reductions
            queue.launch(use, 1, 1, rows[first:])
            queue.launch(use, 1, 1, rows[first:])
            assert queue.stats.reductions == before + 1
        assert reductions_of(rows) == 3


def test_sizes_of_many_parts_are_not_all_remembered(device, use):
    queue, rows = device.queue(blocking=False), device.zeros(MANY + 100, "i4")
    device.finish()
    for first in range(MANY + 50):
        queue.launch(use, 1, 1, rows[first:])
    assert reductions_of(rows) == 50
    before = queue.stats.reductions
    queue.launch(use, 1, 1, rows[MANY + 49 :])
    assert queue.stats.reductions == before
    queue.launch(use, 1, 1, rows)  # forgotten, so it is measured again
    assert queue.stats.reductions == before + 1


# What is kept of copies that are done

ONE = np.arange(16, dtype="i4")


def launch(queue, last, rows):
    return queue.launch(last["last"], 1, 1, rows, result="i4")


def get_result(queue, last, rows):
    launch(queue, last, rows).get()


def wait(queue, last, rows):
    launch(queue, last, rows)
    queue.record().wait()


def ask(queue, last, rows):
    launch(queue, last, rows)
    event = queue.record()
    while not event.query():
        pass


@pytest.mark.executes
def test_results_that_nobody_reads_are_not_kept(device, last, staged):
    """Though nobody waits nor asks: the next copy gives back what is done."""
    queue, rows = device.queue(blocking=False), device.array(ONE)
    device.finish()
    for _ in range(100):
        launch(queue, last, rows)
    event = queue.record()
    with locked(queue):
        while not event.query():
            pass
    launch(queue, last, rows)
    assert staged() <= 1


@pytest.mark.parametrize("way", [wait, get_result, pytest.param(ask, marks=pytest.mark.executes)])
def test_who_waited_for_a_copy_has_its_memory_back(device, last, staged, way):
    """An array that it was read to; staging memory that Level Zero was given instead."""
    queue, rows, host = device.queue(blocking=False), device.array(ONE), np.empty(16, "i4")
    device.finish()
    kept = weakref.ref(host)
    queue.copy(host, rows)
    del host
    way(queue, last, rows)
    gc.collect()
    assert kept() is None
    assert staged() <= 1


@pytest.mark.parametrize("way", [wait, get_result, pytest.param(ask, marks=pytest.mark.executes)])
def test_a_wait_for_what_is_done_does_not_wait_for_another_threads_call(device, last, way):
    """Which has the queue's lock, perhaps for as long as a host function runs."""
    queue, rows = device.queue(blocking=False), device.array(ONE)
    device.finish()
    found, event = launch(queue, last, rows), queue.record()
    event.wait()
    looks = {wait: event.wait, ask: event.query, get_result: found.get}
    with locked(queue), beside(looks[way]) as (thread,):
        thread.join(10)
        assert not thread.is_alive()
