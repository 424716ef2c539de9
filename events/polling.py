"""``await`` for what a device does: the event loop asks from time to time, so nothing blocks and no thread waits."""

from __future__ import annotations

from collections.abc import Callable

SHORTEST, LONGEST = 20e-6, 5e-3  # seconds between two questions


async def until(done: Callable[[], bool]) -> None:
    """Return once ``done()`` is true. The pause grows with the time waited, so a wait ends about a tenth later at most,
    and never more than `LONGEST`.
    """
    import asyncio

    pause = 0.0  # first let the loop's other tasks run, which may be all that is needed
    while not done():
        await asyncio.sleep(pause)
        pause = min(max(pause * 1.1, SHORTEST), LONGEST)
