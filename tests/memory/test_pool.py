"""Stream-ordered memory: who gets what was freed where, and what it waits for."""

import gc
import itertools
import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.memory.slabs import size_class
from tests.helpers.refusals import refused

N = 1000
LARGE = 1 << 20  # elements of memory that has a slab of its own, which is as large
KINDS = ("null", "blocking", "non-blocking", "per-thread")


@pytest.fixture
def pool(device):
    """The device's pool, as a new one is."""
    pool = device.pool
    gc.collect()
    device.finish()
    pool.trim()
    pool.reserved_high = pool.used_high = 0
    limit = pool.growth_limit
    yield pool
    pool.growth_limit = limit
    pool.release_threshold = 0
    pool.reuse_follow_event_dependencies = True
    pool.reuse_allow_opportunistic = True
    pool.reuse_allow_internal_dependencies = True


@pytest.fixture
def full_pool(pool):
    """It grows only where nothing was freed, and rather has a queue wait."""
    pool.growth_limit = 0
    return pool


@pytest.fixture
def fill(program):
    return program["fill"]


@pytest.fixture
def queues(device, make_queue):
    """Queues of each kind, by name."""
    return {
        "null": device.null_queue,
        "blocking": make_queue(),
        "non-blocking": make_queue(blocking=False),
        "per-thread": device.per_thread_queue,
    }


def allocations(device):
    return device.stats.allocations


# Like any buffer


@pytest.mark.executes
@pytest.mark.parametrize("shape", [0, 1, (), (3, 4), (0, 5), N])
@pytest.mark.parametrize("dtype", ["f4", "i8", "V7"])
def test_it_is_a_buffer(queue, shape, dtype):
    buffer = queue.alloc(shape, dtype)
    like = np.empty(shape, dtype)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == (like.shape, like.dtype, like.nbytes)
    assert buffer.device is queue.device
    assert buffer.usm_type == "device"
    host = np.frombuffer(np.random.default_rng(1).bytes(like.nbytes), dtype).reshape(like.shape)
    queue.copy(buffer, host)
    assert buffer.get(queue=queue).tobytes() == host.tobytes()
    assert buffer.reshape(-1).get(queue=queue).tobytes() == host.tobytes()
    queue.free(buffer)


def test_the_default_is_single_precision(queue):
    assert queue.alloc(3).dtype == "f4"


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 4097, 10**6, 10**7, 10**9, (1 << 40) + 1])
def test_size_classes(nbytes):
    size = size_class(nbytes)
    assert size >= max(nbytes, 512)
    assert size <= max(nbytes * 17 / 16, nbytes + 512)
    assert size % 512 == 0
    assert size_class(size) == size


# In one queue


