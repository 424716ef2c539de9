"""A stretch of launches that repeats, in a step: with nothing, some and all of it changed since the last time."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point

CHANGES = ("nothing", "1 scalar", "10 scalars", "all scalars", "all pointers", "all group counts")


def points(bench: Bench) -> Sequence[Point]:
    """The lengths, and what changes. An operation is the whole stretch, its Python loop included."""
    wanted = [(length, change) for length in bench.pick((3, 10, 1000), ()) for change in CHANGES[:2]]
    wanted += [(100, change) for change in bench.pick(CHANGES, CHANGES[:2])]
    return [
        Point(f"{length} launches, {change} changed", bench.plain("step", length, change), commands=length)
        for length, change in sorted(wanted, key=lambda each: each[0])
    ]


CASE = Case("step", "Launches that repeat, in a step", points)
