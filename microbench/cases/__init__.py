"""The cases: tables of points. An operation is a method of `microbench.layers.Layer`, or of the layers that have it."""

from __future__ import annotations

from collections.abc import Sequence

from ..harness import Bench, Case, Point
from ..kernels import ARGUMENTS
from ..layers.forebay import CHANGES
from . import busy, start


def launch(bench: Bench) -> Sequence[Point]:
    """What changes, and then how many arguments there are."""
    changes = {"same": "", "one scalar changed": "scalar", "one pointer changed": "pointer"}
    counts = bench.pick(ARGUMENTS, (1, 16, 64))
    return [
        *(Point(name, "launch", (change, 2)) for name, change in changes.items()),
        Point("a number of NumPy's", "launch_numpy", (2,)),
        *(Point(f"{count} arguments", "launch", ("", count)) for count in counts),
        *(Point(f"{count} arguments in a tuple", "launch_tuple", (count,)) for count in counts[-2:]),
    ]


def streams(bench: Bench) -> Sequence[Point]:
    """The kinds of stream."""
    return [Point(kind, "launch_on", (kind,)) for kind in ("null", "blocking", "non-blocking", "per-thread")]


def idle(bench: Bench) -> Sequence[Point]:
    """The kinds of stream, and how many idle ones there are beside it."""
    counts = {"null": bench.pick((0, 1, 8, 64, 256, 1024, 4096), (0, 1024))}
    counts["non-blocking"] = bench.pick((0, 1024, 4096), (0, 1024))
    return [
        Point(f"{kind}, {n} idle", "launch_on", (kind,), base=f"{kind}, 0 idle" if n else "", idle=n)
        for kind in counts
        for n in counts[kind]
    ]


def reproducer(bench: Bench) -> Sequence[Point]:
    """What idle streams slowed down in chipStar (its pull request 1162): a turn of that program, and its launches."""
    return [
        Point(f"{what}, {n} idle", "reproducer", (n, what == "turn"), calls=2, base=f"{what}, 0 idle" if n else "")
        for what in ("launches", "turn")
        for n in (0, 20)
    ]


def finish(bench: Bench) -> Sequence[Point]:
    """The wait for a stream, and for a device with launches on many."""
    counts = bench.pick((1, 4, 16, 64, 256), (1, 64))
    return [
        Point("stream", "launch_finish", commands=4),
        *(Point(f"device, {n} streams", "finish_all", (n,), commands=8 * n) for n in counts),
    ]


def events(bench: Bench) -> Sequence[Point]:
    """What is done with an event or a stream."""
    return [
        Point("launch + record", "record", (True,), commands=2),
        Point("record, nothing new", "record", (False,)),
        Point("launch + record + wait + launch", "wait", commands=4),
        Point("query of an event", "query", ("event",)),
        Point("query of a stream", "query", ("stream",)),
    ]


def chains(bench: Bench) -> Sequence[Point]:
    """The shapes and their sizes."""
    shapes = {"chain of {}": "chain", "1 before {}": "fan_out", "{} before 1": "fan_in"}
    counts = bench.pick((2, 8, 64), (8,))
    return [Point(name.format(n), shape, (n,), commands=2 * n) for name, shape in shapes.items() for n in counts]


def by_value(bench: Bench) -> Sequence[Point]:
    """Sizes larger than kernel parameters may be, with the same bytes and with new ones."""
    changes = {"same": "", "new": "new"}
    sizes = bench.pick((64, 4096, 65536), (4096,))
    return [Point(f"{n} bytes, {name}", "by_value", (n, changes[name]), commands=2) for n in sizes for name in changes]


def graph(bench: Bench) -> Sequence[Point]:
    """The lengths, and how many launches change since the last replay. An operation is the whole replay."""
    lengths = bench.pick((1, 10, 100, 1000), (1, 100))
    return [
        Point(f"{length} launches, {changed} changed", "replay", (length, changed), commands=length)
        for length in lengths
        for changed in sorted({0, 1, length})
    ]


def step(bench: Bench) -> Sequence[Point]:
    """The lengths, and what changes. An operation is the whole stretch, its Python loop included."""
    changes = tuple(CHANGES)
    wanted = [(length, change) for length in bench.pick((3, 10, 1000), ()) for change in changes[:2]]
    wanted += [(100, change) for change in bench.pick(changes, changes[:2])]
    return [
        Point(f"{length} launches, {change} changed", "step", (length, change), commands=length)
        for length, change in sorted(wanted, key=lambda each: each[0])
    ]


def size_of(nbytes: int) -> str:
    """A size in the largest unit that fits."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes // factor} {unit}"
    return f"{nbytes} B"


def copies(bench: Bench) -> Sequence[Point]:
    """The directions and sizes: as many as copy 16 MiB, but no more than usual."""
    return [
        Point(f"{to}, {size_of(n)}", "copy", (to, n), calls=max(min(bench.calls // 4, (16 << 20) // n), 1))
        for to in ("up", "down", "across")
        for n in bench.pick((4, 1024, 64 << 10, 1 << 20, 64 << 20), (4, 1 << 20))
    ]


def pool(bench: Bench) -> Sequence[Point]:
    """The sizes."""
    return [Point(size_of(n), "alloc", (n,)) for n in bench.pick((4, 4096, 1 << 20), (4096,))]


def host(bench: Bench) -> Sequence[Point]:
    """One function that does nothing."""
    return [Point("call + finish", "host", commands=4)]


def threads(bench: Bench) -> Sequence[Point]:
    """The number of threads. An operation is one launch of each."""
    return [Point(f"{count} threads", "threads", (count,)) for count in bench.pick((1, 2, 4, 8), (1, 4))]


def first(bench: Bench) -> Sequence[Point]:
    """A launch on each of some new queues, which makes a kernel object and a plan."""
    return [Point("on a new queue", "first", (20,), calls=20)]


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("launch", "A launch, its queue held while it is filled", launch),
        Case("streams", "A launch on the null, a blocking, a non-blocking and the per-thread stream", streams),
        Case("idle", "A launch beside idle blocking streams", idle, sweeps=4),
        Case("busy", "A null-queue launch beside blocking queues that are held", busy.points, sweeps=2),
        Case(
            "reproducer",
            "100 launches on the null stream, one for each of 100 arrays, a copy to the host and a device synchronize",
            reproducer,
            sweeps=4,
        ),
        Case("finish", "Launches and the wait for them", finish),
        Case("events", "Events", events),
        Case("chains", "Launches on several streams, ordered by events", chains),
        Case("by-value", "A launch with bytes by value", by_value),
        Case("graph", "A graph of launches, replayed", graph),
        Case("step", "Launches that repeat, in a step", step),
        Case("copies", "A copy and the wait for it, with pinned memory of the host", copies),
        Case("pool", "Memory allocated and freed on a stream", pool),
        Case("host", "A host function and the wait for it", host),
        Case("threads", "Launches from threads; microseconds until each thread has made one", threads),
        Case("first", "The first launch of a kernel on a queue", first),
        Case("start", "The start of a process", start.points),
    )
}
"""By name, in the order of the tables."""
