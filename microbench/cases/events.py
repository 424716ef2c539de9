"""Events: recorded, waited for by another stream, and asked."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """What is done with an event or a stream."""
    return [
        Point("launch + record", bench.plain("record", True), commands=2),
        Point("record, nothing new", bench.plain("record", False)),
        Point("launch + record + wait + launch", bench.plain("wait"), commands=4),
        Point("query of an event", bench.plain("query", "event")),
        Point("query of a stream", bench.plain("query", "stream")),
    ]


CASE = Case("events", "Events", points)
