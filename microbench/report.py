"""What was measured, with the machine, the driver and the versions: as JSON, and as tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from forebay.selftest import machine

from .harness import Bench, Case, Row
from .layers import AGAIN, FLOOR

FORMAT = 1
PACKAGES = (
    "forebay", "pyopencl", "intel-opencl-rt", "numpy", "cupy-cuda13x", "cupy-cuda12x", "cuda-core", "torch",
)  # fmt: skip
CONFIDENCE, RESAMPLES = 0.95, 999


class Interval(NamedTuple):
    """A ratio of medians, and its interval."""

    median: float
    low: float
    high: float

    @property
    def range(self) -> str:
        """The interval in a cell."""
        return f"{self.low:.3f}–{self.high:.3f}"


def _of_medians(above: Any, below: Any, axis: int = -1) -> Any:
    return np.median(above, axis=axis) / np.median(below, axis=axis)


def ratio(above: Any, below: Any, paired: bool = True) -> Interval:
    """The ratio of medians to other samples, and its interval by SciPy's bootstrap.

    They are of the same rounds if they are `paired`: disturbances affect both. For two runs of the same thing the
    interval is the A/A interval.
    """
    found = float(_of_medians(above, below))
    if len(above) < 2 or above is below:
        return Interval(found, found, found)
    from scipy import stats  # late, because it takes a second

    resampled = stats.bootstrap(
        (above, below),
        _of_medians,
        paired=paired,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    return Interval(found, float(resampled.low), float(resampled.high))


def per_round(above: Row, below: Row) -> Any:
    """The ratio of each round: what disturbs a round disturbs both."""
    return np.asarray(above.samples) / np.asarray(below.samples)


@dataclass
class Report:
    """The rows of a run, and where it ran."""

    about: dict[str, Any]  # machine, device, driver, versions and options
    absent: dict[str, str]  # layers that were not there, and why
    missing: dict[str, dict[str, str]]  # by "case/point", what layers do not have, and why
    cases: dict[str, dict[str, Any]]  # the title of each case, and the points that points of it are compared with
    rows: list[Row]

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
        bases = {case.name: {point.name: point.base for point in case.points(bench) if point.base} for case in cases}
        titles = {case.name: {"title": case.title, "bases": bases[case.name]} for case in cases}
        return cls(about, bench.absent, missing, titles, rows)

    @classmethod
    def read(cls, path: Path) -> Report:
        """A report from its JSON. Raises ValueError when the file holds something else."""
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

    def lines(self) -> Iterator[tuple[Row, dict[str, float]]]:
        """Each row with its numbers: microseconds, and ratios to the floor where there is one."""
        for row in self.rows:
            p10, median, p90 = map(float, np.quantile(row.samples, [0.1, 0.5, 0.9]))
            numbers = {"min": min(row.samples), "median": median, "p10": p10, "p90": p90}
            below = self.floor(row)
            if below is not None:
                found = ratio(row.samples, below.samples)
                numbers |= {"min/C": min(row.samples) / min(below.samples), "median/C": found.median}
                numbers |= {"low": found.low, "high": found.high}
            yield row, numbers

    def growths(self) -> Iterator[tuple[Row, Interval, Interval | None]]:
        """Where a case has a base point: each row, and how its ratio to the floor compares with that there, for the row
        and for the A/A pair (None where there is none).
        """
        for row in self.rows:
            before = self.by_id.get((row.case, self.cases[row.case]["bases"].get(row.point, ""), row.layer))
            if before is None or row.layer in (FLOOR, AGAIN):
                continue
            below, below_before = self.floor(row), self.floor(before)
            if below is None or below_before is None:
                yield row, ratio(row.samples, before.samples, paired=False), None  # the same layer alone
                continue
            again, again_before = self.floor(row, again=True), self.floor(before, again=True)
            noise = None
            if again is not None and again_before is not None:
                noise = ratio(per_round(again, below), per_round(again_before, below_before), paired=False)
            yield row, ratio(per_round(row, below), per_round(before, below_before), paired=False), noise


def table(title: str, left: Sequence[str], right: Sequence[str], last: Sequence[str] = ()) -> Table:
    """A table with headings of columns that are aligned to the left, to the right, and of a last one that may wrap."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for heading in left:
        made.add_column(heading, no_wrap=True)
    for heading in right:
        made.add_column(heading, justify="right", no_wrap=True)
    for heading in last:
        made.add_column(heading)
    return made


