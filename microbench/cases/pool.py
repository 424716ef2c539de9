"""Memory taken and given back in the order of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point
from .copies import size_of


def points(bench: Bench) -> Sequence[Point]:
    """The sizes."""
    sizes = bench.pick((4, 4096, 1 << 20), (4096,))
    return [Point(size_of(size), bench.plain("alloc", size)) for size in sizes]


CASE = Case("pool", "Memory allocated and freed on a stream", points)
