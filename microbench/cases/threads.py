"""Launches from several threads, each on a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """The number of threads. An operation is one launch of each."""
    counts = bench.pick((1, 2, 4, 8), (1, 4))
    return [Point(f"{count} threads", bench.plain("threads", count)) for count in counts]


CASE = Case("threads", "Launches from threads; microseconds until each thread has made one", points)