def test_memory_freed_on_a_queue_is_handed_out_there_at_once(device, queue, hold, fill, pool):
    buffer = queue.alloc(N, "i4")
    address = buffer.address
    gate = hold(queue)
    queue.launch(fill, N // 10, 10, buffer, 1)
    queue.free(buffer)
    before = queue.stats, allocations(device)
    again = queue.alloc(N, "i4")
    assert again.address == address
    assert (queue.stats, allocations(device)) == before
    gate.open()


@pytest.mark.executes
def test_each_user_of_the_same_memory_sees_its_own(device, queue, hold, fill, pool):
    gate = hold(queue)
    outs = []
    for value in range(20):
        buffer = queue.alloc(N, "i4")
        queue.launch(fill, N // 10, 10, buffer, value)
        outs.append(fb.host_empty(N, "i4", device=device))  # a copy to pageable memory may wait for the queue
        queue.copy(outs[-1], buffer)
        queue.free(buffer)
    gate.open()
    queue.finish()
    assert [out.tolist() for out in outs] == [[value] * N for value in range(20)]


def test_a_steady_state_makes_no_driver_allocation(device, queue, fill, pool):
    def step():
        buffers = [queue.alloc(count, "i4") for count in (10, 1000, 1100, 50_000)]
        for buffer in buffers:
            queue.launch(fill, 1, 1, buffer, 1)
        for buffer in buffers:
            queue.free(buffer)

    step()
    before = allocations(device)
    for _ in range(50):
        step()
    assert allocations(device) == before
    pool.release_threshold = 1 << 30
    queue.finish()
    step()
    assert allocations(device) == before
    pool.release_threshold = 0
    queue.finish()
    step()
    assert allocations(device) > before


def test_other_sizes_do_not_take_much_more_than_they_need(device, queue, pool):
    large = queue.alloc(1 << 20, "u1")
    queue.free(large)
    small = queue.alloc(100, "u1")
    assert pool.used == 512
    queue.free(small)


# From one queue to another


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
    assert (b.epoch, b._clock) == (0, {})
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
    assert (b.epoch, b._clock) == (1, {a.id: a.epoch})
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


@pytest.mark.parametrize("give_up", ["close", "del"])
def test_memory_that_nobody_used_comes_back_as_it_was(make_queue, fill, pool, give_up):
    """The queue may still be using it by commands from before its free, which nothing orders others after."""
    pool.release_threshold = 1 << 30
    pool.reuse_allow_internal_dependencies = False
    pool.reuse_allow_opportunistic = False
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(N, "i4")
    address = buffer.address
    a.launch(fill, 1, 1, buffer, 1)
    a.free(buffer)
    again = a.alloc(N, "i4")
    assert again.address == address
    if give_up == "close":
        again.close()
    del again
    gc.collect()
    assert b.alloc(N, "i4").address != address
    assert a.alloc(N, "i4").address == address


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


# Given up otherwise than by free


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


def test_a_view_keeps_the_memory(queue, pool):
    view = queue.alloc(N, "i4")[10:20]
    gc.collect()
    assert pool.used == size_class(4 * N)
    address = view.address
    assert queue.alloc(N, "i4").address != address - 40
    queue.free(view)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        view.get()


# What there is


def test_what_is_used_and_reserved(device, queue, pool):
    assert (pool.used, pool.reserved, pool.used_high, pool.reserved_high) == (0, 0, 0, 0)
    size = size_class(4 * LARGE)
    a, b = queue.alloc(LARGE), queue.alloc(LARGE)
    assert (pool.used, pool.reserved) == (2 * size, 2 * size)
    queue.free(a)
    assert (pool.used, pool.reserved) == (size, 2 * size)
    queue.free(b)
    assert (pool.used, pool.reserved, pool.used_high, pool.reserved_high) == (0, 2 * size, 2 * size, 2 * size)
    device.finish()
    assert (pool.used, pool.reserved, pool.used_high, pool.reserved_high) == (0, 0, 2 * size, 2 * size)
    pool.used_high = pool.reserved_high = 0
    assert (pool.used_high, pool.reserved_high) == (0, 0)


@pytest.mark.parametrize("what", ["queue", "event", "device"])
def test_a_synchronize_gives_back_what_is_beyond_the_threshold(device, queue, fill, pool, what):
    size = size_class(4 * LARGE)
    pool.release_threshold = 3 * size
    buffers = [queue.alloc(LARGE, "i4") for _ in range(5)]
    for buffer in buffers:
        queue.launch(fill, 1, 1, buffer, 1)
        queue.free(buffer)
    assert pool.reserved == 5 * size
    if what == "queue":
        queue.finish()
    elif what == "event":
        queue.record().wait()
    else:
        device.finish()
    assert pool.reserved == 3 * size


@pytest.mark.executes(run=False)
def test_what_is_in_use_is_not_given_back(device, make_queue, hold, fill, pool):
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer, _, gate = read_behind_a_gate(a, hold, fill)
    a.free(buffer)
    b.finish()
    pool.trim()
    assert pool.reserved >= size_class(4 * N)
    gate.open()
    a.finish()
    assert pool.reserved == 0


def test_trim_keeps_as_much_as_it_is_told(device, queue, pool):
    size = size_class(4 * LARGE)
    buffers = [queue.alloc(LARGE) for _ in range(4)]
    for buffer in buffers:
        queue.free(buffer)
    pool.trim(10 * size)
    assert pool.reserved == 4 * size
    pool.trim(2 * size)
    assert pool.reserved == 2 * size
    pool.trim()
    assert pool.reserved == 0


def test_idle_memory_is_given_up_before_an_allocation_fails(device, queue, pool):
    queue.free(queue.alloc(N))
    real, failed = device.driver.allocate, []

    def allocate(nbytes, usm_type="device"):
        if pool.reserved:
            failed.append(nbytes)
            raise fb.OutOfMemoryError("for the test")
        return real(nbytes, usm_type)

    with mock.patch.object(device.driver, "allocate", allocate):
        buffer = device.empty(10 * N)
    assert failed == [40 * N]
    assert pool.reserved == 0
    buffer.close()


def test_a_failed_allocation_changes_nothing(device, queue, pool, refuses):
    buffer = queue.alloc(N)
    before = pool.reserved
    for elements in (1 << 50, 1 << 62, 1 << 70):
        with refuses(fb.OutOfMemoryError, MemoryError, device.name):
            queue.alloc(elements)
    assert (pool.used, pool.reserved) == (size_class(4 * N), before)
    queue.free(buffer)


# Mistakes


def test_freeing_twice_is_refused(queue, pool, refuses):
    buffer = queue.alloc(N)
    view = buffer[1:3]
    queue.free(buffer)
    for freed in (buffer, view):
        with refuses(fb.ClosedError, RuntimeError, "freed"):
            queue.free(freed)
    assert pool.used == 0


def test_using_freed_memory_is_refused(queue, program, pool, refuses):
    buffer = queue.alloc(10, "i4")
    bound = program["fill"].bind(queue, 1, 10, buffer, 1)
    queue.free(buffer)
    again = queue.alloc(10, "i4")
    assert buffer.closed
    for use in (
        lambda: queue.launch(program["fill"], 1, 10, buffer, 1),
        bound,
        lambda: queue.fill(buffer, 1),
        lambda: queue.copy(buffer, again),
        lambda: queue.copy(again, buffer),
        buffer.get,
        lambda: buffer[1:],
        lambda: buffer.address,
    ):
        with refuses(fb.ClosedError, RuntimeError, "closed"):
            use()
    assert not again.closed


def test_freeing_what_is_not_from_alloc_is_refused(device, queue, refuses):
    buffer = device.empty(10)
    with refuses(fb.InvalidArgumentError, ValueError, "alloc", "close()"):
        queue.free(buffer)
    assert not buffer.closed
    for wrong in (None, 5, np.zeros(3)):
        with refuses(fb.ArgumentTypeError, TypeError, "Buffer", type(wrong).__name__):
            queue.free(wrong)


def test_freeing_on_another_device_is_refused(queue, another, refuses):
    buffer = queue.alloc(10)
    with another.queue() as other, refuses(fb.InvalidArgumentError, ValueError, "belongs to"):
        other.free(buffer)
    assert not buffer.closed


def test_a_closed_queue_neither_allocates_nor_frees(device, queue, refuses):
    closed = device.queue()
    buffer = queue.alloc(10)
    closed.close()
    with refuses(fb.ClosedError, RuntimeError, "closed"):
        closed.alloc(10)
    with refuses(fb.ClosedError, RuntimeError, "closed"):
        closed.free(buffer)
    assert not buffer.closed


@pytest.mark.parametrize(("shape", "dtype"), [(-1, "f4"), ("x", "f4"), (1, object), (1, "no such type")])
def test_what_memory_cannot_hold_is_refused(queue, pool, refuses, shape, dtype):
    with refuses(fb.Error, (TypeError, ValueError)):
        queue.alloc(shape, dtype)
    assert pool.used == 0


def test_settings_are_checked(pool, refuses):
    for name in ("release_threshold", "used_high", "reserved_high"):
        with refuses(fb.ArgumentTypeError, TypeError, name):
            setattr(pool, name, "much")
        with refuses(fb.InvalidArgumentError, ValueError, name):
            setattr(pool, name, -1)
    for name in ("used_high", "reserved_high"):
        with refuses(fb.InvalidArgumentError, ValueError, name):
            setattr(pool, name, 1)
    with refuses(fb.ArgumentTypeError, TypeError, "Device.pool"):
        fb.MemoryPool()


def test_closing_the_device_gives_everything_back():
    with fb.Device(private=True) as device:
        queue = device.queue()
        device.pool.release_threshold = 1 << 30
        kept = queue.alloc(N)
        queue.free(queue.alloc(N))
    assert (device.pool.used, device.pool.reserved) == (0, 0)
    del kept


# Any program


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["alloc", "free", "free elsewhere", "drop", "gate", "open", "wait", "finish"]),
        st.integers(0, 3),
        st.integers(0, 7),
        st.sampled_from([100, 110, 1000, 5000]),
    ),
    max_size=40,
)


