"""Scratch: sized by data that has not changed since it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """The number of reductions that the size follows from."""
    counts = bench.pick((0, 1, 600), (0, 600))
    plain = "0 reductions"
    return [
        Point(f"{count} reductions", bench.plain("scratch", count), base=plain if count else "") for count in counts
    ]


CASE = Case("scratch", "A launch with scratch sized by data", points)
