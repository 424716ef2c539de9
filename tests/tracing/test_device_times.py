"""`forebay.trace(device_times=True)`: when commands ran on the device, beside when they were submitted."""

import gc
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.tracing import device_times
from forebay.tracing.device_times import Clock, Reference
from tests.helpers.observer import observe

from .reading import Trace, check_one_after_the_other
from .test_trace import name_of

ON_DEVICE = ", on the device"
CLOCKS = 200  # µs that the two clocks may differ here: what is asserted of them holds however slow anything is
SPIN = """
kernel void spin(global uint *x, uint steps) {
    uint state = 2463534242u;
    for (uint i = 0; i < steps; i++) { state ^= state << 13; state ^= state >> 17; state ^= state << 5; }
    x[get_global_id(0)] += state;
}
"""


@pytest.fixture
def spin(device):
    return device.program(SPIN)["spin"]


def ran(trace, queue):
    """The slices of a queue's track of the device."""
    return trace.queues.get(name_of(queue) + ON_DEVICE, [])


def end_of(piece):
    return piece["ts"] + piece["dur"]


# -- what is in it


def test_each_command_ran_once_in_its_queues_order(path, device, program, buffer, really):
    host = np.ones(100, "i4")
    with fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        assert queue.timing
        for value in range(5):
            queue.launch(program["add"], 10, 10, buffer, value)
        queue.copy(buffer, host)
        queue.fill(buffer, 3)
        queue.launch(program["fill"], 10, 10, buffer, 1)
        queue.finish()
    trace = Trace(path)
    submitted = [each for each in trace.queues[name_of(queue)] if each["cat"] in ("launch", "copy", "fill")]
    found = ran(trace, queue)
    about = trace.about["device times"]
    assert len(submitted) == about["commands"] + about["commands without"] == 8
    if not really:
        return
    assert about["commands without"] == 0
    assert [each["name"] for each in found] == [each["name"] for each in submitted]
    assert {each["cat"] for each in found} == {"ran"}
    check_one_after_the_other(found)
    assert trace.arrows["ran"] == list(zip(submitted, found, strict=True))


def test_what_waits_ran_after_what_it_waited_for(path, device, spin, really):
    with device.empty(64, "u4") as x, fb.trace(path, device_times=True):
        a, b = device.queue(blocking=False), device.queue(blocking=False)
        for _ in range(5):
            a.launch(spin, 1, 64, x, 100_000)
            b.wait(a)
            b.launch(spin, 1, 64, x, 100)
            a.wait(b)
        device.finish()
    if not really:
        return
    trace = Trace(path)
    first, second = ran(trace, a), ran(trace, b)
    assert len(first) == len(second) == 5
    for number in range(5):
        assert end_of(first[number]) <= second[number]["ts"] + 0.01
        assert number == 4 or end_of(second[number]) <= first[number + 1]["ts"] + 0.01


def test_the_devices_clock_is_related_to_the_hosts(path, device, program, buffer, hold, really):
    """What is behind a gate runs after that was opened, and before a finish returns."""
    with fb.trace(path, device_times=True):
        queue, other = device.queue(blocking=False), device.queue(blocking=False)
        gate = hold(queue)
        queue.launch(program["add"], 10, 10, buffer, 1)
        other.launch(program["nothing"], 1, 1)
        other.finish()  # a slice of the host's
        gate.open()
        queue.finish()
    if not really:
        return
    trace = Trace(path)
    before, after = [each for each in trace.host if each["name"] == "Queue.finish"]
    (launch,) = ran(trace, queue)
    within = trace.about["device times"]["known within, µs"]
    assert within >= 0
    assert launch["ts"] >= end_of(before) - within - CLOCKS
    assert end_of(launch) <= end_of(after) + within + CLOCKS


@pytest.mark.needs("OpenCL")
def test_a_queue_of_before_that_times_nothing_is_counted(path, device, make_queue, program, buffer):
    untimed, timed = make_queue(blocking=False, timing=False), make_queue(blocking=False, timing=True)
    for queue in (untimed, timed):
        queue.launch(program["add"], 10, 10, buffer, 1)  # one that has never had work is not looked for
    with fb.trace(path, device_times=True):
        for queue in (untimed, timed):
            queue.launch(program["add"], 10, 10, buffer, 1)
            queue.finish()
    trace = Trace(path)
    assert trace.about["device times"]["commands without"] == 1
    assert ran(trace, untimed) == []
    assert len(ran(trace, timed)) == 1


