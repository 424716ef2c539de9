"""Finds what a program does without need, and the lines that do it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from forebay.queues.device import Device
from forebay.queues.kernels.program import read_source
from forebay.queues.launch.launch import watch_waits
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue
from forebay.tracing import watching
from forebay.tracing.counters import Counters
from forebay.tracing.methods import place_of

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.events.event import Event
    from forebay.queues.kernels.kernel import Kernel

MOST_PLACES = 4096  # memory whose last upload is remembered
SYNCHRONIZES = ("Queue.finish", "Device.finish", "Event.wait")

NEEDLESS = "waited for what was known to be done"
ONE_BY_ONE = "finished one queue after another: one Device.finish() waits for all"
SERIALIZED = (
    "the null queue and a blocking queue waited for each other: use one queue for what belongs together, or "
    "blocking=False and waits of your own"
)
UNCHANGED = "uploaded the bytes that were there already"
COMPILED_AGAIN = "built a program that the process has built before: keep the Program"
UNLIKE = "steps that were not as the time before: what differs is submitted launch by launch"


@dataclass
class Habit:
    """Something that one line of the program does without need.

    Attributes
    ----------
    what, line : str
    times : int
    ticks : int
        How long the calls took together; 0 when the cost is not in the call.
    nbytes, waits : int
        What they uploaded, and how often a queue had to wait for another.
    """

    what: str
    line: str
    times: int = 0
    ticks: int = 0
    nbytes: int = 0
    waits: int = 0


@dataclass
class _Thread:
    """What a thread is doing."""

    depth: int = 0  # calls that it is inside; only the outermost is the program's
    synchronized: Device | Queue | Event | None = None  # what it waited for last
    commands: int = -1  # submitted to that one's device by then


class Habits:
    """Finds habits from `begin` to `end`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Habit] = {}
        self._threads = threading.local()
        self._uploads: OrderedDict[tuple[int, int, int], tuple[int, bytes]] = OrderedDict()
        self._finished: WeakKeyDictionary[Queue, int] = WeakKeyDictionary()  # their epochs then
        self._built: set[tuple[str, Any, Any]] = set()
        self._stepping: dict[int, tuple[Queue, str]] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin to watch."""
        self._counters = Counters()
        watching.add(self)
        watch_waits(self._waited)

    def end(self) -> tuple[list[tuple[str, Stats]], list[Habit]]:
        """Watch no more.

        Returns
        -------
        stats : list of (str, Stats)
            The name of each Device, and what it did meanwhile.
        habits : list of Habit
            The costliest first: by the time that the calls took, then by how often they came.
        """
        watch_waits(None)
        watching.remove(self)
        for queue, line in self._stepping.values():
            stats = queue.stats
            if stats.steps_given_up or (stats.steps >= 4 and 2 * stats.steps_recorded > stats.steps):
                self._add(UNLIKE, line, stats.steps_recorded)
        return self._counters.all(), sorted(
            self._found.values(), key=lambda habit: (habit.ticks, habit.times), reverse=True
        )

    def _add(self, what: str, line: str, times: int = 1, spent: int = 0, nbytes: int = 0, waits: int = 0) -> None:
        with self._lock:
            habit = self._found.setdefault((what, line), Habit(what, line))
            habit.times += times
            habit.ticks += spent
            habit.nbytes += nbytes
            habit.waits += waits

    @property
    def _here(self) -> _Thread:
        try:
            return self._threads.here  # type: ignore[no-any-return]
        except AttributeError:
            self._threads.here = _Thread()
            return self._threads.here  # type: ignore[no-any-return]

    # -- a listener

    def queue_made(self, queue: Queue) -> None:
        """Nothing to note."""

    def began(self, call: watching.Call) -> None:
        """Note how things are before the call."""
        self._counters.began(call)
        here = self._here
        here.depth += 1
        timed = len(call.arguments) > 1 or call.keywords  # asks again and again instead, which does not count
        if call.name in SYNCHRONIZES and not timed:
            call.notes["habits"] = _device_of(call).stats if here.depth == 1 else None
        elif call.name == "Queue.copy" and len(call.arguments) == 3:
            self._note_upload(call, *call.arguments[1:])

    def ended(self, call: watching.Call) -> None:
        """Judge what it was for."""
        here = self._here
        here.depth -= 1
        if call.raised:
            return
        if "habits" in call.notes and call.name in SYNCHRONIZES:
            self._judge_synchronize(call, call.notes["habits"], here)
        elif call.name == "Queue.copy" and "habits" in call.notes:
            self._judge_upload(call, *call.notes["habits"])
        elif call.name == "Device.program":
            self._judge_program(call, *call.arguments, **call.keywords)
        elif call.name == "Queue.step":
            self._stepping.setdefault(call.arguments[0].id, (call.arguments[0], call.line))

    # -- each habit

    def _judge_synchronize(self, call: watching.Call, before: Stats | None, here: _Thread) -> None:
        """Look at what a thread waited for. That it was done sooner than expected is chance, and no habit."""
        on = call.arguments[0]
        stats = _device_of(call).stats
        unchanged = here.commands == _commands(stats)  # since it waited last
        if before is not None:
            if isinstance(on, Queue) and not (unchanged and isinstance(here.synchronized, Device)):
                needless = self._finished.get(on, 0) == on.epoch
            else:
                needless = unchanged
            after_another = isinstance(here.synchronized, Queue) and here.synchronized != on
            if needless and stats.host_syncs == before.host_syncs:
                self._add(NEEDLESS, call.line, spent=call.end - call.begin)
            elif isinstance(on, Queue) and unchanged and after_another:
                self._add(ONE_BY_ONE, call.line, spent=call.end - call.begin)
        if isinstance(on, Queue):
            self._finished[on] = on.epoch
        here.synchronized, here.commands = on, _commands(stats)

    def _note_upload(self, call: watching.Call, to: object, source: object) -> None:
        if isinstance(to, Buffer) and not isinstance(source, Buffer) and not to.closed:
            try:
                digest = hashlib.blake2b(memoryview(source), digest_size=16).digest()  # type: ignore[arg-type]
            except (TypeError, ValueError, BufferError):
                return  # the copy will say what is wrong with it
            call.notes["habits"] = to, to.generation, digest

    def _judge_upload(self, call: watching.Call, to: Buffer, generation: int, digest: bytes) -> None:
        place = place_of(to)
        with self._lock:
            known = self._uploads.pop(place, None)
            self._uploads[place] = to.generation, digest
            if len(self._uploads) > MOST_PLACES:
                self._uploads.popitem(last=False)
        if known == (generation, digest):
            self._add(UNCHANGED, call.line, spent=call.end - call.begin, nbytes=to.nbytes)

    def _judge_program(self, call: watching.Call, device: Device, source: Any, options: Any = ()) -> None:
        key = (device.name, *read_source(source, options))
        with self._lock:
            again = key in self._built
            self._built.add(key)
        if again:
            self._add(COMPILED_AGAIN, call.line, spent=call.end - call.begin)

    def _waited(self, queue: Queue, kernel: Kernel, waits: int) -> None:
        self._add(SERIALIZED, watching.line_of_program(), waits=waits)


def _device_of(call: watching.Call) -> Device:
    on = call.arguments[0]
    return on if call.name == "Device.finish" else on.device  # type: ignore[no-any-return]


def _commands(stats: Stats) -> int:
    return stats.launches + stats.copies + stats.fills + stats.host_functions + stats.graph_launches


def report(stats: list[tuple[str, Stats]], habits: list[Habit], nanoseconds_a_tick: float) -> str:
    """Return what was done and spared, and the habits, as text."""
    lines: list[str] = []
    for name, each in stats:
        asked = each.waits_made + each.waits_elided
        argument_bytes = each.arg_bytes_set + each.arg_bytes_skipped
        markers = each.markers_made + each.markers_shared
        lines += [
            f"{name}",
            f"  {each.launches:,} launches, {each.copies:,} copies, {each.fills:,} fills, "
            f"{each.host_functions:,} host functions, {each.graph_launches:,} graph launches, {each.steps:,} steps, "
            f"{each.allocations:,} allocations",
            f"  {each.host_syncs:,} times the host waited",
            f"  spared: {_of(each.waits_elided, asked)} waits, {_of(each.markers_shared, markers)} markers, "
            f"{_of(each.arg_bytes_skipped, argument_bytes)} bytes of arguments",
        ]
    if habits:
        lines.append("costly habits, by the time that the calls took")
    for habit in habits[:20]:
        facts = [f"{habit.times:,} ×"]
        if habit.ticks:
            facts.append(f"{habit.ticks * nanoseconds_a_tick / 1e6:.3f} ms")
        if habit.nbytes:
            facts.append(f"{habit.nbytes:,} bytes")
        if habit.waits:
            facts.append(f"{habit.waits:,} waits")
        lines += [f"  {habit.line or 'unknown line'}: {', '.join(facts)}", f"    {habit.what}"]
    return "\n".join(lines)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def measure_ticks(begin: tuple[int, int], end: tuple[int, int]) -> float:
    """Return the nanoseconds of a tick, from two values of `calls.now`."""
    return (end[1] - begin[1]) / max(end[0] - begin[0], 1)
