"""The cases: tables of points. An operation is a method of `microbench.layers.Layer`, or of the layers that have it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import forebay as fb

from .harness import Bench, Case, Point, Subjects
from .kernels import ARGUMENTS, name_of
from .layers import AGAIN, FLOOR, SHAPES, Subject
from .layers.forebay import CHANGES
from .processes import run_python

CHANGED = {"same": "", "one scalar changed": "scalar", "one pointer changed": "pointer"}
STEPS = {change: (3, 10, 100, 1000) if change in ("nothing", "1 scalar") else (100,) for change in CHANGES}
IDLE: dict[str, tuple[int, ...]] = {"null": (0, 1, 8, 64, 256, 1024, 4096), "non-blocking": (0, 1024, 4096)}


def size_of(nbytes: int) -> str:
    """A size in the largest unit that fits."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes // factor} {unit}"
    return f"{nbytes} B"


# -- a launch on the null queue beside blocking queues that are full of work: without new work, and with it


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
    compared = (FLOOR, AGAIN, "forebay bound", "forebay")
    yield {name: surrounded(bench, found[name], others) for name in compared if name in found}
    del others


def busy(bench: Bench) -> list[Point]:
    """How many queues there are, and whether another one gets new work before each launch on the null queue."""
    kinds = (
        (" busy", False, 1, bench.pick((0, 1, 8, 64, 256, 1024), (0, 256))),
        (" busy, one more with new work each time", True, 4, bench.pick((0, 64, 1024), (0, 64))),
    )
    return [
        Point(f"{n}{rest}", commands=commands, base=f"0{rest}" if n else "", setup=partial(beside, n, new))
        for rest, new, commands, counts in kinds
        for n in counts
    ]


# -- the start of a process: the import, and a program with kernels to compile, with forebay's cache and without

DRIVERS_CACHES = ("NEO_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")
CACHES: dict[str, tuple[bool, dict[str, str]]] = {
    "compiled": (True, {}),
    "out of forebay's cache": (False, {}),
    "out of the driver's cache": (False, {"FOREBAY_NO_CACHE": "1"}),
}


@contextmanager
def imports(bench: Bench) -> Iterator[Subjects]:
    """Processes that only import."""
    packages = {"C": ("numpy", "import numpy"), "forebay": ("forebay", ""), "pyopencl": ("pyopencl", "")}

    def importing(package: str, n: int) -> float:
        return sum(run_python("-c", f"import {package}")[0] for _ in range(n))

    yield {name: Subject(partial(importing, package), nullcontext, note) for name, (package, note) in packages.items()}


@contextmanager
def programs(count: int, compiled: bool, environment: dict[str, str], bench: Bench) -> Iterator[Subjects]:
    """Processes that use the given number of kernels, each compiled or out of a cache.

    The drivers' caches are moved like forebay's, so that both begin empty.
    """

    def program(folder: str) -> float:
        driver = Path(folder, "driver")
        driver.mkdir(exist_ok=True)
        moved: dict[str, Any] = {"FOREBAY_CACHE": folder, "FOREBAY_NO_CACHE": None}
        moved |= dict.fromkeys(DRIVERS_CACHES, str(driver))
        return run_python("-m", f"{__package__}.program", bench.device.name, str(count), **moved | environment)[0]

    def fresh() -> float:
        with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
            return program(folder)

    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as filled:
        if not compiled:
            program(filled)
        run = fresh if compiled else partial(program, filled)
        yield {"forebay": Subject(lambda n: sum(run() for _ in range(n)), nullcontext)}


