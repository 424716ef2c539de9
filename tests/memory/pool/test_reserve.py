"""How much memory the pool keeps, and when it gives it back."""

import threading
from unittest import mock

import pytest

import forebay as fb
from tests.helpers.observer import EXECUTES, observe
from tests.helpers.refusals import refused
from tests.observers.internals import is_wanted, locked, size_class

from .conftest import LARGE, N


def test_what_is_used_and_reserved_and_kept(device, queue, fill, pool):
    def state():
        return pool.used, pool.reserved, pool.used_high, pool.reserved_high

    size = size_class(4 * LARGE)
    assert state() == (0, 0, 0, 0)
    a, b = queue.alloc(LARGE), queue.alloc(LARGE)
    assert state()[:2] == (2 * size, 2 * size)
    queue.free(a)
    assert state()[:2] == (size, 2 * size)
    queue.free(b)
    assert state() == (0, 2 * size, 2 * size, 2 * size)
    device.finish()
    assert state() == (0, 0, 2 * size, 2 * size)
    pool.used_high = pool.reserved_high = 0
    assert state() == (0, 0, 0, 0)
    for synchronize in (queue.finish, lambda: queue.record().wait(), device.finish):
        pool.release_threshold = 3 * size
        for buffer in [queue.alloc(LARGE, "i4") for _ in range(5)]:
            queue.launch(fill, 1, 1, buffer, 1)
            queue.free(buffer)
        assert pool.reserved == 5 * size
        synchronize()
        assert pool.reserved == 3 * size
    for keep, kept in ((10, 3), (2, 2), (0, 0)):
        pool.trim(keep * size)
        assert pool.reserved == kept * size


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


def test_the_last_attempt_asks_the_driver_for_no_more_than_is_needed(device, queue, pool):
    real, asked, nbytes = device.driver.allocate, [], LARGE + 1

    def allocate(size, usm_type="device"):
        asked.append(size)
        if size > LARGE + 512:
            raise fb.OutOfMemoryError("for the test")
        return real(size, usm_type)

    with mock.patch.object(device.driver, "allocate", allocate):
        buffer = queue.alloc(nbytes, "u1")
    assert (asked[0], asked[-1]) == (size_class(nbytes), LARGE + 512)
    queue.free(buffer)


@pytest.mark.threads
def test_a_buffer_that_is_closed_while_its_free_waits_for_the_queue(make_queue, pool):
    queue, told = make_queue(blocking=False), []
    buffer = queue.alloc(N)

    def free():
        with refused(fb.ClosedError, RuntimeError, "another thread"):
            queue.free(buffer)
        told.append(True)

    thread = threading.Thread(target=free)
    with locked(queue):
        thread.start()
        while not is_wanted(queue):
            pass
        buffer.close()
    thread.join()
    assert told
    assert pool.used == 0


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
        made = device.stats.allocations
        with observe(device) as calls:
            calls.fail((calls.driver.QUERY, calls.driver.FINISH), calls.driver.FAILURE[0])
            other = b.alloc(N, "i4")
            assert any(call.injected for call in calls.log)
        assert other.address == address
        assert device.stats.allocations == made
        b.free(other)


def test_closing_the_device_gives_everything_back():
    with fb.Device(private=True) as device:
        queue = device.queue()
        device.pool.release_threshold = 1 << 30
        kept = queue.alloc(N)
        queue.free(queue.alloc(N))
    assert (device.pool.used, device.pool.reserved) == (0, 0)
    del kept
