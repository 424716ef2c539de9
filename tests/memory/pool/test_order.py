"""Stream-ordered memory: who gets what was freed where, and what it waits for."""

import gc

import pytest

import forebay as fb
from forebay.queues.memory.slabs import size_class
from tests.inside import clock_of

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


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_what_another_queue_gets_is_ordered(queues, hold, fill, full_pool, first, second):
    """Each pair of kinds: the second queue overwrites the memory only when the first has read it."""
    a, b = queues[first], queues[second]
    buffer, out, gate = read_behind_a_gate(a, hold, fill)
    address = buffer.address
    a.free(buffer)
    other = b.alloc(N, "i4")
    assert other.address == address
    b.launch(fill, N // 10, 10, other, 2)
    assert not b.query()
    gate.open()
    assert other.get(queue=b).tolist() == [2] * N
    a.finish()
    assert out.tolist() == [1] * N


@pytest.mark.executes(run=False)
def test_what_goes_wrong_without_the_wait(make_queue, hold, fill, pool):
    """The same two queues on the same memory, which nobody orders: the first one reads what the second wrote."""
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer, out, gate = read_behind_a_gate(a, hold, fill)
    b.launch(fill, N // 10, 10, buffer, 2)
    b.finish()
    gate.open()
    a.finish()
    assert out.tolist() == [2] * N


@pytest.mark.parametrize(("first", "second"), [("blocking", "null"), ("null", "blocking")])
def test_the_rules_of_the_null_queue_need_no_wait(device, queues, hold, fill, pool, first, second):
    a, b = queues[first], queues[second]
    buffer = a.alloc(N, "i4")
    hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    address = buffer.address
    a.free(buffer)
    before = b.stats, b.epoch
    assert b.alloc(N, "i4").address == address
    assert (b.stats, b.epoch) == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("non-blocking", "null"), ("non-blocking", "blocking"), ("null", "non-blocking"), ("blocking", "non-blocking"),
        ("blocking", "per-thread"), ("per-thread", "blocking"),
    ],
)  # fmt: skip
def test_where_no_rule_orders_a_queue_gets_other_memory(queues, hold, fill, pool, first, second):
    a, b = queues[first], queues[second]
    hold(a)
    buffer = a.alloc(N, "i4")
    a.launch(fill, 1, 1, buffer, 1)
    address = buffer.address
    a.free(buffer)
    others = [b.alloc(N, "i4") for _ in range(3)]
    assert all(abs(other.address - address) >= 4 * N for other in others)


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("user", ["blocking", "null"])
def test_a_free_obeys_the_rules_of_the_null_queue(device, make_queue, hold, fill, full_pool, user):
    """Freed on the null queue it may still be in use on a blocking one, and the other way round: the free waits."""
    blocking, third = make_queue(), make_queue(blocking=False)
    using, freeing = (blocking, device.null_queue) if user == "blocking" else (device.null_queue, blocking)
    buffer, out, gate = read_behind_a_gate(using, hold, fill)
    address = buffer.address
    freeing.free(buffer)
    other = third.alloc(N, "i4")
    assert other.address == address
    third.launch(fill, N // 10, 10, other, 2)
    assert not third.query()
    gate.open()
    device.finish()
    assert out.tolist() == [1] * N


def test_no_wait_after_an_event(make_queue, hold, fill, pool):
    a, b, c = (make_queue(blocking=False) for _ in range(3))
    buffer = a.alloc(N, "i4")
    address = buffer.address
    hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    b.wait(a.record())
    c.wait(b.record())
    before = c.stats
    assert c.alloc(N, "i4").address == address
    assert c.stats == before


def test_no_wait_for_what_is_known_to_be_done(make_queue, fill, pool):
    pool.release_threshold = 1 << 30
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    a.finish()
    assert b.alloc(N, "i4").address == address
    assert b.epoch == 0


def test_a_queue_gets_new_memory_rather_than_a_wait(make_queue, hold, fill, pool, really):
    """CUDA's rule for internal dependencies: a wait would tie two queues together that have nothing to do with each
    other.
    """
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    other = b.alloc(N, "i4")
    assert other.address != address
    assert (b.epoch, clock_of(b)) == (0, {})
    b.fill(other, 1)
    b.finish(timeout=30 if really else None)  # null hardware only finishes
    assert not a.query() or not really


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


def test_a_wait_is_inserted_where_nothing_else_orders(make_queue, hold, fill, full_pool, really):
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    other = b.alloc(N, "i4")
    assert other.address == address
    assert (b.epoch, clock_of(b)) == (1, {a.id: a.epoch})
    assert not b.query() or not really


@pytest.mark.executes
def test_without_internal_dependencies_no_wait_is_inserted(device, make_queue, hold, fill, pool):
    pool.reuse_allow_internal_dependencies = False
    pool.release_threshold = 1 << 30
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    gate = hold(a)
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    other = b.alloc(N, "i4")
    assert other.address != address
    assert b.epoch == 0
    gate.open()
    a.finish()
    assert b.alloc(N, "i4").address == address


def test_without_event_dependencies_an_order_is_no_reason(make_queue, hold, fill, pool):
    pool.reuse_follow_event_dependencies = False
    pool.reuse_allow_internal_dependencies = False
    pool.reuse_allow_opportunistic = False
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    hold(a)
    a.free(buffer)
    b.wait(a)
    other = b.alloc(N, "i4")
    assert other.address != address
    pool.reuse_follow_event_dependencies = True
    assert b.alloc(N, "i4").address == address


def test_without_opportunistic_reuse_what_is_done_is_no_reason(make_queue, fill, pool):
    pool.release_threshold = 1 << 30
    pool.reuse_allow_internal_dependencies = False
    pool.reuse_allow_opportunistic = False
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    a.finish()
    other = b.alloc(N, "i4")
    assert other.address != address
    pool.reuse_allow_opportunistic = True
    assert b.alloc(N, "i4").address == address


@pytest.mark.executes(run=False)
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


@pytest.mark.executes(run=False)
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
