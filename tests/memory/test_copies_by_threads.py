"""Copies, records and waits by several threads at once, on one queue and on several."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import forebay as fb

pytestmark = [pytest.mark.threads, pytest.mark.executes]

COUNT = 256
ROUNDS = 1000


def together(*functions):
    with ThreadPoolExecutor(len(functions)) as pool:
        for done in [pool.submit(function) for function in functions]:
            done.result()


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
            assert back.tolist() == [value] * COUNT

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
            assert back[0] >= known

    together(record, wait, wait)
    queue.finish()


@pytest.fixture
def kernels(device):
    return device.program("kernel void count(global int *a) { a[0]++; }")
