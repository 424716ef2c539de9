"""The wait for a stream after a launch, and for a device after launches on many."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """A stream, and a device with so many streams."""
    counts = bench.pick((1, 4, 16, 64, 256), (1, 64))
    return [
        Point("stream", bench.plain("launch_finish"), commands=4),
        *(Point(f"device, {count} streams", bench.plain("finish_all", count), commands=8 * count) for count in counts),
    ]


CASE = Case("finish", "Launches and the wait for them", points)