def start(bench: Bench) -> list[Point]:
    """An import, and the program."""
    count, rounds = (4, 1) if bench.quick else (20, 7)
    setups = {"import": imports} | {
        f"{count} kernels, {name}": partial(programs, count, *CACHES[name]) for name in CACHES
    }
    return [Point(name, calls=1, rounds=rounds, setup=setup) for name, setup in setups.items()]


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case(
            "launch",
            "A launch, its queue held while it is filled",
            lambda bench: [
                *(Point(name, "launch", (change, 2)) for name, change in CHANGED.items()),
                Point("a number of NumPy's", "launch_numpy", (2,)),
                *(Point(f"{n} arguments", "launch", ("", n)) for n in bench.pick(ARGUMENTS, (1, 16, 64))),
                *(
                    Point(f"{n} arguments in a tuple", "launch_tuple", (n,))
                    for n in bench.pick(ARGUMENTS, (1, 16, 64))[-2:]
                ),
            ],
        ),
        Case(
            "streams",
            "A launch on the null, a blocking, a non-blocking and the per-thread stream",
            lambda bench: [
                Point(kind, "launch_on", (kind,)) for kind in ("null", "blocking", "non-blocking", "per-thread")
            ],
        ),
        Case(
            "idle",
            "A launch beside idle blocking streams",
            lambda bench: [
                Point(f"{kind}, {n} idle", "launch_on", (kind,), base=f"{kind}, 0 idle" if n else "", idle=n)
                for kind, counts in IDLE.items()
                for n in bench.pick(counts, (0, 1024))
            ],
            sweeps=4,
        ),
        Case("busy", "A null-queue launch beside blocking queues that are held", busy, sweeps=2),
        Case(  # what idle streams slowed down in chipStar (its pull request 1162): a turn of that program, its launches
            "reproducer",
            "100 launches on the null stream, one for each of 100 arrays, a copy to the host and a device synchronize",
            lambda bench: [
                Point(
                    f"{what}, {n} idle", "reproducer", (n, what == "turn"), calls=2, base=f"{what}, 0 idle" if n else ""
                )
                for what in ("launches", "turn")
                for n in (0, 20)
            ],
            sweeps=4,
        ),
        Case(
            "finish",
            "Launches and the wait for them",
            lambda bench: [
                Point("stream", "launch_finish", commands=4),
                *(
                    Point(f"device, {n} streams", "finish_all", (n,), commands=8 * n)
                    for n in bench.pick((1, 4, 16, 64, 256), (1, 64))
                ),
            ],
        ),
        Case(
            "events",
            "Events",
            lambda bench: [
                Point("launch + record", "record", (True,), commands=2),
                Point("record, nothing new", "record", (False,)),
                Point("launch + record + wait + launch", "wait", commands=4),
                Point("query of an event", "query", ("event",)),
                Point("query of a stream", "query", ("stream",)),
            ],
        ),
        Case(
            "chains",
            "Launches on several streams, ordered by events",
            lambda bench: [
                Point(shape.format(n), "ordered", (shape, n), commands=2 * n)
                for shape in SHAPES
                for n in bench.pick((2, 8, 64), (8,))
            ],
        ),
        Case(
            "by-value",
            "A launch with bytes by value",
            lambda bench: [
                Point(f"{n} bytes, {change or 'same'}", "by_value", (n, change), commands=2)
                for n in bench.pick((64, 4096, 65536), (4096,))
                for change in ("", "new")
            ],
        ),
        Case(
            "graph",
            "A graph of launches, replayed",
            lambda bench: [
                Point(f"{length} launches, {changed} changed", "replay", (length, changed), commands=length)
                for length in bench.pick((1, 10, 100, 1000), (1, 100))
                for changed in sorted({0, 1, length})
            ],
        ),
        Case(
            "step",
            "Launches that repeat, in a step",
            lambda bench: [
                Point(f"{length} launches, {change} changed", "step", (length, change), commands=length)
                for length in bench.pick((3, 10, 100, 1000), (100,))
                for change in bench.pick(tuple(STEPS), ("nothing", "1 scalar"))
                if length in STEPS[change]
            ],
        ),
        Case(
            "copies",
            "A copy and the wait for it, with pinned memory of the host",
            lambda bench: [  # as many as copy 16 MiB, but no more than usual
                Point(f"{to}, {size_of(n)}", "copy", (to, n), calls=max(min(bench.calls // 4, (16 << 20) // n), 1))
                for to in ("up", "down", "across")
                for n in bench.pick((4, 1024, 64 << 10, 1 << 20, 64 << 20), (4, 1 << 20))
            ],
        ),
        Case(
            "pool",
            "Memory allocated and freed on a stream",
            lambda bench: [Point(size_of(n), "alloc", (n,)) for n in bench.pick((4, 4096, 1 << 20), (4096,))],
        ),
        Case("host", "A host function and the wait for it", lambda bench: [Point("call + finish", "host", commands=4)]),
        Case(
            "threads",
            "Launches from threads; microseconds until each thread has made one",
            lambda bench: [Point(f"{n} threads", "threads", (n,)) for n in bench.pick((1, 2, 4, 8, 16), (1, 4))],
        ),
        Case(
            "first",
            "The first launch of a kernel on a queue",
            lambda bench: [Point("on a new queue", "first", (20,), calls=20)],
        ),
        Case("start", "The start of a process", start),
    )
}
"""By name, in the order of the tables."""
