"""Stream-ordered memory on queues to which dpctl submits, too."""

import numpy as np
import pytest

from tests.inside import clock_of

from .conftest import steps

N, FEW = 1000, 10


@pytest.fixture
def values():
    return np.arange(N, dtype="u4")


@pytest.mark.parametrize(
    ("freeing", "getting"), [("adopted", "non-blocking"), ("null", "adopted"), ("non-blocking", "adopted")]
)
def test_what_one_queue_frees_is_waited_for_by_the_one_that_gets_it(
    queue, device, hold, step, values, freeing, getting
):
    """dpctl's commands carry no waits of forebay, so an adopted queue's wait is submitted with the allocation."""
    queues = {"adopted": queue, "null": device.null_queue, "non-blocking": device.queue(blocking=False)}
    first, second = queues[freeing], queues[getting]
    limit, device.pool.growth_limit = device.pool.growth_limit, 0  # else it grows, by slabs larger than a block
    buffer = first.alloc(N, "u4")
    address, out = buffer.address, np.zeros(N, "u4")
    first.copy(buffer, values)
    go_on = hold(first, buffer)  # or the memory would be given back as soon as the device is done with it
    first.launch(step, N // 10, 10, buffer, FEW)
    first.copy(out, buffer)
    first.free(buffer)
    again = second.alloc(N, "u4")
    device.pool.growth_limit = limit
    assert again.address == address
    assert first.id in clock_of(second)
    second.fill(again, 7)
    go_on()
    second.finish()
    first.finish()
    assert (out == steps(values, FEW)).all()
