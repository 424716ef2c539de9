"""Things of two devices do not mix by accident, and those that may meet are ordered.

The second device is another context of the same one, and whatever else its driver has: half of a CPU, another platform,
a second GPU. ``python -m tools.null_levelzero --devices 2`` shows two GPUs.
"""

import re
import time

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.pinned import pinned
from tests.helpers.refusals import refused

COUNT = 1000
RELEASES = re.compile("Free|Release(?!Event)")
SOURCE = "kernel void fill(global int *a, int v) { a[get_global_id(0)] = v; }"


@pytest.fixture
def numbers():
    return np.arange(COUNT, dtype="i4")


@pytest.fixture
def fill_there(another):
    with another.program(SOURCE) as program:
        yield program["fill"]


# What must not mix


REFUSED = [
    "queue.copy(there, np.zeros(10, 'i4'))", "queue.copy(np.zeros(10, 'i4'), there)", "queue.copy(there, further)",
    "queue.copy(there, here)", "queue.fill(there, 1)", "queue.launch(fill, 1, 10, there, 1)",
    "fill.bind(queue, 1, 10, there, 1)", "queue.launch(fill_there, 1, 10, here, 1)",
    "fill_there[1, 10, queue](here, 1)", "fill_there.bind(queue, 1, 10, here, 1)", "queue.record(event)",
    "theirs.launch(fill, 1, 10, there, 1)", "fill[1, 10, theirs](there, 1)", "fill.bind(theirs, 1, 10, here, 1)",
    "theirs.fill(here, 1)", "theirs.copy(here, np.zeros(10, 'i4'))", "here.get(queue=theirs)",
    "here.set(1, queue=theirs)",
]  # fmt: skip
"""What a queue is given of another device: memory, kernels, an event."""


@pytest.mark.parametrize("written", REFUSED)
def test_what_must_not_mix(device, another, queue, program, refuses, fill_there, written):
    """It is refused, and both devices go on working."""
    theirs, event = another.queue(), another.event()
    names = {
        "np": np, "queue": queue, "theirs": theirs, "fill": program["fill"], "fill_there": fill_there, "event": event,
        "here": device.zeros(10, "i4"), "there": another.zeros(10, "i4"), "further": another.empty(10, "i4"),
    }  # fmt: skip
    words = ["another device" if written == "queue.copy(there, here)" else "belongs to"]
    words += [another.name] * ("theirs" not in written) + ["'fill'"] * ("fill_there" in written)
    with refuses(fb.InvalidArgumentError, ValueError, *words):
        eval(written, names)
    assert (theirs.epoch, event.recorded) == (0, False)
    another.null_queue.launch(fill_there, 1, 10, names["there"], 1)
    another.finish()


def test_times_of_two_devices_are_not_compared(device, another, make_queue):
    here, there = make_queue(timing=True), another.queue(timing=True)
    mine, theirs = here.record(timing=True), there.record(timing=True)
    mine.wait()
    theirs.wait()
    for attempt in (lambda: mine - theirs, lambda: theirs.elapsed(mine)):
        with refused(fb.InvalidArgumentError, ValueError, "elapsed", "two devices"):
            attempt()


def test_finishing_one_device_leaves_the_other_alone(device, another, queue, program, fill_there):
    here, there = device.zeros(10, "i4"), another.zeros(10, "i4")
    device.finish()
    another.finish()
    queue.launch(program["fill"], 1, 10, here, 1)
    another.null_queue.launch(fill_there, 1, 10, there, 1)
    counted = device.stats.host_syncs
    another.finish()
    assert device.stats.host_syncs == counted
    assert another.null_queue.empty
    assert not queue.empty


def test_a_closed_device_leaves_the_other_alone(device, another, queue, works):
    theirs = another.queue()
    event = theirs.record()
    another.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        queue.wait(theirs)
    queue.wait(event)
    works(queue)


# What may meet: waits


def test_a_wait_for_another_device_is_submitted_once(device, another, queue, program, fill_there, hold):
    theirs = another.queue()
    here, there = device.zeros(10, "i4"), another.zeros(10, "i4")
    device.finish()
    another.finish()
    gate = hold(theirs)  # or a wait may find that it is done
    theirs.launch(fill_there, 1, 10, there, 1)
    event = theirs.record()
    before = queue.stats
    queue.wait(event)
    queue.wait(event)
    queue.wait(theirs)
    queue.launch(program["fill"], 1, 10, here, 1)
    waited = queue.stats - before
    assert (waited.waits_made, waited.waits_elided_ordered) == (1, 2)
    gate.open()
    queue.finish()
    assert queue.empty
    assert theirs.query()


@pytest.mark.needs("OpenCL")  # which makes a user event for the wait, and forbids to release anything before it is set
def test_nothing_is_released_while_a_wait_for_another_device_is_open(device, another, make_queue, program):
    """What was in use by nobody goes when the other device is done, and no gate of this one is looked at."""
    theirs, queue, idle = another.queue(), make_queue(blocking=False), make_queue(blocking=False)
    unused = [device.empty(1 << 20) for _ in range(3)]
    used, kernel = device.zeros(10, "i4"), program["fill"]
    device.finish()
    with observe(device) as calls:
        with theirs.gate() as gate:
            queue.wait(theirs.record())
            queue.launch(kernel, 1, 10, used, 1)
            first = len(calls)
            for buffer in unused:
                buffer.close()
            for value in range(3):
                idle.fill(used, value)
                idle.finish()
            assert [name for name in calls.names(first) if RELEASES.search(name)] == []
            gate.open()
        device.finish()
        device.empty(10)
        assert sum("Free" in name or "MemObject" in name for name in calls.names(first)) >= 3


