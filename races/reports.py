"""Races as objects and as text, with the line that would order the two commands."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

from forebay.core.driver import AnyQueue
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError

log: logging.Logger = logging.getLogger("forebay.races")

WRITES, NOT_CONST, DOUBTFUL, ATOMIC = 1, 2, 4, 8  # as `races/state.hpp` has them
Line = tuple[str, int, str]


@dataclass(frozen=True)
class Access:
    """One of the two commands of a `Race`, and what it does with the memory.

    Attributes
    ----------
    kind : str
        "launch", "copy", "fill", "alloc", "free", or "host" for what the host does itself.
    kernel : str
        Its name; empty unless it is a launch.
    argument : str
        The parameter's type and name, or "to" and "from" of a copy.
    writes : bool
    queue : str
        What the program calls the queue, if that was found, and its id; "the host" without a queue.
    file, function : str
    line : int
        The innermost line of the program that is not forebay's own; 0 without one.
    node : str
        For a node of a graph, the ``file:line`` that added or captured it; else empty.
    """

    kind: str
    kernel: str
    argument: str
    writes: bool
    queue: str
    file: str
    line: int
    function: str
    node: str = ""

    @property
    def place(self) -> str:
        """``file:line``"""
        return place_of((self.file, self.line, self.function))

    def __str__(self) -> str:
        what = f"{self.kind} of {self.kernel!r}" if self.kernel else self.kind
        argument = f", {self.argument}" if self.argument else ""
        node = f" (node made at {self.node})" if self.node else ""
        does = {"alloc": "hands out", "free": "takes back"}.get(self.kind, "writes" if self.writes else "reads")
        return f"{does}: {what}{argument}{node}, on {self.queue}, {self.place}"


@dataclass(frozen=True)
class Race:
    """Two commands that use the same memory, one of them writing, and that nothing in the program orders.

    Attributes
    ----------
    certain : bool
        False when there may be no race: see `basis`.
    memory : str
        The memory, and the line that made it.
    begin, end : int
        The range of bytes that both use; `end` is the first byte behind it.
    first, second : Access
        In the order of their submission.
    missing : str
        A line of Python that orders the two; `where` says where to put it.
    where : str
    early : str
        Where the event that the second command waits for was recorded too early; else empty.
    basis : tuple of str
        What the verdict rests on, beside the program's order.
    """

    certain: bool
    memory: str
    begin: int
    end: int
    first: Access
    second: Access
    missing: str
    where: str
    early: str
    basis: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{'race' if self.certain else 'possible race'} over bytes {self.begin} to {self.end} of {self.memory}",
            f"  {self.first}",
            f"  {self.second}",
            f"  nothing orders the second after the first; {self.where}: {self.missing}",
        ]
        if self.early:
            lines.append(f"  {self.early}")
        lines += [f"  {reason}" for reason in self.basis]
        return "\n".join(lines)


_known: dict[tuple[Any, ...], Race] = {}  # by context, lines and certainty, in the order of finding
MOST = 10_000  # races that are kept
MOST_FRAMES, MOST_ITEMS = 64, 64  # searched for names
HIP = "forebay.hip"


def tell(told: Any) -> Race:
    """Report a race, a `Conflict` of the checker, once for each pair of lines, and return it."""
    sides = told.first, told.second
    key = (told.context, *(side["line"] for side in sides), *(side["what"] for side in sides), told.certain)
    known = _known.get(key)
    if known is not None:
        return known
    race = made_of(told)
    known = _known.setdefault(key, race) if len(_known) < MOST else race  # another thread may have reported it
    if known is race:
        log.log(logging.WARNING if told.certain else logging.INFO, "%s", race)
    return known


def found(context: int | None = None) -> tuple[Race, ...]:
    """Return the races found on a context, by its null queue's id, or in this process, certain or not."""
    return tuple(race for key, race in list(_known.items()) if context in (None, key[0]))


def forget(context: int) -> None:
    """Forget the races found on a context."""
    for key in [key for key in list(_known) if key[0] == context]:
        _known.pop(key, None)


# -- text


def place_of(line: Line) -> str:
    """Return ``file:line``."""
    return f"{line[0]}:{line[1]}" if line[1] else "a line outside the program"


