"""Calls that do not block do not wait for another thread that is inside a driver call for some other queue."""

import pytest

from tests.helpers.threads import beside, together
from tests.observers.internals import Turns, locked

from .program import SOURCE


@pytest.fixture
def busy(device):
    """A queue that has plans of kernels, some of which follow pointers where the device has addresses."""
    queue, buffer = device.queue(blocking=False), device.zeros(64, "u4")
    device.finish()
    programs = [device.program(SOURCE) for _ in range(2)]
    if device.driver.has_addresses:
        programs[1]["advance"].follow_pointers()
    for program in programs:
        queue.launch(program["advance"], 4, 16, buffer, 1)
    queue.finish()
    yield queue, programs
    queue.finish()


CALLS = {
    "empty": lambda device: device.empty(64, "u4"),
    "close": lambda device: device.empty(64, "u4").close(),
    "queue": lambda device: device.queue(),
    "queues that go": lambda device: [device.queue() for _ in range(4)].clear(),
    "alloc and free": lambda device: (lambda queue: queue.free(queue.alloc(64, "u4")))(device.queue(blocking=False)),
    "stats": lambda device: device.stats,
}


@pytest.mark.threads
@pytest.mark.parametrize("what", list(CALLS))
def test_after_a_kernel_was_closed(device, busy, what):
    """Its plan on the queue goes with a later collection."""
    queue, programs = busy
    with locked(queue):
        for program in programs:
            program["advance"].close()
        together(lambda: CALLS[what](device))  # in another thread; a call that waits for the lock would never return
        together(lambda: CALLS[what](device))


@pytest.mark.threads
def test_a_wait_for_a_done_event(device, busy):
    queue, programs = busy
    event = queue.record()
    event.wait()
    with locked(queue):
        programs[0]["advance"].close()
        together(event.wait)
        together(event.query)


@pytest.mark.threads
def test_plans_of_closed_kernels_go_when_the_lock_is_free(device, calls, busy):
    queue, programs = busy
    first = len(calls)
    with locked(queue):
        for program in programs:
            program["advance"].close()
        device.empty(64, "u4").close()
        kept = sum("Kernel" in name and ("Release" in name or "Destroy" in name) for name in calls.names(first))
    device.empty(64, "u4").close()
    device.finish()
    gone = sum("Kernel" in name and ("Release" in name or "Destroy" in name or "Delete" in name)
               for name in calls.names(first))  # fmt: skip
    assert gone >= kept + 2


@pytest.mark.needs("no chosen device")
@pytest.mark.parametrize("waiters", [1, 3])
def test_a_thread_that_has_a_lock_nearly_always_lets_others_in(waiters):
    """As one that launches without pause has its queue's lock, and another calls `finish`."""
    turns, most, seen = Turns(), 400, []
    with beside(*[lambda: seen.append(turns.ask())] * waiters):
        turns.take(most)
    assert len(seen) == waiters
    assert all(after - before < most // 4 for before, after in seen), seen
