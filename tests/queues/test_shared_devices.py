"""Devices of one name are one device: they share the driver's context and the null queue, and close only their own."""

import gc
from functools import partial

import numpy as np
import pytest

import forebay as fb
from tests.conftest import DEVICES
from tests.helpers import kernels as sources
from tests.helpers.device_data import device_data
from tests.helpers.growth import resident
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import beside, together
from tests.helpers.turns import turns
from tests.inside import clock_of, context_of, without_shared_contexts
from tests.observers.internals import devices_of

MANY = 4_000  # beside other processes an H200 takes 30 ms for each
MOST_GROWTH = 2 << 20  # bytes, of 3,600 Devices that come and go; without them the driver grows, too


@pytest.fixture(params=DEVICES, ids=str)
def name(request):
    return request.param


@pytest.fixture(autouse=True)
def shared():
    """The driver contexts that may be joined: other tests may have left Devices open."""
    with without_shared_contexts() as shared:
        yield shared


@pytest.fixture
def pair(name):
    """Two Devices of one name."""
    with fb.Device(name) as first, fb.Device(name) as second:
        yield first, second


def fill_of(device):
    return device.program(sources.SOURCE)["fill"]


def test_they_share_the_null_queue(pair):
    first, second = pair
    assert first is not second
    assert first.null_queue == second.null_queue
    assert hash(first.null_queue) == hash(second.null_queue)
    assert first.null_queue.id == second.null_queue.id
    assert first.null_queue.device is first
    assert second.null_queue.device is second
    with pytest.raises(fb.InvalidArgumentError, match="close the Device"):
        first.null_queue.close()


def test_a_private_device_shares_nothing(pair, name):
    first, _ = pair
    with fb.Device(name, private=True) as apart:
        assert apart.null_queue != first.null_queue
        with pytest.raises(fb.InvalidArgumentError, match="belongs to"):
            apart.null_queue.fill(first.zeros(4), 1)


def test_what_belongs_to_one_can_be_used_with_the_other(pair):
    first, second = pair
    buffer, fill = first.zeros(100, "i4"), fill_of(second)
    queue, other = first.queue(blocking=False), second.queue(blocking=False)
    queue.wait(first.null_queue)
    queue.launch(fill, 10, 10, buffer, 1)
    other.wait(queue.record())
    copied = second.empty(100, "i4")
    other.copy(copied, buffer)
    bound = fill.bind(queue, 10, 10, copied, 7)
    queue.wait(other)
    assert device_data(copied.get(queue=other).tolist()) == [1] * 100
    bound()
    with queue.capture() as graph:
        queue.launch(fill, 10, 10, buffer, 3)
        event = queue.record()
        other.wait(event)
        other.copy(copied, buffer)
        queue.wait(other)
    graph.launch(other)
    assert device_data(copied.get(queue=other).tolist()) == [3] * 100
    allocated = queue.alloc(10, "i4")
    other.wait(queue)
    other.fill(allocated, 4)
    assert device_data(allocated.get(queue=other).tolist()) == [4] * 10
    other.free(allocated)


def test_the_null_queue_is_ordered_against_the_queues_of_both(pair):
    first, second = pair
    queue, buffer = second.queue(), second.zeros(8)
    gate = queue.gate()
    try:
        first.null_queue.fill(buffer, 1)
        assert queue.id in clock_of(first.null_queue)
    finally:
        gate.open()
    first.null_queue.finish()


def test_closing_one_leaves_the_other(pair):
    first, second = pair
    mine, theirs = first.zeros(8, "i4"), second.array(np.arange(8, dtype="i4"))
    queue, other, fill = first.queue(), second.queue(), fill_of(second)
    null = first.null_queue
    bound = fill.bind(other, 1, 8, mine, 1)
    first.close()
    first.close()
    assert first.closed
    assert queue.closed
    assert mine.closed
    assert not second.closed
    assert not other.closed
    assert not theirs.closed
    for attempt in (
        lambda: other.copy(theirs, mine),
        lambda: other.launch(fill, 1, 8, mine, 1),
        bound,
        lambda: queue.fill(theirs, 1),
        lambda: first.null_queue,
        lambda: first.zeros(4),
    ):
        with pytest.raises(fb.ClosedError):
            attempt()
    null.close()  # belongs to both
    second.null_queue.fill(theirs, 3)
    other.launch(fill, 1, 8, theirs, 5)
    second.finish()
    second.close()
    assert null.closed
    with pytest.raises(fb.ClosedError):
        null.fill(theirs, 1)


