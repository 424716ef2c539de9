"""Slabs of the pool: how much is reserved, what is merged with what, and who may have it."""

import gc
import random
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.helpers.threads import together
from tests.inside import clock_of
from tests.observers.internals import block_size, size_class

from .conftest import LARGE, N

KEEP = 1 << 40  # a threshold below which a synchronize gives nothing back


# How much is reserved


def sizes(kind, rng):
    if kind == "small":
        return rng.randint(1, 8192)
    if kind == "even":
        return rng.randint(1, 1 << 20)
    return int(2 ** rng.uniform(6, 22))  # as many of each magnitude


@pytest.mark.parametrize(("count", "most"), [(1, 1.5), (4, 2.0)])
@pytest.mark.parametrize("kind", ["small", "even", "any magnitude"])
def test_random_sizes_reserve_little_more_than_is_in_use(device, make_queue, places, pool, kind, count, most):
    """100,000 in all. What was freed and is not known to be done counts as in use."""
    pool.release_threshold = KEEP
    pool.growth_limit = KEEP
    rng = random.Random(1)
    made = [make_queue(blocking=False) for _ in range(count)]
    live, in_use, peak = [], 0, 0
    for _ in range(17_000):
        if len(live) > 300 or (live and rng.random() < 0.45):
            nbytes, buffer, queue = live.pop(rng.randrange(len(live)))
            in_use -= nbytes
            queue.free(buffer)
        else:
            nbytes, queue = sizes(kind, rng), rng.choice(made)
            live.append((nbytes, queue.alloc(nbytes, "u1"), queue))
            in_use += nbytes
            peak = max(peak, in_use)
    assert pool.reserved_high <= most * peak + (64 << 10)
    for _, buffer, queue in live:
        queue.free(buffer)


def test_a_small_program_reserves_little(queue, pool):
    buffer = queue.alloc(4096, "u1")
    assert pool.reserved <= 64 << 10
    queue.free(buffer)


def test_the_growth_limit_bounds_what_is_reserved(device, queue, fill, pool):
    """Sizes that grow fit nothing that was freed before: what is idle goes back before the pool grows past it."""
    pool.release_threshold = KEEP
    pool.growth_limit = 64 << 20
    for megabytes in (*range(1, 33), *range(33, 0, -1)):
        buffers = [queue.alloc(megabytes << 18, "i4") for _ in range(2)]
        for buffer in buffers:
            queue.launch(fill, 1, 10, buffer, 1)
            queue.free(buffer)
        queue.finish()
        assert pool.reserved <= max(64 << 20, 2 * (megabytes << 20)) + (4 << 20)


