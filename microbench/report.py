"""What was measured, with the machine, the driver and the versions: as JSON, as CSV, and as tables."""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import forebay as fb
from forebay.selftest import machine

from . import statistics
from .bench import Bench, Case, Row
from .layers.all import AGAIN, FLOOR

FORMAT = 1
PACKAGES = (
    "forebay", "pyopencl", "intel-opencl-rt", "dpctl", "numpy", "cupy-cuda13x", "cupy-cuda12x", "cuda-core", "torch",
)  # fmt: skip
HEADINGS = ("case", "point", "layer", "min", "median", "p10", "p90", "min/C", "median/C", "low", "high", "note")


@dataclass
class Report:
    """The rows of a run, and where it ran.

    Attributes
    ----------
    about : dict
        Machine, device, driver, versions and options.
    absent : dict
        Layers that were not there, and why.
    missing : dict
        By "case/point", what layers do not have, and why.
    cases : dict
        The title of each case, and the points that points of it are compared with.
    rows : list of Row
    """

    about: dict[str, Any]
    absent: dict[str, str] = field(default_factory=dict)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, bench: Bench, cases: Iterable[Case], rows: list[Row], seconds: float) -> Report:
        """The report of what a bench has measured."""
        info = bench.device.info
        missing: dict[str, dict[str, str]] = {}
        for (point, layer), reason in bench.missing.items():
            missing.setdefault(point, {})[layer] = reason
        about = {
            "format": FORMAT,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "machine": {"processor": machine.processor(), "cores": os.cpu_count(), "system": platform.platform()},
            "device": {"name": info.name, "description": info.description, "platform": info.platform},
            "driver": info.driver_version,
            "versions": {"compiler": platform.python_compiler()} | machine.versions(PACKAGES),
            "options": {"quick": bench.quick, "rounds": bench.rounds, "calls": bench.calls, "seconds": round(seconds)},
            "layers": {layer.name: layer.about for layer in bench.layers},
        }
        titles: dict[str, Any] = {}
        for case in cases:
            bases = {point.name: point.base for point in case.points(bench) if point.base}
            titles[case.name] = {"title": case.title, "bases": bases}
        return cls(about, bench.absent, missing, titles, rows)

    @classmethod
    def read(cls, path: Path) -> Report:
        """A report from its JSON.

        Raises
        ------
        ValueError
            When the file holds something else.
        """
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if known["about"]["format"] != FORMAT:
                raise ValueError(f"{path}: format {known['about']['format']}, and this forebay reads {FORMAT}")
            known["rows"] = [Row(**row) for row in known["rows"]]
            return cls(**known)
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no result of forebay bench: {error}") from error

    def to_json(self) -> str:
        """The report as JSON, a row in a line."""
        head = {name: getattr(self, name) for name in ("about", "absent", "missing", "cases")}
        text = json.dumps(head, indent=1, ensure_ascii=False)
        rows = ",\n".join("  " + json.dumps(asdict(row), ensure_ascii=False) for row in self.rows)
        return f'{text[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'

    @cached_property
    def by_id(self) -> dict[tuple[str, str, str], Row]:
        """The rows by case, point and layer."""
        return {(row.case, row.point, row.layer): row for row in self.rows}

    def floor(self, row: Row, again: bool = False) -> Row | None:
        """The C loop at the same point; None where there is none."""
        return self.by_id.get((row.case, row.point, AGAIN if again else FLOOR))

    def lines(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Each row with its numbers: microseconds, and ratios to the floor where there is one."""
        for row in self.rows:
            below = self.floor(row)
            found = statistics.summary(row.samples)
            numbers: dict[str, Any] = {
                "min": found.minimum, "median": found.median, "p10": found.p10, "p90": found.p90,
            }  # fmt: skip
            if below is not None:
                ratio = statistics.ratio(row.samples, below.samples)
                numbers |= {"min/C": ratio.minimum, "median/C": ratio.median, "low": ratio.low, "high": ratio.high}
            yield row, numbers

    def write_csv(self, file: TextIO) -> None:
        """Write the rows' numbers as CSV."""
        writer = csv.DictWriter(file, HEADINGS)
        writer.writeheader()
        for row, numbers in self.lines():
            shown = {name: f"{value:.4g}" for name, value in numbers.items()}
            writer.writerow({"case": row.case, "point": row.point, "layer": row.layer, "note": row.note, **shown})

    def growths(self) -> Iterator[tuple[Row, str, Any, Any]]:
        """Where a case has a base point: each row, that point, and how its ratio to the floor compares with that there,
        for the row and for the A/A pair (None where there is none).
        """
        for row in self.rows:
            base = self.cases[row.case]["bases"].get(row.point, "")
            before = self.by_id.get((row.case, base, row.layer))
            if before is None or row.layer in (FLOOR, AGAIN):
                continue
            below, below_before = self.floor(row), self.floor(before)
            if below is None or below_before is None:
                yield row, base, statistics.growth(row.samples, before.samples), None  # the same layer alone
                continue

            def grown(here: Row, there: Row, floors: tuple[Row, Row] = (below, below_before)) -> Any:
                ratios = [
                    statistics.per_round(a.samples, b.samples) for a, b in zip((here, there), floors, strict=True)
                ]
                return statistics.growth(*ratios)

            again, again_before = self.floor(row, again=True), self.floor(before, again=True)
            noise = grown(again, again_before) if again is not None and again_before is not None else None
            yield row, base, grown(row, before), noise


def show(report: Report, console: Any) -> None:
    """Print the report as tables."""
    from rich.markup import escape
    from rich.table import Table

    lines = list(report.lines())
    for name, case in report.cases.items():
        table = Table(title=f"{name}: {case['title']}", title_justify="left", title_style="bold")
        table.add_column("point", no_wrap=True)
        table.add_column("layer", no_wrap=True)
        for heading in ("µs min", "median", "p10–p90", "÷ C: min", "median", "95 %"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("note")
        last = ""
        for row, numbers in lines:
            if row.case != name:
                continue
            cells = [f"{numbers['min']:.3f}", f"{numbers['median']:.3f}", f"{numbers['p10']:.3f}–{numbers['p90']:.3f}"]
            if "min/C" in numbers:
                cells += [f"{numbers['min/C']:.3f}", f"{numbers['median/C']:.3f}"]
                cells += [f"{numbers['low']:.3f}–{numbers['high']:.3f}"]
            else:
                cells += ["", "", ""]
            if row.point != last and last:
                table.add_section()
            table.add_row(escape(row.point) if row.point != last else "", row.layer, *cells, escape(row.note))
            last = row.point
        console.print(table)
    grown = list(report.growths())
    if grown:
        table = Table(title="Beside others ÷ beside none, each ÷ C at its own point", title_justify="left")
        for heading in ("point", "layer", "median", "95 %", "A/A 95 %"):
            table.add_column(heading, no_wrap=True, justify="left" if heading in ("point", "layer") else "right")
        for row, _, ratio, noise in grown:
            table.add_row(
                f"{row.case}/{escape(row.point)}",
                row.layer,
                f"{ratio.median:.3f}",
                f"{ratio.low:.3f}–{ratio.high:.3f}",
                f"{noise.low:.3f}–{noise.high:.3f}" if noise else "",
            )
        console.print(table)
    for layer, reason in report.absent.items():
        console.print(f"not there: {layer}: {escape(reason)}")


def device_line(device: fb.Device) -> str:
    """The device in one line."""
    return f"device: {device.name}  {device.info.platform} · {device.info.description}"