@pytest.mark.parametrize("blocking", [False, pytest.param(True, marks=pytest.mark.executes)])
def test_closing_one_does_not_wait_for_queues_of_the_other(pair, blocking):
    """The next command of the null queue, not those so far, would come after the other's blocking queue."""
    first, second = pair
    held, buffer = second.queue(blocking=blocking), first.zeros(8, "i4")  # no call knows yet that the zeros are there
    assert not first.null_queue.empty
    if not blocking:
        first.finish()
    gate = held.gate()
    if not blocking:
        held.fill(buffer, 1)  # goes on using it after it was closed
    with beside(first.close) as (closer,):
        closer.join(60)
        try:
            assert not closer.is_alive()
            assert buffer.closed
            assert not blocking or not held.query()
        finally:
            gate.open()
    held.finish()


def test_dropping_one_counts_as_closing(name):
    first, second = fb.Device(name), fb.Device(name)
    queue = second.queue()
    null = second.null_queue
    del first
    gc.collect()
    queue.fill(second.zeros(8), 1)
    second.finish()
    assert not null.closed
    second.close()
    assert null.closed


def test_counters_settings_and_errors_belong_to_each(name):
    with fb.Device(name) as first:
        first.null_queue.fill(first.zeros(4), 1)
        with fb.Device(name, debug=True) as second:
            assert second.debug
            assert not first.debug
            assert second.stats.fills == 0
            before = first.stats
            queue = second.queue()
            for _ in range(3):
                queue.fill(second.zeros(4), 2)  # the zeros are filled on the null queue
            assert second.stats.fills == 6
            assert first.stats.fills == before.fills + 3
            assert first.stats.allocations == before.allocations
            del queue
            second.finish()
            gc.collect()
            assert second.stats.fills == 6
            assert second.per_thread_queue is not first.per_thread_queue
        first.finish()


@pytest.mark.executes
def test_what_a_host_function_raises_goes_to_the_device_of_its_queue(pair):
    first, second = pair

    def fail():
        raise ZeroDivisionError("mine")

    second.null_queue.host(fail)
    first.finish()
    with pytest.raises(ZeroDivisionError, match="mine"):
        second.finish()


# Devices that come and go beside others of the same name: in a loop, in a capture, in a step, in threads


@pytest.fixture
def staying(name):
    with fb.Device(name) as device:
        yield device


@pytest.fixture
def fill(staying):
    return staying.program(sources.SOURCE)["fill"]


def pass_by(name, value=1):
    """Open a Device, use it a little, and close it."""
    with fb.Device(name) as device:
        queue, buffer = device.queue(blocking=False), device.empty(16, "i4")
        queue.fill(buffer, value)
        return context_of(device)


