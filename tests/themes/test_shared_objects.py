"""Threads share an object of each public class, and call each two of its methods at once, eight threads in all.

Each launch adds 1 to an element of its own thread, so that the sum tells how many were executed. What one method does
to the object may refuse another: then a documented error is raised, and nothing else has happened. With FOREBAY_TURNS
set, each thread makes as many calls: see `make test-free-threading`.
"""

import contextlib
import itertools
import os
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import together

pytestmark = [pytest.mark.threads, pytest.mark.timeout(600)]

TURNS = int(os.environ.get("FOREBAY_TURNS", 12))
THREADS, SIZE = 8, 16
SOURCE = """
kernel void add(global int *to, int at, int times) { atomic_add(to + at, times); }
kernel void copy(global int *to, global const int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }
"""


def read(memory, queue=None):
    return device_data(memory.get(queue=queue))


class Shared:
    """What all threads have beside the object: a device with a kernel, and memory that counts launches by thread."""

    def __init__(self, device):
        self.device = device
        self.add, self.copy = (device.program(SOURCE)[name] for name in ("add", "copy"))
        self.counts, self.x = device.zeros(THREADS, "i4"), device.array(np.arange(SIZE, dtype="i4"))
        self.queues = [device.queue(blocking=False) for _ in range(THREADS)]
        self.launched = [0] * THREADS
        self.numbers = threading.local()
        device.finish()

    def launch(self, kernel=None, queue=None, times=1):
        at = self.numbers.at
        (queue or self.queues[at]).launch(kernel or self.add, times, 1, self.counts, at, 1)
        self.launched[at] += times


class Case:
    """An object that threads share, and its methods by name. A call of a method gets the thread's number and a turn."""

    refusals = ()

    def __init__(self, scene):
        self.scene = scene
        self.shared = self.make()

    def holds(self):
        return True


class Closed:
    """It is closed halfway."""

    refusals = (fb.ClosedError,)

    def do_close(self, at, turn):
        if turn == TURNS // 2:
            self.shared.close()


class SharedKernel(Case):
    def make(self):
        return self.scene.add

    def do_launch(self, at, turn):
        self.scene.launch(times=1 + (turn + at) % 3)

    def do_launch_on_one_queue(self, at, turn):
        self.scene.launch(queue=self.scene.queues[0], times=1 + turn % 2)

    def do_bind(self, at, turn):
        self.shared.bind(self.scene.queues[at], 1, 1, self.scene.counts, at, 1)()
        self.scene.launched[at] += 1

    def do_subscript(self, at, turn):
        self.shared[2, 1, self.scene.queues[at]](self.scene.counts, at, 1)
        self.scene.launched[at] += 2

    def do_ask(self, at, turn):
        assert self.shared.groups_at_once(1) >= 0
        assert self.shared.signature.startswith("add(")

    def do_declare(self, at, turn):
        self.shared.writes("to")


class ClosedKernel(Closed, SharedKernel):
    pass


class SharedBoundLaunch(Case):
    def make(self):
        return self.scene.add.bind(self.scene.queues[0], 1, 1, self.scene.counts, 0, 0)

    def do_call(self, at, turn):
        self.shared()

    def do_close_memory(self, at, turn):  # then the next call checks its arguments again
        self.scene.device.empty(SIZE, "i4").close()

    def do_launch(self, at, turn):
        self.scene.launch(queue=self.scene.queues[0])


class SharedQueue(Case):
    def make(self):
        self.own = [self.scene.device.zeros(SIZE, "i4") for _ in range(THREADS)]
        return self.scene.device.queue(blocking=False)

    def do_launch(self, at, turn):
        self.scene.launch(queue=self.shared)

    def do_fill(self, at, turn):
        self.shared.fill(self.own[at], turn)

    def do_copy(self, at, turn):
        self.shared.copy(self.own[at], self.scene.x)

    def do_get(self, at, turn):
        assert (read(self.scene.x, self.shared) == np.arange(SIZE)).all()

    def do_record(self, at, turn):
        self.shared.record().wait()

    def do_wait(self, at, turn):
        self.shared.wait(self.scene.queues[at])
        self.scene.queues[at].wait(self.shared)

    def do_alloc(self, at, turn):
        memory = self.shared.alloc(SIZE, "i4")
        self.shared.fill(memory, at)
        assert (read(memory, self.shared) == at).all()
        self.shared.free(memory)

    def do_host(self, at, turn):
        self.shared.host(int)

    def do_query(self, at, turn):
        assert self.shared.query() in (True, False)
        assert self.shared.completed <= self.shared.epoch

    def do_finish(self, at, turn):
        self.shared.finish()

    def do_step(self, at, turn):
        with self.scene.queues[at].step():
            self.scene.launch()
            self.scene.queues[at].wait(self.shared)


