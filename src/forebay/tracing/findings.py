"""What a program does without need: how it is collected, and told."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.core.stats import Stats

OFTEN = 8  # times at one line: it is a loop then


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
        What they copied or allocated, and how often a queue had to wait for another.
    least : int
        It is told if it came so often.
    """

    what: str
    line: str
    times: int = 0
    ticks: int = 0
    nbytes: int = 0
    waits: int = 0
    least: int = 1


class Findings:
    """The habits that were found. Any thread may add to them."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Habit] = {}
        self._lock = threading.RLock()  # the collector, or the handler of a signal, may run any code

    def add(
        self, what: str, line: str, times: int = 1, spent: int = 0, nbytes: int = 0, waits: int = 0, least: int = 1
    ) -> None:
        """Add what a line did so many times more."""
        with self._lock:
            habit = self._found.setdefault((what, line), Habit(what, line, least=least))
            habit.times += times
            habit.ticks += spent
            habit.nbytes += nbytes
            habit.waits += waits

    def told(self) -> list[Habit]:
        """Those that came often enough, the costliest first: by the time that the calls took, then by how often."""
        often = [habit for habit in self._found.values() if habit.times >= habit.least]
        return sorted(often, key=lambda habit: (habit.ticks, habit.times), reverse=True)


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