@pytest.mark.needs("no validation layer")  # which remembers each object that ever was
def test_many_one_after_the_other_beside_one_that_stays(name, shared, staying):
    for turn in turns(MANY, least=MANY // 4, seconds=40):
        if turn == MANY // 10:
            gc.collect()
            before = resident()
        assert pass_by(name) is context_of(staying)
        assert len(shared) == 1
    gc.collect()
    assert resident() - before < MOST_GROWTH
    assert devices_of(staying.null_queue) == 1
    assert not staying.closed
    assert pass_by(name) is context_of(staying)


def test_a_context_goes_with_the_last(name, shared):
    """Devices opened together share one context, which ends when the last of them is closed."""
    for _ in turns(20):
        devices = [fb.Device(name) for _ in range(4)]
        (joined,) = {context_of(device) for device in devices}
        for device in devices:
            assert shared == [joined]
            device.close()
            device.close()
        assert shared == []
        assert all(device.closed for device in devices)


def test_one_inside_a_capture_of_another(name, staying):
    queue, buffer = staying.queue(), staying.zeros(16, "i4")
    staying.finish()
    with queue.capture() as graph:
        queue.fill(buffer[:8], 3)
        with fb.Device(name) as device:
            device.queue()
        dropped = fb.Device(name)
        del dropped
        queue.fill(buffer[8:], 4)
    assert len(graph.nodes) == 2
    with queue.capture("relaxed") as relaxed:
        queue.fill(buffer[:8], 5)
        pass_by(name)
        queue.fill(buffer[4:], 6)
    assert len(relaxed.nodes) == 2
    graph.launch(queue)
    first = buffer.get(queue=queue).tolist()
    relaxed.launch(queue)
    second = buffer.get(queue=queue).tolist()
    if EXECUTES:
        assert first == [3] * 8 + [4] * 8
        assert second == [5] * 4 + [6] * 12


@pytest.mark.parametrize("blocking", [True, False])
def test_one_inside_a_capture_while_the_null_queue_is_at_work(name, staying, blocking):
    """A close finishes what the null queue was given, and gives it no command: that is an error meanwhile."""
    queue, buffer = staying.queue(blocking=blocking), staying.zeros(16, "i4")
    assert not staying.null_queue.empty
    with queue.capture() as graph:
        queue.fill(buffer, 3)
        with fb.Device(name):
            pass
    assert staying.null_queue.empty
    assert len(graph.nodes) == 1
    graph.launch(queue)
    queue.finish()


def test_one_that_takes_part_in_a_capture_ends_it_by_closing(name, staying):
    """And leaves the queues of the other as they were."""
    queue, buffer = staying.queue(), staying.zeros(16, "i4")
    device = fb.Device(name)
    other = device.queue(blocking=False)
    queue.begin_capture()
    queue.fill(buffer, 1)
    other.wait(queue)
    other.fill(buffer, 2)
    device.close()
    assert other.closed
    assert not queue.capturing
    with pytest.raises(fb.CaptureError):
        queue.end_capture()
    queue.fill(buffer, 3)
    queue.finish()


def test_one_inside_a_step_of_another(name, staying, fill):
    queue, buffer = staying.queue(), staying.zeros(16, "i4")
    step = queue.step()
    for turn in range(6):
        with step:
            queue.launch(fill, 1, 8, buffer, turn)
            for _ in range(2):
                pass_by(name)
            queue.launch(fill, 1, 8, buffer[8:], turn + 1)
        assert device_data(buffer.get(queue=queue).tolist()) == [turn] * 8 + [turn + 1] * 8


def test_one_that_closes_has_its_part_of_a_step_submitted(name, staying, fill):
    """Its queue joined the step of the other's by a wait."""
    queue, buffer = staying.queue(blocking=False), staying.zeros(16, "i4")
    staying.finish()
    for turn in range(4):
        device = fb.Device(name)
        other = device.queue(blocking=False)
        with queue.step():
            queue.launch(fill, 1, 16, buffer, turn)
            other.wait(queue)
            other.launch(fill, 1, 8, buffer, turn + 1)
            device.close()
            assert other.empty
        assert device_data(buffer.get(queue=queue).tolist()) == [turn + 1] * 8 + [turn] * 8


@pytest.mark.threads
def test_threads_that_open_and_close_them_beside_work(name, shared, staying, fill):
    """Some hold the context for a moment only; one launches with what belongs to the one that stays."""
    working = {*range(4)}

    def work(number):
        try:
            for turn in range(200):
                with fb.Device(name) as device:
                    queue, buffer = device.queue(blocking=turn % 2 == 0), device.empty(16, "i4")
                    queue.launch(fill, 1, 16, buffer, number)
                    queue.finish()
                    assert context_of(device) is context_of(staying)
        finally:
            working.remove(number)

    def launch():
        queue, buffer = staying.queue(), staying.zeros(16, "i4")
        while working:
            queue.launch(fill, 1, 16, buffer, 9)
            queue.finish()

    together(launch, *[partial(work, number) for number in range(4)])
    assert shared == [context_of(staying)]
