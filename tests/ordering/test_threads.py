"""Several host threads: nothing lost, nothing claimed too early, nobody waiting for ever."""

import contextlib
import functools
import threading
import time

import numpy as np
import pytest

import forebay as fb
from tests.drivers.levelzero import validation
from tests.helpers.device_data import device_data
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import hurried, together  # noqa: F401

from .program import holds

pytestmark = [pytest.mark.threads, pytest.mark.usefixtures("hurried")]

SOURCE = """
kernel void add(global uint *a, uint at, uint value) { a[at] += value; }
kernel void add_atomically(global uint *a, uint at) { atomic_inc(a + at); }
// what is in the first n places of `from`, each a line of memory apart, as row `row` of `to`
kernel void note(global const volatile uint *from, global uint *to, uint row, uint n)
{
    for (uint i = 0; i < n; i++)
        to[row * n + i] = from[i * 32];
}
// busy: how many commands of blocking queues run, how many of the null queue, and how often one met the other
kernel void meet(global volatile uint *busy, uint of_null, uint turns)
{
    atomic_inc(busy + 32 * of_null);
    for (uint i = 0; i < turns; i++)
        if (busy[32 * (1 - of_null)])
            atomic_inc(busy + 64);
    atomic_dec(busy + 32 * of_null);
}
"""


@pytest.fixture(scope=validation.scope("module"))
def threaded(device):
    return device.program(SOURCE)


def zeros(device, n):
    buffer = device.array(np.zeros(n, "u4"))
    device.finish()
    return buffer


@pytest.mark.parametrize("how", ["finish", "event", "device", "null"])
def test_what_is_submitted_while_the_host_waits_is_not_taken_for_done(device, threaded, how, hold):
    """Epoch and clock are those of the moment the wait began."""
    device.finish()
    queue, late = device.queue(), device.queue(blocking=False)
    gate = hold(queue)
    queue.launch(threaded["add"], 1, 1, device.empty(64, "u4"), 0, 1)
    event = queue.record()
    wait = {
        "finish": queue.finish, "event": event.wait, "device": device.finish, "null": device.null_queue.finish
    }[how]  # fmt: skip
    submitted, host_syncs = queue.epoch, device.stats.host_syncs

    def submit():
        while device.stats.host_syncs == host_syncs:
            time.sleep(1e-4)
        time.sleep(0.02)  # it counts before it waits
        submit.gate = hold(late)
        submit.event = late.record()
        queue.wait(submit.event)
        gate.open()

    together(wait, submit)
    assert (queue.completed, queue.epoch, queue.empty) == (submitted, submitted + 1, False)
    assert late.completed == 0
    assert not submit.event.query()
    submit.gate.open()
    device.finish()
    assert queue.empty
    assert late.empty


def test_a_host_function_among_many_commands_in_flight(device, threaded, hold):
    """One queue is held with thousands of commands and host functions; another thread launches and takes the GIL.

    CUDA has room for 1,020 behind the gate.
    """
    n = 700 if device.driver.most_held is not None else 3000
    held, other = device.queue(blocking=False), device.queue(blocking=False)
    a, b = zeros(device, 64), zeros(device, 64)
    ran = []

    def fill_up():
        gate = hold(held)
        for k in range(n):
            held.launch(threaded["add"], 1, 1, a, 0, 1)
            if k % 100 == 0:
                held.host(lambda: ran.append(int(np.sum(np.arange(1000)))))
        gate.open()
        held.finish()

    def go_on():
        for _ in range(3000):
            other.launch(threaded["add"], 1, 1, b, 0, 1)
            sum(range(50))
        other.finish()

    together(fill_up, go_on)
    assert len(ran) == n // 100
    assert holds(a[:1], n)
    assert holds(b[:1], 3000)


def test_host_functions_of_graphs_that_launch_on_the_same_queue(device, threaded):
    """No launch of a graph keeps the queue locked until a function returns that wants it, however many there are."""
    queue, buffer, n = device.queue(blocking=False), zeros(device, 64), 60

    def launch_more():
        queue.launch(threaded["add"], 1, 1, buffer, 1, 1)

    with queue.capture() as graph:
        for _ in range(2):
            queue.launch(threaded["add"], 1, 1, buffer, 0, 1)
            queue.host(launch_more)
        queue.launch(threaded["add"], 1, 1, buffer, 0, 1)
    for _ in range(n):
        graph.launch(queue)
    queue.finish()
    queue.finish()
    assert holds(buffer[:2], [3 * n, 2 * n])


