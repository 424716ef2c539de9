"""What of stream-ordered memory is refused."""

import numpy as np
import pytest

import forebay as fb

from .conftest import N


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