def test_a_device_that_never_answers_has_no_times(path, device, program, buffer):
    """It is so busy that no clock of its own is known; the rest of the trace is there."""
    with mock.patch.object(device_times.calls, "mark_time", return_value=None), fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        queue.launch(program["add"], 10, 10, buffer, 1)
        queue.finish()
    trace = Trace(path)
    assert ran(trace, queue) == []
    assert trace.launches() == 1


@pytest.mark.threads
def test_many_references(path, device, program, buffer, really):
    """The thread that takes them does so while commands are submitted, and none is left."""
    often = mock.patch.object(device_times, "EVERY", 0.001)
    counted = mock.patch.object(device_times.calls, "mark_time", wraps=device_times.calls.mark_time)
    with often, counted as mark_time, fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        turns = 0
        while turns < 20 or (really and mark_time.call_count < 10 * device_times.TRIES):
            queue.launch(program["add"], 10, 10, buffer, 1)
            queue.finish()
            turns += 1
    trace = Trace(path)
    assert trace.launches() == turns
    assert trace.about["device times"]["commands"] == turns * really
    check_one_after_the_other(ran(trace, queue))


# -- it changes nothing else


@pytest.mark.needs("OpenCL")
def test_events_are_released(device, program, buffer, path):
    """Some while it runs; at the end all but those that a trace without the times leaves: those of forebay."""

    def left(**options):
        with observe(device) as calls:
            with fb.trace(path, **options):
                queue, waiter = device.queue(blocking=False, timing=True), device.queue(blocking=False)
                for value in range(400):
                    queue.launch(program["add"], 10, 10, buffer, value)
                    waiter.wait(queue)
                    waiter.launch(program["add"], 10, 10, buffer, value)
                    queue.wait(waiter)
                    if value % 20 == 0:
                        queue.finish()
                device.finish()
                queue.launch(program["add"], 10, 10, buffer, 1)
                assert len(calls.events_alive()) < 200
                queue.finish()
                queue.close()
                waiter.close()
                del queue, waiter
                gc.collect()
            return len(calls.events_alive())

    assert left(device_times=True) == left()


@pytest.mark.needs("OpenCL")
def test_an_event_that_the_driver_refuses_costs_only_the_time(device, program, buffer, path, works, queue):
    with observe(device) as calls, fb.trace(path, device_times=True):
        timed = device.queue(blocking=False)
        timed.launch(program["add"], 10, 10, buffer, 1)
        for after in (0, 1):  # the one before the command, and the one after it
            calls.fail(calls.driver.MARKER, calls.driver.FAILURE[0], after)
            timed.launch(program["add"], 10, 10, buffer, 1)
        calls.fail(calls.driver.LAUNCH, calls.driver.FAILURE[0])
        with pytest.raises(fb.DriverError):
            timed.launch(program["add"], 10, 10, buffer, 1)
        timed.launch(program["add"], 10, 10, buffer, 1)
        timed.finish()
    trace = Trace(path)
    assert trace.launches() == 4
    assert trace.about["device times"]["commands"] == 2
    assert trace.about["device times"]["commands without"] == 2
    works(queue)


def test_what_is_not_done_at_the_end_has_no_time(path, device, program, buffer, hold, works):
    trace = fb.trace(path, device_times=True)
    trace.__enter__()
    queue = device.queue(blocking=False)
    gate = hold(queue)
    queue.launch(program["add"], 10, 10, buffer, 1)
    trace.__exit__()
    gate.open()
    queue.finish()
    assert Trace(path).about["device times"]["commands without"] == 1
    works(queue)


# -- the clocks


@pytest.mark.parametrize(("references", "speed", "within", "ticks"), [
    ([Reference(1000, 5, 0)], 3.0, 5, {10: 1030}),
    # Between two references the clock goes straight; outside, the host's own speed counts.
    (
        [Reference(1000, 5, 0), Reference(31_000, 9, 10e9)], 1.0, 9,
        {0: 1000, 5e9: 16_000, 10e9: 31_000, 20e9: 10e9 + 31_000, -1e9: 1000 - 1e9},
    ),
    # Of two that are close together, the one that is known best counts.
    (
        [Reference(1000, 500, 0), Reference(2000, 3, 1e6), Reference(5000, 90, 2e6)], 2e-3, 3,
        {1e6: 2000, 2e6: 4000},
    ),
])  # fmt: skip
def test_a_clock(references, speed, within, ticks):
    clock = Clock(references, speed=speed)
    assert clock.within == within
    for position, expected in ticks.items():
        assert clock.ticks(position) == pytest.approx(expected)