@pytest.mark.needs("Level Zero")  # whose waits read memory of the list that signals the event
def test_a_queue_ends_after_the_waits_of_another_device_for_it(device, another, make_queue, hold):
    theirs, queue = another.queue(blocking=False), make_queue(blocking=False)
    here, there = device.empty(10, "i4"), another.empty(10, "i4")
    device.finish()
    another.finish()
    with observe(device) as calls:
        handle = calls.handle_of(theirs)
        gate = hold(queue)
        theirs.fill(there, 1)
        queue.wait(theirs)
        queue.fill(here, 1)
        theirs.finish()
        del theirs
        another.close()
        ended = [call.object for call in calls.log if call.name == calls.driver.RELEASE_QUEUE]
        gate.open()
        queue.finish()
    assert handle not in ended


def test_a_chain_of_waits_across_devices(device, another, make_queue, program, numbers):
    theirs, queue = another.queue(), make_queue(blocking=False)
    source, buffer, out = another.zeros(COUNT, "i4"), device.zeros(COUNT, "i4"), pinned(device, numbers * 0)
    device.finish()
    another.finish()
    gate = theirs.gate()
    theirs.copy(source, numbers)
    queue.wait(theirs)
    queue.launch(program["fill"], 10, 100, buffer, 3)
    queue.copy(out, buffer)
    assert out.tolist() == [0] * COUNT
    gate.open()
    queue.finish()
    assert device_data(out.tolist()) == [3] * COUNT
    assert device_data(source.get().tolist()) == numbers.tolist()


# What may meet: copies


def test_a_copy_between_devices_is_a_copy_on_each(device, another, queue, hold):
    source, buffer = another.zeros(COUNT, "i4"), device.zeros(COUNT, "i4")
    device.finish()
    another.finish()
    directly = device.driver.can_reach(another.driver)  # else through memory of the host
    while directly and not device.driver.reach(another.driver):
        time.sleep(1e-3)  # not while a gate is closed, such as that of a host function of an earlier test
    before, there_before = queue.stats, another.stats
    hold(another.null_queue)  # or its copy may be done, and need no wait
    queue.copy(buffer, source)
    hold.open()
    assert (queue.stats - before).copies == 1
    assert (another.stats - there_before).copies == (not directly)
    assert (queue.stats - before).waits_made == 1 or directly
    queue.finish()
    assert another.null_queue.query()


def test_from_another_device(device, another, queue, numbers):
    source = another.array(numbers)
    buffer = device.empty(COUNT, "i4")
    queue.copy(buffer, source)
    assert device_data(buffer.get(queue=queue).tolist()) == numbers.tolist()
    queue.copy(buffer[:10], source[20:30])
    assert device_data(buffer.get(queue=queue)[:12].tolist()) == [*range(20, 30), 10, 11]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_copy_from_another_device_comes_after_the_work_there(device, another, queue, numbers, really, blocking):
    """Of a blocking queue, and of one that its own queue waits for."""
    theirs = another.queue(blocking=blocking)
    source = another.zeros(COUNT, "i4")
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    another.finish()
    with theirs.gate() as gate:
        theirs.copy(source, numbers)
        if not blocking:
            queue.wait(theirs.record())
        queue.copy(buffer, source)
        queue.copy(done := pinned(device, np.full(1, -1, "i4")), buffer[7:8])
        assert not queue.query() or not really
        assert done.tolist() == [-1] or not really
        gate.open()
        queue.finish()
    assert done.tolist() == [7] or not really
    assert buffer.get().tolist() == numbers.tolist() or not really


def test_pinned_memory_of_another_device_is_pageable_here(device, another, queue, hold, numbers):
    host = pinned(another, numbers)
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    gate = hold(queue)
    queue.copy(buffer, host)
    host[:] = -1
    gate.open()
    assert device_data(buffer.get(queue=queue).tolist()) == list(range(COUNT))


# Two drivers


@pytest.fixture
def of_another_driver(device):
    """A device of which the other's driver knows nothing."""
    for info in fb.devices():
        if info.usable and info.backend != device.info.backend:
            with fb.Device(info.name, private=True) as other:
                yield other
            return


@pytest.mark.needs("two drivers")
def test_no_driver_waits_for_anothers_event(device, of_another_driver, queue, refuses):
    theirs = of_another_driver.queue()
    theirs.fill(of_another_driver.zeros(10), 1)
    for attempt in (lambda: queue.wait(theirs.record()), lambda: queue.wait(theirs)):
        with refuses(fb.InvalidArgumentError, ValueError, "another driver"):
            attempt()
    theirs.finish()


@pytest.mark.needs("two drivers")
def test_a_copy_between_drivers_goes_through_the_host(device, of_another_driver, queue, numbers):
    source, buffer = of_another_driver.array(numbers), device.zeros(COUNT, "i4")
    before = queue.stats
    queue.copy(buffer, source)
    assert (queue.stats - before).copies == 1
    queue.finish()
