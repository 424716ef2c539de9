"""Copies, records and waits by several threads at once, on one queue and on several."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.threads import together

pytestmark = [pytest.mark.threads]

COUNT = 256
ROUNDS = 1000


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
@pytest.mark.parametrize("wait", ["event", "finish", "other queue"])
def test_each_thread_gets_back_what_it_put_there(device, make_queue, kind, wait):
    queue = make_queue()

    def work(thread):
        there, back = (
            fb.host_empty(COUNT, "i4", device=device) if kind == "pinned" else np.empty(COUNT, "i4") for _ in range(2)
        )
        buffer, second = (device.empty(COUNT, "i4") for _ in range(2))
        down = device.queue() if wait == "other queue" else queue
        for number in range(ROUNDS):
            value = thread * ROUNDS + number
            there[:] = value
            queue.copy(buffer, there)
            queue.copy(second, buffer)
            if down is not queue:
                down.wait(queue.record())
            down.copy(back, second)
            if wait == "event":
                down.record().wait()
            else:
                down.finish()
            assert device_data(back.tolist()) == [value] * COUNT

    before = queue.stats
    together(*[lambda thread=thread: work(thread) for thread in range(3)])
    queue.finish()
    assert (queue.stats - before).copies == 3 * ROUNDS * (2 if wait == "other queue" else 3)


def test_an_event_that_others_wait_for_is_recorded_again(device, make_queue, kernels):
    """They see at least what came before the record that they knew of."""
    queue, event = make_queue(blocking=False), device.event()
    counter, recorded = device.zeros(1, "i4"), 0
    device.finish()
    working = True

    def record():
        nonlocal recorded, working
        try:
            for number in range(1, 50 * ROUNDS):
                queue.launch(kernels["count"], 1, 1, counter)
                queue.record(event)
                recorded = number
        finally:
            working = False

    def wait():
        other, back = device.queue(blocking=False), fb.host_empty(1, "i4", device=device)
        while working:
            known = recorded
            other.wait(event)
            other.copy(back, counter)
            other.finish()
            assert device_data(back[0]) >= known

    together(record, wait, wait)
    queue.finish()


@pytest.fixture
def kernels(device):
    return device.program("""
        kernel void count(global int *a) { a[0]++; }
        kernel void pick(global uchar *out, global const uchar *a, ulong at) { *out = a[at]; }
    """)


@pytest.fixture
def meanwhile():
    """Call a function while another thread waits for the GIL to call one, too. Python does not switch by itself."""

    def call(function, other):
        def act():
            waits.set()
            begun.wait()
            other()

        waits, begun = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(act)
            waits.wait()
            begun.set()
            result = function()
            done.result()
        return result

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield call
    sys.setswitchinterval(interval)


MANY, TURNS = 64 << 20, 100  # one turn is enough, unless the other thread's processor is busy for all of the copy


@pytest.mark.executes
@pytest.mark.parametrize("way", ["copy", "by value", "by value in a graph"])
def test_the_host_copies_many_bytes_without_the_gil(device, make_queue, kernels, meanwhile, way):
    """What another thread writes then is among them."""
    queue, source, out = make_queue(), np.zeros(MANY, "u1"), device.empty(1, "u1")
    at, buffer = 3 * MANY // 4, device.empty(MANY if way == "copy" else 1, "u1")
    arguments = kernels["pick"], 1, 1, out, fb.by_value(source), at

    def submit():
        if way == "copy":
            queue.copy(buffer, source)
            queue.copy(out, buffer[at : at + 1])
        elif way == "by value":
            queue.launch(*arguments)
        else:
            graph = device.graph()
            graph.add_kernel(*arguments)
            graph.launch(queue)
        return out.get(queue=queue)[0]

    def copied(turn):
        source[0], source[at] = turn, 0
        return meanwhile(submit, lambda: source.__setitem__(at, 1))

    assert submit() == 0
    assert any(map(copied, range(TURNS)))


@pytest.mark.parametrize("end", ["close", "free"])
def test_a_copy_to_what_another_thread_closes_meanwhile_is_refused(device, make_queue, meanwhile, end):
    queue, source = make_queue(), np.zeros(MANY, "u1")

    def is_refused(_):
        buffer = queue.alloc(MANY, "u1")
        ending = buffer.close if end == "close" else lambda: queue.free(buffer)
        try:
            meanwhile(lambda: queue.copy(buffer, source), ending)
        except fb.ClosedError as error:
            return "dst is closed" in str(error)

    assert any(map(is_refused, range(TURNS)))