def test_graphs_with_copies_behind_a_host_function_that_launches_on_their_queue(device, threaded):
    """As above. A graph in which launches and copies take turns may take the room of each."""
    queue, a, b, n = device.queue(blocking=False), zeros(device, 64), zeros(device, 64), 40
    host = fb.host_empty(64, "u4", device)
    host[:] = 7

    def launch_more():
        time.sleep(0.05)
        queue.launch(threaded["add"], 1, 1, a, 1, 1)

    with queue.capture() as graph:
        for _ in range(20):
            queue.launch(threaded["add"], 1, 1, a, 0, 1)
            queue.copy(b, host)
    executable = graph.instantiate()
    executable.launch(queue)
    queue.host(launch_more)
    for _ in range(n):
        executable.launch(queue)
    for _ in range(2):
        queue.finish()
    assert holds(a[:2], [20 * (n + 1), 1])
    assert holds(b, 7)


def test_host_functions_of_many_queues_that_launch_on_their_queue(device, threaded):
    """As above; a driver's room for host functions may be for several queues together."""
    queues, buffer, n = [device.queue(blocking=False) for _ in range(96)], zeros(device, 96 * 64), 15
    for _ in range(n):
        for i, queue in enumerate(queues):
            queue.host(functools.partial(queue.launch, threaded["add"], 1, 1, buffer, i, 1))
            queue.launch(threaded["add"], 1, 1, buffer, i, 1)
    for _ in range(2):
        for queue in queues:
            queue.finish()
    assert holds(buffer[: len(queues)], [2 * n] * len(queues))


@pytest.mark.parametrize("gather", ["launch", "record", "finish", "wait"])
def test_no_work_is_lost_between_the_null_queue_and_blocking_queues(device, threaded, gather):
    """What a thread had submitted when another began a command is ordered before it, both ways."""
    n_queues, n_null = 3, 1000
    counters = zeros(device, 32 * (n_queues + 1))  # of each blocking queue, and of the null queue
    queues = [device.queue() for _ in range(n_queues)]
    free = device.queue(blocking=False)
    submitted = [0] * (n_queues + 1)
    noted = zeros(device, n_null * n_queues)
    expected = np.zeros((n_null, n_queues), "u4")
    rows = 20_000
    notes = [zeros(device, rows) for _ in queues]
    lowest = [[] for _ in queues]
    running = threading.Event()
    running.set()
    null = device.null_queue
    at_null = 32 * n_queues
    null_counter = counters[at_null:]

    def blocking(i):
        while running.is_set() and len(lowest[i]) < rows:
            queues[i].launch(threaded["add"], 1, 1, counters, 32 * i, 1)
            submitted[i] += 1
            lowest[i].append(submitted[n_queues])
            queues[i].launch(threaded["note"], 1, 1, null_counter, notes[i], len(lowest[i]) - 1, 1)
            if len(lowest[i]) % 64 == 0:
                queues[i].finish()

    def gathering():
        try:
            while not all(submitted[:n_queues]):
                time.sleep(0)
            for row in range(n_null):
                expected[row] = submitted[:n_queues]
                queue = null
                if gather == "record":
                    free.wait(null.record())
                    queue = free
                elif gather == "finish":
                    null.finish()
                    queue = free
                elif gather == "wait":
                    free.wait(null)
                    queue = free
                queue.launch(threaded["note"], 1, 1, counters, noted, row, n_queues)
                null.launch(threaded["add"], 1, 1, counters, at_null, 1)
                submitted[n_queues] += 1
        finally:
            running.clear()

    together(gathering, *(lambda i=i: blocking(i) for i in range(n_queues)))
    device.finish()
    if not EXECUTES:
        return
    got = noted.get().reshape(n_null, n_queues)
    assert (got >= expected).all()
    assert expected[-1].sum() > 0
    for i, each in enumerate(notes):
        assert (device_data(each.get()[: len(lowest[i])]) >= np.array(lowest[i], "u4")).all()
    final = counters.get()[::32]
    assert list(final) == submitted


