"""What a litmus test works with: the notation that it is written in, and a sequential model of what it does.

``slow a x; wait b a; quick b y x``: statements are divided by ``;``. The first letter of a name says what it is:

========  ==========================================================================================
a b c d   queues that do not block, as q and r
A B C D   blocking queues
N T O     the null queue, the per-thread queue of the thread that uses it, and that of another thread
x y z w   memory of the device, which has its contents before the first statement
X Y       the same, 4 MiB of it each
k         memory of the device that the program closes, and that is not compared
h p       memory of the host; pinned memory
e g m     an event, a graph, memory of the pool
========  ==========================================================================================

``X.end`` are the last elements of it, ``x.odd`` and ``x.even`` every other. The verbs are methods of `Scene`, and those
of queues: ``wait b a`` has b wait for a queue or an event, ``wait e`` the host. ``3 { … }`` repeats.

Each command is given to a queue, and at the same time carried out on arrays of NumPy. The tests have no race by the
rules of order, so what the device leaves in memory is what the arrays have in the end.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import forebay as fb
from forebay.selftest.kernels import WIDTH

Array = NDArray[Any]
Change = Callable[[], None]
Statement = tuple[list[str], "list[Statement]"]

QUEUES: dict[str, dict[str, Any]] = {
    **{letter: {} for letter in "abcdqrNTO"},
    **{letter: {"blocking": True} for letter in "ABCD"},
    "urgent": {"priority": -1},
    "patient": {"priority": 1},
    "timed": {"timing": True},
}
NAME = re.compile(r"([a-zA-Z]\d*|urgent|patient|timed)(\.\w+)?")
LARGE = 1 << 20  # elements of 4 bytes: a copy takes a while
PARTS: dict[str, Any] = {"end": slice(LARGE - WIDTH, LARGE), "odd": slice(1, WIDTH, 2), "even": slice(0, WIDTH, 2)}
NAMING = {"alloc", "bound", "event", "new", "record", "time"}
"""Verbs that may give a name its meaning."""


class WrongError(Exception):
    """Memory or a counter is not what the model says."""


def words_of(text: str) -> Iterator[str]:
    """The words of a litmus test, braces and semicolons among them."""
    return iter(re.findall(r"[{};]|[^\s{};]+", text))


def _statements(words: Iterator[str]) -> list[Statement]:
    """Read to the end of a block."""
    found: list[Statement] = []
    statement: list[str] = []
    for word in words:
        if word == "{":
            found.append((statement, _statements(words)))
            statement = []
        elif word not in ";}":
            statement.append(word)
        elif statement:
            found.append((statement, []))
            statement = []
        if word == "}":
            return found
    return [*found, (statement, [])] if statement else found


@dataclass
class Cell:
    """Memory, and what it has to contain."""

    name: str
    place: Any  # a Buffer or StridedView of the device, or an array of the host, pinned or not
    model: Array  # unsigned integers of 32 bits

    def part(self, key: slice) -> Cell:
        """A part of it."""
        return Cell(self.name, self.place[key], self.model[key])


@dataclass
class Captured:
    """A graph with its nodes, and what a launch of it changes."""

    graph: Any
    nodes: tuple[fb.Node, ...]
    changes: list[Change]


@dataclass
class Bench:
    """A device, its kernels, and how slow a slow one is. Scenes are made on it."""

    device: fb.Device
    program: fb.Program
    steps: int  # of the loop in a slow kernel
    executes: bool = True  # whether the device runs what it is given; otherwise no memory is compared

    def run(self, litmus: Callable[[Scene], None]) -> None:
        """Run a litmus test, and compare all memory. Raises WrongError when something is not what the model says."""
        with ExitStack() as closing:
            scene = Scene(self, closing)
            try:
                litmus(scene)
                scene.check()
            finally:
                self.device.finish()  # before what it uses is closed


class Scene:
    """The queues and memory of one run of a litmus test; see the module."""

    def __init__(self, bench: Bench, closing: ExitStack) -> None:
        self.device: fb.Device = bench.device
        self.executes: bool = bench.executes
        self._bench = bench
        self._closing = closing
        self._cells: list[Cell] = []
        self._things: dict[str, Any] = {"device": bench.device}
        self._numbers = itertools.count(1)  # threads share it
        self._recorded: list[Change] | None = None
        self._model = threading.Lock()
        self._zeros = self._cell("zeros", np.zeros(WIDTH, "u4"))

    def play(self, text: str) -> None:
        """Run a litmus test in the notation."""
        words = [*words_of(text)]
        names = dict.fromkeys(match[1] for match in map(NAME.fullmatch, words) if match)
        contents = np.arange(WIDTH, dtype="u4")
        for name in names:
            if name in QUEUES or name[0] in QUEUES:
                if "new" not in words:
                    self.new(name)
            elif name[0] == "h":
                self._things[name] = self._compared("host memory", contents + 7000)
            elif name[0] == "p":
                place = fb.host_empty(WIDTH, "u4", self.device)
                place[:] = contents + 7000
                self._things[name] = self._compared("pinned memory", place)
            elif name[0] == "k":
                self._things[name] = Cell("memory to close", self.device.array(contents), contents.copy())
        for letters, size in (("wxyz", WIDTH), ("XY", LARGE)):
            cells = [name for name in names if name[0] in letters]
            self._things.update(zip(cells, self.cells(len(cells), size), strict=True))
        self._run(_statements(iter(words)))

    def _run(self, statements: list[Statement]) -> None:
        for (verb, *names), block in statements:
            if verb.isdecimal():
                for _ in range(int(verb)):
                    self._run(block)
            elif block:
                getattr(self, verb)(block, *names)
            elif verb in NAMING:
                getattr(self, verb)(*names)
            else:
                first, *others = map(self._thing, names)
                if hasattr(self, verb):
                    getattr(self, verb)(first, *others)
                else:
                    getattr(first, verb)(*others)

    def _thing(self, name: str) -> Any:
        if name == "T":
            return self.device.per_thread_queue
        name, _, part = name.partition(".")
        if name.isdecimal():
            return int(name)
        return self._things[name].part(PARTS[part]) if part else self._things[name]

    # -- what there is

    def queue(self, **options: Any) -> fb.Queue:
        """A queue that does not block, if nothing else is said."""
        return self._closing.enter_context(closing(self.device.queue(**{"blocking": False} | options)))

    def cells(self, count: int, size: int = WIDTH) -> list[Cell]:
        """So much memory of the device, each with other contents, which are there before any command of the test."""
        start = 1000 * (len(self._cells) + 1)
        made = [self._cell("memory", np.arange(size, dtype="u4") + (start + 1000 * number)) for number in range(count)]
        self.device.finish()
        return made

    def _cell(self, name: str, contents: Array) -> Cell:
        return self._compared(name, self._closing.enter_context(self.device.array(contents)), contents)

    def _compared(self, name: str, place: Any, contents: Array | None = None) -> Cell:
        cell = Cell(f"{name} {len(self._cells)}", place, (place if contents is None else contents).copy())
        self._cells.append(cell)
        return cell

    # -- verbs that give a name its meaning

    def new(self, queue: str) -> None:
        """Make a queue now, and not at the beginning."""
        if queue == "N":
            self._things[queue] = self.device.null_queue
        elif queue == "O":
            other = self._closing.enter_context(ThreadPoolExecutor(1))  # the thread ends with the test
            self._things[queue] = other.submit(lambda: self.device.per_thread_queue).result()
        elif queue != "T":
            self._things[queue] = self.queue(**QUEUES[queue if queue in QUEUES else queue[0]])

    def event(self, name: str) -> None:
        """An event that was not recorded."""
        self._things[name] = self.device.event()

    def record(self, queue: str, event: str) -> None:
        """Record an event, a new one the first time."""
        self._things[event] = self._thing(queue).record(self._things.get(event))

    def time(self, queue: str, event: str) -> None:
        """Record a new event with the time."""
        self._things[event] = self._things[queue].record(timing=True)

    def alloc(self, queue: str, memory: str) -> None:
        """Memory of the pool, other memory each time. It is freed before the end, and not compared then."""
        place = self._things[queue].alloc(WIDTH, "u4")
        self._things[memory] = Cell("memory of the pool", place, np.zeros(WIDTH, "u4"))

    def bound(self, queue: str, verb: str, to: str, source: str) -> None:
        """``bound a slow x y``: launch this, bound by the first statement that says so."""
        name = f"{queue} {verb} {to} {source}"
        if name not in self._things:
            steps = self._bench.steps if verb == "slow" else 0
            arguments, change = self.mixing(self._things[to], self._things[source], steps)
            self._things[name] = self.combine.bind(self._things[queue], 1, WIDTH, *arguments), change
        launch, change = self._things[name]
        launch()
        self.change(change)

    # -- verbs with a block

    def capture(self, block: list[Statement], queue: str, graph: str) -> None:
        """``capture a g { … }``: make a graph of what the block submits."""
        changes: list[Change] = []  # each launch of the graph makes them
        self._recorded = changes
        try:
            with self._things[queue].capture() as captured:
                self._run(block)
        finally:
            self._recorded = None
        self._things[graph] = Captured(captured, captured.nodes, changes)

    def step(self, block: list[Statement], queue: str) -> None:
        """``step a { … }``: submit the block as a step of the queue, always the same step."""
        name = f"step of {queue}"
        if name not in self._things:
            self._things[name] = self._closing.enter_context(closing(self._things[queue].step()))
        with self._things[name]:
            self._run(block)

    def thread(self, block: list[Statement]) -> None:
        """Run the block in a thread, which ends then."""
        with ThreadPoolExecutor(1) as other:
            other.submit(self._run, block).result()

    def threads(self, block: list[Statement]) -> None:
        """Run each statement of the block in a thread of its own, all at once."""
        with ThreadPoolExecutor(len(block)) as others:
            list(others.map(lambda statement: self._run([statement]), block))

    def call(self, block: list[Statement], queue: str) -> None:
        """Have the host run the block when the queue comes there."""
        self._things[queue].host(lambda: self._run(block))

    # -- commands

    def quick(self, queue: fb.Queue, to: Cell, source: Cell | None = None) -> None:
        """Launch ``to = 5 to + 3 source + a number of its own``."""
        self._mix(queue, to, source, 0)

    def slow(self, queue: fb.Queue, to: Cell, source: Cell | None = None) -> None:
        """The same, by a kernel that reads and writes late."""
        self._mix(queue, to, source, self._bench.steps)

    def dropped(self, to: Cell) -> None:
        """The same, on a blocking queue that is dropped at once."""
        self.slow(self.device.queue(), to)

    def _mix(self, queue: fb.Queue, to: Cell, source: Cell | None, steps: int) -> None:
        arguments, change = self.mixing(to, source, steps)
        queue.launch(self.combine, 1, WIDTH, *arguments)
        self.change(change)

    @property
    def combine(self) -> fb.Kernel:
        """The kernel of these."""
        return self._bench.program["combine"]

    def mixing(self, to: Cell, source: Cell | None, steps: int) -> tuple[tuple[Any, ...], Change]:
        """The arguments of such a launch, and what it changes in the model."""
        source = source or self._zeros
        number = next(self._numbers)

        def change() -> None:
            to.model[:] = to.model * np.uint32(5) + source.model * np.uint32(3) + np.uint32(number)

        return (to.place, source.place, steps, number), change

    def increase(self, queue: fb.Queue, to: Cell, number: int) -> None:
        """Launch ``to += number``."""
        queue.launch(self._bench.program["increase"], 1, WIDTH, to.place, number)
        self._set(to, lambda: to.model + np.uint32(number))

    def copy(self, queue: fb.Queue, to: Cell, source: Cell) -> None:
        """Copy all of `source`, which may be memory of the host."""
        queue.copy(to.place, source.place)
        self._set(to, lambda: source.model)

    def upload(self, queue: fb.Queue, to: Cell) -> None:
        """Copy bytes of the host, whose memory is written to as soon as the call has returned."""
        contents: Any = np.arange(WIDTH, dtype="u4") * 11 + next(self._numbers)
        queue.copy(to.place, contents)
        to.model[:] = contents
        contents[:] = 0xDEAD

    def fill(self, queue: fb.Queue, to: Cell) -> None:
        """Fill it with a number of its own."""
        number = next(self._numbers)
        queue.fill(to.place, number)
        self._set(to, lambda: np.uint32(number))

    def host(self, queue: fb.Queue, to: Cell) -> None:
        """Let the host change its own pinned memory when the queue comes there."""
        number = np.uint32(next(self._numbers))

        def at(values: Array) -> None:
            values[:] = values * np.uint32(7) + number

        queue.host(lambda: at(to.place))
        self.change(lambda: at(to.model))

    def launch(self, queue: fb.Queue, captured: Captured) -> None:
        """Launch a graph."""
        captured.graph.launch(queue)
        for change in captured.changes:
            change()

    def instantiate(self, captured: Captured) -> None:
        """Make the graph one whose arguments can be changed."""
        captured.graph = self._closing.enter_context(captured.graph.instantiate())

    def alter(self, captured: Captured, to: Cell, source: Cell) -> None:
        """Change the arguments of the graph's only launch: a slow one."""
        arguments, change = self.mixing(to, source, self._bench.steps)
        captured.graph.set_kernel(captured.nodes[0], self.combine, 1, WIDTH, *arguments)
        captured.changes[:] = [change]

    def free(self, queue: fb.Queue, memory: Cell) -> None:
        """Free memory of the pool."""
        queue.free(memory.place)

    def drop(self, memory: Cell) -> None:
        """Close memory."""
        memory.place.close()

    def get(self, memory: Cell) -> None:
        """Read memory without a queue."""
        self._expect(memory, memory.place.get())

    def set(self, memory: Cell) -> None:
        """Write to memory without a queue."""
        memory.model[:] = 42
        memory.place.set(memory.model)

    def within(self, queue: fb.Queue) -> None:
        """Finish a queue, which may take a minute."""
        queue.finish(timeout=60)

    def until(self, thing: fb.Queue | fb.Event) -> None:
        """Ask a queue or an event until it is done."""
        while not thing.query():
            pass

    def empty(self, queue: fb.Queue) -> None:
        """Expect that a queue has no work left."""
        self.expect_that(queue.empty and queue.query(), f"{queue!r} has work left that was waited for")

    def done(self, event: fb.Event) -> None:
        """Expect that an event is done."""
        self.expect_that(event.query(), "an event is not done when the host has waited for it")

    def later(self, end: fb.Event, start: fb.Event) -> None:
        """Expect that time has passed between two events that are done."""
        if self.executes:
            self.expect_that(end.elapsed(start) > 0, f"a slow kernel took {end.elapsed(start)} ms by its timed events")

    # -- the model

    def change(self, change: Change) -> None:
        """Change the model now, or when what is being recorded runs."""
        if self._recorded is None:
            with self._model:
                change()
        else:
            self._recorded.append(change)

    def _set(self, to: Cell, value: Callable[[], Any]) -> None:
        self.change(lambda: np.copyto(to.model, value()))

    def _expect(self, cell: Cell, found: Array) -> None:
        """Compare a copy of it with the model."""
        wrong = np.flatnonzero(found != cell.model)
        if self.executes and len(wrong):
            at = wrong[0]
            raise WrongError(
                f"{cell.name}: element {at} is {found[at]} and not {cell.model[at]}; {len(wrong)} of {len(found)} "
                "elements are wrong"
            )

    def expect_that(self, holds: bool, what: str) -> None:
        """Raise `WrongError` unless it holds, also where nothing executes."""
        if not holds:
            raise WrongError(what)

    def check(self) -> None:
        """Wait for everything, and compare all memory."""
        self.device.finish()
        for cell in self._cells:
            self._expect(cell, cell.place if isinstance(cell.place, np.ndarray) else cell.place.get())
