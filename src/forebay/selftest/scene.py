"""What a litmus test works with: queues, memory, and a sequential model of both.

Each command is given to a queue, and at the same time carried out on arrays of NumPy. The tests have no race by the
rules of order, so what the device leaves in memory is what the arrays have in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import forebay as fb
from forebay.selftest.kernels import WIDTH

Array = NDArray[Any]
Change = Callable[[], None]

KINDS = ("null", "blocking", "non-blocking", "per-thread")


class WrongError(Exception):
    """Memory or a counter is not what the model says."""


@dataclass
class Cell:
    """Memory, and what it has to contain.

    Attributes
    ----------
    place : Buffer, StridedView or numpy.ndarray
        Of the device; or of the host, pinned or not.
    model : numpy.ndarray
        Unsigned integers of 32 bits.
    """

    name: str
    place: Any
    model: Array

    def part(self, key: slice) -> Cell:
        """A part of it."""
        return Cell(self.name, self.place[key], self.model[key])


class Bench:
    """A device, its kernels, and how slow a slow one is. Scenes are made on it.

    Parameters
    ----------
    steps : int
        Of the loop in a slow kernel.
    executes : bool
        Whether the device runs what it is given. Otherwise no memory is compared.
    """

    def __init__(self, device: fb.Device, program: fb.Program, steps: int, executes: bool = True) -> None:
        self.device = device
        self.program = program
        self.steps = steps
        self.executes = executes

    def run(self, litmus: Callable[[Scene], None]) -> None:
        """Run a litmus test, and compare all memory.

        Raises
        ------
        WrongError
            When something is not what the model says.
        Exception
            What the test raised.
        """
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
        self._numbers = itertools.count(1)  # threads share it
        self._recorded: list[Change] | None = None
        self._zeros = self._cell("zeros", np.zeros(WIDTH, "u4"))

    # -- what there is

    def queue(self, kind: str = "non-blocking", **options: Any) -> fb.Queue:
        """A queue of one of KINDS, or "per-thread, of another thread"."""
        if kind == "null":
            return self.device.null_queue
        if kind == "per-thread":
            return self.device.per_thread_queue
        if kind == "per-thread, of another thread":
            return self.elsewhere().submit(lambda: self.device.per_thread_queue).result()
        return self._closing.enter_context(closing(self.device.queue(blocking=kind == "blocking", **options)))

    def queues(self, count: int, kind: str = "non-blocking") -> list[fb.Queue]:
        """So many of a kind."""
        return [self.queue(kind) for _ in range(count)]

    def elsewhere(self) -> ThreadPoolExecutor:
        """Another thread, which ends with the test."""
        return self._closing.enter_context(ThreadPoolExecutor(1))

    def cells(self, count: int, size: int = WIDTH) -> list[Cell]:
        """So much memory of the device, each with other contents, which are there before any command of the test."""
        start = 1000 * (len(self._cells) + 1)
        made = [
            self._cell(f"memory {len(self._cells)}", np.arange(size, dtype="u4") + (start + 1000 * number))
            for number in range(count)
        ]
        self.device.finish()
        return made

    def on_host(self, pinned: bool = False) -> Cell:
        """Memory of the host, pinned or not."""
        place = fb.host_empty(WIDTH, "u4", self.device) if pinned else np.empty(WIDTH, "u4")
        place[:] = np.arange(WIDTH) + 7000
        cell = Cell(f"{'pinned' if pinned else 'host'} memory {len(self._cells)}", place, place.copy())
        self._cells.append(cell)
        return cell

    def of_pool(self, queue: fb.Queue) -> Cell:
        """Memory of the pool, whose contents are not known; it is freed before the end, and not compared then."""
        return Cell("memory of the pool", queue.alloc(WIDTH, "u4"), np.zeros(WIDTH, "u4"))

    def to_close(self) -> Cell:
        """Memory of the device that the test closes itself; it is not compared."""
        contents = np.arange(WIDTH, dtype="u4") + 17
        return Cell("memory to close", self.device.array(contents), contents)

    def kernel(self, name: str) -> fb.Kernel:
        """One of the kernels of `forebay.selftest.kernels`."""
        return self._bench.program[name]

    def _cell(self, name: str, contents: Array) -> Cell:
        cell = Cell(name, self._closing.enter_context(self.device.array(contents)), contents.copy())
        self._cells.append(cell)
        return cell

    # -- commands

    def quick(self, queue: fb.Queue, to: Cell, source: Cell | None = None) -> None:
        """Launch ``to = 5 to + 3 source + a number of its own``."""
        self._mix(queue, to, source, 0)

    def slow(self, queue: fb.Queue, to: Cell, source: Cell | None = None) -> None:
        """The same, by a kernel that reads and writes late."""
        self._mix(queue, to, source, self._bench.steps)

    def _mix(self, queue: fb.Queue, to: Cell, source: Cell | None, steps: int) -> None:
        arguments, change = self.mixing(to, source, steps)
        queue.launch(self.kernel("combine"), 1, WIDTH, *arguments)
        self.change(change)

    def mixing(self, to: Cell, source: Cell | None = None, steps: int | None = None) -> tuple[tuple[Any, ...], Change]:
        """The arguments of such a launch, slow if nothing else is said, and what it changes in the model."""
        source = source or self._zeros
        number = next(self._numbers)
        arguments = to.place, source.place, self._bench.steps if steps is None else steps, number

        def change() -> None:
            to.model[:] = to.model * np.uint32(5) + source.model * np.uint32(3) + np.uint32(number)

        return arguments, change

    def bound(self, queue: fb.Queue, to: Cell, source: Cell, slow: bool) -> Change:
        """Bind such a launch. Each call of what is returned launches it."""
        arguments, change = self.mixing(to, source, self._bench.steps if slow else 0)
        launch = self.kernel("combine").bind(queue, 1, WIDTH, *arguments)

        def call() -> None:
            launch()
            self.change(change)

        return call

    def increase(self, queue: fb.Queue, to: Cell, number: int) -> None:
        """Launch ``to += number``."""
        queue.launch(self.kernel("increase"), 1, WIDTH, to.place, number)
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

    # -- the model

    def change(self, change: Change) -> None:
        """Change the model now, or when what is being recorded runs."""
        if self._recorded is None:
            change()
        else:
            self._recorded.append(change)

    def _set(self, to: Cell, value: Callable[[], Any]) -> None:
        self.change(lambda: np.copyto(to.model, value()))

    @contextmanager
    def recording(self) -> Iterator[list[Change]]:
        """Collect the changes of the block, which captures: each launch of the graph makes them (`replayed`)."""
        changes: list[Change] = []
        self._recorded = changes
        try:
            yield changes
        finally:
            self._recorded = None

    @staticmethod
    def replayed(changes: list[Change]) -> None:
        """What a launch of the graph changes."""
        for change in changes:
            change()

    def expect(self, cell: Cell, found: Array | None = None) -> None:
        """Compare a copy of it, or what is in it now, with the model.

        Raises
        ------
        WrongError
        """
        if found is None:
            found = cell.place if isinstance(cell.place, np.ndarray) else cell.place.get()
        if not self.executes:
            return
        wrong = np.flatnonzero(found != cell.model)
        if len(wrong):
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
        """Wait for everything, and compare all memory.

        Raises
        ------
        WrongError
        """
        self.device.finish()
        for cell in self._cells:
            self.expect(cell)
