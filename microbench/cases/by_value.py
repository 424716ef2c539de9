"""Bytes by value: larger than kernel parameters may be, so they go through a buffer. The kernel's pointer is const."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """The sizes, with the same bytes and with new ones."""
    sizes = bench.pick((64, 4096, 65536), (4096,))
    return [
        Point(f"{size} bytes, {'new' if change else 'same'}", bench.plain("by_value", size, change), commands=2)
        for size in sizes
        for change in ("", "new")
    ]


CASE = Case("by-value", "A launch with bytes by value", points)
