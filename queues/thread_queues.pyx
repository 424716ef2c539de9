"""The queues that each thread has on a device: those it has entered, and one of its own."""

import threading
from collections import deque
from typing import TYPE_CHECKING

from forebay.core.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from forebay.queues.queue import Queue

changes = 1


class Entered(threading.local):
    """The queues of one device that this thread has entered by ``with``, the innermost last."""

    def __init__(self) -> None:
        self._queues: list[Queue] = []

    @property
    def current(self) -> Queue | None:
        """The queue that this thread entered last, or None."""
        return self._queues[-1] if self._queues else None

    def enter(self, queue: Queue) -> None:
        """Make this the thread's current queue."""
        self._queues.append(queue)

    def leave(self, queue: Queue) -> None:
        """Make the previously entered queue the current one again.

        Raises
        ------
        Error
            When ``queue`` is not the current queue.
        """
        if self.current is not queue:
            raise Error(f"{queue!r} is not this thread's current queue")
        self._queues.pop()


class _OwnOfThread(threading.local):
    own: _Own | None = None


class _Own:
    """Holds a thread's own queue. When the thread ends, the queue returns to the device for the next thread."""

    def __init__(self, queue: Queue, idle: deque[Queue]) -> None:
        self.queue = queue
        self.idle = idle

    def __del__(self) -> None:
        global changes
        changes += 1  # first: whoever has borrowed the queue may not use it any more
        if not self.queue.closed:
            self.idle.append(self.queue)


class ThreadQueues:
    """The queues that the threads own on a device."""

    def __init__(self) -> None:
        self._here = _OwnOfThread()
        self._idle: deque[Queue] = deque()

    def own(self, make: Callable[[], Queue]) -> Queue:
        """Return this thread's own queue. It may come from a thread that has ended; else `make` makes a new one."""
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
        """Let go of the threads' own queues."""
        self._here = _OwnOfThread()
        self._idle.clear()
