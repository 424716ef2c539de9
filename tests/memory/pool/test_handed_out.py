"""Stream-ordered memory: what comes out of the pool, and what it costs."""

import gc

import pytest

import forebay as fb
from forebay.queues.memory.slabs import size_class
from tests.helpers.refusals import refused

from .conftest import N, allocations


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


def test_a_view_keeps_the_memory(queue, pool):
    view = queue.alloc(N, "i4")[10:20]
    gc.collect()
    assert pool.used == size_class(4 * N)
    address = view.address
    assert queue.alloc(N, "i4").address != address - 40
    queue.free(view)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        view.get()
