"""A launch on the null stream and on a non-blocking one, beside idle blocking streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..bench import Bench, Case, Point, Subjects


def points(bench: Bench) -> Sequence[Point]:
    """The kinds of stream, and how many idle ones there are beside it."""

    def point(kind: str, count: int) -> Point:
        @contextmanager
        def setup() -> Iterator[Subjects]:
            with bench.beside(count):
                yield bench.subjects("launch_on", kind)

        return Point(f"{kind}, {count} idle", setup, base=f"{kind}, 0 idle" if count else "")

    null = bench.pick((0, 1, 8, 64, 256, 1024, 4096), (0, 1024))
    apart = bench.pick((0, 1024, 4096), (0, 1024))
    return [*(point("null", count) for count in null), *(point("non-blocking", count) for count in apart)]


CASE = Case("idle", "A launch beside idle blocking streams", points, sweeps=4)
