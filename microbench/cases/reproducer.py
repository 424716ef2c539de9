"""The program that idle streams slowed down in another runtime: 100 launches on the null stream, a copy, a finish."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """How many idle streams there are."""
    counts = bench.pick((0, 20), (0, 20))
    return [Point(f"{count} idle", bench.plain("reproducer", count), calls=2) for count in counts]


CASE = Case(
    "reproducer",
    "100 launches on the null stream, one for each of 100 arrays, a copy to the host and a device synchronize",
    points,
    base="0 idle",
    sweeps=2,
)
