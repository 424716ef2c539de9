"""The program that idle streams slowed down in another runtime (chipStar, pull request 1162): turns, launches alone."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """How many idle streams there are. An operation is a turn of 100 launches."""
    return [
        Point(
            f"{what}, {count} idle",
            bench.plain("reproducer", count, whole),
            calls=2,
            base=f"{what}, 0 idle" if count else "",
        )
        for what, whole in (("launches", False), ("turn", True))
        for count in (0, 20)
    ]


CASE = Case(
    "reproducer",
    "100 launches on the null stream, one for each of 100 arrays, a copy to the host and a device synchronize",
    points,
    sweeps=4,
)
