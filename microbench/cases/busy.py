"""A launch on the null queue beside blocking queues that are full of work: without new work, and with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import forebay as fb

from ..bench import Bench, Case, Point, Subjects
from ..kernels import name_of
from ..layers import Subject
from ..layers.all import AGAIN, FLOOR


def surrounded(bench: Bench, subject: Subject, others: list[fb.Queue]) -> Subject:
    """The subject with the null queue and these queues behind one that is held."""
    device, null = bench.device, bench.device.null_queue
    kernel, buffer = bench.ground.program[name_of(2)], bench.ground.buffers[0]

    @contextmanager
    def around() -> Iterator[None]:
        with ExitStack() as gates:
            holder = device.queue(blocking=False)
            if bench.ground.executes:
                gates.enter_context(holder.gate())
            holder.launch(kernel, 1, 1, buffer, 100)
            for other in others:
                other.wait(holder)
                other.launch(kernel, 1, 1, buffer, 100)
            null.wait(holder)  # beside none it is held in this way alone
            null.launch(kernel, 1, 1, buffer, 100)  # orders it after all of them
            yield
        device.finish()
        bench.ground.settle(null)

    return Subject(subject.run, around, subject.note)


def points(bench: Bench) -> Sequence[Point]:
    """How many queues there are, and whether another one gets new work before each launch on the null queue."""

    def point(count: int, new: bool) -> Point:
        @contextmanager
        def setup() -> Iterator[Subjects]:
            others = [bench.device.queue() for _ in range(count)]
            found = bench.subjects("alternate") if new else bench.subjects("launch_on", "null")
            kept = {name: found[name] for name in (FLOOR, AGAIN, "forebay bound", "forebay") if name in found}
            yield {name: surrounded(bench, subject, others) for name, subject in kept.items()}
            del others

        rest = " busy, one more with new work each time" if new else " busy"
        return Point(f"{count}{rest}", setup, commands=4 if new else 1, base=f"0{rest}" if count else "")

    counts = bench.pick((0, 1, 8, 64, 256, 1024), (0, 256))
    with_new = bench.pick((0, 64, 1024), (0, 64))
    return [*(point(count, False) for count in counts), *(point(count, True) for count in with_new)]


CASE = Case("busy", "A null-queue launch beside blocking queues that are held", points, sweeps=2)