class ClosedQueue(Closed, SharedQueue):
    pass


class SharedStep(Case):
    refusals = (fb.StepError, fb.ClosedError)  # its queue is in the step already, of another thread; it is closed

    def make(self):
        self.queue = self.scene.device.queue(blocking=False)
        self.own = [queue.step() for queue in self.scene.queues]
        return self.queue.step()

    def do_enter(self, at, turn):
        with contextlib.suppress(*self.refusals), self.shared:
            self.scene.launch(queue=self.queue)
        try:
            with self.own[at]:
                self.scene.launch()
        except fb.StepError as error:
            pytest.fail(f"this thread has left the other step: {error}")

    def do_enter_another(self, at, turn):  # which is gone at once, while other threads launch
        with self.queue.step():
            self.scene.launch(queue=self.queue)

    def do_launch(self, at, turn):
        self.scene.launch(queue=self.queue)

    def do_close(self, at, turn):
        if turn == TURNS // 2:
            self.shared.close()


class SharedEvent(Case):
    def make(self):
        return self.scene.device.event(timing=True)

    def do_record(self, at, turn):
        self.scene.launch()
        self.scene.timed[at].record(self.shared)

    def do_wait_of_a_queue(self, at, turn):
        self.scene.queues[at].wait(self.shared)

    def do_wait(self, at, turn):
        self.shared.wait()

    def do_query(self, at, turn):
        assert self.shared.query() in (True, False)
        assert "Event" in repr(self.shared)

    def do_elapsed(self, at, turn):
        begin, end = (self.scene.timed[at].record(timing=True) for _ in range(2))
        end.wait()
        assert end.elapsed(begin) >= 0
        with contextlib.suppress(fb.InvalidArgumentError):  # it is not done yet, or was never recorded
            assert isinstance(self.shared.elapsed(begin), float)


class SharedBuffer(Case):
    """Threads read one half, and each writes its element of the other."""

    def make(self):
        values = np.concatenate([np.arange(SIZE), np.zeros(THREADS)]).astype("i4")
        return self.scene.device.array(values)

    def do_launch(self, at, turn):
        self.scene.queues[at].launch(self.scene.add, 1, 1, self.shared, SIZE + at, 0)

    def do_slice(self, at, turn):
        part = self.shared[SIZE + at : SIZE + at + 1]
        self.scene.queues[at].fill(part, turn)
        assert read(part, self.scene.queues[at])[0] == turn

    def do_read_launch(self, at, turn):
        to = self.scene.queues[at].alloc(SIZE, "i4")
        self.scene.queues[at].launch(self.scene.copy, SIZE, 1, to, self.shared[:SIZE])
        assert (read(to, self.scene.queues[at]) == np.arange(SIZE)).all()
        self.scene.queues[at].free(to)

    def do_get(self, at, turn):
        assert (read(self.shared[:SIZE], self.scene.queues[at]) == np.arange(SIZE)).all()

    def do_view(self, at, turn):
        assert self.shared[:SIZE].view("u4").shape == self.shared[:SIZE].reshape(4, -1).reshape(-1).shape
        assert self.shared.generation >= 0

    def do_strided(self, at, turn):
        assert (read(self.shared[:SIZE:2], self.scene.queues[at]) == np.arange(0, SIZE, 2)).all()