def show(report: Report, console: Console) -> None:
    """Print the report as tables."""
    lines = list(report.lines())
    for name, case in report.cases.items():
        headings = ("µs min", "median", "p10–p90", "÷ C: min", "median", "95 %")
        shown, last = table(f"{name}: {case['title']}", ("point", "layer"), headings, ("note",)), ""
        for row, numbers in ((row, numbers) for row, numbers in lines if row.case == name):
            texts = ["{min:.3f}", "{median:.3f}", "{p10:.3f}–{p90:.3f}"]
            compared = ["{min/C:.3f}", "{median/C:.3f}", "{low:.3f}–{high:.3f}"]
            cells = [text.format_map(numbers) for text in texts + (compared if "low" in numbers else [""] * 3)]
            if row.point != last and last:
                shown.add_section()
            shown.add_row(escape(row.point) if row.point != last else "", row.layer, *cells, escape(row.note))
            last = row.point
        console.print(shown)
    grown = list(report.growths())
    if grown:
        title = "Beside others ÷ beside none, each ÷ C at its own point"
        shown = table(title, ("point", "layer"), ("median", "95 %", "A/A 95 %"))
        for row, found, noise in grown:
            cells = [f"{found.median:.3f}", found.range, noise.range if noise else ""]
            shown.add_row(f"{row.case}/{escape(row.point)}", row.layer, *cells)
        console.print(shown)
    for layer, reason in report.absent.items():
        console.print(f"not there: {layer}: {escape(reason)}")


# -- what changed beyond noise between two results
#
# A row is compared by its ratio to the C loop of the same rounds, so that a faster machine or a busier hour does not
# show; by its microseconds where there is no C loop. It has changed when the samples differ (Mann-Whitney, with the
# false discoveries of all rows held to one in a hundred), and when the medians differ by more than the A/A pairs do.

DISCOVERIES = 0.01
LEAST, LEAST_ALONE = 0.02, 0.1
"""A smaller change is none, however sure: with a C loop, and for a row without one, which the machine's state moves."""


class Change(NamedTuple):
    """One row in both results: the ratio of the new median to the old one, and how far the A/A pairs were apart."""

    row: Row
    ratio: float
    noise: float
    p_value: float


def _values(report: Report, row: Row) -> Any:
    below = report.floor(row)
    return np.asarray(row.samples) if below is None or below is row else per_round(row, below)


def _noise(report: Report, row: Row) -> float:
    """How far the A/A pair of the row's point is apart; without one, half the width of its samples' middle half."""
    again, below = report.floor(row, again=True), report.floor(row)
    if again is None or below is None:
        low, median, high = np.quantile(row.samples, [0.25, 0.5, 0.75])
        return float((high - low) / median / 2)
    return float(abs(np.median(per_round(again, below)) - 1))


def changes(old: Report, new: Report) -> list[Change]:
    """The rows that changed beyond noise, the slowest first."""
    from scipy import stats  # late, because it takes a second

    pairs = [(old.by_id[key], row) for key, row in new.by_id.items() if key in old.by_id and row is not new.floor(row)]
    found = []
    for before, now in pairs:
        if min(len(before.samples), len(now.samples)) > 1:
            old_values, new_values = _values(old, before), _values(new, now)
            p_value = float(stats.mannwhitneyu(old_values, new_values).pvalue)
            noise = max(_noise(old, before), _noise(new, now), LEAST if new.floor(now) else LEAST_ALONE)
            found.append(Change(now, float(np.median(new_values) / np.median(old_values)), noise, p_value))
    if not found:
        return []
    adjusted = stats.false_discovery_control([each.p_value for each in found])
    found = [each._replace(p_value=float(p_value)) for each, p_value in zip(found, adjusted, strict=True)]
    changed = [each for each in found if each.p_value < DISCOVERIES and abs(each.ratio - 1) > each.noise]
    return sorted(changed, key=lambda each: -each.ratio)


def show_changes(old: Report, new: Report, console: Console) -> int:
    """Print what changed, and what only one of the results has; return how many rows are slower."""
    for name in ("machine", "device", "driver", "versions"):
        before, now = old.about[name], new.about[name]
        if before != now:
            console.print(f"{name}: {escape(str(before))} -> {escape(str(now))}")
    found = changes(old, new)
    if found:
        title = "Changed beyond noise; each ÷ its own C loop where there is one"
        shown = table(title, ("point", "layer"), ("new ÷ old", "noise", "p"))
        for row, ratio, noise, p_value in found:
            cells = f"[{'red' if ratio > 1 else 'green'}]{ratio:.3f}[/]", f"±{noise:.3f}", f"{p_value:.1e}"
            shown.add_row(f"{row.case}/{escape(row.point)}", row.layer, *cells)
        console.print(shown)
    same = len(old.by_id.keys() & new.by_id.keys())
    console.print(f"{len(found)} of {same} rows changed beyond noise")
    for title, one, other in (("only in the old", old, new), ("only in the new", new, old)):
        apart = {f"{case}/{point} · {layer}" for case, point, layer in one.by_id.keys() - other.by_id.keys()}
        if apart:
            console.print(f"{title}: {escape(', '.join(sorted(apart)))}")
    return sum(each.ratio > 1 for each in found)
