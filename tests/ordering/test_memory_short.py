"""The host's memory runs out at each place in turn where forebay's compiled code asks for some.

A command is refused before it has changed anything, or succeeds: no lock stays held, nothing is half done, no error is
lost. That holds when one request fails, and while all do.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.drivers.cuda import standing_in
from tests.helpers.observer import EXECUTES
from tests.helpers.processes import python

MALLOC = Path(__file__).parents[1] / "helpers" / "failing_malloc.c"

CHILD = r'''
import ctypes, random, sys, threading
import forebay as fb

malloc = ctypes.CDLL(None)
SOURCE = """
kernel void count(global int *x) { atomic_inc(x); }
kernel void take(global int *x, int k) { atomic_add(x, k); }
"""


class Program:
    """Counts what was submitted, and compares."""

    def __init__(self):
        self.device = fb.Device(private=True)
        program = self.device.program(SOURCE)
        self.count, self.take = program["count"], program["take"]
        self.queues = [
            self.device.null_queue, self.device.queue(), self.device.queue(), self.device.queue(blocking=False),
            self.device.queue(blocking=False)]
        self.x = self.device.zeros(1, "i4")
        self.device.finish()
        self.total = self.refused = self.failed = 0
        with self.queues[4].capture() as graph:
            for _ in range(3):
                self.queues[4].launch(self.count, 1, 1, self.x)
        self.graph = graph.instantiate()
        self.events = [self.device.null_queue.record()]
        self.steps = [(queue, queue.step()) for queue in self.queues[1:4]]
        self.memory = []

    def launch(self, queue, draw):
        queue.launch(self.count, 1, 1, self.x)
        self.total += 1

    def bound(self, queue, draw):
        self.take.bind(queue, 1, 1, self.x, 5)()
        self.total += 5

    def wait(self, queue, draw):
        queue.wait(draw.choice(self.queues))

    def record(self, queue, draw):
        self.events = [*self.events[-8:], queue.record()]

    def wait_for_event(self, queue, draw):
        queue.wait(draw.choice(self.events))

    def alloc(self, queue, draw):
        self.memory.append(queue.alloc(draw.choice([64, 4096, 1 << 16]), "u1"))
        queue.fill(self.memory[-1], 3)

    def free(self, queue, draw):
        if self.memory:
            memory = self.memory.pop()
            self.device.finish()
            try:
                queue.free(memory)
            except fb.OutOfMemoryError:
                self.memory.append(memory)
                raise

    def replay(self, queue, draw):
        self.graph.launch(queue)
        self.total += 3

    def step(self, queue, draw):
        queue, step = draw.choice(self.steps)
        with step:
            for _ in range(3):
                queue.launch(self.count, 1, 1, self.x)
                self.total += 1

    def host(self, queue, draw):
        queue.host(lambda: None)

    def copy(self, queue, draw):
        queue.copy(self.device.empty(16, "u1"), b"0123456789abcdef")

    def new_queue(self, queue, draw):
        with self.device.queue() as new:
            new.launch(self.count, 1, 1, self.x)
            self.total += 1

    def finish(self, queue, draw):
        queue.finish()

    def run(self, draw):
        operations = [
            getattr(self, draw.choice([
                "launch", "launch", "bound", "wait", "wait", "record", "wait_for_event", "alloc", "free", "replay",
                "step", "host", "copy", "new_queue", "finish"]))
            for _ in range(20)]
        queues = [draw.choice(self.queues) for _ in operations]
        malloc.fail(draw.randint(0, 60), draw.choice([1, 3, 1 << 30]))
        for operation, queue in zip(operations, queues):
            try:
                operation(queue, draw)
            except (fb.OutOfMemoryError, MemoryError):
                self.refused += 1
        self.failed += malloc.failures()
        malloc.fail(0, 0)
        self.in_a_thread(self.judge)

    def in_a_thread(self, run):
        """No lock is held: another thread gets them all."""
        errors = []

        def work():
            try:
                run()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        if thread.is_alive():
            sys.exit("a lock is held, or a wait never ends")
        if errors:
            raise errors[0]

    def judge(self):
        for queue in self.queues:
            queue.launch(self.count, 1, 1, self.x)
            self.total += 1
        self.device.finish()
        got = int(self.x.get()[0])
        assert not EXECUTES or got == self.total, (got, self.total)


EXECUTES = sys.argv[1] == "True"
program = Program()
sys.unraisablehook = lambda lost: sys.exit(f"lost: {lost.exc_value!r} in {lost.object!r}")
for seed in range(int(sys.argv[2])):
    program.run(random.Random(seed))
assert program.failed and program.refused, (program.failed, program.refused)
program.device.close()
print(program.failed, program.refused)
'''


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("malloc") / "failing_malloc.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", made, MALLOC, "-ldl"], check=True)
    return made


@pytest.mark.skipif(standing_in.inside(), reason="another process has no stand-in")
@pytest.mark.parametrize(
    "programs", [100, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.needs("no chosen device")])]
)
def test_memory_of_the_host_runs_out(device, library, programs):
    ended = python("-c", CHILD, EXECUTES, programs, FOREBAY_DEVICE=device.name, LD_PRELOAD=library, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
