"""A queue so full that the driver blocks whoever submits: NVIDIA's takes 1021 commands behind a running kernel.

Behind a gate or a host function it takes any number (20,000 were tried); other drivers may not. So nobody fills a queue
while a host function is outstanding: it may want the lock of whoever is blocked in the driver.
Nothing may need what the blocked thread holds. A spinning kernel makes a queue full on a GPU; on a CPU device it would
starve the other queues, and no number of commands blocks there, so a gate holds the queue instead.
"""

from __future__ import annotations

import sys
import threading
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.processes import quiet_output_of
from tests.helpers.threads import beside, together

SOURCE = """
kernel void spin(global volatile int *go, int limit) { for (int i = 0; i < limit && go[0] == 0; i++) { } go[1] = 1; }
kernel void thrice(global int *a, int n) { a[0] = a[0] * 3 + n; }
"""
COMMANDS = 3000


def make_busy(device, queue, program):
    """Keep the queue running for half a second or more on a GPU, or until the returned gate is opened."""
    if device.info.kind == "cpu":
        return queue.gate()
    queue.launch(program["spin"], 1, 1, device.zeros(2, "i4"), 2_000_000)  # loads, of 0.2 µs and more
    return None


@pytest.fixture
def program(device):
    return device.program(SOURCE)


class Counter:
    """A number that launches change, one after the other, and what it must be then."""

    def __init__(self, device, program):
        self.kernel, self.memory, self.expected = program["thrice"], device.zeros(1, "i4"), np.int32(0)
        device.finish()

    def launch(self, queue, count=COMMANDS, then=lambda n: None):
        for n in range(count):
            queue.launch(self.kernel, 1, 1, self.memory, n)
            self.note(n)
            then(n)

    def note(self, n):
        with np.errstate(over="ignore"):
            self.expected = np.int32(self.expected * np.int32(3) + np.int32(n))

    def check(self, **queue):
        assert device_data(self.memory.get(**queue)[0]) == self.expected


@pytest.mark.executes
@pytest.mark.parametrize("bound", [False, True])
def test_a_host_function_pending_in_a_full_queue_still_gets_the_gil(device, program, bound):
    queue, counter, ran = device.queue(blocking=False), Counter(device, program), []
    gate = make_busy(device, queue, program)
    queue.host(lambda: ran.append(queue.epoch))
    if gate is not None:
        gate.open()
    if bound:
        step = program["thrice"].bind(queue, 1, 1, counter.memory, 1)
        for _ in range(COMMANDS):
            step()
            counter.note(1)
    else:
        counter.launch(queue)
    queue.finish()
    assert len(ran) == 1
    counter.check()


@pytest.mark.threads
def test_a_thread_on_a_full_queue_holds_no_other_up(device, program):
    full, free = device.queue(blocking=False), device.queue(blocking=False)
    counter, other = Counter(device, program), Counter(device, program)
    gate = make_busy(device, full, program)
    with beside(lambda: counter.launch(full)):
        other.launch(free, 100)
        free.finish()
        found = other.memory.get(queue=free)[0]
        if gate is not None:
            gate.open()
    full.finish()
    assert device_data(found) == other.expected
    counter.check()


@pytest.mark.threads
@pytest.mark.executes
def test_a_host_function_uses_a_blocking_queue_while_the_null_queue_is_filled_up(device, program):
    """The null queue, which waits for it, is given thousands of commands; no lock of its is kept meanwhile."""
    held, other, null = device.queue(), device.queue(), device.null_queue
    counter, seen, filled = Counter(device, program), Counter(device, program), threading.Event()
    for queue in (held, other, null):
        counter.launch(queue, 1)
    device.finish()

    def use_the_other():
        filled.wait()
        seen.launch(other, 5)

    held.host(use_the_other)
    # The function returns only when `filled` is set, so no more may be needed than a queue takes behind it.
    together(lambda: counter.launch(null, then=lambda n: n == 100 and filled.set()))
    device.finish()
    counter.check()
    seen.check()


# -- behind a host function

BEHIND = """
import threading
from tests.helpers.observer import observer_of
observer = observer_of('level_zero')
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
    assert quiet_output_of(code, FOREBAY_DEVICE="level_zero", timeout=60) == "1\n"


@pytest.fixture
def small(device):
    """A Device that takes its queues for full with 64 commands."""
    module = sys.modules[type(device.driver).__module__]
    few = mock.patch.multiple(module, NEVER_BLOCKS=64, KEEPS_GIL_BELOW=64)
    with few, fb.Device(device.name, private=True) as small:
        yield small


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("which", ["queue", "null queue"])
def test_no_thread_fills_a_queue_behind_a_host_function(small, which):
    """One that would fill it waits before, without the lock; the function itself may submit a few more."""
    held, program = small.queue(), small.program(SOURCE)
    queue = held if which == "queue" else small.null_queue
    counter, seen = Counter(small, program), Counter(small, program)
    begin, epochs, start = threading.Event(), [], queue.epoch

    def submit():
        begin.wait()
        while queue.epoch - start < 64:
            pass
        epochs.extend([queue.epoch - start for _ in range(200_000)])
        seen.launch(queue, 8)

    held.host(submit)
    together(lambda: counter.launch(queue), begin.set)
    small.finish()
    assert max(epochs) <= 66  # its own and one of the null queue's waits, beside 64
    counter.check()
    seen.check()


@pytest.mark.needs("OpenCL")
def test_a_program_that_never_waits_has_the_queue_asked_now_and_then(small):
    """Else it would count as full from some command on, though the device keeps up, and each launch take longer."""
    queue, counter = small.queue(blocking=False), Counter(small, small.program(SOURCE))
    counter.launch(queue)
    assert COMMANDS // 65 - 1 <= queue.stats.markers_made <= COMMANDS // 32
    queue.finish()
    counter.check()


@pytest.mark.threads
@pytest.mark.needs("OpenCL")
def test_counters_are_read_while_a_call_blocks(device):
    """The thread inside the driver has the queue's lock."""
    queue, buffer, found = device.queue(), device.empty(64, "u4"), []
    with observe(device) as calls:
        name = calls.name_of("FILL")
        before = queue.stats
        calls.driver.pause(name)
        with beside(lambda: queue.fill(buffer, 1)):
            calls.driver.wait_until_paused()
            with beside(lambda: found.extend((device.stats, queue.stats))) as (looking,):
                looking.join(20)
                blocked = looking.is_alive()
                calls.driver.go_on()
    assert not blocked
    assert found[1] == before
    device.finish()
    assert queue.stats.fills == before.fills + 1


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.needs("OpenCL")
def test_a_host_function_of_another_device_does_not_stop_the_thread_that_is_to_open_a_gate(device, small):
    queue, go_on, counter = small.queue(blocking=False), threading.Event(), Counter(small, small.program(SOURCE))
    other = device.queue(blocking=False)
    other.host(go_on.wait)
    gate = queue.gate()
    with beside(lambda: (counter.launch(queue, 100), gate.open())) as (submitting,):
        submitting.join(30)
        stopped = submitting.is_alive()
        gate.open()
        go_on.set()
    other.finish()
    assert not stopped
    counter.check(queue=queue)
