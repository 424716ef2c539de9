"""A queue so full that the driver blocks whoever submits: NVIDIA's takes 1021 commands behind a running kernel.

Behind a gate or a host function it takes any number (20,000 were tried), so what such a queue waits for cannot be held
up by a thread that is blocked there.
Nothing may need what the blocked thread holds. A spinning kernel makes a queue full on a GPU; on a CPU device it would
starve the other queues, and no number of commands blocks there, so a gate holds the queue instead.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import forebay as ps

SOURCE = """
kernel void spin(global volatile int *go, int limit) { for (int i = 0; i < limit && go[0] == 0; i++) { } go[1] = 1; }
kernel void thrice(global int *a, int n) { a[0] = a[0] * 3 + n; }
"""
COMMANDS = 3000


def make_busy(device: ps.Device, queue: ps.Queue, program: ps.Program) -> object:
    """Keep the queue running for a second or so on a GPU, or until the returned gate is opened."""
    if device.info.kind == "cpu":
        return queue._gate()
    queue.launch(program["spin"], 1, 1, device.zeros(2, "i4"), 50_000_000)
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
            if n == COMMANDS // 2:
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
