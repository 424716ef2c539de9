"""Waits of the host. dpctl's return as if all were done when SYCL has thrown, so forebay looks."""

import pytest

import forebay as fb
from forebay.events.event import wait_for_all
from tests.helpers.observer import observe
from tests.ordering.program import SOURCE


@pytest.fixture
def calls(device):
    with observe(device) as calls:
        yield calls


@pytest.mark.parametrize("what", ["event", "queue", "events", "device"])
def test_a_wait_that_has_thrown_has_waited_for_nothing(device, calls, what):
    kernel = device.program(SOURCE)["advance"]
    buffer = device.zeros(64, "u4")
    queues = [device.queue(blocking=False) for _ in range(2)]
    device.finish()
    for queue in queues:
        queue.launch(kernel, 4, 16, buffer, 1)
    events = [queue.record() for queue in queues]
    wait = {
        "event": events[0].wait, "queue": queues[0].finish, "events": lambda: wait_for_all(events),
        "device": device.finish,
    }[what]  # fmt: skip
    for _ in range(3):  # a device finishes each queue when it cannot finish all at once
        calls.driver.throw_in_wait()
    with pytest.raises(fb.DriverError, match="DPCTLEvent_Wait"):
        wait()
    assert not queues[0].empty
    calls.forgive()
    wait()
    assert queues[0].empty
