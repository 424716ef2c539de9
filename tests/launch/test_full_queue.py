"""A queue so full that the driver blocks whoever submits: NVIDIA's takes 1021 commands behind a running kernel.

Behind a gate or a host function it takes any number (20,000 were tried); other drivers may not. So nobody fills a queue
while a host function is outstanding: it may want the lock of whoever is blocked in the driver.
Nothing may need what the blocked thread holds. A spinning kernel makes a queue full on a GPU; on a CPU device it would
starve the other queues, and no number of commands blocks there, so a gate holds the queue instead.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.processes import python

SOURCE = """
kernel void spin(global volatile int *go, int limit) { for (int i = 0; i < limit && go[0] == 0; i++) { } go[1] = 1; }
kernel void thrice(global int *a, int n) { a[0] = a[0] * 3 + n; }
"""
COMMANDS = 3000


def make_busy(device: fb.Device, queue: fb.Queue, program: fb.Program) -> object:
    """Keep the queue running for half a second or more on a GPU, or until the returned gate is opened."""
    if device.info.kind == "cpu":
        return queue.gate()
    queue.launch(program["spin"], 1, 1, device.zeros(2, "i4"), 2_000_000)  # loads, of 0.2 µs and more
    return None


@pytest.fixture
def program(device):
    return device.program(SOURCE)


def expected(start: int, steps: range) -> int:
    value = np.int32(start)
    with np.errstate(over="ignore"):
        for n in steps:
            value = np.int32(value * np.int32(3) + np.int32(n))
    return int(value)


@pytest.mark.executes(run=False)
def test_a_host_function_pending_in_a_full_queue_still_gets_the_gil(device, program):
    queue = device.queue(blocking=False)
    value = device.zeros(1, "i4")
    device.finish()
    ran = []
    gate = make_busy(device, queue, program)
    queue.host(lambda: ran.append(queue.epoch))
    if gate is not None:
        gate.open()
    for n in range(COMMANDS):
        queue.launch(program["thrice"], 1, 1, value, n)
    queue.finish()
    assert len(ran) == 1
    assert value.get()[0] == expected(0, range(COMMANDS))


@pytest.mark.threads
@pytest.mark.executes
def test_a_thread_on_a_full_queue_holds_nobody_up(device, program):
    full, free = device.queue(blocking=False), device.queue(blocking=False)
    value, other = device.zeros(1, "i4"), device.zeros(1, "i4")
    device.finish()
    gate = make_busy(device, full, program)

    def fill_up():
        for n in range(COMMANDS):
            full.launch(program["thrice"], 1, 1, value, n)

    filling = threading.Thread(target=fill_up)
    filling.start()
    for n in range(100):
        free.launch(program["thrice"], 1, 1, other, n)
    free.finish()
    found = other.get(queue=free)[0]
    if gate is not None:
        gate.open()
    filling.join()
    full.finish()
    assert found == expected(0, range(100))
    assert value.get()[0] == expected(0, range(COMMANDS))


@pytest.mark.threads
@pytest.mark.executes(run=False)
def test_a_host_function_uses_a_blocking_queue_while_the_null_queue_is_filled_up(device, program):
    """The null queue, which waits for it, is given thousands of commands; no lock of its is kept meanwhile."""
    held, other, null = device.queue(), device.queue(), device.null_queue
    value, seen = device.zeros(1, "i4"), device.zeros(1, "i4")
    for queue in (held, other, null):
        queue.launch(program["thrice"], 1, 1, value, 0)
    device.finish()
    filled, ran = threading.Event(), []

    def use_the_other():
        filled.wait()
        other.launch(program["thrice"], 1, 1, seen, 5)
        ran.append(1)

    held.host(use_the_other)

    def fill_up():
        for n in range(COMMANDS):
            null.launch(program["thrice"], 1, 1, value, n)
            if n == 100:  # the function returns only then, so no more may be needed than a queue takes behind it
                filled.set()

    filling = threading.Thread(target=fill_up)
    filling.start()
    filling.join()
    device.finish()
    assert ran == [1]
    assert value.get()[0] == expected(0, range(COMMANDS))
    assert seen.get()[0] == 5


@pytest.mark.executes(run=False)
def test_bound_launches_fill_a_queue_too(device, program):
    queue = device.queue(blocking=False)
    value = device.zeros(1, "i4")
    device.finish()
    gate = make_busy(device, queue, program)
    ran = []
    queue.host(lambda: ran.append(1))
    if gate is not None:
        gate.open()
    step = program["thrice"].bind(queue, 1, 1, value, 1)
    for _ in range(COMMANDS):
        step()
    queue.finish()
    assert ran == [1]
    assert value.get()[0] == expected(0, [1] * COMMANDS)


# -- behind a host function

BEHIND = """
import threading
from tests.observers import levelzero as observer
observer.watch(emulate=True)
import forebay as fb
device = fb.Device()
null, queue, other = device.null_queue, device.queue(), device.queue()
buffer = device.zeros(64, "i4")
with queue.capture() as graph:
    queue.fill(buffer, 1)
graph = graph.instantiate()
device.finish()
most = device.driver.keeps_gil_below
observer.limit(most + 100)
filled = {filled}
def submit():
    while filled.epoch < most or (not observer.blocked() and filling.is_alive() and spin()):
        pass
    for _ in range(20):
        {submits}
    print(device.stats.host_functions, flush=True)
