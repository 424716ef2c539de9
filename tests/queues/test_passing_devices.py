"""Devices that come and go beside others of the same name: in a loop, in a capture, in a step, in threads."""

# ruff: noqa: F811 - fixtures that are imported

import gc
import threading
from pathlib import Path

import pytest

import forebay as fb
from tests.helpers import kernels as sources
from tests.helpers.observer import EXECUTES
from tests.helpers.turns import turns
from tests.inside import context_of
from tests.observers.internals import devices_of

from .test_shared_devices import name, shared  # noqa: F401

MANY = 4_000  # beside other processes an H200 takes 30 ms for each
MOST_GROWTH = 2 << 20  # bytes, of 3,600 Devices that come and go; without them the driver grows, too


@pytest.fixture
def staying(name):
    with fb.Device(name) as device:
        yield device


@pytest.fixture
def fill(staying):
    return staying.program(sources.SOURCE)["fill"]


def resident():
    """Bytes of physical memory of this process."""
    try:
        return 4096 * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        pytest.skip("the system does not say")


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
    """Several at a time, closed in turns: whoever comes before the last is closed joins it."""
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


@pytest.mark.executes
def test_one_inside_a_step_of_another(name, staying, fill):
    queue, buffer = staying.queue(), staying.zeros(16, "i4")
    step = queue.step()
    for turn in range(6):
        with step:
            queue.launch(fill, 1, 8, buffer, turn)
            for _ in range(2):
                pass_by(name)
            queue.launch(fill, 1, 8, buffer[8:], turn + 1)
        assert buffer.get(queue=queue).tolist() == [turn] * 8 + [turn + 1] * 8


@pytest.mark.executes
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
        assert buffer.get(queue=queue).tolist() == [turn + 1] * 8 + [turn] * 8


@pytest.mark.threads
def test_threads_that_open_and_close_them_beside_work(name, shared, staying, fill):
    """Some hold the context for a moment only; one launches with what belongs to the one that stays."""
    failed, done = [], threading.Event()

    def work(number):
        try:
            for turn in range(200):
                with fb.Device(name) as device:
                    queue, buffer = device.queue(blocking=turn % 2 == 0), device.empty(16, "i4")
                    queue.launch(fill, 1, 16, buffer, number)
                    queue.finish()
                    assert context_of(device) is context_of(staying)
        except BaseException as error:
            failed.append(error)

    def launch():
        try:
            queue, buffer = staying.queue(), staying.zeros(16, "i4")
            while not done.is_set():
                queue.launch(fill, 1, 16, buffer, 9)
                queue.finish()
        except BaseException as error:
            failed.append(error)

    launcher = threading.Thread(target=launch)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    launcher.start()
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    done.set()
    launcher.join()
    assert failed == []
    assert shared == [context_of(staying)]
