"""Says what changed beyond noise between two results.

A row is compared by its ratio to the C loop of the same rounds, so that a faster machine or a busier hour does not
show; by its microseconds where there is no C loop. It has changed when the samples differ (Mann-Whitney, with the false
discoveries of all rows held to one in a hundred), and when the medians differ by more than the A/A pairs of both do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .bench import Row
from .report import Report
from .statistics import per_round

DISCOVERIES = 0.01
LEAST, LEAST_ALONE = 0.02, 0.1
"""A smaller change is none, however sure: with a C loop, and for a row without one, which the machine's state moves."""


@dataclass(frozen=True)
class Change:
    """One row in both results: the ratio of the new median to the old one, and how far the A/A pairs were apart."""

    row: Row
    ratio: float
    noise: float
    p_value: float


def _values(report: Report, row: Row) -> Any:
    below = report.floor(row)
    return np.asarray(row.samples) if below is None or below is row else per_round(row.samples, below.samples)


def _noise(report: Report, row: Row) -> float:
    """How far the A/A pair of the row's point is apart; without one, half the width of its samples' middle half."""
    again, below = report.floor(row, again=True), report.floor(row)
    if again is None or below is None:
        samples = np.asarray(row.samples)
        return float(np.subtract(*np.quantile(samples, [0.75, 0.25])) / np.median(samples) / 2)
    return float(abs(np.median(per_round(again.samples, below.samples)) - 1))


def changes(old: Report, new: Report) -> list[Change]:
    """The rows that changed beyond noise, the slowest first."""
    from scipy import stats  # late, because it takes a second

    pairs = [(old.by_id[key], row) for key, row in new.by_id.items() if key in old.by_id and row is not new.floor(row)]
    pairs = [(before, now) for before, now in pairs if min(len(before.samples), len(now.samples)) > 1]
    if not pairs:
        return []
    found: list[tuple[Row, float, float, float]] = []
    for before, now in pairs:
        old_values, new_values = _values(old, before), _values(new, now)
        p_value = stats.mannwhitneyu(old_values, new_values).pvalue
        least = LEAST if new.floor(now) else LEAST_ALONE
        noise = max(_noise(old, before), _noise(new, now), least)
        found.append((now, float(np.median(new_values) / np.median(old_values)), noise, float(p_value)))
    adjusted = stats.false_discovery_control([p_value for *_, p_value in found])
    all_of_them = [
        Change(row, ratio, noise, float(p)) for (row, ratio, noise, _), p in zip(found, adjusted, strict=True)
    ]
    changed = [each for each in all_of_them if each.p_value < DISCOVERIES and abs(each.ratio - 1) > each.noise]
    return sorted(changed, key=lambda each: -each.ratio)


def show(old: Report, new: Report, console: Any) -> int:
    """Print what changed, and what only one of the results has; return how many rows are slower."""
    from rich.markup import escape
    from rich.table import Table

    for name in ("machine", "device", "driver", "versions"):
        before, now = old.about[name], new.about[name]
        if before != now:
            console.print(f"{name}: {escape(str(before))} -> {escape(str(now))}")
    found = changes(old, new)
    if found:
        table = Table(title="Changed beyond noise; each ÷ its own C loop where there is one", title_justify="left")
        for heading in ("point", "layer", "new ÷ old", "noise", "p"):
            table.add_column(heading, no_wrap=True, justify="left" if heading in ("point", "layer") else "right")
        for each in found:
            colour = "red" if each.ratio > 1 else "green"
            cells = f"[{colour}]{each.ratio:.3f}[/]", f"±{each.noise:.3f}", f"{each.p_value:.1e}"
            table.add_row(f"{each.row.case}/{escape(each.row.point)}", each.row.layer, *cells)
        console.print(table)
    same = len(old.by_id.keys() & new.by_id.keys())
    console.print(f"{len(found)} of {same} rows changed beyond noise")
    for title, one, other in (("only in the old", old, new), ("only in the new", new, old)):
        if apart := sorted(
            {f"{case}/{point} · {layer}" for case, point, layer in one.by_id.keys() - other.by_id.keys()}
        ):
            console.print(f"{title}: {escape(', '.join(apart))}")
    return sum(each.ratio > 1 for each in found)
