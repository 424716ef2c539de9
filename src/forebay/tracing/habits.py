"""Finds what a program does without need, and the lines that do it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from forebay.core.errors import ClosedError
from forebay.tracing import watching
from forebay.tracing.counters import Counters
from forebay.tracing.findings import Findings
from forebay.tracing.host_waits import HostWaits
from forebay.tracing.queue_waits import QueueWaits
from forebay.tracing.repetitions import MORE_CALLS, Repetitions

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.queues.queue import Queue
    from forebay.tracing.findings import Habit


class Habits:
    """Finds habits from `begin` to `end`."""

    def __init__(self) -> None:
        self._findings = Findings()
        self._threads = threading.local()

    def begin(self) -> None:
        """Begin to watch."""
        self._counters = Counters()
        self._parts = HostWaits(self._findings), QueueWaits(self._findings), Repetitions(self._findings)
        watching.add(self, MORE_CALLS)

    def end(self) -> tuple[list[tuple[str, Stats]], list[Habit]]:
        """Watch no more.

        Returns
        -------
        stats : list of (str, Stats)
            The name of each Device, and what it did meanwhile.
        habits : list of Habit
            The costliest first: by the time that the calls took, then by how often they came.
        """
        watching.remove(self)
        for part in self._parts:
            part.end()
        return self._counters.all(), self._findings.told()

    @property
    def _under_way(self) -> list[watching.Call]:
        """The calls that this thread is inside, the outermost first."""
        try:
            return self._threads.under_way  # type: ignore[no-any-return]
        except AttributeError:
            self._threads.under_way = []
            return self._threads.under_way  # type: ignore[no-any-return]

    # -- a listener

    def queue_made(self, queue: Queue) -> None:
        """Note a queue."""
        for part in self._parts:
            part.queue_made(queue)

    def began(self, call: watching.Call) -> None:
        """Note how things are before the call."""
        self._counters.began(call)
        around = self._under_way
        for part in self._parts:
            with suppress(ClosedError):  # another thread has closed what the call is about
                part.began(call, around)
        around.append(call)

    def ended(self, call: watching.Call) -> None:
        """Judge what it was for."""
        around = self._under_way
        around.pop()
        if not call.raised:
            for part in self._parts:
                with suppress(ClosedError):
                    part.ended(call, around)