class ClosedBuffer(Case):
    """Memory that comes and goes, of the pool and of the driver, and is dropped or closed."""

    refusals = (fb.ClosedError, fb.InvalidArgumentError)  # a free of what is closed, or not from a pool

    def make(self):
        self.steps = [queue.step() for queue in self.scene.queues]
        return [self.scene.device.empty(SIZE, "i4") for _ in range(TURNS)]

    def do_close(self, at, turn):
        self.shared[turn].close()

    def do_launch(self, at, turn):
        self.scene.queues[at].launch(self.scene.copy, SIZE, 1, self.shared[turn], self.scene.x)

    def do_step(self, at, turn):
        with self.steps[at]:
            self.scene.queues[at].launch(self.scene.copy, SIZE, 1, self.shared[turn], self.scene.x)

    def do_bind(self, at, turn):
        self.scene.copy.bind(self.scene.queues[at], SIZE, 1, self.shared[turn], self.scene.x)()

    def do_fill(self, at, turn):
        self.scene.queues[at].fill(self.shared[turn], turn)

    def do_free(self, at, turn):
        memory = self.scene.queues[at].alloc(SIZE, "i4")
        self.scene.queues[at].free(memory)

    def do_make(self, at, turn):
        assert (read(self.scene.device.array(np.full(SIZE, at, "i4"))) == at).all()

    def do_ask(self, at, turn):
        assert self.shared[turn].closed in (True, False)
        assert "Buffer" in repr(self.shared[turn])

    def do_free_the_same(self, at, turn):
        if turn % 4 == 0:
            self.scene.queues[at].free(self.shared[turn])


class SharedExecutable(Case):
    def make(self):
        graph = self.scene.device.graph()
        self.nodes = [graph.add_kernel(self.scene.add, 1, 1, self.scene.counts, at, 0) for at in range(THREADS)]
        self.other = self.scene.device.graph()
        for at in range(THREADS):
            self.other.add_kernel(self.scene.add, 2, 1, self.scene.counts, at, 0)
        self.graph = graph
        return graph.instantiate()

    def do_launch(self, at, turn):
        self.shared.launch(self.scene.queues[at])

    def do_launch_on_one_queue(self, at, turn):
        self.shared.launch(self.scene.queues[0])

    def do_set_kernel(self, at, turn):
        self.shared.set_kernel(self.nodes[at], self.scene.add, 1 + turn % 3, 1, self.scene.counts, at, 0)

    def do_update(self, at, turn):
        self.shared.update(self.graph if turn % 2 else self.other)

    def do_ask(self, at, turn):
        assert self.shared.writes in ((), (self.scene.counts,))
        assert "ExecutableGraph" in repr(self.shared)


class ClosedExecutable(Closed, SharedExecutable):
    pass


class SharedGraph(Case):
    def make(self):
        graph = self.scene.device.graph()
        graph.add_kernel(self.scene.add, 1, 1, self.scene.counts, 0, 0)
        return graph

    def do_add(self, at, turn):
        self.shared.add_kernel(self.scene.add, 1, 1, self.scene.counts, at, 0)

    def do_instantiate(self, at, turn):
        with self.shared.instantiate() as executable:
            executable.launch(self.scene.queues[at])

    def do_ask(self, at, turn):
        assert len(self.shared.nodes) >= 1
        assert "Graph" in repr(self.shared)


class SharedDevice(Case):
    refusals = (fb.CaptureError,)  # of a finish, and of the capture that it invalidates

    def make(self):
        return self.scene.device

    def do_queue(self, at, turn):
        with_queue = self.shared.queue(blocking=bool(turn % 2))
        self.scene.launch(queue=with_queue)
        with_queue.close()

    def do_program(self, at, turn):
        self.scene.launch(self.shared.program(SOURCE)["add"])

    def do_null(self, at, turn):
        self.scene.launch(queue=self.shared.null_queue)

    def do_own(self, at, turn):
        self.scene.launch(queue=self.shared.per_thread_queue)

    def do_memory(self, at, turn):
        assert (read(self.shared.array(np.full(SIZE, at, "i4"))) == at).all()

    def do_statistics(self, at, turn):
        assert self.shared.stats.launches >= 0

    def do_finish(self, at, turn):
        self.shared.finish()

    def do_capture(self, at, turn):
        with self.scene.queues[at].capture("relaxed") as graph:
            self.scene.launch()
            self.scene.launched[at] -= 1  # it is captured, and does not run
        assert len(graph.nodes) == 1

    def do_event(self, at, turn):
        event = self.shared.event()
        self.scene.queues[at].record(event)
        event.wait()


