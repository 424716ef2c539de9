"""Stream-ordered memory: who gets what was freed where, and what it waits for."""

import gc

import pytest

import forebay as fb
from tests.inside import clock_of
from tests.observers.internals import size_class

from .conftest import KINDS, N


def read_behind_a_gate(queue, hold, fill, gated=None):
    """Memory with 1 in it, of which a copy to the host is held by a gate: (buffer, where the copy goes, gate)."""
    buffer = queue.alloc(N, "i4")
    queue.launch(fill, N // 10, 10, buffer, 1)
    queue.finish()
    gate = hold(queue)
    out = fb.host_empty(N, "i4", device=queue.device)  # a copy to pageable memory may wait for the queue
    queue.copy(out, buffer)
    return buffer, out, gate


FREED_ELSEWHERE = [("blocking", "null", "non-blocking"), ("null", "blocking", "non-blocking")]


@pytest.mark.executes
@pytest.mark.parametrize(
    ("user", "freeing", "second"),
    [*((user, user, second) for user in KINDS for second in KINDS), *FREED_ELSEWHERE],
)
def test_what_another_queue_gets_is_ordered(queues, hold, fill, full_pool, user, freeing, second):
    """The second queue overwrites the memory only when the first has read it.

    Freed on the null queue it may still be in use on a blocking one, and the other way round: the free waits.
    """
    a, b = queues[user], queues[second]
    buffer, out, gate = read_behind_a_gate(a, hold, fill)
    address = buffer.address
    queues[freeing].free(buffer)
    other = b.alloc(N, "i4")
    assert other.address == address
    b.launch(fill, N // 10, 10, other, 2)
    assert not b.query()
    gate.open()
    assert other.get(queue=b).tolist() == [2] * N
    a.finish()
    assert out.tolist() == [1] * N


ORDERS = {
    "nothing": lambda a, b, between, gate: None,
    "events": lambda a, b, between, gate: (between.wait(a.record()), b.wait(between.record())),
    "the host": lambda a, b, between, gate: (gate.open(), a.finish()),
}
"""What orders the second queue after the first."""
ALONE = "non-blocking", "non-blocking too"
EVENTS, DONE, WAITS = "follow_event_dependencies", "allow_opportunistic", "allow_internal_dependencies"
UNORDERED = [
    ("non-blocking", "null"), ("non-blocking", "blocking"), ("null", "non-blocking"), ("blocking", "non-blocking"),
    ("blocking", "per-thread"), ("per-thread", "blocking"), ALONE,
]  # fmt: skip
"""Pairs of queues that no rule of the null queue orders."""
SAME, AFTER_A_WAIT, OTHER = "the same memory", "the same after a wait", "other memory"


@pytest.mark.parametrize(("kinds", "ordered", "off", "expected"), [
    (("blocking", "null"), "nothing", (), SAME),
    (("null", "blocking"), "nothing", (), SAME),
    *[(kinds, "nothing", off, OTHER) for kinds in UNORDERED for off in ((), (WAITS,), (WAITS, DONE))],
    (ALONE, "nothing", ("growth",), AFTER_A_WAIT),
    (ALONE, "events", (), SAME),
    (ALONE, "events", (EVENTS, DONE, WAITS), OTHER),
    (ALONE, "the host", (), SAME),
    (ALONE, "the host", (DONE, WAITS), OTHER),
])  # fmt: skip
def test_which_memory_another_queue_gets(queues, make_queue, hold, fill, pool, kinds, ordered, off, expected, really):
    """CUDA's rules: rather than a wait, which would tie two queues together, new memory as long as the pool grows."""
    pool.release_threshold = 1 << 30
    if "growth" in off:
        pool.growth_limit = 0
    for name in {*off} & {EVENTS, DONE, WAITS}:
        setattr(pool, f"reuse_{name}", False)
    a, b = (queues[kind] for kind in kinds)
    buffer = a.alloc(N, "i4")
    address, gate = buffer.address, hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    ORDERS[ordered](a, b, make_queue(blocking=False), gate)
    before = b.stats, b.epoch
    got = b.alloc(N, "i4")
    assert (got.address == address) == (expected != OTHER)
    if expected == AFTER_A_WAIT:
        assert (b.epoch, clock_of(b)) == (1, {a.id: a.epoch})
        assert not b.query() or not really
        return
    assert (b.stats, b.epoch) == before
    if expected == OTHER and ordered == "nothing":
        assert abs(got.address - address) >= 4 * N
        assert a.alloc(N, "i4").address == address
        if kinds == ALONE:
            assert clock_of(b) == {}
            b.fill(got, 1)
            b.finish(timeout=30 if really else None)  # null hardware only finishes
            assert not a.query() or not really
    elif expected == OTHER:
        pool.reuse_follow_event_dependencies = pool.reuse_allow_opportunistic = True
        assert b.alloc(N, "i4").address == address


def test_memory_freed_before_a_gate_is_waited_for_without_the_gate(make_queue, hold, fill, full_pool, really):
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer, more = a.alloc(N, "i4"), a.alloc(2 * N, "i4")  # now: what is done is given back before a full pool grows
    address = buffer.address
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    hold(a)
    a.launch(fill, 1, 1, more, 1)
    other = b.alloc(N, "i4")
    assert other.address == address
    b.fill(other, 1)
    b.finish(timeout=30 if really else None)  # null hardware only finishes
    assert not a.query() or not really


def test_memory_freed_on_many_queues_is_handed_out_when_they_are_done(device, make_queue, hold, pool):
    """Where none is left of a queue, the pool forgets it; of one that is held there is."""
    pool.release_threshold = 1 << 30
    held, *queues = [make_queue(blocking=False) for _ in range(100)]
    buffers = [queue.alloc(N, "i4") for queue in (held, *queues)]
    addresses = {buffer.address for buffer in buffers}
    for queue, buffer in zip(queues, buffers[1:], strict=True):
        queue.fill(buffer, 1)
        queue.free(buffer)
    for queue in queues:
        queue.finish()
    gate = hold(held)  # last: on CUDA, streams that share a connection with it stand still
    held.fill(buffers[0], 1)
    held.free(buffers[0])
    again = [queues[0].alloc(N, "i4") for _ in queues]
    assert len({buffer.address for buffer in again} & addresses) == len(queues)
    for buffer in again:
        queues[0].free(buffer)
    gate.open()
    device.finish()
    assert {queues[0].alloc(N, "i4").address for _ in addresses} <= addresses


@pytest.mark.executes
def test_the_queue_that_it_was_freed_on_may_be_gone(device, make_queue, hold, fill, full_pool):
    a, b = device.queue(blocking=False), make_queue(blocking=False)
    buffer, out, gate = read_behind_a_gate(a, hold, fill)
    address = buffer.address
    a.free(buffer)
    a.close()
    del a
    gc.collect()
    other = b.alloc(N, "i4")
    assert other.address == address
    b.launch(fill, N // 10, 10, other, 2)
    assert not b.query()
    gate.open()
    device.finish()
    assert out.tolist() == [1] * N
    b.free(other)
    third = make_queue(blocking=False).alloc(N, "i4")
    assert not third.closed


@pytest.mark.executes
@pytest.mark.parametrize("how", ["drop", "close"])
def test_memory_that_is_not_freed_comes_back_when_the_device_is_done(device, make_queue, hold, fill, pool, how):
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer, out, gate = read_behind_a_gate(a, hold, fill)
    address = buffer.address
    if how == "close":
        buffer.close()
    del buffer
    gc.collect()
    other = b.alloc(N, "i4")
    assert other.address != address  # nobody knows which queue used it last
    b.launch(fill, N // 10, 10, other, 2)
    b.finish()
    gate.open()
    pool.release_threshold = 1 << 30
    device.finish()
    assert out.tolist() == [1] * N
    assert pool.used == size_class(4 * N)
    assert b.alloc(N, "i4").address == address
