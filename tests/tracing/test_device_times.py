"""`forebay.trace(device_times=True)`: when commands ran on the device, beside when they were submitted."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay.tracing import device_times
from forebay.tracing.device_times import Clock, Reference
from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.observer import observe
from tests.helpers.processes import command, python
from tests.helpers.refusals import refused

from .reading import Trace, check_one_after_the_other
from .test_perfetto import in_perfetto
from .test_trace import bytes_of_table, name_of

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
def path(tmp_path):
    return tmp_path / "trace.json"


@pytest.fixture
def buffer(device):
    with device.zeros(100, "i4") as buffer:
        device.finish()
        yield buffer


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


def test_a_device_that_never_answers_has_no_times(path, device, program, buffer, monkeypatch):
    """It is so busy that no clock of its own is known; the rest of the trace is there."""
    monkeypatch.setattr(device_times.calls, "mark_time", lambda *arguments: None)
    with fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        queue.launch(program["add"], 10, 10, buffer, 1)
        queue.finish()
    trace = Trace(path)
    assert ran(trace, queue) == []
    assert [each["name"] for each in trace.host if each["name"] == "Queue.finish"] == ["Queue.finish"]


def test_a_graph_and_a_step_have_times(path, device, program, buffer, really):
    with fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        with queue.capture() as graph:
            for _ in range(3):
                queue.launch(program["add"], 10, 10, buffer, 1)
        for _ in range(2):
            graph.launch(queue)
        step = queue.step()
        for turn in range(3):
            with step:
                for _ in range(5):
                    queue.launch(program["add"], 10, 10, buffer, turn)
        device.finish()
        step.close()
        graph.close()
    trace = Trace(path)
    about = trace.about["device times"]
    work = len(trace.of_kind("launch")) + len(trace.of_kind("recording"))
    assert about["commands"] + about["commands without"] == work
    assert about["commands without"] == 0 or not really


def test_without_asking_there_is_nothing_of_it(path, device, program, buffer):
    with fb.trace(path):
        queue = device.queue(blocking=False)
        queue.launch(program["add"], 10, 10, buffer, 1)
        queue.finish()
    trace = Trace(path)
    assert "device times" not in trace.about
    assert trace.of_kind("ran") == []
    assert queue.timing == device.timing


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


@pytest.mark.threads
def test_threads(path, device, program, really):
    buffers = [device.zeros(100, "i4") for _ in range(4)]
    device.finish()
    together = threading.Barrier(4)

    def run(buffer):
        queue = device.queue(blocking=False)
        together.wait()
        for value in range(100):
            queue.launch(program["add"], 10, 10, buffer, value)
            shared.launch(program["add"], 10, 10, buffer, value)
        queue.finish()

    with fb.trace(path, device_times=True):
        shared = device.queue(blocking=False)
        threads = [threading.Thread(target=run, args=(buffer,)) for buffer in buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.finish()
    trace = Trace(path)
    about = trace.about["device times"]
    assert about["commands"] + about["commands without"] == 800
    assert about["commands without"] == 0 or not really
    assert len(ran(trace, shared)) == 400 or not really
    for buffer in buffers:
        buffer.close()


@pytest.mark.threads
def test_many_references(path, device, program, buffer, really, monkeypatch):
    """The thread that takes them does so while commands are submitted, and none is left."""
    taken, take = [], device_times.calls.mark_time
    monkeypatch.setattr(device_times, "EVERY", 0.001)
    monkeypatch.setattr(device_times.calls, "mark_time", lambda *given: taken.append(take(*given)) or taken[-1])
    with fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        turns = 0
        while turns < 20 or (really and len(taken) < 10 * device_times.TRIES):
            queue.launch(program["add"], 10, 10, buffer, 1)
            queue.finish()
            turns += 1
    trace = Trace(path)
    assert trace.launches() == turns
    assert trace.about["device times"]["commands"] == turns * really
    check_one_after_the_other(ran(trace, queue))


def test_perfetto_reads_it(path, device, program, buffer, really):
    with fb.trace(path, device_times=True):
        queues = [device.queue(blocking=False) for _ in range(3)]
        for turn in range(4):
            for producer, waiter in zip(queues, queues[1:] + queues[:1], strict=True):
                producer.launch(program["add"], 10, 10, buffer, turn)
                waiter.wait(producer.record())
        device.finish()
    trace = in_perfetto(path)
    assert trace.query("select count(*) from slice where category = 'launch'") == [(12,)]
    count = 12 if really else Trace(path).about["device times"]["commands"]
    assert trace.query("select count(*) from slice where category = 'ran'") == [(count,)]
    arrows = "select count(*) from flow join slice on slice_in = slice.id where slice.category = 'ran'"
    assert trace.query(arrows) == [(count,)]


# -- it changes nothing else


def test_nothing_is_left_when_it_has_ended(path, device, works, queue):
    table = bytes_of_table(device)
    method = vars(fb.Device)["queue"]
    for _ in range(3):
        with fb.trace(path, device_times=True):
            assert device.queue(timing=False).timing
            works(queue)
            works(device.queue())
        assert bytes_of_table(device) == table
        assert vars(fb.Device)["queue"] is method
        works(queue)
    for thread in threading.enumerate():
        if thread.name == "forebay device times":
            thread.join()  # it ends by itself


@pytest.mark.needs("OpenCL")
def test_no_event_is_left(device, program, buffer, path):
    """As many as a trace without the times leaves: those of forebay."""

    def left(**options):
        with observe(device) as calls:
            with fb.trace(path, **options):
                queue, waiter = device.queue(blocking=False, timing=True), device.queue(blocking=False)
                for value in range(50):
                    queue.launch(program["add"], 10, 10, buffer, value)
                    waiter.wait(queue)
                    waiter.launch(program["add"], 10, 10, buffer, value)
                    queue.wait(waiter)
                device.finish()
                queue.close()
                waiter.close()
                del queue, waiter
                gc.collect()
            return len(calls.events_alive())

    assert left(device_times=True) == left()


@pytest.mark.needs("OpenCL")
def test_events_are_given_back_while_it_runs(device, program, buffer, path):
    with observe(device) as calls, fb.trace(path, device_times=True):
        queue = device.queue(blocking=False)
        for value in range(400):
            queue.launch(program["add"], 10, 10, buffer, value)
            if value % 20 == 0:
                queue.finish()
        queue.finish()
        queue.launch(program["add"], 10, 10, buffer, 1)
        assert len(calls.events_alive()) < 120


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


def test_a_device_that_is_closed_and_dropped_goes(path, device):
    with fb.trace(path, device_times=True):
        another = fb.Device(device.name, private=True)
        inner = another.queue()
        inner.launch(another.program("kernel void mine() { }")["mine"], 1, 1)
        inner.finish()
        gone = weakref.ref(another)
        another.close()
        del another, inner
        gc.collect()
        assert gone() is None
    assert Trace(path).launches("mine") == 1


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_argument_is_a_bool(path, value):
    with refused(fb.ArgumentTypeError, TypeError, "device_times", type(value).__name__):
        fb.trace(path, device_times=value)


# -- the command


@pytest.mark.needs("no validation layer")
@pytest.mark.long
def test_the_command(path):
    source = """