class OpenedDevice(Case):
    """Devices of one name share a context; each turn opens and closes one."""

    def make(self):
        return self.scene.device.name

    def do_open(self, at, turn):
        with fb.Device(self.shared) as device:
            assert (read(device.array(np.full(SIZE, at, "i4"))) == at).all()

    def do_open_alone(self, at, turn):
        if turn % 4 == 0:
            with fb.Device(self.shared, private=True) as device:
                device.zeros(SIZE)

    def do_launch(self, at, turn):
        self.scene.launch()

    def do_default(self, at, turn):
        assert fb.host_empty(SIZE, device=self.scene.device).shape == (SIZE,)


class SharedExpression(Case):
    def make(self):
        self.memory = [self.scene.device.array(np.arange(n, dtype="i4")) for n in range(1, THREADS + 1)]
        self.sum = fb.reduction("int32 x", "int32 s", "x", "a + b", 0, name="sum_of")
        return fb.elementwise("int32 x, int32 y", "int32 z", "z = x + y", name="sum_of_two")

    def do_call(self, at, turn):
        x = self.memory[(at + turn) % THREADS]
        assert (
            read(self.shared(x, x, queue=self.scene.queues[at]), self.scene.queues[at]) == 2 * np.arange(x.size)
        ).all()

    def do_call_numbers(self, at, turn):
        x = self.memory[at]
        assert (
            read(self.shared(x, turn, queue=self.scene.queues[at]), self.scene.queues[at]) == np.arange(x.size) + turn
        ).all()

    def do_reduce(self, at, turn):
        x = self.memory[at]
        assert read(self.sum(x, queue=self.scene.queues[at]), self.scene.queues[at]).sum() == at * (at + 1) // 2


class SharedByValue(Case):
    def make(self):
        return [fb.by_value(np.full(SIZE, n, "i4")) for n in range(3)]

    def do_launch(self, at, turn):
        to = self.scene.queues[at].alloc(SIZE, "i4")
        self.scene.queues[at].launch(self.scene.copy, SIZE, 1, to, self.shared[turn % 3])
        assert (read(to, self.scene.queues[at]) == turn % 3).all()
        self.scene.queues[at].free(to)

    def do_make(self, at, turn):
        value = (100 * at + turn).to_bytes(4, "little")
        to = self.scene.queues[at].alloc(1, "i4")
        self.scene.queues[at].launch(self.scene.copy, 1, 1, to, fb.by_value(value))
        assert read(to, self.scene.queues[at])[0] == 100 * at + turn
        self.scene.queues[at].free(to)


class SharedGate(Case):
    """A gate for each turn, made by the thread that comes first, which opens the one before: a device holds few."""

    def make(self):
        self.making = threading.Lock()
        return []

    def gate_of(self, turn):
        with self.making:
            while len(self.shared) <= turn:
                [gate.open() for gate in self.shared[-1:]]
                self.shared.append(self.scene.device.queue(blocking=False).gate())
            return self.shared[turn]

    def do_open(self, at, turn):
        self.gate_of(turn).open()

    def do_ask(self, at, turn):
        assert self.gate_of(turn).opened in (True, False)

    def do_gate(self, at, turn):
        with self.scene.queues[at].gate():
            self.scene.launch()


CASES = [
    SharedKernel, ClosedKernel, SharedBoundLaunch, SharedQueue, ClosedQueue, SharedStep, SharedEvent, SharedBuffer,
    ClosedBuffer, SharedExecutable, ClosedExecutable, SharedGraph, SharedDevice, OpenedDevice, SharedExpression,
    SharedByValue, SharedGate,
]  # fmt: skip
PAIRS = [
    pytest.param(case, pair, id=f"{case.__name__}-{'-'.join(pair)}")
    for case in CASES
    for pair in itertools.combinations_with_replacement([name[3:] for name in dir(case) if name.startswith("do_")], 2)
]


@pytest.mark.parametrize(("case", "pair"), PAIRS)
def test_two_methods_at_once(device, case, pair):
    scene = Shared(device)
    scene.timed = [device.queue(blocking=False, timing=True) for _ in range(THREADS)]
    made = case(scene)
    methods = [getattr(made, f"do_{name}") for name in pair]

    def work(at):
        scene.numbers.at = at
        for turn in range(TURNS):
            with contextlib.suppress(*made.refusals):
                methods[at % 2](at, turn)

    together(*(lambda at=at: work(at) for at in range(THREADS)))
    if case is SharedGate:
        for gate in made.shared:
            gate.open()
    device.finish()
    if EXECUTES:
        assert scene.counts.get().tolist() == scene.launched
