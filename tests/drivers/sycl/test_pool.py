"""Stream-ordered memory on queues to which dpctl submits, too."""

import numpy as np
import pytest

from tests.inside import clock_of

from .conftest import steps

N, FEW = 1000, 10


@pytest.fixture
def values():
    return np.arange(N, dtype="u4")


def test_what_an_adopted_queue_frees_is_waited_for(queue, device, hold, step, values):
    other = device.queue(blocking=False)
    device.pool.growth_limit = 0  # or the pool would rather grow, and its slabs would be larger than a block
    buffer = queue.alloc(N, "u4")
    address, out = buffer.address, np.zeros(N, "u4")
    queue.copy(buffer, values)
    go_on = hold(queue, buffer)  # or the memory would be given back as soon as the device is done with it
    queue.launch(step, N // 10, 10, buffer, FEW)
    queue.copy(out, buffer)
    queue.free(buffer)
    again = other.alloc(N, "u4")
    assert again.address == address
    assert queue.id in clock_of(other)
    other.fill(again, 7)
    go_on()
    other.finish()
    queue.finish()
    assert (out == steps(values, FEW)).all()


@pytest.mark.parametrize("freeing", ["null", "non-blocking"])
def test_what_an_adopted_queue_gets_is_waited_for(queue, device, hold, step, values, freeing):
    """dpctl's commands carry no waits of forebay, so the wait is submitted with the allocation."""
    other = device.null_queue if freeing == "null" else device.queue(blocking=False)
    device.pool.growth_limit = 0
    buffer = other.alloc(N, "u4")
    address, out = buffer.address, np.zeros(N, "u4")
    other.copy(buffer, values)
    go_on = hold(other, buffer)
    other.launch(step, N // 10, 10, buffer, FEW)
    other.copy(out, buffer)
    other.free(buffer)
    again = queue.alloc(N, "u4")
    assert again.address == address
    assert other.id in clock_of(queue)
    queue.fill(again, 7)
    go_on()
    queue.finish()
    other.finish()
    assert (out == steps(values, FEW)).all()
