"""Recorded launches, replayed: with nothing, one and all of them changed since the last time."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """The lengths, and how many launches change. An operation is the whole replay."""
    lengths = bench.pick((1, 10, 100, 1000), (1, 100))
    return [
        Point(f"{length} launches, {changed} changed", bench.plain("replay", length, changed), commands=length)
        for length in lengths
        for changed in sorted({0, 1, length})
    ]


CASE = Case("graph", "A graph of launches, replayed", points)