import forebay as fb
device = fb.Device()
program = device.program("kernel void one(global int *a) { a[get_global_id(0)] = 1; }")
queue, buffer = device.queue(), device.empty(64, "i4")
for _ in range(3):
    queue.launch(program["one"], 1, 64, buffer)
queue.finish()
"""
    chosen = {"FOREBAY_DEVICE": DEVICES[0]}
    if command()[0][0] != sys.executable:
        done = python("-c", source, FOREBAY_TRACE=path, FOREBAY_TRACE_DEVICE_TIMES=1, **chosen)
    else:
        options = ("--device-times", "-o", path, "--", sys.executable, "-c", source)
        done = python("-m", "forebay", "trace", *options, **chosen)
    assert done.returncode == 0, done.stderr
    about = Trace(path).about["device times"]
    assert about["commands"] + about["commands without"] == 3
    assert about["commands"] == 3 or on_null_hardware(DEVICES[0])


# -- the clocks


def test_between_two_references_it_goes_straight():
    clock = Clock([Reference(1000, 5, 0), Reference(31_000, 9, 10e9)], speed=1.0)
    assert clock.ticks(0) == 1000
    assert clock.ticks(5e9) == 16_000
    assert clock.ticks(10e9) == 31_000
    assert clock.ticks(20e9) - 31_000 == pytest.approx(10e9)  # outside, the host's own speed counts
    assert clock.ticks(-1e9) == pytest.approx(1000 - 1e9)
    assert clock.within == 9


def test_of_two_references_close_together_the_one_that_is_known_best_counts():
    clock = Clock([Reference(1000, 500, 0), Reference(2000, 3, 1e6), Reference(5000, 90, 2e6)], speed=2e-3)
    assert clock.within == 3
    assert clock.ticks(1e6) == 2000
    assert clock.ticks(2e6) == 4000
    assert clock.positions == [0, 1e6, 2e6]


def test_one_reference_is_enough():
    assert Clock([Reference(1000, 5, 0)], speed=3.0).ticks(10) == 1030
