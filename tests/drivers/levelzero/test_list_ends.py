"""When a command list ends: what waits for an event reads the counter of the list that signals it."""

import gc

import pytest

from tests.ordering.program import SOURCE

pytestmark = pytest.mark.needs("null hardware")
KEPT = 64  # lists that are kept for new queues
MANY = 100


@pytest.fixture
def held(device):
    """A queue that waits for a gate, and the gate."""
    queue = device.queue(blocking=False)
    gate = queue.gate()
    yield queue, gate
    gate.open()


def ended(device, kernels, buffer, waiter):
    """Let many queues end that the waiter waits for, in the driver, too."""
    queues = [device.queue(blocking=False) for _ in range(MANY)]
    for queue in queues:
        queue.launch(kernels["advance"], 4, 16, buffer, 1)
        waiter.wait(queue)
    waiter.record()  # gives the driver the waits
    for queue in queues:
        queue.finish()
        queue.close()
    del queue, queues
    gc.collect()


def test_a_list_ends_when_nobody_waits_for_it_any_more(device, kernels, buffer, held, emulated, event_mode):
    """Not before, though it has nothing to do; the observer would tell. Then few are kept."""
    waiter, gate = held
    ended(device, kernels, buffer, waiter)
    assert emulated.alive()["lists"] >= MANY
    gate.open()
    device.finish()
    device.queue().close()
    gc.collect()
    ended_by_now = emulated.alive()
    assert ended_by_now["kernels"] <= KEPT + 10  # each list has one
    if event_mode:  # an event that is reset keeps its last list until it is used again
        assert ended_by_now["lists"] <= KEPT + 10


def test_a_device_that_closes_leaves_lists_that_others_wait_for(left, opened):
    """They end with those of others, when nothing waits for them any more."""

    def work():
        device, other = opened(), opened()
        waiter = device.queue(blocking=False)
        gate = waiter.gate()
        ended(other, other.program(SOURCE), other.zeros(64, "u4"), waiter)
        other.close()
        gate.open()
        waiter.finish()
        opened.close_all()

    work()
    assert left() == {}
