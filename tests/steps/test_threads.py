"""Steps with other threads, with gates and host functions, and with Ctrl-C."""

import _thread
import contextlib
import gc
import signal
import sys
import threading
import time

import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread, together
from tests.inside import step_of

from .conftest import SOURCE, after, made

pytestmark = pytest.mark.threads


def test_another_thread_waits_for_what_was_collected(queue, advance, x):
    """It submits what was collected; nothing waits for a step that is open."""
    step, expected = queue.step(), []
    for i in range(6):
        with step:
            advance(queue, x, i)
            advance(queue, x, 2)
            expected += [i, 2]
            _, found = in_thread(lambda: (queue.finish(), set(x.get())))
            assert device_data(found) == {after(expected)}
            advance(queue, x, 3)
        expected += [3]
    assert device_data(set(x.get())) == {after(expected)}


def test_what_the_step_has_next_from_another_thread(calls, queue, advance, x, collects):
    """It is not of the step: it is submitted at once, after what was collected."""
    step = queue.step()
    for _ in range(3):
        with step:
            for k in range(4):
                advance(queue, x, k)
        queue.finish()
    with step:
        advance(queue, x, 0)
        first = len(calls)
        in_thread(advance, queue, x, 1)
        assert calls.count(calls.driver.LAUNCH, first) == (2 if collects else 1)
        for k in (1, 2, 3):
            advance(queue, x, k)


def test_a_step_left_by_another_thread(queue, advance, x):
    step, expected = queue.step(), []
    for i in range(5):
        step.__enter__()
        advance(queue, x, i)
        advance(queue, x, 1)
        expected += [i, 1]
        in_thread(step.__exit__, None, None, None)
        assert step_of(queue) is None
    assert device_data(set(x.get())) == {after(expected)}


@pytest.mark.needs("OpenCL")
def test_a_step_on_a_full_queue_waits_for_room(device, monkeypatch):
    """Its first launch is submitted by itself then, and the others are collected after it."""
    monkeypatch.setattr(sys.modules[type(device.driver).__module__], "NEVER_BLOCKS", 64)
    monkeypatch.setattr(sys.modules[type(device.driver).__module__], "KEEPS_GIL_BELOW", 64)
    with fb.Device(device.name, private=True) as small:
        advance, queue, x = small.program(SOURCE)["advance"], small.queue(blocking=False), made(small)
        step, expected, begin, seen = queue.step(), [], threading.Event(), []

        def run():
            with step:
                for k in range(4):
                    queue.launch(advance, 4, 16, x, k)

        for _ in range(3):
            run()
            expected += range(4)
            queue.finish()
        start = queue.epoch

        def look():
            begin.wait()
            seen.extend(queue.epoch - start for _ in range(200_000))

        queue.host(look)
        while queue.epoch - start < 64:
            queue.launch(advance, 4, 16, x, 1)
            expected += [1]
        together(run, begin.set)
        expected += range(4)
        assert device_data(set(x.get(queue=queue))) == {after(expected)}
        assert max(seen) == 64


def test_a_host_function_that_launches_on_the_queue(queue, advance, x):
    step, expected = queue.step(), []
    for i in range(6):
        done = threading.Event()
        with step:
            advance(queue, x, i)
            advance(queue, x, 1)
            queue.host(lambda done=done: (advance(queue, x, 5), done.set()))
            assert done.wait(30)
            advance(queue, x, 2)
        expected += [i, 1, 5, 2]
    assert device_data(set(x.get())) == {after(expected)}


def test_ctrl_c(queue, kernels, x):
    """Wherever it comes: what was launched is submitted, no launch half, and the step can be used again."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    step = queue.step()
    for i in range(200):
        begun = []  # not an Event: an interrupt within its lock would raise something else
        timer = threading.Thread(target=interrupt, args=(begun, 0.0002 * (i % 5)))
        timer.start()
        try:
            begun.append(True)
            with step:
                for _ in range(50):
                    queue.launch(kernels["count"], 4, 16, x)
            timer.join()
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        finally:
            quiet(timer)
    queue.finish()
    assert step_of(queue) is None
    assert device_data(set(x.get())) == {queue.stats.launches * 4 % (1 << 32)}


def interrupt(begun, delay):
    while not begun:
        time.sleep(0)  # what could be waited for has a lock: see above
    time.sleep(delay)
    _thread.interrupt_main(signal.SIGINT)


def quiet(timer):
    """Until the interrupt has come, or never will."""
    while timer.is_alive():
        with contextlib.suppress(KeyboardInterrupt):
            timer.join()


def test_a_step_that_is_dropped_while_open(device, advance, x):
    """By a generator that nobody goes on with."""

    def run(queue):
        step = queue.step()
        for i in range(5):
            with step:
                advance(queue, x, i)
                advance(queue, x, 1)
                yield i

    queue = device.queue()
    running = run(queue)
    for _ in range(4):
        next(running)
    del running
    gc.collect()
    assert step_of(queue) is None
    advance(queue, x, 9)
    queue.finish()
    assert queue.empty
    with queue.step():
        pass