def made_of(told: Any) -> Race:
    """Return the Race that describes a conflict."""
    names = Names(told.first_queue, told.second_queue)
    sides = (told.first, told.first_queue), (told.second, told.second_queue)
    first, second = [names.of(queue, f"queue_{side['queue']}" if side["queue"] else "") for side, queue in sides]
    missing, where = told.missing or ("", f"before {place_of(names.line)}")
    if missing:
        first = second = "a graph"
    elif told.second_queue is None:
        missing = f"{names.hip}.hipStreamSynchronize({first})" if names.hip else f"{first}.finish()"
    elif told.first_queue is None or told.first_queue.closed:
        device = names.of(told.second_queue.device, "device")
        missing = f"{names.hip}.hipDeviceSynchronize()" if names.hip else f"{device}.finish()"
    else:
        missing = names.wait(second, first)
    memory = f"{told.nbytes} bytes" if told.nbytes else "memory"
    early = (
        f"what {second} waits for was recorded at {place_of(told.early)}, before the first command: "
        "record it after that"
    )
    return Race(
        told.certain,
        f"{memory} made at {place_of(told.made)}" if told.made[1] else memory,
        told.begin,
        told.end,
        access_of(told.first, first),
        access_of(told.second, second),
        missing,
        where,
        early if told.early[1] else "",
        tuple(dict.fromkeys(reasons(told))),
    )


def access_of(side: dict[str, Any], queue: str) -> Access:
    """Return one of the two commands. Its queue has the program's name and its id; the host has none."""
    kind, kernel, argument, *node = side["what"]
    number = side["queue"]
    if number and queue not in ("a graph", f"queue_{number}"):
        queue = f"{queue} (queue {number})"
    return Access(kind, kernel, argument, bool(side["flags"] & WRITES), queue or "the host", *side["line"], *node)


def missing_edge(first: Any, second: Any) -> tuple[str, str]:
    """Return the line of Python that orders two nodes of a graph, and where to put it."""
    earlier, later = first._captured_on(), second._captured_on()
    if earlier is not None and later is not None:
        names = Names(earlier, later)
        line = names.wait(names.of(later, f"queue_{later.id}"), names.of(earlier, f"queue_{earlier.id}"))
        return line, f"in the capture, before {second._place}"
    names = Names(first.graph, first, second)
    graph, *nodes = names.of(first.graph, "graph"), names.of(first, "first"), names.of(second, "second")
    return f"{graph}.add_dependency({', '.join(nodes)})", "before the graph is launched"


def reasons(told: Any) -> Iterator[str]:
    """Yield what the verdict rests on."""
    sides = told.first, told.second
    both, either = sides[0]["flags"] & sides[1]["flags"], sides[0]["flags"] | sides[1]["flags"]
    if not any(side["flags"] & (WRITES | NOT_CONST) == WRITES for side in sides):
        for _, kernel, argument, *_ in [side["what"] for side in sides if side["flags"] & NOT_CONST]:
            name = argument.rpartition(" ")[2]
            yield (
                f"{name} of {kernel!r} counts as written because it is not const: declare it const, or call "
                f'kernel.reads("{name}"), if the kernel only reads it'
            )
    if told.host_between:
        yield "a host function comes after the first command: it may tell the program by means that are not seen"
    if told.foreign:
        yield "the first command's queue is another package's, which may have waited for it by means that are not seen"
    if told.chosen and not told.certain:
        yield (
            "a kernel may choose a part by a number that it is given, and the other command may not touch that: pass "
            "a slice, or call kernel.writes(name, part)"
        )
    if both & ATOMIC:
        yield "both kernels change it by atomic operations only, whose order may not matter"
    if either & DOUBTFUL:
        yield "not all is known: which bytes pointers in memory or strides lead to, or whom a wait for a value is for"


