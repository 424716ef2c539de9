"""A launch on the null queue beside blocking queues that are full of work: without new work, and with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import forebay as fb

from ..harness import Bench, Point, Subjects
from ..kernels import name_of
from ..layers import Subject
from ..layers.all import AGAIN, FLOOR

COMPARED = (FLOOR, AGAIN, "forebay bound", "forebay")


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


@contextmanager
def beside(count: int, new: bool, bench: Bench) -> Iterator[Subjects]:
    """The subjects beside the given number of queues."""
    others = [bench.device.queue() for _ in range(count)]
    found = bench.subjects("alternate") if new else bench.subjects("launch_on", "null")
    yield {name: surrounded(bench, found[name], others) for name in COMPARED if name in found}
    del others


def points(bench: Bench) -> Sequence[Point]:
    """How many queues there are, and whether another one gets new work before each launch on the null queue."""
    counts = [(n, False, " busy", 1) for n in bench.pick((0, 1, 8, 64, 256, 1024), (0, 256))]
    rest = " busy, one more with new work each time"
    counts += [(n, True, rest, 4) for n in bench.pick((0, 64, 1024), (0, 64))]
    return [
        Point(f"{n}{rest}", commands=commands, base=f"0{rest}" if n else "", setup=partial(beside, n, new))
        for n, new, rest, commands in counts
    ]
