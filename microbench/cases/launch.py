"""One launch: the same arguments again, one of them changed, and more of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point
from ..kernels import ARGUMENTS


def points(bench: Bench) -> Sequence[Point]:
    """What changes, and then how many arguments there are."""
    changes = [("same", ""), ("one scalar changed", "scalar"), ("one pointer changed", "pointer")]
    counts = bench.pick(ARGUMENTS, (1, 16, 64))
    return [
        *(Point(name, bench.plain("launch", change, 2)) for name, change in changes),
        Point("a number of NumPy's", bench.plain("launch_numpy", 2)),
        *(Point(f"{count} arguments", bench.plain("launch", "", count)) for count in counts),
        *(Point(f"{count} arguments in a tuple", bench.plain("launch_tuple", count)) for count in counts[-2:]),
    ]


CASE = Case("launch", "A launch, its queue held while it is filled", points)
