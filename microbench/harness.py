"""Runs cases: at each point every layer that can do it, in the same rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import forebay as fb

from .layers import LAYERS, AbsentError, Ground, Layer, Subject

WARM_UP = 2
Subjects = dict[str, Subject]


@dataclass(frozen=True)
class Point:
    """One row of a case on every layer. Its id is that of the case, a slash and its name."""

    name: str
    operation: str = ""  # what the layers do; their classes say what the arguments mean
    arguments: tuple[object, ...] = ()
    commands: int = 1  # of one operation, so that a batch does not fill a queue
    calls: int = 0  # operations of one sample; 0 for what the options say
    rounds: int = 0  # samples of each subject, and none to warm up, for what takes seconds; 0 for what the options say
    base: str = ""  # the point that it is compared with
    idle: int = 0  # how many idle streams there are beside it
    setup: Callable[[Bench], AbstractContextManager[Subjects]] | None = None  # gives subjects in place of an operation


@dataclass(frozen=True)
class Case:
    """Something to measure.

    All points are measured this many times, up and down in turn, or time would be confused with what changes from
    point to point.
    """

    name: str
    title: str
    points: Callable[[Bench], Sequence[Point]]
    sweeps: int = 1


@dataclass
class Row:
    """The samples of one layer at one point: microseconds of one operation."""

    case: str
    point: str
    layer: str
    note: str = ""
    samples: list[float] = field(default_factory=list)


def measure(subjects: Mapping[str, Subject], calls: int, rounds: int, warm_up: int = WARM_UP) -> dict[str, list[float]]:
    """Run every subject once a round, in an order that is shuffled anew, each in its own surroundings, untimed.

    So disturbances of the machine affect all of them alike. Before these, `warm_up` rounds are not counted. Returns
    microseconds of one operation, one for each round, in the order of the rounds.
    """
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    shuffle = random.Random(1)
    for number in range(-warm_up, rounds):
        shuffle.shuffle(names)
        for name in names:
            subject = subjects[name]
            with subject.around():
                seconds = subject.run(calls)
            if number >= 0:
                taken[name].append(seconds / calls * 1e6)
    return taken


class Bench:
    """The device, its layers, or `only` some of them, and how long to measure."""

    def __init__(self, device: fb.Device, quick: bool, rounds: int, calls: int, only: Sequence[str] = ()):
        self.device = device
        self.quick = quick  # fewer points and rounds
        self.rounds = rounds  # samples of each subject
        self.calls = calls  # operations of one sample
        self.ground: Ground = Ground(device)
        self.layers: list[Layer] = []
        self.absent: dict[str, str] = {}  # layers that are not there, and why
        self.missing: dict[tuple[str, str], str] = {}  # (case/point, layer) of what a layer does not have, and why
        for name in (name for name in LAYERS if not only or name in only):
            try:
                self.layers.append(self.ground.layer(name))
            except AbsentError as error:
                self.absent[name] = str(error)

    def pick(self, full: Sequence[Any], quick: Sequence[Any]) -> Sequence[Any]:
        """The points of a full run, or of a quick one."""
        return quick if self.quick else full

    def subjects(self, operation: str, *arguments: object) -> Subjects:
        """What the layers have of an operation."""
        found: Subjects = {}
        for layer in self.layers:
            if operation not in layer.operations.split():
                continue
            try:
                found[layer.name] = getattr(layer, operation)(*arguments)
            except AbsentError as error:
                self.missing[self._at, layer.name] = str(error)
            except Exception as error:
                if layer.ours:
                    raise
                self.missing[self._at, layer.name] = f"{type(error).__name__}: {error}"  # another package's trouble
        return found

    @contextmanager
    def _set_up(self, point: Point) -> Iterator[Subjects]:
        with ExitStack() as stack:
            if point.setup is not None:
                yield stack.enter_context(point.setup(self))
                return
            try:
                queues = [self.device.queue() for _ in range(point.idle)]
                for layer in self.layers:
                    stack.enter_context(layer.idle(point.idle))
            except Exception as error:
                raise AbsentError(f"{point.idle} streams cannot be had: {error}") from error
            yield self.subjects(point.operation, *point.arguments)
            del queues
        if point.idle:
            self.device.finish()  # those that were dropped are gone now

    def run(self, case: Case, advance: Callable[[], None]) -> list[Row]:
        """The rows of a case. `advance` is called after each of `turns(case)` turns."""
        points = list(case.points(self))
        rows: dict[tuple[str, str], Row] = {}
        for sweep in range(case.sweeps):
            for point in reversed(points) if sweep % 2 else points:
                self._at = f"{case.name}/{point.name}"
                calls = point.calls or max(self.calls // point.commands, 1)
                rounds = point.rounds or max(self.rounds // case.sweeps, 2)
                try:
                    with self._set_up(point) as subjects:
                        found = measure(subjects, calls, rounds, 0 if point.rounds else WARM_UP)
                        notes = {name: subject.note for name, subject in subjects.items()}
                        subjects.clear()
                except AbsentError as error:
                    self.missing[self._at, "every layer"] = str(error)
                    found = {}
                for name, samples in found.items():
                    row = rows.setdefault((point.name, name), Row(case.name, point.name, name, notes[name]))
                    row.samples += [float(f"{sample:.4g}") for sample in samples]
                advance()
        names, order = [point.name for point in points], list(LAYERS)
        return sorted(rows.values(), key=lambda row: (names.index(row.point), order.index(row.layer)))

    def turns(self, case: Case) -> int:
        """How often `run` will advance."""
        return len(case.points(self)) * case.sweeps
