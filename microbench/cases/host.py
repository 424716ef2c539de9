"""Host functions: submitted, called and waited for."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench import Bench, Case, Point


def points(bench: Bench) -> Sequence[Point]:
    """One function that does nothing."""
    return [Point("call + finish", bench.plain("host"), commands=4)]


CASE = Case("host", "A host function and the wait for it", points)