def test_at_the_limit_the_driver_is_asked_what_is_done(device, make_queue, places, pool, really):
    """Nobody has waited for anything, so nothing is known to be done."""
    pool.reuse_allow_internal_dependencies = False
    pool.growth_limit = 4 * LARGE
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    buffer = a.alloc(LARGE)
    a.fill(buffer, 1)
    a.free(buffer)
    a.record().wait()
    pool.reserved_high = 0
    other = b.alloc(LARGE + LARGE // 4)
    assert pool.reserved_high <= 5 * LARGE + (1 << 20)
    b.free(other)


def test_what_is_freed_on_a_queue_is_one_block_there_at_once(device, queue, hold, places, fill, pool):
    """Neighbours that one queue has freed are merged although the device is not there yet."""
    whole = queue.alloc(LARGE, "i4")
    address, end = whole.address, whole.address + whole.nbytes
    queue.free(whole)
    parts = [queue.alloc(LARGE // 8, "i4") for _ in range(8)]
    assert all(address <= part.address < end for part in parts)
    before = device.stats.allocations
    gate = hold(queue)
    for part in parts[::2] + parts[1::2]:
        queue.launch(fill, 1, 10, part, 1)
        queue.free(part)
    stats = queue.stats
    again = queue.alloc(LARGE, "i4")
    assert again.address == address
    assert (queue.stats, device.stats.allocations) == (stats, before)
    queue.free(again)
    gate.open()


@pytest.mark.executes
def test_what_two_queues_have_freed_is_merged_only_when_it_is_done(device, make_queue, hold, places, fill, pool):
    pool.release_threshold = KEEP
    pool.reuse_allow_internal_dependencies = False
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    whole = a.alloc(LARGE, "i4")
    address = whole.address
    a.free(whole)
    a.finish()
    first, second = a.alloc(LARGE // 2, "i4"), b.alloc(LARGE // 2, "i4")
    assert {first.address, second.address} == {address, address + 2 * LARGE}
    gate = hold(a)
    for queue, part in ((a, first), (b, second)):
        queue.launch(fill, 1, 10, part, 1)
        queue.free(part)
    b.finish()
    mine = b.alloc(LARGE, "i4")
    assert mine.address != address
    joined = a.alloc(LARGE, "i4")  # its own half, and one that anyone may have
    assert joined.address == address
    a.free(joined)
    gate.open()
    a.finish()
    again = b.alloc(LARGE, "i4")
    assert again.address == address
    b.free(again)
    b.free(mine)


def test_memory_that_nobody_uses_comes_back_each_time(make_queue, pool):
    """Closed without a use, by its owner: it stays where it was freed, and nothing grows."""
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    pool.reuse_allow_internal_dependencies = pool.reuse_allow_opportunistic = False
    buffer = a.alloc(N, "i4")
    address = buffer.address
    a.fill(buffer, 1)
    a.free(buffer)
    reserved = pool.reserved
    for turn in range(100_000):
        unused = a.alloc(N, "i4")
        if turn % 2:
            unused.close()
        del unused
    assert (pool.used, pool.reserved) == (0, reserved)
    assert b.alloc(N, "i4").address != address
    assert a.alloc(N, "i4").address == address


def test_in_steps_memory_goes_from_launch_to_launch(make_queue, fill, pool):
    """What a step has collected counts as submitted, so its memory is not handed out before it."""
    queue, outs = make_queue(blocking=False), []
    for turn in range(20):
        with queue.step():
            for part in range(4):
                buffer = queue.alloc(N, "i4")
                queue.launch(fill, N // 10, 10, buffer, 10 * turn + part)
                outs.append(np.zeros(N, "i4"))
                queue.copy(outs[-1], buffer)
                queue.free(buffer)
    queue.finish()
    assert device_data([set(out.tolist()) for out in outs]) == [
        {10 * turn + part} for turn in range(20) for part in range(4)
    ]


@pytest.mark.executes  # a graph's copy to pageable memory is a host function, which stays on null hardware
def test_memory_that_a_graph_uses_is_freed_after_its_launch(device, make_queue, hold, fill, pool):
    queue, outs = make_queue(blocking=False), [np.zeros(N, "i4"), fb.host_empty(N, "i4", device=device)]
    buffer = queue.alloc(N, "i4")
    address = buffer.address
    with queue.capture() as graph:
        queue.launch(fill, N // 10, 10, buffer, 5)
        queue.copy(outs[0], buffer)
    gate = hold(queue)
    graph.launch(queue)
    queue.free(buffer)
    again = queue.alloc(N, "i4")
    assert again.address == address
    queue.launch(fill, N // 10, 10, again, 6)
    queue.copy(outs[1], again)
    gate.open()
    queue.finish()
    queue.free(again)
    assert device_data([set(out.tolist()) for out in outs]) == [{5}, {6}]


def test_blocks_with_and_without_an_object_are_the_same_memory(device, queue, fill, pool):
    """The first time by address, later by an object on CPUs: copies, fills, views and launches agree."""
    queue.free(queue.alloc(16 * N, "i4"))
    for turn in range(6):
        left, buffer, right = (queue.alloc(N, "i4") for _ in range(3))
        for k, each in enumerate((left, buffer, right)):
            queue.fill(each, k)
        queue.launch(fill, N // 20, 10, buffer[N // 2 :], turn)
        queue.copy(buffer[: N // 4], left[: N // 4])
        queue.copy(right[:10], np.full(10, 9, "i4"))
        found = buffer.get(queue=queue)
        assert device_data(found.tolist()) == [0] * (N // 4) + [1] * (N // 4) + [turn] * (N // 2)
        assert device_data(left.get(queue=queue).tolist()) == [0] * N
        assert device_data(right.get(queue=queue).tolist()) == [9] * 10 + [2] * (N - 10)
        for each in (right, left, buffer):
            queue.free(each)


@pytest.mark.needs("OpenCL")
def test_a_block_that_is_a_whole_slab_has_the_slabs_object(device, queue, fill, pool):
    with observe(device) as calls:
        for turn in range(3):
            buffer = queue.alloc(LARGE, "i4")
            queue.launch(fill, 1, 10, buffer, turn)
            queue.free(buffer)
        assert "clCreateSubBuffer" not in calls.names()


# What comes out, and what it costs


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 4097, 10**6, 10**7, 10**9, (1 << 40) + 1])
def test_size_classes(nbytes):
    size = size_class(nbytes)
    assert size >= max(nbytes, 512)
    assert size <= max(nbytes * 17 / 16, nbytes + 512)
    assert size % 512 == 0
    assert size_class(size) == size


def test_a_steady_state_makes_no_driver_allocation(device, queue, fill, pool):
    def step():
        buffers = [queue.alloc(count, "i4") for count in (10, 1000, 1100, 50_000)]
        for buffer in buffers:
            queue.launch(fill, 1, 1, buffer, 1)
        for buffer in buffers:
            queue.free(buffer)

    step()
    before = device.stats.allocations
    for _ in range(50):
        step()
    assert device.stats.allocations == before
    pool.release_threshold = 1 << 30
    queue.finish()
    step()
    assert device.stats.allocations == before
    pool.release_threshold = 0
    queue.finish()
    step()
    assert device.stats.allocations > before


def test_other_sizes_do_not_take_much_more_than_they_need(device, queue, pool):
    large = queue.alloc(1 << 20, "u1")
    queue.free(large)
    small = queue.alloc(100, "u1")
    assert pool.used == 512
    queue.free(small)


def test_a_view_keeps_the_memory(queue, pool):
    view = queue.alloc(N, "i4")[10:20]
    gc.collect()
    assert pool.used == size_class(4 * N)
    address = view.address
    assert queue.alloc(N, "i4").address != address - 40
    queue.free(view)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        view.get()


# Against a model

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["alloc", "alloc", "free", "free", "close", "finish", "wait", "trim", "collect"]),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(1, 40_000),
    ),
    max_size=80,
)


def without(given_back, begin, end):
    """What is left of a range that was given back, when these bytes are handed out again."""
    b, e, queue, epoch = given_back
    return [part for part in ((b, min(e, begin), queue, epoch), (max(b, end), e, queue, epoch)) if part[0] < part[1]]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@example(  # a block that is larger than what is asked for takes all that was freed there, its padding, too
    steps=[("alloc", 0, 0, 1), ("alloc", 0, 0, 639), ("alloc", 0, 0, 1), ("alloc", 0, 0, 1), ("free", 0, 1, 1)]
    + [("alloc", 0, 0, 1)] * 2
    + [("free", 1, 4, 1), ("alloc", 1, 0, 240)],
    switches=(False, False, False),
    held=True,
)
@example(  # behind a wait that no command has carried, which comes after a use
    steps=[("alloc", 1, 0, 256), ("free", 1, 0, 1), ("alloc", 2, 0, 256)], switches=(False, False, True), held=True
)
@given(steps=STEPS, switches=st.tuples(*[st.booleans()] * 3), held=st.booleans())
def test_no_byte_is_handed_out_before_its_time(device, pool, hold, places, steps, switches, held):
    """A model that knows of each byte the queue and the epoch at which it was last given back.

    Who gets it must be that queue, or ordered after that point, or that point must be done.
    """
    pool.reuse_follow_event_dependencies, pool.reuse_allow_opportunistic, waits = switches
    pool.reuse_allow_internal_dependencies = waits
    pool.growth_limit = 0 if waits else KEEP
    made = [device.queue(blocking=False) for _ in range(3)]
    gate = made[0].gate() if held else None
    buffer, live, freed = None, [], []  # (buffer, begin, end, queue, epoch of its use); (begin, end, queue, epoch)
    try:
        for what, q, k, nbytes in steps:
            queue = made[q]
            if what == "alloc":
                clock = clock_of(queue)
                buffer = queue.alloc(nbytes, "u1")
                begin, end = buffer.address, buffer.address + block_size(buffer)
                assert begin % 128 == 0
                assert end >= begin + nbytes
                assert all(end <= b or e <= begin for _, b, e, _, _ in live)
                for b, e, other, epoch in freed:
                    if b < end and begin < e and other is not queue:
                        done = other.completed >= epoch
                        ordered = switches[0] and clock.get(other.id, 0) >= epoch
                        assert done or ordered or (waits and clock_of(queue).get(other.id, 0) >= epoch)
                freed = [part for each in freed for part in without(each, begin, end)]
                queue.fill(buffer, 1)
                live.append((buffer, begin, end, queue, queue.epoch))
            elif what == "free" and live:
                buffer, begin, end, _, _ = live.pop(k % len(live))
                for other in made:
                    queue.wait(other)
                queue.free(buffer)
                freed.append((begin, end, queue, queue.epoch))
            elif what == "close" and live:
                buffer, *given_back = live.pop(k % len(live))
                buffer.close()
                freed.append(given_back)
            elif what == "finish" and not (held and gate is not None):
                queue.finish()
            elif what == "wait":
                queue.wait(made[k % 3])
            elif what == "trim":
                pool.trim(nbytes)
            elif what == "collect":
                gc.collect(0)
            assert pool.used >= sum(end - begin for _, begin, end, _, _ in live)
            assert pool.reserved >= pool.used
    finally:
        if gate is not None:
            gate.open()
        for each in [buffer, *(each for each, *_ in live)]:
            if each is not None:  # also one that was just made when a check failed: what is left would fail the next
                each.close()
        live.clear()
        for queue in made:
            queue.finish()
            queue.close()
        device.finish()
    pool.trim()
    assert (pool.used, pool.reserved) == (0, 0)


@pytest.mark.threads
def test_two_threads_on_random_sizes(device, program, pool):
    """On a queue of its own and on one of both; each frees, or drops, what the other has allocated, too."""
    shared, lock, wrong, of_both = [], threading.Lock(), [], device.queue()

    def work(number):
        rng = random.Random(number)
        own = device.queue(blocking=number == 0)
        for turn in range(1500):
            count, queue = 10 * rng.randint(1, 2000), own if turn % 3 else of_both
            buffer = queue.alloc(count, "i4")
            value = 10_000 * number + turn
            queue.launch(program["fill"], count // 10, 10, buffer, value)
            if turn % 50 == 0:
                wrong.append(set(buffer.get(queue=queue).tolist()) != {value})
            with lock:
                shared.append((buffer, queue.record()))
                other, event = shared.pop(rng.randrange(len(shared))) if len(shared) > 20 else (None, None)
            del buffer
            if other is not None:
                queue.wait(event)
                if turn % 7:
                    queue.free(other)
                del other
        own.finish()

    together(partial(work, 0), partial(work, 1))
    shared.clear()
    device.finish()
    assert pool.used == 0
    assert len(wrong) == 60
    assert device_data(sum(wrong)) == 0


# What is not ordered


def test_an_adopted_queue_gets_nothing_because_of_an_order(device, places):
    """Commands that others submit to it carry no waits of forebay, so a wait still to be carried says nothing."""
    cl = pytest.importorskip("pyopencl")
    if not isinstance(device.info.native, cl.Device):
        pytest.skip("no device of OpenCL")
    context = cl.Context([device.info.native])
    with fb.Device.adopt(context) as own:
        own.pool.reuse_allow_internal_dependencies = own.pool.reuse_allow_opportunistic = False
        a = own.queue(blocking=False)
        b = fb.Device.adopt_queue(cl.CommandQueue(context), blocking=False)
        buffer = a.alloc(N, "i4")
        address = buffer.address
        gate = a.gate()
        a.fill(buffer, 1)
        a.free(buffer)
        b.wait(a)
        other = b.alloc(N, "i4")
        assert other.address != address
        gate.open()
        b.close()
