"""Random programs: memory at the end is what HIP's rules allow, and the driver calls are those they ask for.

Each program is free of races by those rules, so there is one right result. Gates make queues really lag.
"""

import os
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.recordings import recordings_installed

from .program import SOURCE, program_on

settings.register_profile("ordering", max_examples=250, derandomize=True)
# For a long search: HYPOTHESIS_ORDERING=20000, which takes longer than a test may.
if os.environ.get("HYPOTHESIS_ORDERING"):
    settings.register_profile("ordering", max_examples=int(os.environ["HYPOTHESIS_ORDERING"]), derandomize=False)
    pytestmark = pytest.mark.timeout(0)

QUEUES = ("null", "blocking", "blocking", "non-blocking", "non-blocking", "per-thread")
MEMORIES = 3
POINTS = 3
TOUCHING = {"step", "mix", "copy", "upload", "fill"}

OPERATIONS = [
    *["step"] * 6, "mix", "mix", "copy", "upload", "fill", "record", "record", "wait", "wait", "wait queue", "host",
    "gate", "gate", "open", "query", "query point", "finish", "finish point", "finish device", "close", "drop",
]  # fmt: skip
steps = st.tuples(
    st.sampled_from(OPERATIONS), st.integers(0, len(QUEUES) - 1), st.integers(0, 5), st.booleans()
)  # fmt: skip


repeats = st.tuples(
    st.just("repeat"), st.integers(0, len(QUEUES) - 1), st.integers(2, 5), st.lists(steps, min_size=1, max_size=8)
)  # fmt: skip


class Player:
    """Turns drawn numbers into operations that are allowed at that point."""

    def __init__(self, program):
        self.program = program
        self.queues = [self.make(kind) for kind in QUEUES]
        self.memories = [program.memory(i + 1) for i in range(MEMORIES)]
        self.points = [None] * POINTS

    def make(self, kind):
        if kind == "null":
            return self.program.null
        if kind == "per-thread":
            return self.program.adopt(self.program.device.per_thread_queue)
        return self.program.queue(blocking=kind == "blocking")

    def repeat(self, slot, times, body):
        """The same operations so many times, each time in the same step."""
        queue = self.queues[slot]
        step = queue.step()
        for turn in range(times):
            if queue.closed or self.queues[slot] is not queue:
                break
            with self.program.in_step(step):
                for what, at, number, insist in body:
                    # every other time with other memory and numbers
                    self.play(what, at, number + turn // 2, insist)

    def attempt(self, queue, action, insist):
        """Submit the Action if it does not race, or if `insist` and waits keep it from that. Return whether it was."""
        program = self.program
        racing = program.racing(queue, action.writes, action.reads)
        if racing and insist and program.order_after(queue, racing):
            racing = program.racing(queue, action.writes, action.reads)
        if not racing:
            program.perform(queue, action)
        return not racing

    def touching(self, what, number):
        """The Action of this name."""
        program, a, b = self.program, self.memories[number % MEMORIES], self.memories[(number + 1) % MEMORIES]
        return {
            "step": lambda: program.advancing(a, number + 1),
            "mix": lambda: program.combining(a, b, number),
            "copy": lambda: program.copying(a, b),
            "upload": lambda: program.uploading(a, number + 1),
            "fill": lambda: program.filling(a, number + 1),
        }[what]()

    def play(self, what, slot, number, insist):
        if what == "repeat":
            self.repeat(slot, number, insist)
            return
        program, queue, at = self.program, self.queues[slot], number % POINTS
        if what in TOUCHING:
            self.attempt(queue, self.touching(what, number), insist)
        elif what == "record":
            self.points[at] = program.record(queue, self.points[at] if insist else None)
        elif what == "wait":
            if self.points[at]:
                program.wait(queue, self.points[at])
        elif what == "wait queue":
            program.wait(queue, self.queues[number % len(QUEUES)])
        elif what == "open":
            if program.gates:
                program.open(list(program.gates)[number % len(program.gates)])
        elif what == "query point":
            if self.points[at]:
                program.query_point(self.points[at])
        elif what == "finish point":
            if self.points[at]:
                program.finish_point(self.points[at])
        elif what == "finish device":
            if insist:
                program.finish_device()
        elif what in ("close", "drop"):
            if QUEUES[slot] in ("blocking", "non-blocking"):
                if what == "close" or insist:
                    program.close(queue)
                if what == "drop":
                    program.forget(queue)
                self.queues[slot] = queue = self.make(QUEUES[slot])
        else:
            getattr(program, what)(queue)


@pytest.fixture(params=["", "with clones"] if select().backend == "opencl" else [""])
def recordings(request):
    """Steps collect launches on Level Zero, and with the observer's recordings on OpenCL, where they are executed.

    Those branch, so a graph is one of them, too.
    """
    with recordings_installed(True, True) if request.param else nullcontext():
        yield


@pytest.mark.threads  # of host functions
@settings(settings.get_profile("ordering"), suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(steps, steps, steps, repeats), min_size=1, max_size=60))
@example(
    [("repeat", 1, 5, [("step", 1, 0, True), ("step", 1, 1, True), ("wait queue", 2, 1, True), ("mix", 2, 1, True)])]
)
@example([("gate", 1, 0, True), ("step", 1, 0, True), ("step", 0, 1, True), ("step", 2, 0, True), ("step", 3, 2, True)])
@example([("gate", 3, 0, True), ("step", 3, 0, True), ("wait queue", 0, 3, True), ("step", 2, 0, True)])
def test_random_programs(device, kernels, recordings, program_steps):
    with program_on(device, kernels) as program:
        player = Player(program)
        for step in program_steps:
            player.play(*step)
        program.finish_device()
        assert len(set(program.hosts)) == len(program.hosts)
        assert all(queue.empty for queue in player.queues)


@pytest.mark.threads  # of host functions
@settings(settings.get_profile("ordering"), max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=1, max_size=40))
def test_random_programs_on_a_device_just_made(program_steps):
    """The first command, wait or finish of each queue of a device, the null queue's included."""
    with fb.Device(private=True) as device, program_on(device, device.program(SOURCE)) as program:
        player = Player(program)
        for step in program_steps:
            player.play(*step)
