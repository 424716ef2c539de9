"""Copies by the host while another thread goes on."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import forebay as fb
from tests.helpers.threads import switching

pytestmark = [pytest.mark.threads]


@pytest.fixture
def kernels(device):
    return device.program("""
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

    with switching(1000):
        yield call


MANY, PATIENCE = 64 << 20, 60  # seconds


def turns():
    """One is enough, unless the other thread's processor is busy for all of the copy."""
    end = time.monotonic() + PATIENCE
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.cycle(range(100)))


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
    assert any(map(copied, turns()))


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

    assert any(map(is_refused, turns()))
