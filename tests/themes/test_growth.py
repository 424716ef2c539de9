"""Programs that go on and on keep nothing of each turn, however the host learns what is done, or if it never does."""

import asyncio
import gc
import time
import weakref

import pytest

import forebay as fb
from tests.helpers import features
from tests.helpers.features import GRID, SIZE
from tests.helpers.growth import MIB, growth
from tests.observers.internals import uses_of

LITTLE = 4 * MIB  # in 50,000 turns: 80 bytes each
FEW = 16  # uses that are done, before they are looked for


def polled(done):
    while not done():
        time.sleep(0)  # a busy machine has others for this processor


def wait_elsewhere(queue):
    """For another queue that comes after this one."""
    other = queue.device.queue(blocking=False)
    other.wait(queue)
    other.record().wait()


async def finished(queue):
    await queue.finished()


# On null hardware no event is ever reached by itself.
POLLING = {
    "event polled": lambda queue: polled(queue.record().query),
    "queue polled": lambda queue: polled(queue.query),
    "awaited": lambda queue: asyncio.run(finished(queue)),
}
WAYS = {
    "finish": lambda queue: queue.finish(),
    "event": lambda queue: queue.record().wait(),
    "device": lambda queue: queue.device.finish(),
    "another queue": wait_elsewhere,
    **POLLING,
}


@pytest.mark.threads
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.executes) if way in POLLING else way for way in WAYS]
)
def test_nothing_is_kept_from_turn_to_turn(device, calls, scene, command, staged, way):
    queue = device.queue(blocking=False)

    def turns(count):
        for k in range(count):
            command(queue, k)
            WAYS[way](queue)
        gc.collect()
        objects = sum(type(each) is not weakref.ref for each in gc.get_objects())  # of which `staged` has some
        return staged(), len(calls.events_alive()), objects

    turns(5)
    memory, events, objects = turns(3)
    after = turns(50)
    assert after[0] <= memory + 2
    assert after[1] <= events + 4
    assert after[2] <= objects + 40
    assert uses_of(scene.x)[0] <= FEW


@pytest.mark.threads
def test_queues_that_come_and_go_leave_little(device, calls, hold, scene, feature, command):
    """While another one is held, with a use of the same memory."""
    if feature.alone or feature.keeps_queues:
        pytest.skip("it keeps what it has for each queue")
    command(device.null_queue, 1)
    device.finish()
    held = device.queue(blocking=False)
    hold(held)
    held.launch(scene.program["advance"], *GRID, scene.x, 1)
    first = len(calls)
    for k in range(60):
        queue = device.queue(blocking=k % 2 == 0)
        command(queue, k)
        queue.finish()
        del queue
    made, released = (calls.count(name, first) for name in (calls.driver.NEW_QUEUE, calls.driver.RELEASE_QUEUE))
    assert made - released <= made <= 6
    assert len(calls.events_alive()) <= 8
    past, holders = uses_of(scene.x)
    assert past <= FEW
    # Plans with scratch or bytes by value are released once no queue is held.
    assert holders <= FEW or feature.make in (features.scratch, features.by_value)


@pytest.mark.long
@pytest.mark.threads
@pytest.mark.executes  # null hardware reaches no event by itself, so nothing could ever be released
def test_nothing_is_kept_of_each_turn_of_a_program_that_never_waits(device, watched, command):
    queue, numbers = device.queue(), iter(range(1 << 30))
    assert growth(lambda: command(queue, next(numbers)), queue.query) < LITTLE
    queue.finish()


@pytest.mark.long
@pytest.mark.needs("no validation layer")
def test_nothing_is_kept_of_waits_of_a_device_that_is_never_asked(device, watched, scene, kernels):
    """The host asks the queues of the one device only, and those of the other wait for them.

    A backlog of the other would be the driver's: now and then it is waited for, past forebay.
    """
    queue, kernel = device.queue(), kernels["advance"]
    with fb.Device(device.name, private=True) as other:
        waiting, buffer = other.queue(blocking=False), other.zeros(SIZE, "u4")
        other.finish()

        def turn():
            queue.launch(kernel, *GRID, scene.x, 1)
            waiting.wait(queue)
            waiting.fill(buffer, 1)

        def is_done():
            native = waiting.native
            getattr(native, "finish", getattr(native, "wait", lambda: None))()  # of pyopencl, of dpctl
            return queue.query()

        assert growth(turn, is_done) < LITTLE
        waiting.finish()
