"""How much memory the pool keeps, and when it gives it back."""

from unittest import mock

import pytest

import forebay as fb
from forebay.queues.memory.slabs import size_class
from tests.helpers.observer import EXECUTES, observe

from .conftest import LARGE, N, allocations
from .test_order import read_behind_a_gate


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


def test_what_is_found_done_at_the_limit_is_handed_out(device, make_queue, fill, full_pool):
    """The pool asks the driver twice: for what would do, and before it gives idle memory back. What was not known to be
    done at first may be by then.
    """
    a, b = make_queue(blocking=False), make_queue(blocking=False)
    full_pool.release_threshold = 1 << 30

    def device_waits():
        if EXECUTES:
            pytest.skip("only forebay waits for this driver's queues")

    for _ in range(3):
        buffer = a.alloc(N, "i4")
        address = buffer.address
        a.launch(fill, N // 10, 10, buffer, 1)
        a.free(buffer)
        native = a.native
        getattr(native, "finish", getattr(native, "wait", device_waits))()  # past forebay, which does not know of it
        made = allocations(device)
        with observe(device) as calls:
            calls.fail((calls.driver.QUERY, calls.driver.FINISH), calls.driver.FAILURE[0])
            other = b.alloc(N, "i4")
            assert any(call.injected for call in calls.log)
        assert other.address == address
        assert allocations(device) == made
        b.free(other)


def test_closing_the_device_gives_everything_back():
    with fb.Device(private=True) as device:
        queue = device.queue()
        device.pool.release_threshold = 1 << 30
        kept = queue.alloc(N)
        queue.free(queue.alloc(N))
    assert (device.pool.used, device.pool.reserved) == (0, 0)
    del kept
