"""``with queue.capture() as graph:``. Compiled, because Python looks for signals between the lines of its functions:
a Ctrl-C there would come before `Capturing` could end what it has begun.
"""

from typing import TYPE_CHECKING

from forebay.queues.capture_rules import check_mode
from forebay.queues.graphs.capture import Capture

if TYPE_CHECKING:
    from types import TracebackType

    from forebay.queues.graphs.graph import Graph
    from forebay.queues.queue import Queue


class Capturing:
    """``with queue.capture() as graph:`` begins and ends a capture. An exception in the block discards the capture."""

    def __init__(self, queue: Queue, mode: str) -> None:
        check_mode(mode)
        self._queue = queue
        self._mode = mode
        self._capture: Capture | None = None

    def __enter__(self) -> Graph:
        self._capture = Capture(self._queue, self._mode)
        self._capture.begin()
        return self._capture.graph

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        capture, self._capture = self._capture, None
        if not capture.active:
            if kind is None:
                capture.check()
            return
        try:
            if kind is None:
                capture.end(self._queue)
            else:
                capture.discard()
        except BaseException:
            capture.discard()
            raise