def test_no_work_is_lost_when_commands_of_the_null_queue_fail(device, threaded, calls):
    """Two threads use the null queue. Where one's command fails, the other's must find the list whole."""
    n = 1500
    counter = zeros(device, 64)
    rows = [zeros(device, n) for _ in range(2)]
    queue, null = device.queue(), device.null_queue
    submitted = [0]
    lowest = [[], []]
    running = threading.Event()
    running.set()

    def add():
        while running.is_set():
            queue.launch(threaded["add"], 1, 1, counter, 0, 1)
            submitted[0] += 1

    def gather(i):
        try:
            for row in range(n):
                calls.fail(calls.driver.LAUNCH, calls.driver.FAILURE[0])  # the next one, whoever's it is
                while True:
                    seen = submitted[0]
                    try:
                        null.launch(threaded["note"], 1, 1, counter, rows[i], row, 1)
                    except fb.Error:
                        continue
                    break
                lowest[i].append(seen)
        finally:
            running.clear()

    def add_with_failures():
        while running.is_set():
            with contextlib.suppress(fb.Error):
                add()

    together(lambda: gather(0), lambda: gather(1), add_with_failures)
    device.finish()
    assert holds(counter[:1], submitted[0])
    for i in range(2 if EXECUTES else 0):
        assert (device_data(rows[i].get()[: len(lowest[i])]) >= np.array(lowest[i], "u4")).all()


def test_queues_come_and_go_while_the_null_queue_gathers(device, threaded):
    counter = zeros(device, 64)
    n, n_threads = 150, 3
    running = threading.Event()
    running.set()
    stats = device.stats

    def come_and_go():
        for k in range(n):
            queue = device.queue(blocking=k % 4 != 0)
            for _ in range(3):
                queue.launch(threaded["add_atomically"], 1, 1, counter, 0)
            if k % 3 == 0:
                queue.close()
            elif k % 3 == 1:
                queue.finish()

    def gather():
        launched = 0
        while running.is_set():
            device.null_queue.launch(threaded["add_atomically"], 1, 1, counter, 1)
            launched += 1
            if launched % 20 == 0:
                device.null_queue.finish()
        gather.launched = launched

    def all_come_and_go():
        together(*[come_and_go] * n_threads)
        running.clear()

    together(all_come_and_go, gather)
    device.finish()
    assert holds(counter[:2], [n * n_threads * 3, gather.launched])
    assert (device.stats - stats).launches == n * n_threads * 3 + gather.launched


def test_an_event_recorded_and_asked_by_many(device, threaded):
    event = device.event()
    counter = zeros(device, 64)
    running = threading.Event()
    running.set()

    def record(i):
        queue = device.queue(blocking=i == 0)
        for _ in range(1500):
            queue.launch(threaded["add_atomically"], 1, 1, counter, 0)
            queue.record(event)
        running.clear()

    def ask():
        queue = device.queue(blocking=False)
        while running.is_set():
            event.query()
            queue.wait(event)
            repr(event)
            queue.launch(threaded["add_atomically"], 1, 1, counter, 1)

    together(lambda: record(0), lambda: record(1), ask)
    device.finish()
    assert event.query()
    assert holds(counter[:1], 3000)


def test_no_command_runs_beside_one_of_the_null_queue(device, threaded):
    """While the null queue gathers from many, one that it has passed gets a command that it did not see."""
    busy = device.zeros(96, "u4")
    device.finish()
    passed, others = device.queue(), [device.queue() for _ in range(48)]

    passing = True

    def submit():
        nonlocal passing
        end = time.monotonic() + 1  # the kernels take hundreds of times as long on one device as on another
        try:
            while time.monotonic() < end:
                for _ in range(4):
                    passed.launch(threaded["meet"], 1, 1, busy, 0, 20_000)
                passed.finish()
        finally:
            passing = False

    def submit_null():
        while passing:
            for queue in others:
                queue.launch(threaded["meet"], 1, 1, busy, 0, 1)
            device.null_queue.launch(threaded["meet"], 1, 1, busy, 1, 20_000)
            device.null_queue.finish()

    together(submit, submit_null)
    device.finish()
    assert device_data(busy.get()[::32].tolist()) == [0, 0, 0]
