"""A launch on each kind of stream, with nothing else going on."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point

KINDS = ("null", "blocking", "non-blocking", "per-thread")


def points(bench: Bench) -> Sequence[Point]:
    """The kinds."""
    return [Point(kind, bench.plain("launch_on", kind)) for kind in KINDS]


CASE = Case("streams", "A launch on the null, a blocking, a non-blocking and the per-thread stream", points)
