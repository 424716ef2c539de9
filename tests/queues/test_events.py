import copy
import pickle

import pytest

import forebay as fb
from tests.helpers.refusals import refused


@pytest.fixture
def timed(make_queue):
    return make_queue(timing=True)


def test_an_event_may_be_recorded_again_on_another_queue_after_its_own_was_closed(make_queue, hold):
    queue, other = make_queue(), make_queue()
    event = queue.record()
    queue.close()
    with refused(fb.ClosedError, RuntimeError, "Queue", "closed"):
        queue.record(event)
    with hold(other):
        other.record(event)
        assert not event.query()
    event.wait()


def test_events_of_a_closed_device(device):
    with fb.Device(device.name, timing=True, private=True) as other:
        queue = other.queue()
        event, never = queue.record(timing=True), other.event()
    assert event.query()
    assert never.query()
    event.wait()
    assert "Event" in repr(event)


# Time


@pytest.mark.executes
def test_elapsed_time(device, timed, program):
    buffer = device.zeros(10, "i4")
    device.finish()
    start = timed.record(timing=True)
    timed.launch(program["fill"], 1, 10, buffer, 5)
    end = timed.record(timing=True)
    end.wait()
    assert isinstance(end.elapsed(start), float)
    assert end.elapsed(start) >= 0
    assert end - start == end.elapsed(start) == -(start - end)
    assert start - start == 0
    assert start.timing
    begin, event = device.event(timing=True), device.event(timing=True)
    timed.record(begin)
    timed.record(event)
    timed.finish()
    assert event - begin >= 0


def test_a_timed_record_is_a_command_of_its_own(timed):
    before = timed.epoch
    first, second = timed.record(timing=True), timed.record(timing=True)
    assert timed.epoch == before + 2
    assert timed.stats.markers_made == 2
    second.wait()
    assert first.query()


@pytest.mark.executes
def test_time_of_an_event_that_is_not_done_is_refused(timed, hold):
    start = timed.record(timing=True)
    gate = hold(timed)
    end = timed.record(timing=True)
    for attempt in (lambda: end - start, lambda: start - end, lambda: end.elapsed(start)):
        with refused(fb.InvalidArgumentError, ValueError, "elapsed", "not done"):
            attempt()
    gate.open()
    end.wait()
    assert end - start >= 0


def test_time_of_an_event_without_timing_is_refused(device, timed):
    start, plain, never = timed.record(timing=True), timed.record(), device.event(timing=True)
    timed.finish()
    for attempt in (lambda: plain - start, lambda: start - plain):
        with refused(fb.InvalidArgumentError, ValueError, "elapsed", "without timing"):
            attempt()
    for attempt in (lambda: never - start, lambda: start - never):
        with refused(fb.InvalidArgumentError, ValueError, "elapsed", "never recorded"):
            attempt()
    with refused(fb.ArgumentTypeError, TypeError, "Event", "int"):
        start.elapsed(5)
    with pytest.raises(TypeError):
        start - 5


def test_timing_needs_a_queue_made_with_it(device, make_queue, refuses, queue):
    untimed = make_queue(timing=False)
    for attempt in (lambda: untimed.record(timing=True), lambda: untimed.record(device.event(timing=True))):
        with refuses(fb.InvalidArgumentError, ValueError, "timing", "Device.queue(timing=True)"):
            attempt()
    assert not untimed.timing


def test_timing_is_on_where_it_is_free(device, make_queue):
    queues = [device.per_thread_queue, make_queue(), make_queue(blocking=False, priority=-1)]
    assert device.timing == device.driver.timing_is_free
    assert [queue.timing for queue in queues] == [device.timing] * 3
    assert device.null_queue.timing
    for queue in queues if device.timing else ():
        again, new = queue.record(device.event(timing=True)), queue.record(timing=True)
        new.wait()
        assert again.timing
        assert new.timing
    with fb.Device(device.name, timing=False, private=True) as other:
        assert not other.timing
        assert other.null_queue.timing  # which another Device may share
        assert not other.queue().timing
        assert other.queue(timing=True).timing
    with fb.Device(device.name, timing=True, private=True) as other:
        assert other.queue().timing
        assert other.per_thread_queue.timing
        assert not other.queue(timing=False).timing


# The class


def test_events_are_made_by_a_queue_or_a_device_only(queue):
    with refused(fb.ArgumentTypeError, TypeError, "Queue.record"):
        fb.Event()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(queue.record())


@pytest.mark.parametrize("thing", [5, "event", object()])
def test_what_is_no_event_is_refused(device, queue, refuses, thing):
    with refuses(fb.ArgumentTypeError, TypeError, "Event", type(thing).__name__):
        queue.record(thing)
    for other in (thing, None, device):
        with refuses(fb.ArgumentTypeError, TypeError, "Event or a Queue", type(other).__name__):
            queue.wait(other)
