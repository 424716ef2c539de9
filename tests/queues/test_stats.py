from dataclasses import FrozenInstanceError, asdict, fields

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observer_of


def counted(**changed):
    return fb.Stats(**changed)


# The object


def test_subtracting_gives_what_happened_in_between():
    later, earlier = fb.Stats(launches=5, waits_made=3), fb.Stats(launches=2, copies=0, waits_made=3)
    assert later - earlier == fb.Stats(launches=3)
    assert later - later == fb.Stats()
    with pytest.raises(TypeError):
        later - 1


def test_all_elided_waits():
    assert fb.Stats(waits_elided_completed=2, waits_elided_ordered=3).waits_elided == 5


def test_it_does_not_change():
    with pytest.raises(FrozenInstanceError):
        fb.Stats().launches = 1


def test_it_prints_a_line_for_each():
    text = str(fb.Stats(launches=1234567))
    assert len(text.splitlines()) == len(fields(fb.Stats)) + 1
    assert "1,234,567" in text


# Each counter


@pytest.fixture
def queue(make_queue):
    return make_queue(blocking=False)  # so that the null queue adds nothing to what is counted


@pytest.fixture
def change(queue, device):
    """``change(function)``: what it adds to the queue's counters; the device's are the sum."""

    def change(function):
        device.finish()
        before, device_before = queue.stats, device.stats
        function()
        mine, all_of_them = queue.stats - before, device.stats - device_before
        assert asdict(mine) == {name: min(value, asdict(all_of_them)[name]) for name, value in asdict(mine).items()}
        return mine

    return change


def test_launches_and_argument_bytes(device, queue, program, change):
    buffer = device.zeros(10, "i4")
    kernel = program["fill"]
    assert change(lambda: queue.launch(kernel, 1, 10, buffer, 1)) == counted(launches=1, arg_bytes_set=12)
    assert change(lambda: queue.launch(kernel, 1, 10, buffer, 1)) == counted(launches=1, arg_bytes_skipped=12)
    assert change(lambda: queue.launch(kernel, 2, 5, buffer, 1)) == counted(launches=1, arg_bytes_skipped=12)
    assert change(lambda: queue.launch(kernel, 1, 10, buffer, 2)) == counted(
        launches=1, arg_bytes_set=4, arg_bytes_skipped=8
    )
    assert change(lambda: queue.launch(kernel, 1, 10, buffer[:], 2)) == counted(launches=1, arg_bytes_skipped=12)
    assert change(lambda: queue.launch(kernel, 1, 5, buffer[5:], 2)) == counted(
        launches=1, arg_bytes_set=8, arg_bytes_skipped=4
    )
    assert change(lambda: queue.launch(program["nothing"], 1, 1)) == counted(launches=1)


def test_copies(device, queue, change):
    buffer, other = device.zeros(10, "i4"), device.zeros(10, "i4")
    host, pinned = np.zeros(10, "i4"), fb.host_empty(10, "i4", device=device)
    own = 1 if device.info.backend == "opencl" else 0  # for a finish right after it
    assert change(lambda: queue.copy(buffer, other)) == counted(copies=1, events_made=own)
    # memory of the host is kept until the queue is known to have reached the copy's epoch
    assert change(lambda: queue.copy(buffer, host)) == counted(copies=1, events_made=own)
    assert change(lambda: queue.copy(buffer, pinned)) == counted(copies=1, events_made=own)
    assert change(lambda: queue.copy(pinned, buffer)) == counted(copies=1, events_made=own)
    events = own if device.driver.takes_pageable else 1  # to wait for
    assert change(lambda: queue.copy(host, buffer)) == counted(copies=1, events_made=events)


def test_fills(device, queue, change):
    buffer = device.zeros(10, "i4")
    assert change(lambda: queue.fill(buffer, 7)) == counted(fills=1)


@pytest.mark.executes
def test_host_functions(queue, change):
    assert change(lambda: queue.host(lambda: None)) == counted(host_functions=1, events_made=2)


def test_a_query(device, queue, hold):
    gate = hold(queue)
    queue.record()
    before = queue.stats
    queue.query()
    # a driver that has nothing to tell whether a queue is done is asked for a marker
    assert queue.stats - before == counted(markers_shared=0 if observer_of(device.info.backend).POLLS else 1)
    gate.open()


def test_waits(device, make_queue, hold):
    first, second, third = (make_queue(blocking=False) for _ in range(3))
    event = first.record()
    second.wait(event)
    assert second.stats == counted(waits_elided_completed=1)
    gate = hold(first)
    before = second.stats
    event = first.record()
    second.wait(event)
    assert second.stats - before == counted(waits_made=1)
    second.wait(event)
    assert second.stats - before == counted(waits_made=1, waits_elided_ordered=1)
    third.wait(second)
    third.wait(event)  # through the second
    assert third.stats == counted(waits_made=1, waits_elided_ordered=1)
    first.wait(event)  # its own
    assert first.stats.waits_elided_ordered == 1
    gate.open()


def test_a_device_counts_queues_that_are_gone(device, program):
    with fb.Device(device.name, private=True) as other:
        kernel = other.program("kernel void nothing(void) { mem_fence(CLK_GLOBAL_MEM_FENCE); }")["nothing"]
        for number in range(5):
            queue = other.queue()
            queue.launch(kernel, 1, 1)
            if number % 2:
                queue.close()
            del queue
            other.finish()
            assert other.stats.launches == number + 1
        assert other.stats.launches == 5
    assert other.stats.launches == 5
