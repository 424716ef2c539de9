"""Waits of the host for a queue that another thread goes on filling: they end, and nobody waits for them for ever.

Intel's CPU runtime waits until such a queue is empty. On OpenCL a thread that fills it waits, too, if it is far ahead.
"""

import threading
import time

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import EXECUTES
from tests.observers.internals import room_of

SIZE = 1 << 12
FAR = 3000  # commands: more than a thread submits beside a wait
SOURCE = """
kernel void work(global float *x) {
    float v = x[get_global_id(0)];
    for (int i = 0; i < 200; i++) v = v * 1.0001f + 1.0f;
    x[get_global_id(0)] = v;
}
"""
pytestmark = [pytest.mark.threads, pytest.mark.timeout(120)]


@pytest.fixture
def work(device):
    return device.program(SOURCE)["work"]


class Filling:
    """A thread that submits until the block ends. Where nobody holds it up, it pauses when it is far ahead: there a
    wait takes long, and ends.
    """

    def __init__(self, device, submit):
        self.submit, self.ends, self.turns, self.raised = submit, False, 0, None
        self.pauses_after = np.inf if device.driver.waits_until_empty else 500
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.ends:
                self.submit()
                self.turns += 1
                if self.turns > self.pauses_after:
                    time.sleep(0.001)
        except BaseException as error:
            self.raised = error

    def __enter__(self):
        self.thread.start()
        while self.turns < 100 and self.raised is None:
            time.sleep(0)
        return self

    def __exit__(self, *exception):
        self.ends = True
        self.thread.join()
        assert self.raised is None


@pytest.fixture
def ways(device, work):
    """The ways to fill a queue: a function that submits something, of each."""

    def launches(queue):
        x = device.zeros(SIZE, "f4")
        return lambda: queue.launch(work, 4, 64, x)

    def bound(queue):
        return work.bind(queue, 4, 64, device.zeros(SIZE, "f4"))

    def graphs(queue):
        x, graph, last = device.zeros(SIZE, "f4"), device.graph(), ()
        for _ in range(10):
            last = graph.add_kernel(work, 4, 64, x, after=last)
        executable = graph.instantiate()
        return lambda: executable.launch(queue)

    def fills(queue):
        x = device.zeros(SIZE, "f4")
        return lambda: queue.fill(x, 1)

    def steps(queue):
        x, step = device.zeros(SIZE, "f4"), queue.step()

        def submit():
            with step:
                for _ in range(10):
                    queue.launch(work, 4, 64, x)

        return submit

    return {"launches": launches, "bound": bound, "graphs": graphs, "fills": fills, "steps": steps}


def wait_for_event(device, queue):
    queue.record().wait()


def wait_for_one_that_waits(device, queue):
    other = device.queue(blocking=False)
    other.wait(queue)
    other.finish()


WAITS = {
    "finish": lambda device, queue: queue.finish(),
    "of the device": lambda device, queue: device.finish(),
    "of the null queue": lambda device, queue: device.null_queue.finish(),
    "for an event": wait_for_event,
    "for a queue that waits for it": wait_for_one_that_waits,
    "of two threads": lambda device, queue: at_once(queue.finish, queue.finish),
}


