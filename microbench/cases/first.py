"""The first launch of a kernel on a queue, which makes a kernel object and a plan for it."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """A launch on each of some new queues."""
    count = 20
    return [Point("on a new queue", bench.plain("first", count), calls=count)]


CASE = Case("first", "The first launch of a kernel on a queue", points)
