"""Order across streams: chains, one before many, and many before one."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """The shapes and their sizes."""
    counts = bench.pick((2, 8, 64), (8,))
    return [
        *(Point(f"chain of {count}", bench.plain("chain", count), commands=2 * count) for count in counts),
        *(Point(f"1 before {count}", bench.plain("fan_out", count), commands=2 * count) for count in counts),
        *(Point(f"{count} before 1", bench.plain("fan_in", count), commands=2 * count) for count in counts),
    ]


CASE = Case("chains", "Launches on several streams, ordered by events", points)