def at_once(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("way", ["launches", "bound", "graphs", "fills", "steps"])
def test_it_ends(device, ways, way, wait):
    queue, beside = device.queue(), device.queue()  # so that a Device has two queues to wait for
    busy, submit = ways["fills"](beside), ways[way](queue)
    with Filling(device, submit):
        for _ in range(3):
            busy()
            WAITS[wait](device, queue)
    queue.finish()
    assert queue.empty


@pytest.mark.needs("queues of any length")
@pytest.mark.parametrize("waits", ["itself", "the null queue", "another after it"])
def test_a_queue_takes_any_number_but_while_somebody_waits(device, hold, waits):
    """For it, or for a queue that was ordered after it."""
    queue, other = device.queue(), device.queue(blocking=False)
    room = room_of(queue)
    gate = hold(queue)
    other.wait(queue)
    waited = {"itself": queue, "the null queue": device.null_queue, "another after it": other}[waits]
    waiting = [begin_to_wait(waited) for _ in range(2)]
    assert room_of(queue) == (0 if device.driver.waits_until_empty else room)
    gate.open()
    for thread in waiting:
        thread.join()
    assert room_of(queue) == room


@pytest.mark.needs("queues of any length")
def test_it_takes_any_number_again_after_a_wait_that_failed(device, calls, hold):
    queue = device.queue()
    room, gate = room_of(queue), hold(queue)
    calls.fail(calls.driver.WAIT, calls.driver.FAILURE[0])
    with pytest.raises(fb.DriverError, match=calls.driver.EVENT_FAILURE):
        queue.finish()
    calls.forgive()
    assert room_of(queue) == room
    gate.open()
    queue.finish()


def begin_to_wait(queue):
    """A thread that finishes the queue, which is held, and waits by now."""
    before, thread = queue.stats.host_syncs, threading.Thread(target=queue.finish)
    thread.start()
    while queue.stats.host_syncs == before:
        time.sleep(0)
    thread.join(0.05)
    assert thread.is_alive()
    return thread


def assert_this_thread_goes_on(queue, work, let_go):
    """Beside a wait for the queue, which is held until `let_go` is called."""
    x = queue.device.zeros(SIZE, "f4")
    queue.launch(work, 4, 64, x)
    waiting = begin_to_wait(queue)
    for _ in range(FAR):
        queue.launch(work, 4, 64, x)
    let_go()
    waiting.join()
    queue.finish()


@pytest.mark.needs("queues of any length")
def test_who_is_to_open_a_gate_does_not_wait(device, work, hold):
    queue = device.queue(blocking=False)
    assert_this_thread_goes_on(queue, work, hold(queue).open)


@pytest.mark.needs("queues of any length")
def test_who_is_to_wake_a_host_function_does_not_wait(device, work):
    queue, other, go = device.queue(blocking=False), device.queue(blocking=False), threading.Event()
    other.host(go.wait)
    queue.wait(other)
    assert_this_thread_goes_on(queue, work, go.set)


@pytest.mark.needs("OpenCL")
def test_who_is_to_set_a_user_event_of_pyopencl_does_not_wait(device):
    import pyopencl as cl

    context = device.null_queue.native.context
    native, event = cl.CommandQueue(context), cl.UserEvent(context)
    queue = fb.Device.adopt_queue(native)
    work = queue.device.program(SOURCE)["work"]
    cl.enqueue_barrier(native, wait_for=[event])
    assert_this_thread_goes_on(queue, work, lambda: event.set_status(cl.command_execution_status.COMPLETE))
    queue.close()


@pytest.mark.needs("queues of any length")
def test_a_host_function_may_submit_beside_a_wait(device, work):
    """Its thread never waits, and it may be what the wait is for."""
    queue, x, ran = device.queue(blocking=False), device.zeros(SIZE, "f4"), []
    device.finish()

    def submit():
        for _ in range(FAR):
            queue.launch(work, 4, 64, x)
        ran.append(True)

    queue.host(submit)
    queue.finish()
    queue.finish()
    assert ran == [True]
    assert queue.empty


@pytest.mark.executes
def test_the_results_are_those_of_all_commands(device):
    """Of two threads that fill one queue beside a third that waits."""
    program = device.program("kernel void add(global int *x) { x[get_global_id(0)] += 1; }")
    queue, x, turns = device.queue(), device.zeros(64, "i4"), 4000
    left = [True]

    def submit():
        for _ in range(turns):
            queue.launch(program["add"], 1, 64, x)

    def wait():
        while left:
            queue.finish()

    waiting = threading.Thread(target=wait)
    waiting.start()
    at_once(submit, submit)
    left.clear()
    waiting.join()
    queue.finish()
    assert x.get().tolist() == np.full(64, 2 * turns if EXECUTES else 0).tolist()
