"""Stream-ordered memory on queues to which dpctl submits, too."""

import numpy as np
import pytest

from .conftest import steps

N, LONG = 1000, 50_000


@pytest.fixture
def values():
    return np.arange(N, dtype="u4")


def test_what_an_adopted_queue_frees_is_waited_for(queue, device, step, values):
    other = device.queue(blocking=False)
    device.pool.growth_limit = 0  # or the pool would rather grow, and its slabs would be larger than a block
    buffer = queue.alloc(N, "u4")
    address, out = buffer.address, np.zeros(N, "u4")
    queue.copy(buffer, values)
    queue.launch(step, N // 10, 10, buffer, LONG)
    queue.copy(out, buffer)
    queue.free(buffer)
    again = other.alloc(N, "u4")
    assert again.address == address
    assert queue.id in other._clock
    other.fill(again, 7)
    other.finish()
    queue.finish()
    assert (out == steps(values, LONG)).all()


@pytest.mark.parametrize("freeing", ["null", "non-blocking"])
def test_what_an_adopted_queue_gets_is_waited_for(queue, device, step, values, freeing):
    """dpctl's commands carry no waits of forebay, so the wait is submitted with the allocation."""
    other = device.null_queue if freeing == "null" else device.queue(blocking=False)
    device.pool.growth_limit = 0
    buffer = other.alloc(N, "u4")
    address, out = buffer.address, np.zeros(N, "u4")
    other.copy(buffer, values)
    other.launch(step, N // 10, 10, buffer, LONG)
    other.copy(out, buffer)
    other.free(buffer)
    again = queue.alloc(N, "u4")
    assert again.address == address
    assert other.id in queue._clock
    queue.fill(again, 7)
    queue.finish()
    other.finish()
    assert (out == steps(values, LONG)).all()
