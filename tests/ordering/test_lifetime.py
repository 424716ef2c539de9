"""What closing or dropping a queue ends, and what it does not."""

import gc
import weakref

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread
from tests.inside import watching_new_queues

from .program import SOURCE, holds, launch

SLOW = """
kernel void slow(global uint *a, uint rounds)
{
    uint x = a[0];
    for (uint i = 0; i < rounds; i++)
        x = (x ^ (x >> 7)) * 3 + i;
    a[0] = x | 1;
}
"""
KERNEL_GONE = "clReleaseKernel", "zeKernelDestroy", "DPCTLKernel_Delete"
ROUNDS = 30_000_000  # some tens of milliseconds; a gate would keep forebay from looking for queues that are gone


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("use_null", [True, False])
def test_queues_that_are_gone_are_retired_and_counted(device, kernels, calls, blocking, use_null):
    buffer = device.zeros(64, "u4")
    device.finish()
    before, first = device.stats, len(calls)
    for k in range(40):
        queue = device.queue(blocking=blocking)
        launch(queue, kernels, buffer, k)
        if use_null and k % 8 == 0:
            launch(device.null_queue, kernels, buffer, k)
        if k % 3 == 0:
            queue.finish()
        if k % 2:
            queue.close()
    del queue
    device.finish()
    made_by_driver = len(device_queues(calls, first))
    kept = [device.queue(blocking=blocking) for _ in range(made_by_driver)]
    assert len(device_queues(calls, first)) == made_by_driver <= 40
    assert len({calls.handle_of(queue) for queue in kept}) == made_by_driver
    assert len(calls.events_alive()) <= 2
    made = device.stats - before
    assert made.launches == 40 + 5 * use_null
    host_syncs = sum(calls.count(name, first) for name in {calls.driver.FINISH, calls.driver.WAIT})
    assert 14 <= made.host_syncs <= host_syncs
    assert made.host_syncs == host_syncs or calls.driver.POLLS  # then looking for queues that are gone is such a call


def device_queues(calls, first):
    return [call for call in calls.since(first) if call.name == calls.driver.NEW_QUEUE]


def test_a_burst_of_queues_leaves_a_bounded_number_behind(device, kernels, calls):
    buffer, turns = device.zeros(64, "u4"), 3
    for _ in range(turns):
        queues = [device.queue() for _ in range(300)]
        for queue in queues:
            launch(queue, kernels, buffer)
        del queue, queues
        device.finish()
        made, gone = (calls.count(name) for name in (calls.driver.NEW_QUEUE, calls.driver.RELEASE_QUEUE))
        assert made - gone <= 64 + 2  # and the null queue, and one that the driver's folder has for itself
    assert gone >= turns * (300 - 66)


@pytest.mark.needs("Level Zero")  # where a wait reads memory of the queue that signals its event
def test_no_queue_of_the_driver_ends_while_another_may_wait_for_it(device, calls, kernels, hold):
    held, buffer = device.queue(blocking=False), device.empty(64, "u4")
    gate, queues = hold(held), [device.queue(blocking=False) for _ in range(100)]
    for queue in queues:
        launch(queue, kernels, buffer)
        queue.finish()
    del queue, queues
    held.fill(buffer, 1)
    device.queue()  # begins with a collection
    assert not calls.count(calls.driver.RELEASE_QUEUE)
    gate.open()
    device.finish()
    assert calls.count(calls.driver.RELEASE_QUEUE) > 100 - 66


@pytest.mark.needs("arguments set by calls")
def test_a_closed_kernel_leaves_queues_that_are_to_be_handed_out(device, calls):
    """Each has a kernel object of the driver, for the next launch."""
    buffer, kernels, count = device.zeros(64, "u4"), device.program(SOURCE), 6
    device.finish()
    queues = [device.queue(blocking=False) for _ in range(count)]
    for queue in queues:
        launch(queue, kernels, buffer)
    device.finish()
    del queue, queues
    device.finish()
    first = len(calls)
    kernels["advance"].close()
    device.finish()
    assert sum(name in KERNEL_GONE for name in calls.names(first)) >= count