spins = iter(range(100_000))
def spin():
    return next(spins, None) is not None
queue.host(submit)
def fill():
    for _ in range(3 * most):
        {fills}
filling = threading.Thread(target=fill)
filling.start()
filling.join()
device.finish()
"""


@pytest.mark.needs("null hardware")
@pytest.mark.parametrize(
    "submits", ["queue.fill(buffer, 2)", "queue.record(); other.fill(buffer, 2)", "graph.launch(queue)"]
)
@pytest.mark.parametrize(
    ("filled", "fills"),
    [("queue", "queue.fill(buffer, 1)"), ("null", "null.fill(buffer, 1)"), ("queue", "graph.launch(queue)")],
)
def test_a_host_function_submits_to_what_is_full_behind_it(filled, fills, submits):
    """The driver's call would block for as long as the function runs, with a lock that the function waits for."""
    code = BEHIND.format(filled=filled, fills=fills, submits=submits)
    try:
        done = python("-c", code, FOREBAY_DEVICE="level_zero", timeout=60)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"it hangs: {error.stdout!r} {error.stderr!r}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.fixture
def small(device, monkeypatch):
    """A Device that takes its queues for full with 64 commands."""
    monkeypatch.setattr(sys.modules[type(device.driver).__module__], "NEVER_BLOCKS", 64)
    monkeypatch.setattr(sys.modules[type(device.driver).__module__], "KEEPS_GIL_BELOW", 64)
    with fb.Device(device.name, private=True) as small:
        yield small


@pytest.mark.threads
@pytest.mark.executes(run=False)
@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("which", ["queue", "null queue"])
def test_nobody_fills_a_queue_behind_a_host_function(small, which):
    """Whoever would fill it waits for room before, without the lock; the function itself may submit a few more."""
    held = small.queue()
    queue = held if which == "queue" else small.null_queue
    thrice = small.program(SOURCE)["thrice"]
    value, seen = small.zeros(1, "i4"), small.zeros(1, "i4")
    small.finish()
    begin, epochs, start = threading.Event(), [], queue.epoch

    def submit():
        begin.wait()
        while queue.epoch - start < 64:
            pass
        epochs.extend([queue.epoch - start for _ in range(200_000)])
        queue.launch(thrice, 1, 1, seen, 7)

    held.host(submit)

    def fill_up():
        for n in range(COMMANDS):
            queue.launch(thrice, 1, 1, value, n)

    filling = threading.Thread(target=fill_up)
    filling.start()
    begin.set()
    filling.join()
    small.finish()
    assert max(epochs) <= 66  # its own and one of the null queue's waits, beside 64
    assert value.get()[0] == expected(0, range(COMMANDS))
    assert seen.get()[0] == 7


@pytest.mark.executes
@pytest.mark.needs("OpenCL")
def test_who_never_waits_has_the_queue_asked_now_and_then(small):
    """Else it would count as full from some command on, though the device keeps up, and each launch take longer."""
    queue, value, thrice = small.queue(blocking=False), small.zeros(1, "i4"), small.program(SOURCE)["thrice"]
    small.finish()
    for n in range(COMMANDS):
        queue.launch(thrice, 1, 1, value, n)
    assert COMMANDS // 65 - 1 <= queue.stats.markers_made <= COMMANDS // 32
    queue.finish()
    assert value.get()[0] == expected(0, range(COMMANDS))


@pytest.mark.threads
@pytest.mark.needs("OpenCL")
def test_counters_are_read_while_a_call_blocks(device):
    """Whoever is inside the driver has the queue's lock."""
    queue, buffer = device.queue(), device.empty(64, "u4")
    found = []
    with observe(device) as calls:
        name = calls.name_of("FILL")
        before = queue.stats
        calls.driver.pause(name)
        submitting = threading.Thread(target=queue.fill, args=(buffer, 1))
        submitting.start()
        calls.driver.wait_until_paused()
        looking = threading.Thread(target=lambda: found.extend((device.stats, queue.stats)))
        looking.start()
        looking.join(20)
        blocked = looking.is_alive()
        calls.driver.go_on()
        submitting.join()
        looking.join()
    assert not blocked
    assert found[1] == before
    device.finish()
    assert queue.stats.fills == before.fills + 1


@pytest.mark.threads
@pytest.mark.executes(run=False)
@pytest.mark.needs("OpenCL")
def test_a_host_function_of_another_device_does_not_stop_who_is_to_open_a_gate(device, small):
    queue, go_on, value = small.queue(blocking=False), threading.Event(), small.zeros(1, "i4")
    thrice = small.program(SOURCE)["thrice"]
    small.finish()
    other = device.queue(blocking=False)
    other.host(go_on.wait)
    gate = queue.gate()

    def submit():
        for n in range(100):
            queue.launch(thrice, 1, 1, value, n)
        gate.open()

    submitting = threading.Thread(target=submit, daemon=True)
    submitting.start()
    submitting.join(30)
    stopped = submitting.is_alive()
    gate.open()
    go_on.set()
    submitting.join()
    other.finish()
    assert not stopped
    assert value.get(queue=queue).tolist() == [expected(0, range(100))]
