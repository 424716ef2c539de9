"""A signal's handler that raises ends a wait at once, and leaves everything as it was."""

import contextlib
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import forebay as fb
from forebay.events.event import wait_for_all
from tests.helpers.observer import observe
from tests.ordering.program import SOURCE, launch

pytestmark = pytest.mark.needs("null hardware")


WAITS = {
    "queue.finish": lambda device, queue, events: queue.finish(),
    "device.finish": lambda device, queue, events: device.finish(),
    "event.wait": lambda device, queue, events: events[0].wait(),
    "wait for events": lambda device, queue, events: wait_for_all(events),
    "get": lambda device, queue, events: device.zeros(4).get(queue=queue),
}


LOOKS = 10  # at which the thread was at the same place


class RangError(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture
def ring():
    """``with ring():`` a signal comes once this thread stays inside of one call, and its handler raises `RangError`."""
    waiting = threading.get_ident()

    def rang(*_):
        raise RangError

    def look(over):
        seen, looks = None, 0
        while looks < LOOKS and not over.wait(0.002):
            frame = sys._current_frames()[waiting]
            at = id(frame), frame.f_lasti
            del frame
            seen, looks = at, looks + 1 if at == seen else 0
        if not over.is_set():
            signal.pthread_kill(waiting, signal.SIGALRM)

    @contextlib.contextmanager
    def ring():
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(look, over)
            try:
                with pytest.raises(RangError):
                    yield
            finally:
                over.set()

    before = signal.signal(signal.SIGALRM, rang)
    yield ring
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("what", "failing"), [*((each, False) for each in WAITS), ("device.finish", True)])
def test_a_signal_handler_may_end_a_wait(device, kernels, buffer, calls, hold, ring, what, failing):
    """The wait itself would go on until the gate is opened, which only this thread does.

    When the driver fails to wait for all queues at once, they are finished one after the other.
    """
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    for turn in range(3):
        gates = [hold(queue), hold(other)]
        launch(queue, kernels, buffer)
        launch(other, kernels, buffer)
        events = [queue.record(), other.record()]
        if failing:
            calls.fail(calls.driver.BARRIER, calls.driver.FAILURE[0])
        with ring():
            WAITS[what](device, queue, events)
        assert sum(call.injected for call in calls.log) == failing * (turn + 1)
        assert not queue.empty
        [gate.open() for gate in gates]
        WAITS[what](device, queue, events)
        queue.finish()
        other.finish()
        assert queue.empty
    first = len(calls)
    device.finish()
    assert calls.names(first) == []


@pytest.mark.parametrize("failing", [False, True])
def test_a_signal_handler_may_end_the_close_of_a_device(left, opened, ring, failing):
    """The device is closed all the same. What its queues still do goes on, and is given back after it.

    When the driver fails to wait for all queues at once, they are finished one after the other.
    """
    device = opened()
    kernels, buffer = device.program(SOURCE), device.zeros(64, "u4")
    queues = [device.queue(blocking=False) for _ in range(2)]
    gates = [queue.gate() for queue in queues]
    try:
        for queue in queues:
            launch(queue, kernels, buffer)
        with observe(device) as calls, ring():
            if failing:
                calls.fail(calls.driver.BARRIER, calls.driver.FAILURE[0])
            device.close()
        assert any(call.injected for call in calls.log) == failing
        assert device.closed
        assert buffer.closed
        assert all(queue.closed for queue in queues)
        device.close()
        with pytest.raises(fb.ClosedError):
            launch(queues[0], kernels, buffer)
    finally:
        for gate in gates:
            gate.open()
    opened.close_all()
    del device, kernels, buffer, queue, queues, gate, gates, calls
    assert left() == {}
