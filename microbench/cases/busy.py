"""A launch on the null queue beside blocking queues that are full of work: without new work, and with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import forebay as ps

from ..bench import Bench, Case, Point, Subjects
from ..kernels import name_of
from ..layers import Subject, timed
from ..layers.all import AGAIN, FLOOR

NEW = 16


def surrounded(bench: Bench, subject: Subject, others: list[ps.Queue]) -> Subject:
    """The subject with the null queue full of work: behind these queues, which are held, or behind a held holder."""
    device, null = bench.device, bench.device.null_queue
    kernel, buffer = bench.ground.program[name_of(2)], bench.ground.buffers[0]

    @contextmanager
    def around() -> Iterator[None]:
        with ExitStack() as gates:
            # Beside none, the null queue is held by a non-blocking queue it waits for: full of work in both cases.
            holder = device.queue(blocking=False)
            if not others:
                gates.enter_context(holder._gate())
                null.wait(holder)
            for other in others:
                gates.enter_context(other._gate())
                other.launch(kernel, 1, 1, buffer, 100)
            null.launch(kernel, 1, 1, buffer, 100)  # orders the null queue after all of them
            yield
        device.finish()
        bench.ground.settle(null)

    return Subject(subject.run, around, subject.note)


def points(bench: Bench) -> Sequence[Point]:
    """How many queues there are, and whether one of them gets new work before each launch."""
    kernel, buffer = bench.ground.program[name_of(2)], bench.ground.buffers[0]

    def point(count: int, new: bool) -> Point:
        @contextmanager
        def setup() -> Iterator[Subjects]:
            others = [bench.device.queue() for _ in range(count)]
            subjects = bench.subjects("launch_on", "null")
            kept = {name: subjects[name] for name in (FLOOR, AGAIN, "forebay bound", "forebay") if name in subjects}
            if new:
                names = {"launch": bench.device.null_queue.launch, "kernel": kernel, "a": buffer}
                names |= {"other": others[0].launch}
                statement = "other(kernel, 1, 1, a, 100); launch(kernel, 1, 1, a, 100)"
                kept["forebay"] = Subject(timed(statement, **names), kept["forebay"].around, "two launches")
                kept.pop("forebay bound", None)
            yield {name: surrounded(bench, subject, others) for name, subject in kept.items()}
            del others

        return Point(f"{count} busy{', one with new work' if new else ''}", setup, commands=4 if new else 1)

    counts = bench.pick((0, 1, 8, 64, 256, 1024), (0, 256))
    with_new = bench.pick((1, 64, 1024), (64,))
    return [*(point(count, False) for count in counts), *(point(count, True) for count in with_new)]


CASE = Case("busy", "A null-queue launch beside blocking queues that are held", points, base="0 busy", sweeps=2)
