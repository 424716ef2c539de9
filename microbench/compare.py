"""Says what changed beyond noise between two results.

A row is compared by its ratio to the C loop of the same rounds, so that a faster machine or a busier hour does not
show; by its microseconds where there is no C loop. It has changed when the samples differ (Mann-Whitney, with the false
discoveries of all rows held to one in a hundred), and when the medians differ by more than the A/A pairs of both do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape

from .harness import Row
from .report import Report, per_round, table

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


def show(old: Report, new: Report, console: Console) -> int:
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