class Names:
    """What the program calls things: by the innermost of its functions that has names for all of them."""

    def __init__(self, *things: Any) -> None:
        self.line: Line = ("", 0, "")  # where that function is now
        self.hip: str = ""  # its name for `forebay.hip`, if its streams are HIP's
        self.values: list[tuple[str, Any]] = []
        frames = list(islice(frames_of_program(), MOST_FRAMES))
        for frame in (*frames, *frames[:1]):
            self.line = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            self.hip = ""
            self.values = [each for scope in (frame.f_locals, frame.f_globals) for each in named_values(scope)]
            if all(self.of(thing, "") for thing in things if thing is not None):
                return

    def of(self, thing: Any, otherwise: str) -> str:
        """Return the program's expression for a queue or another object."""
        modules = (name for name, value in self.values if isinstance(value, ModuleType) and value.__name__ == HIP)
        hip, is_queue = next(modules, ""), isinstance(thing, AnyQueue)
        for name, value in self.values if thing is not None else ():
            if value is thing or (is_queue and isinstance(value, AnyQueue) and value == thing):
                return name
            if is_queue and str(type(value).__module__).startswith(HIP) and getattr(value, "queue", None) == thing:
                self.hip = self.hip or hip or "hip"
                return name
        if not is_queue or not thing.is_null:
            return otherwise
        if hip and not any(isinstance(value, AnyQueue) for _, value in self.values):
            self.hip = self.hip or hip
            return "None"
        device = self.of(thing.device, "")
        return f"{device}.null_queue" if device else otherwise

    def wait(self, second: str, first: str) -> str:
        """Return the line that has one queue wait for another."""
        if not self.hip:
            return f"{second}.wait({first})"
        event = f"event = {self.hip}.hipEventCreate()[1]; {self.hip}.hipEventRecord(event, {first})"
        return f"{event}; {self.hip}.hipStreamWaitEvent({second}, event, 0)"


def named_values(scope: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the expressions of a scope and their values: names first, then items of collections and of `self`."""
    named = list(scope.items())
    yield from named
    for name, value in named:
        if isinstance(value, (list, tuple)):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value[:MOST_ITEMS]))
        elif isinstance(value, dict) and not name.startswith("__"):
            items = list(value.items())[:MOST_ITEMS]
            yield from ((f"{name}[{key!r}]", each) for key, each in items if isinstance(key, (str, int)))
        elif name == "self":
            yield from ((f"self.{key}", each) for key, each in list(getattr(value, "__dict__", {}).items()))


def frames_of_program() -> Iterator[FrameType]:
    """Yield this thread's frames that are not forebay's own, the innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != "forebay":
            yield frame
        frame = frame.f_back


# -- whether the program or the environment asks for race checks


VARIABLE = "FOREBAY_CHECK"
SUMMARY = "FOREBAY_CHECK_SUMMARY"  # a file of `forebay check`, to which each process adds its counts
WORDS = {"": (False, False), "races": (True, False), "races,error": (True, True)}


def read_check(given: str | None) -> tuple[bool, bool]:
    """Return (check for races, raise for one). Raises ArgumentTypeError or InvalidArgumentError for other words."""
    source = "Device: check" if given is not None else VARIABLE
    value = os.environ.get(VARIABLE, "") if given is None else given
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{source} is a str, not {type(value).__name__}")
    if value not in WORDS:
        raise InvalidArgumentError(f"{source} is one of {', '.join(map(repr, WORDS))}, not {value!r}")
    return WORDS[value]


def begin_summary() -> None:
    """Print a summary when this process ends, if `forebay check` runs it."""
    if os.environ.get(SUMMARY):
        atexit.unregister(_end)  # of an earlier Device, or of the parent
        atexit.register(_end, os.getpid())


def _end(process: int) -> None:
    if os.getpid() != process:
        return
    races = found()
    possible = [race for race in races if not race.certain]
    print(f"forebay: process {process}: {summary(races)}", *possible, sep="\n", file=sys.stderr)  # the rest was logged
    try:
        with open(os.environ[SUMMARY], "a", encoding="utf-8") as file:
            file.write(f"{len(races) - len(possible)} {len(possible)}\n")
    except OSError as error:
        print(f"forebay: {os.environ[SUMMARY]}: {error.strerror}", file=sys.stderr)


def summary(races: Sequence[Race]) -> str:
    """Return the number of races, in words."""
    certain = sum(race.certain for race in races)
    possible = len(races) - certain
    return f"{certain} race{'s' * (certain != 1)}, {possible} possible"
