"""The notation of litmus tests: ``slow a x; wait b a; quick b y x``.

Statements are divided by ``;``. The first letter of a name says what it is:

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

``X.end`` are the last elements of it, ``x.odd`` and ``x.even`` every other. ``slow``, ``quick``, ``increase``,
``copy``, ``fill``, ``upload`` and ``host`` are the methods of `Scene`; ``wait b a`` has b wait for a queue or an event,
``wait e`` the host. ``3 { … }`` repeats; see `Run` for the other blocks and statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from forebay.selftest.kernels import WIDTH
from forebay.selftest.scene import Cell, Scene

Statement = tuple[list[str], "list[Statement]"]

QUEUES: dict[str, dict[str, Any]] = {
    **{letter: {} for letter in "abcdqr"},
    **{letter: {"kind": "blocking"} for letter in "ABCD"},
    "N": {"kind": "null"},
    "T": {"kind": "per-thread"},
    "O": {"kind": "per-thread, of another thread"},
    "urgent": {"priority": -1},
    "patient": {"priority": 1},
}
LARGE = 1 << 20  # elements of 4 bytes: a copy takes a while
PARTS: dict[str, Any] = {"end": slice(LARGE - WIDTH, LARGE), "odd": slice(1, WIDTH, 2), "even": slice(0, WIDTH, 2)}
NEEDS_EXECUTION = {"call", "host", "until", "within"}
"""What would wait for ever on a device that executes nothing."""


class Program:
    """A litmus test in this notation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, scene: Scene) -> None:
        """Run it."""
        with ExitStack() as closing:
            Run(scene, closing, dict.fromkeys(self._words())).run(_statements(self._words()))

    @property
    def needs_execution(self) -> bool:
        """Whether it would wait for ever on a device that executes nothing."""
        return not NEEDS_EXECUTION.isdisjoint(self._words())

    def _words(self) -> Iterator[str]:
        return iter(re.findall(r"[{};]|[^\s{};]+", self.text))


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


class Run:
    """One run of a program: what its names mean."""

    def __init__(self, scene: Scene, closing: ExitStack, words: dict[str, None]) -> None:
        self._scene, self._closing = scene, closing
        self._things: dict[str, Any] = {"device": scene.device}
        found = (re.fullmatch(r"([a-zA-Z]\d*|urgent|patient)(\.\w+)?", word) for word in words)
        names = dict.fromkeys(match[1] for match in found if match)
        for name in names:
            if self._kind(name) is not None and "new" not in words:
                self.new(name)
            elif name[0] in "hp":
                self._things[name] = scene.on_host(pinned=name[0] == "p")
            elif name[0] == "k":
                self._things[name] = scene.to_close()
        for letters, size in (("wxyz", WIDTH), ("XY", LARGE)):
            cells = [name for name in names if name[0] in letters]
            self._things.update(zip(cells, scene.cells(len(cells), size), strict=True))

    @staticmethod
    def _kind(name: str) -> dict[str, Any] | None:
        return QUEUES.get(name, QUEUES.get(name[0]))

    def _thing(self, name: str) -> Any:
        if name == "T":
            return self._scene.queue("per-thread")
        name, _, part = name.partition(".")
        if name.isdecimal():
            return int(name)
        return self._things[name].part(PARTS[part]) if part else self._things[name]

    def run(self, statements: list[Statement]) -> None:
        """Run some of its statements."""
        for (verb, *names), block in statements:
            if verb.isdecimal():
                for _ in range(int(verb)):
                    self.run(block)
            elif block:
                getattr(self, verb)(block, *names)
            elif verb in ("alloc", "event", "new", "record"):  # these may give a name its meaning
                getattr(self, verb)(*names)
            else:
                things = [self._thing(name) for name in names]
                owner = next(each for each in (self, self._scene, things[0]) if hasattr(each, verb))
                getattr(owner, verb)(*(things[1:] if owner is things[0] else things))

    # -- what makes something

    def new(self, queue: str) -> None:
        """Make a queue now, and not at the beginning."""
        self._things[queue] = self._scene.queue(**self._kind(queue) or {})

    def event(self, name: str) -> None:
        """An event that was not recorded."""
        self._things[name] = self._scene.device.event()

    def record(self, queue: str, event: str) -> None:
        """Record an event, a new one the first time."""
        self._things[event] = self._things[queue].record(self._things.get(event))

    def alloc(self, queue: str, memory: str) -> None:
        """Memory of the pool, other memory each time."""
        self._things[memory] = self._scene.of_pool(self._things[queue])

    def capture(self, block: list[Statement], queue: str, graph: str) -> None:
        """``capture a g { … }``: make a graph of what the block submits."""
        with self._scene.recording() as changes, self._things[queue].capture() as captured:
            self.run(block)
        self._things[graph] = captured, changes

    def step(self, block: list[Statement], queue: str) -> None:
        """``step a { … }``: submit the block as a step of the queue, always the same step."""
        name = f"step of {queue}"
        if name not in self._things:
            self._things[name] = self._things[queue].step()
            self._closing.callback(self._things[name].close)
        with self._things[name]:
            self.run(block)

    def thread(self, block: list[Statement]) -> None:
        """Run the block in a thread, which ends then."""
        with ThreadPoolExecutor(1) as other:
            other.submit(self.run, block).result()

    def threads(self, block: list[Statement]) -> None:
        """Run each statement of the block in a thread of its own, all at once."""
        with ThreadPoolExecutor(len(block)) as others:
            list(others.map(lambda statement: self.run([statement]), block))

    def call(self, block: list[Statement], queue: str) -> None:
        """Have the host run the block when the queue comes there."""
        self._things[queue].host(lambda: self.run(block))

    # -- what uses it

    def launch(self, queue: Any, graph: Any) -> None:
        """Launch a graph."""
        graph[0].launch(queue)
        self._scene.replayed(graph[1])

    def free(self, queue: Any, memory: Cell) -> None:
        """Free memory of the pool."""
        queue.free(memory.place)

    def drop(self, memory: Cell) -> None:
        """Close memory."""
        memory.place.close()

    def get(self, memory: Cell) -> None:
        """Read memory without a queue."""
        self._scene.expect(memory, memory.place.get())

    def set(self, memory: Cell) -> None:
        """Write to memory without a queue."""
        memory.model[:] = 42
        memory.place.set(memory.model)

    def within(self, queue: Any) -> None:
        """Finish a queue, which may take a minute."""
        queue.finish(timeout=60)

    def until(self, thing: Any) -> None:
        """Ask a queue or an event until it is done."""
        while not thing.query():
            pass

    def empty(self, queue: Any) -> None:
        """Expect that a queue has no work left."""
        self._scene.expect_that(queue.empty and queue.query(), f"{queue!r} has work left that was waited for")

    def done(self, event: Any) -> None:
        """Expect that an event is done."""
        self._scene.expect_that(event.done, "an event is not done when the host has waited for it")
