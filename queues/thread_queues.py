"""What each thread has of a device: the queues that it entered, and one of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from forebay.core.errors import Error

if TYPE_CHECKING:
    from forebay.queues.queue import Queue

__all__ = ["ThreadQueues"]


class _Entered(threading.local):
    def __init__(self) -> None:
        self.queues: list[Queue] = []  # with ``with``, innermost last


class _OwnOfThread(threading.local):
    own: _Own | None = None


class _Own:
    """Goes with its thread; the queue goes back to the device for the next thread."""

    def __init__(self, queue: Queue, idle: deque[Queue]) -> None:
        self.queue = queue
        self.idle = idle

    def __del__(self) -> None:
        if not self.queue.closed:
            self.idle.append(self.queue)


class ThreadQueues:
    """The queues of a device's threads."""

    def __init__(self) -> None:
        self._entered = _Entered()
        self._here = _OwnOfThread()
        self._idle: deque[Queue] = deque()

    def own(self, make: Callable[[], Queue]) -> Queue:
        """This thread's own one: that of a thread that has ended, if there is one, else a new one."""
        own = self._here.own
        if own is not None and not own.queue.closed:
            return own.queue
        try:
            queue = self._idle.popleft()
            while queue.closed:
                queue = self._idle.popleft()
        except IndexError:
            queue = make()
        self._here.own = _Own(queue, self._idle)
        return queue

    def close(self) -> None:
        """Let go of those that threads have of their own. What a thread has entered it still has to leave."""
        self._here = _OwnOfThread()
        self._idle.clear()

    @property
    def current(self) -> Queue | None:
        """The one that this thread entered last."""
        entered = self._entered.queues
        return entered[-1] if entered else None

    def enter(self, queue: Queue) -> None:
        """Make it the current one."""
        self._entered.queues.append(queue)

    def leave(self, queue: Queue) -> None:
        """Make the one before it the current one again.

        Raises
        ------
        Error
            When it is not the current one.
        """
        if self.current is not queue:
            raise Error(f"{queue!r} is not this thread's current queue")
        self._entered.queues.pop()