@pytest.mark.needs("arguments set by calls")
def test_a_closed_kernel_leaves_a_queue_that_is_being_handed_out(device, calls):
    """Another thread may close it just then."""
    buffer, kernels = device.zeros(64, "u4"), device.program(SOURCE)
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer)
    device.finish()
    del queue
    device.finish()
    first = len(calls)

    def close(queue):
        kernels["advance"].close()
        device.finish()

    with watching_new_queues(close):
        queue = device.queue(blocking=False)
    assert calls.count(calls.driver.NEW_QUEUE, first) == 0
    device.finish()
    assert any(name in KERNEL_GONE for name in calls.names(first))
    del queue


def test_queues_that_are_gone_leave_the_null_queues_list(device, kernels, calls):
    """Though the null queue is not used: each that still is there would count as a wait that needs none."""
    buffer, null = device.zeros(64, "u4"), device.null_queue
    for _ in range(300):
        queue = device.queue()
        launch(queue, kernels, buffer)
        queue.finish()
        del queue
    before = null.stats
    launch(null, kernels, buffer)
    assert (null.stats - before).waits_elided_completed < 150


def test_a_queue_that_is_gone_and_still_works_is_finished_with_its_device(device, calls):
    slow = device.program(SLOW)["slow"]
    buffer = device.array(np.zeros(64, "u4"))
    reader = device.queue(blocking=False)
    device.finish()
    queue = device.queue(blocking=False)
    queue.launch(slow, 1, 1, buffer, ROUNDS)
    del queue
    for _ in range(3):
        device.queue()  # looks for queues that are gone
    device.finish()
    assert device_data(buffer.get(queue=reader)[0]) & 1


def test_a_queue_that_works_stays_listed_when_one_that_is_gone_leaves(device, kernels, calls):
    slow = device.program(SLOW)["slow"]
    buffer, other = device.array(np.zeros(64, "u4")), device.zeros(64, "u4")
    device.finish()
    queue, gone = device.queue(), device.queue()
    queue.launch(slow, 1, 1, buffer, ROUNDS)
    launch(gone, kernels, other)
    gone.finish()
    del gone
    for _ in range(3):
        device.queue()
    device.null_queue.copy(other, buffer)
    device.null_queue.finish()
    assert device_data(other.get(queue=device.queue(blocking=False))[0]) & 1


def test_a_dropped_gate_opens(device):
    queue = device.queue()
    gate = queue.gate()
    assert not queue.query()
    del gate
    gc.collect()
    queue.finish()


def test_a_waiter_keeps_the_marker_that_its_event_no_longer_has(device, kernels, calls, hold):
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    gate = hold(queue)
    event = queue.record()
    other.wait(event)
    queue.record(event)
    del event
    assert len(calls.events_alive()) >= 2  # the gate and the marker, which nobody has given to the driver yet
    buffer = device.empty(64, "u4")
    launch(other, kernels, buffer)
    assert not other.query()
    gate.open()
    other.finish()


def test_the_per_thread_queue_of_a_dead_thread_keeps_its_place_in_the_order(device, kernels, calls, hold):
    buffer = device.zeros(64, "u4")
    device.finish()
    gates = []

    def work():
        queue = device.per_thread_queue
        gates.append(hold(queue))
        launch(queue, kernels, buffer, 5)

    in_thread(work)
    gc.collect()
    launch(device.null_queue, kernels, buffer, 7)
    assert device_data(not device.null_queue.query())
    gates.pop().open()
    device.finish()
    assert holds(buffer, 5 * 3 + 7)


def test_queues_that_waited_for_each_other_do_not_keep_each_other(device, kernels, calls):
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    for _ in range(3):
        a.wait(b)
        b.wait(a)
        launch(a, kernels, device.empty(64, "u4"))
    references = [weakref.ref(a), weakref.ref(b)]
    handles = {calls.handle_of(a), calls.handle_of(b)}
    del a, b
    assert [reference() for reference in references] == [None, None]
    device.finish()
    kept = [device.queue(blocking=False) for _ in range(50)]
    assert handles <= {calls.handle_of(queue) for queue in kept}
