"""Copies to the device, from it and within it, and the wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point

SIZES = (4, 1024, 64 << 10, 1 << 20, 64 << 20)


def size_of(nbytes: int) -> str:
    """A size in the largest unit that fits."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes // factor} {unit}"
    return f"{nbytes} B"


def points(bench: Bench) -> Sequence[Point]:
    """The directions and sizes."""
    sizes = bench.pick(SIZES, (4, 1 << 20))
    return [
        Point(f"{direction}, {size_of(size)}", bench.plain("copy", direction, size), calls=calls_of(bench, size))
        for direction in ("up", "down", "across")
        for size in sizes
    ]


def calls_of(bench: Bench, nbytes: int) -> int:
    """As many as copy 16 MiB, but no more than usual."""
    return max(min(bench.calls // 4, (16 << 20) // nbytes), 1)


CASE = Case("copies", "A copy and the wait for it, with pinned memory of the host", points)
