"""What is closed, or lost, while it is used: what came before is waited for, and what comes after is refused."""

import gc
import threading
from functools import partial
from unittest import mock

import pytest

import forebay as fb
from tests.helpers.features import SIZE, Scene, each_feature, program_of
from tests.helpers.observer import EXECUTES, LOST, observe
from tests.helpers.threads import beside, together
from tests.helpers.turns import turns
from tests.inside import ClosingDevice, context_of
from tests.observers.internals import sharers_of

TURNS = 4
FIRST = each_feature(lambda feature: not feature.recordings)


def use_until_closed(command, queue, under_way, raised):
    """Submit until the command is refused, and note what it raised."""
    k = 0
    try:
        while True:
            k += 1
            command(queue, k)
            if k > 20:
                under_way.set()
    except fb.Error as error:
        raised.append(error)
    finally:
        under_way.set()


@pytest.mark.threads
@pytest.mark.parametrize("feature", FIRST)
def test_a_device_is_closed_while_a_thread_uses_it(device, calls, feature):
    """Nothing is under way then, and nothing of the queue is left."""
    for _ in turns(TURNS, least=2, seconds=2):
        other, raised, under_way = fb.Device(device.name, private=True), [], threading.Event()
        command, queue = feature.make(Scene(other, program_of(other))), other.queue()
        first, handle = len(calls), calls.handle_of(queue)
        with beside(partial(use_until_closed, command, queue, under_way, raised)):
            under_way.wait()
            other.close()
        assert [type(error) for error in raised] == [fb.ClosedError]
        assert queue.completed == queue.epoch
        del command, queue, other, raised
        gc.collect()
        assert handle in {call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE}


@pytest.mark.threads
@pytest.mark.parametrize("what", ["x", "the queue", "what it uses"])
@pytest.mark.parametrize("feature", FIRST)
def test_something_is_closed_while_two_threads_use_it(device, watched, kernels, feature, what):
    """They are refused, or go on; the device does."""
    for _ in range(TURNS):
        close_something(device, Scene(device, None if what == "what it uses" else kernels), feature, what)
        device.finish()
    assert Scene(device, kernels).x.get()[0] == 1 or not EXECUTES


def close_something(device, scene, feature, what):
    under_way, ended = threading.Event(), threading.Event()
    command, queue, other = feature.make(scene), device.queue(), device.queue()

    def work(queue):
        for k in range(2000):
            try:
                command(queue, k)
            except fb.ClosedError:
                return
            if k > 20:
                under_way.set()
            if ended.is_set():
                return

    def close():
        under_way.wait(20)
        {"x": scene.x.close, "the queue": queue.close, "what it uses": command.close}[what]()
        ended.set()

    together(lambda: work(queue), *([lambda: work(other)] * (not feature.changes)), close)


@pytest.mark.parametrize("feature", FIRST)
def test_what_is_closed_or_lost_refuses_each_command(device, watched, feature):
    """A closed queue, and each queue of a device that is lost, which says what failed first."""
    with fb.Device(device.name, private=True) as other:
        scene = Scene(other)
        command, queue, closed, null = feature.make(scene), other.queue(), other.queue(), other.null_queue
        for each in (queue, closed, null):
            command(each, 1)
        other.finish()
        closed.close()
        closed.close()
        with pytest.raises(fb.ClosedError, match=str(closed.id)):
            command(closed, 2)
        if other.info.backend in LOST:
            with observe(other) as calls:
                code, word = LOST[other.info.backend]
                calls.fail(calls.driver.LAUNCH, code)
                with pytest.raises(fb.DeviceLostError, match=word) as lost:
                    queue.launch(scene.program["advance"], 4, 16, scene.x, 1)
                calls.forgive()
                first = len(calls)
                for each in (queue, null):
                    with pytest.raises(fb.DeviceLostError, match="is lost") as caught:
                        command(each, 3)
                    assert str(lost.value) in str(caught.value)
                assert not calls.kinds(first)["command"]


@pytest.mark.threads
@pytest.mark.executes  # null hardware waits for no gate
@pytest.mark.parametrize("dropped", [False, True])
def test_copies_of_pinned_memory_that_wait_for_a_gate(device, pins_of, dropped):
    """Closing waits for them, whether or not the program still has the memory."""
    other = fb.Device(device.name, private=True)
    pins, queue = pins_of(other), other.queue()
    buffer = other.zeros(SIZE, "i4")
    source, result = (fb.host_empty(SIZE, "i4", device=other) for _ in range(2))
    source[:] = 5
    gate = queue.gate()
    queue.copy(buffer, source)
    queue.copy(result, buffer)
    if dropped:
        del source, result
        gc.collect()
    with beside(other.close) as (closing,):
        closing.join(0.05)
        assert closing.is_alive()
        assert pins() == 2
        gate.open()
    assert queue.completed == queue.epoch
    assert pins() == 0 if dropped else result.tolist() == [5] * SIZE


@pytest.mark.parametrize("null", [False, True])
def test_a_command_after_it_has_waited_and_before_it_decides(device, null):
    other = ClosingDevice(device.name, private=True)
    queue, buffer = other.null_queue if null else other.queue(), other.empty(SIZE, "i4")
    other.meanwhile = lambda: queue.fill(buffer, 1)
    other.close()
    assert queue.completed == queue.epoch > 0
    with pytest.raises(fb.ClosedError):
        queue.fill(buffer, 1)


def test_a_queue_that_is_made_meanwhile(device):
    other, made = fb.Device(device.name, private=True), []
    make = other.driver.create_queue

    def create_queue(*arguments):
        made.append(make(*arguments))
        other.close()
        return made[-1]

    with mock.patch.object(other.driver, "create_queue", create_queue), pytest.raises(fb.ClosedError):
        other.queue()
    assert len(made) == 1


@pytest.mark.threads
def test_two_threads_close_it(device):
    """Were each to count it as gone, the null queue would be closed while others still share it."""
    other, both = ClosingDevice(device.name), threading.Barrier(2)
    before = sharers_of(context_of(other))
    other.meanwhile = both.wait
    together(other.close, other.close)
    assert sharers_of(context_of(other)) == before - 1