@pytest.mark.executes(run=False)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS, switches=st.tuples(*[st.booleans()] * 3), threshold=st.sampled_from([0, 1 << 30]))
def test_any_program_reads_what_it_wrote(device, pool, program, operations, switches, threshold):
    """Each buffer gets a value of its own when it is made, and is read before it is freed; nobody else may write it.

    Gates hold queues back, so that what is not ordered by the pool happens in the wrong order.
    """
    (
        pool.reuse_follow_event_dependencies,
        pool.reuse_allow_opportunistic,
        pool.reuse_allow_internal_dependencies,
    ) = switches
    pool.release_threshold = threshold
    queues = [device.null_queue, device.queue(), device.queue(blocking=False), device.queue(blocking=False)]
    live, gates, reads = [], {}, []  # live: (buffer, the queue that uses it)
    value = 0

    def read(buffer, queue):
        out = fb.host_empty(buffer.size, "i4", device=device)  # a copy to pageable memory waits on some drivers
        queue.copy(out, buffer)
        return out

    for operation, q, k, count in operations:
        queue = queues[q]
        if operation == "alloc":
            value += 1
            buffer = queue.alloc(count, "i4")
            queue.launch(program["fill"], count // 10, 10, buffer, value)
            live.append((buffer, queue, value))
            places = sorted((b.address, b.address + b.nbytes) for b, _, _ in live)
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
        elif operation in ("free", "free elsewhere", "drop") and live:
            buffer, queue, expected = live.pop(k % len(live))
            reads.append((read(buffer, queue), expected))
            if operation == "free elsewhere":
                queues[q].wait(queue)
                queue = queues[q]
            if operation != "drop":
                queue.free(buffer)
            del buffer
        elif operation == "gate" and q not in gates:
            gates[q] = queue._gate()
        elif operation == "open" and gates:
            gates.pop(sorted(gates)[k % len(gates)]).open()
        elif operation == "wait":
            queue.wait(queues[k % 4])
        elif operation == "finish" and not gates:
            queue.finish()
        assert pool.used >= sum(size_class(b.nbytes) for b, _, _ in live)
        assert pool.reserved >= pool.used
    for gate in gates.values():
        gate.open()
    for buffer, queue, expected in live:
        reads.append((read(buffer, queue), expected))
        queue.free(buffer)
    del live
    device.finish()
    for out, expected in reads:
        assert set(out.tolist()) == {expected}
    assert pool.used == 0
    for queue in queues[1:]:
        queue.close()


@pytest.mark.threads
def test_threads(device, program, pool, really):
    """Each with its own queue, and one that all share, on the same sizes."""
    shared, wrong, errors = device.queue(), [], []

    def work(number):
        try:
            own = device.queue(blocking=number % 2 == 0)
            for k in range(150):
                queue = own if k % 3 else shared
                value = 1000 * number + k
                buffer = queue.alloc(N, "i4")
                queue.launch(program["fill"], N // 10, 10, buffer, value)
                out = np.zeros(N, "i4")
                queue.copy(out, buffer)
                if k % 7:
                    queue.free(buffer)
                else:
                    del buffer
                if k % 10 == 9:
                    queue.finish()
                    wrong.append(set(out.tolist()) != {value})
            own.finish()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.finish()
    assert not errors
    assert not any(wrong) or not really
    assert len(wrong) == 4 * 15
    assert pool.used == 0
    shared.close()
