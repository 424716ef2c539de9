"""The litmus tests, by chapter. Each is a small program in which order can be seen: slow commands come first."""

from __future__ import annotations

from forebay.selftest.litmus import chains, copies, events, graphs, host, lives, pairs, pool, steps, threads
from forebay.selftest.litmus.chapter import Litmus

__all__ = ["LITMUS", "RACES", "Litmus"]

LITMUS: tuple[Litmus, ...] = tuple(
    test
    for chapter in (pairs, events, chains, host, graphs, steps, pool, copies, lives, threads)
    for test in chapter.TESTS
)
RACES: tuple[Litmus, ...] = tuple(pairs.RACES)
"""Programs that lack a wait. Where none of them goes wrong, a lost wait would not be seen either."""
