"""A timeline of a program: timed events around its stages, and the waits
between queues that were really made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import forebay as fb


@dataclass(frozen=True)
class Bar:
    """A stage on a queue. Times are milliseconds since the trace began."""

    queue: fb.Queue
    stage: str
    tile: int | None
    begin: float
    end: float


@dataclass(frozen=True)
class Arrow:
    """A wait: `consumer` went on at `end`, not before `producer` was past
    `begin`.
    """

    producer: fb.Queue
    consumer: fb.Queue
    begin: float
    end: float
    held: bool  # whether the consumer was there first, and had to wait


class Trace:
    """Times the stages of one run. The device must have been made with
    ``timing=True``.

    A stage begins when its queue has passed everything before it, waits
    included. It ends when the queue is past its last command. If the device is
    busy with other queues, the stage takes longer and so its bar is longer.
    """

    def __init__(self, device: fb.Device):
        self._null_queue = device.null_queue
        self._origin = device.null_queue.record(timing=True)
        # or the first command of every queue would wait for it
        self._origin.wait()
        self._stages: list[
            tuple[fb.Queue, str, int | None, fb.Event, fb.Event]
        ] = []
        self._waits: list[
            tuple[fb.Queue, fb.Queue, fb.Event, fb.Event, fb.Event]
        ] = []
        # by consumer: what its next stage waits for
        self._pending = defaultdict(list)
        # the end of the last stage of each queue
        self._last: dict[fb.Queue, fb.Event] = {}

    @contextmanager
    def stage(
        self, queue: fb.Queue, name: str, tile: int | None = None
    ) -> Iterator[None]:
        """Record events before and after the commands of the block."""
        busy = [other for other in self._last if not other.empty]
        made = queue.stats.waits_made
        begin = queue.record(timing=True)
        made = queue.stats.waits_made - made
        # by its rule, not by anybody's call
        if queue is self._null_queue and made:
            self._pending[queue] = [
                (other, self._last[other])
                for other in busy
                if other is not queue
            ]
            assert made == len(self._pending[queue])
        previous = self._last.get(queue, self._origin)
        self._waits += [
            (producer, queue, event, previous, begin)
            for producer, event in self._pending.pop(queue, [])
        ]
        yield
        end = self._last[queue] = queue.record(timing=True)
        self._stages.append((queue, name, tile, begin, end))

    def end_of(self, queue: fb.Queue) -> fb.Event:
        """The event that ended the last stage of this queue."""
        return self._last[queue]

    def wait(
        self, consumer: fb.Queue, producer: fb.Queue, event: fb.Event
    ) -> None:
        """``consumer.wait(event)``, remembered unless it was dropped. The event
        ends a stage of the producer.
        """
        made = consumer.stats.waits_made
        consumer.wait(event)
        if consumer.stats.waits_made > made:
            self._pending[consumer].append((producer, event))

    @property
    def bars(self) -> list[Bar]:
        """Every stage. Finish the device first."""
        return [
            Bar(queue, name, tile, begin - self._origin, end - self._origin)
            for queue, name, tile, begin, end in self._stages
        ]

    @property
    def arrows(self) -> list[Arrow]:
        """Every wait that was made. Finish the device first."""
        return [
            Arrow(
                producer,
                consumer,
                event - self._origin,
                begin - self._origin,
                event - previous > 0,
            )
            for producer, consumer, event, previous, begin in self._waits
        ]
