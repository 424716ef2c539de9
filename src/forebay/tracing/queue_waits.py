"""Habits of queues: what they wait for, and how many are held at once."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from forebay.events.event import Event
from forebay.queues.launch.launch import watch_waits
from forebay.queues.queue import Queue
from forebay.races.checker import watch_uses
from forebay.tracing.findings import OFTEN, Findings
from forebay.tracing.methods import producer_of
from forebay.tracing.watching import line_of_program

if TYPE_CHECKING:
    from forebay.queues.kernels.kernel import Kernel
    from forebay.tracing.watching import Call

SERIALIZED = (
    "the null queue and a blocking queue waited for each other: use one queue for what belongs together, or "
    "blocking=False and waits of your own"
)
APART = "two queues waited for each other that use no memory in common: leave these waits out"
HELD = (
    "up to {held} queues were held, or waited behind such, at once: with more than {most}, others of the device stand "
    "still; hold fewer, or put what follows each other on one queue"
)


@dataclass
class _Waiter:
    """A queue that waits for others, or for which others wait."""

    waits_for: dict[int, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))  # see `_note`
    unclear: bool = False  # the order may be for something else than memory that its commands are seen to use
    before: tuple[int, int, int] = (0, 0, 0)


@dataclass
class _Hold:
    """A gate or host function that holds a queue, from its epoch on."""

    queue: int
    epoch: int
    is_open: Callable[[], bool]


class QueueWaits:
    """Looks at the waits of queues."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._lock = threading.RLock()  # the collector, or the handler of a signal, may run any code
        self._waiters: dict[int, _Waiter] = {}  # by id of the queue
        # By id of the queue: addresses of the `Uses` of memory, which may be other memory's later. Nobody looks before
        # the first queue waits, so that launches of programs without waits stay as they are.
        self._uses: dict[int, set[int]] = defaultdict(set)
        self._looks = False
        self._finished: dict[int, int] = defaultdict(int)  # by id of the queue: how often the host waited for it alone
        self._queues: dict[int, WeakSet[Queue]] = defaultdict(WeakSet)  # by id of the context, as the next
        self._holds: dict[int, list[_Hold]] = defaultdict(list)
        self._most_held: dict[str, tuple[int, int]] = {}  # by line: how many, and how many are too many
        watch_waits(self._waited)
        watch_uses(self._used)

    def queue_made(self, queue: Queue) -> None:
        """Note a queue."""
        with self._lock:
            self._queues[id(queue.device._context)].add(queue)
            if self._looks:
                queue._watch(True)

    def began(self, call: Call, around: list[Call]) -> None:
        """Note how things are before the call."""
        if call.name == "Queue.host" and len(call.arguments) == 2:
            queue, function = call.arguments
            if queue.device.driver.most_held is not None and callable(function):
                returned = threading.Event()
                call.arguments = (queue, _telling(function, returned))
                call.notes["is_open"] = returned.is_set
        elif call.name == "Queue.wait" and not around:
            call.notes["waits"] = call.arguments[0].stats.waits_made

    def ended(self, call: Call, around: list[Call]) -> None:
        """Note who waits for whom."""
        if call.name == "Queue.wait" and not around:
            self._note_wait(call, *call.arguments, *call.keywords.values())
            self._count_held(call.arguments[0], call.line)
        elif call.name == "Queue.finish":
            self._finished[call.arguments[0].id] += 1
        elif call.name == "Event.wait":
            producer = producer_of(call.arguments[0])
            if producer is not None:
                self._finished[producer.id] += 1
        elif call.name == "Queue.host" and "is_open" in call.notes:
            self._hold(call, call.notes["is_open"])
        elif call.name == "Queue.gate" and call.arguments[0].device.driver.most_held is not None:
            gate = ref(call.result)  # dropping the gate opens it
            self._hold(call, lambda: (held := gate()) is None or held.opened)

    def end(self) -> None:
        """Watch no more, and judge."""
        watch_waits(None)
        watch_uses(None)
        for queues in self._queues.values():
            for queue in list(queues):
                queue._watch(False)
        for one, waiter in self._waiters.items():
            for other, lines in waiter.waits_for.items():
                back = self._waiters[other].waits_for.get(one, {})
                if min(_times(lines), _times(back)) >= OFTEN and not self._is_needed(one, other):
                    for line, (times, waits) in lines.items():
                        self._findings.add(APART, line, times, waits=waits)
        for line, (held, most) in self._most_held.items():
            self._findings.add(HELD.format(held=held, most=most), line)

    # -- the null queue

    def _waited(self, queue: Queue, kernel: Kernel, waits: int) -> None:
        self._findings.add(SERIALIZED, line_of_program(), waits=waits, least=OFTEN)

    # -- queues that wait for each other

    def _used(self, queue: Queue, memory: set[int]) -> None:
        self._uses[queue.id] |= memory

    def _look(self, *waiting: Queue) -> None:
        """Look from now on at what queues use: these, which may be older than the watch, and all others."""
        if not self._looks:
            self._looks = True
            waiting = (*waiting, *(queue for queues in self._queues.values() for queue in queues))
        for queue in waiting:
            if queue.id not in self._waiters:
                self._queues[id(queue.device._context)].add(queue)
                queue._watch(True)

    def _waiter(self, queue: Queue) -> _Waiter:
        """Return what is known of a queue."""
        waiter = self._waiters.get(queue.id)
        if waiter is None:
            waiter = self._waiters[queue.id] = _Waiter(before=self._reasons(queue))
        elif waiter.before != self._reasons(queue):
            waiter.unclear = True
        return waiter

    def _reasons(self, queue: Queue) -> tuple[int, int, int]:
        """What rises when a queue is given a command that uses what nobody sees, or the host comes after the queue, or
        the null queue may: whoever is ordered after them has a reason to be.
        """
        stats = queue.stats
        null = queue.device.null_queue.epoch if queue.blocking else 0
        return stats.host_functions + stats.graph_launches, self._finished.get(queue.id, 0), null

    def _note_wait(self, call: Call, queue: Queue, on: Any) -> None:
        """Count a wait for another queue, with those that had to be made."""
        producer = on if isinstance(on, Queue) else producer_of(on) if isinstance(on, Event) else None
        if producer is None or producer == queue or queue.capturing or producer.closed:
            return
        with self._lock:
            self._look(queue, producer)
            waiter, before = self._waiter(queue), self._waiter(producer)
            waiter.unclear = waiter.unclear or queue.adopted or queue.device._context is not producer.device._context
            before.unclear = before.unclear or producer.adopted
            counts = waiter.waits_for[producer.id].setdefault(call.line, [0, 0])
            counts[0] += 1
            counts[1] += queue.stats.waits_made - call.notes["waits"]

    def _is_needed(self, one: int, other: int) -> bool:
        """Return whether a queue may have to wait for the other one: whether who comes after it, and who comes before
        that one, have memory in common; both include the queues themselves.
        """
        later = self._reached(one, other, lambda at: [i for i, each in self._waiters.items() if at in each.waits_for])
        earlier = self._reached(other, one, lambda at: list(self._waiters[at].waits_for))
        if any(self._waiters[each].unclear for each in later | earlier):
            return True
        if not self._uses[one] or not self._uses[other]:
            return True  # it is there to order others
        return any(
            first != second and not self._uses[first].isdisjoint(self._uses[second])
            for first in later
            for second in earlier
        )

    @staticmethod
    def _reached(start: int, but: int, next_to: Callable[[int], list[int]]) -> set[int]:
        """Return the queues that are reached from this one, but not by way of that one."""
        found, left = {start}, [start]
        while left:
            new = set(next_to(left.pop())) - found - {but}
            found |= new
            left += new
        return found

    # -- queues that are held

    def _hold(self, call: Call, is_open: Callable[[], bool]) -> None:
        queue = call.arguments[0]
        with self._lock:
            self._holds[id(queue.device._context)].append(_Hold(queue.id, queue.epoch, is_open))
        self._count_held(queue, call.line)

    def _count_held(self, queue: Queue, line: str) -> None:
        """Count the queues that are held, or come after one that is."""
        most, context = queue.device.driver.most_held, id(queue.device._context)
        if most is None or not self._holds.get(context):
            return
        with self._lock:
            holds = self._holds[context] = [hold for hold in self._holds[context] if not hold.is_open()]
            queues = list(self._queues[context])
        if not holds or len(queues) <= most:
            return
        held = len({hold.queue for hold in holds})
        ids = {hold.queue for hold in holds}
        for each in queues:
            if each.id not in ids:
                after = each._clock
                held += any(after.get(hold.queue, 0) >= hold.epoch for hold in holds)
        if held > max(most, self._most_held.get(line, (0, 0))[0]):
            self._most_held[line] = held, most


def _times(lines: dict[str, list[int]]) -> int:
    return sum(times for times, _ in lines.values())


def _telling(function: Callable[[], object], returned: threading.Event) -> Callable[[], object]:
    """Return a host function that does the same, and tells that it has returned."""

    @functools.wraps(function)
    def telling() -> object:
        try:
            return function()
        finally:
            returned.set()

    telling.__qualname__ = str(getattr(function, "__qualname__", type(function).__qualname__))  # errors say it
    return telling
