"""Runs cases: for each point every layer that can do it, in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import forebay as fb

from . import layers
from .layers import AbsentError, Ground, Layer, Subject
from .layers.all import LAYERS
from .measure import WARM_UP, measure

Subjects = dict[str, Subject]


@dataclass(frozen=True)
class Point:
    """One row of a case on every layer.

    Attributes
    ----------
    name : str
        Its id is that of the case, a slash and this.
    setup : callable
        A context manager that gives the subjects, by layer.
    commands : int
        How many commands one operation has, so that a batch does not fill a queue.
    calls : int
        Operations of one sample; 0 for what the options say.
    rounds : int
        Samples of each subject, and none to warm up, for what takes seconds; 0 for what the options say.
    base : str
        The point that it is compared with; empty for none.
    """

    name: str
    setup: Callable[[], AbstractContextManager[Subjects]]
    commands: int = 1
    calls: int = 0
    rounds: int = 0
    base: str = ""


@dataclass(frozen=True)
class Case:
    """Something to measure.

    Attributes
    ----------
    name, title : str
    points : callable
        Gives the points of a `Bench`.
    sweeps : int
        How often all points are gone through, up and down in turn, or time would be confused with what changes from
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


class Bench:
    """The device, its layers, and how long to measure.

    Parameters
    ----------
    device : forebay.Device
    quick : bool
        Fewer points and rounds.
    rounds, calls : int
        Samples of each subject, and operations of one sample.
    only : collection of str, optional
        The names of the layers to measure.
    """

    def __init__(self, device: fb.Device, quick: bool, rounds: int, calls: int, only: Sequence[str] = ()):
        self.device = device
        self.quick = quick
        self.rounds = rounds
        self.calls = calls
        self.ground: Ground = Ground(device)
        self.layers: list[Layer] = []
        self.absent: dict[str, str] = {}
        """Layers that are not there, and why."""
        self.missing: dict[tuple[str, str], str] = {}
        """(case/point, layer) of what a layer does not have, and why."""
        for kind in LAYERS:
            if only and kind.name not in only:
                continue
            try:
                self.layers.append(kind.open(self.ground))
            except AbsentError as error:
                self.absent[kind.name] = str(error)

    def pick(self, full: Sequence[Any], quick: Sequence[Any]) -> Sequence[Any]:
        """The points of a full run, or of a quick one."""
        return quick if self.quick else full

    def subjects(self, operation: str, *arguments: object) -> Subjects:
        """What the layers have of an operation."""
        return {layer.name: subject for layer in self.layers if (subject := self._subject(layer, operation, arguments))}

    def _subject(self, layer: Layer, operation: str, arguments: tuple[object, ...]) -> Subject | None:
        if getattr(type(layer), operation) is Layer._absent:
            return None
        try:
            subject: Subject = getattr(layer, operation)(*arguments)
            return subject
        except AbsentError as error:
            self.missing[self._at, layer.name] = str(error)
        except Exception as error:
            if layer.ours:
                raise
            self.missing[self._at, layer.name] = f"{type(error).__name__}: {error}"  # another package's trouble
        return None

    def plain(self, operation: str, *arguments: object) -> Callable[[], AbstractContextManager[Subjects]]:
        """The setup of a point that is one operation of the layers."""

        @contextmanager
        def setup() -> Iterator[Subjects]:
            yield self.subjects(operation, *arguments)

        return setup

    @contextmanager
    def beside(self, idle: int) -> Iterator[None]:
        """Have idle blocking queues, and idle streams of the layers that use none of these.

        Raises
        ------
        AbsentError
            When there cannot be so many.
        """
        with ExitStack() as stack:
            try:
                queues = [self.device.queue() for _ in range(idle)]
                for layer in self.layers:
                    stack.enter_context(layer.idle(idle))
            except Exception as error:
                raise AbsentError(f"{idle} streams cannot be had: {error}") from error
            yield
            del queues
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
                    with point.setup() as subjects:
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
        names, order = [point.name for point in points], [kind.name for kind in LAYERS]
        return sorted(rows.values(), key=lambda row: (names.index(row.point), order.index(row.layer)))

    def turns(self, case: Case) -> int:
        """How often `run` will advance."""
        return len(case.points(self)) * case.sweeps


__all__ = ["Bench", "Case", "Point", "Row", "Subjects", "layers"]
