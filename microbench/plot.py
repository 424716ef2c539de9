"""Pictures of a result: latency against the number of queues, distributions by layer, graphs against their length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from .harness import Row
from .layers import LAYERS
from .report import Report

matplotlib.use("Agg")

MARKERS = "os^vD<>phX*P8dH"
TABLE: Any = matplotlib.colormaps["tab20"]
COLOURS = [*TABLE.colors[::2], *TABLE.colors[1::2]]  # the ten dark ones first
NAMES = list(LAYERS)
PANELS = {
    "queues": [
        ("idle", r"null, (\d+) idle", "idle blocking streams (left: none)", "µs a launch on the null stream"),
        ("busy", r"(\d+) busy", "busy blocking queues, no new work (left: none)", "µs a launch on the null stream"),
    ],
    "graphs": [
        ("graph", r"(\d+) launches, 0 changed", "launches in it, nothing changed", "µs a replay"),
        ("graph", r"(\d+) launches, \1 changed", "launches in it, all changed", "µs a replay"),
    ],
    "steps": [
        ("step", rf"(\d+) launches, {what} changed", f"launches in it, {what} changed", "µs a stretch")
        for what in ("nothing", "1 scalar")
    ],
}
"""Of each picture the panels: a case, a pattern that finds a number in its points, and what the axes are called."""


def style(layer: str) -> dict[str, Any]:
    """The same colour and marker for a layer in every picture."""
    index = NAMES.index(layer) if layer in NAMES else len(NAMES)
    return {"color": COLOURS[index], "marker": MARKERS[index], "markersize": 4, "linewidth": 1.2}


def rows_of(report: Report, case: str, pattern: str) -> dict[str, list[tuple[int, Row]]]:
    """By layer, the rows of a case whose point matches, with the number that the pattern finds, in its order."""
    found: dict[str, list[tuple[int, Row]]] = {}
    for row in report.rows:
        if row.case == case and (match := re.fullmatch(pattern, row.point)):
            found.setdefault(row.layer, []).append((int(match[1]), row))
    return {layer: sorted(points, key=lambda point: point[0]) for layer, points in found.items()}


def lines(axes: Axes, rows: dict[str, list[tuple[int, Row]]], base: int) -> None:
    """One line a layer: the median, and the tenth to the ninetieth of a hundred rounds around it."""
    for layer, points in rows.items():
        at = [count or 0.5 for count, _ in points]
        low, median, high = np.array([np.quantile(row.samples, [0.1, 0.5, 0.9]) for _, row in points]).T
        axes.plot(at, median, label=layer, **style(layer))
        axes.fill_between(at, low, high, color=style(layer)["color"], alpha=0.12, linewidth=0)
    axes.set_xscale("log", base=base)
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both", linewidth=0.4)
    low, high = axes.get_ylim()
    if high / low < 10:  # or the noise would fill the picture
        axes.set_ylim(low / 2, high * 2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if high / low < 10 and f"{value:e}"[0] in "235" else "")
    )


def panels(report: Report, name: str) -> Figure | None:
    """A picture of `PANELS`, as far as the result has the rows of its panels."""
    wanted = [(rows_of(report, case, pattern), label, unit) for case, pattern, label, unit in PANELS[name]]
    drawn = [panel for panel in wanted if panel[0]]
    if not drawn:
        return None
    figure = Figure(figsize=(5.2 * len(drawn), 4), layout="constrained")
    panes = figure.subplots(1, len(drawn), squeeze=False, sharey=True)[0]
    for axes, (rows, label, unit) in zip(panes, drawn, strict=True):
        lines(axes, rows, 2 if name == "queues" else 10)
        axes.set_xlabel(label)
        axes.set_ylabel(unit)
    known = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=8, fontsize="x-small")
    return figure


def distribution(report: Report) -> Figure | None:
    """The samples of one launch with the same arguments, by layer, without the slowest twentieth."""
    rows = [row for row in report.rows if (row.case, row.point) == ("launch", "same")]
    if not rows:
        return None
    figure = Figure(figsize=(0.9 * len(rows) + 1, 4), layout="constrained")
    axes = figure.subplots()
    values = [np.log10(sorted(row.samples)[: max(len(row.samples) * 19 // 20, 2)]) for row in rows]
    drawn: Any = axes.violinplot(values, showextrema=False, widths=0.8)
    for body, row in zip(drawn["bodies"], rows, strict=True):
        body.set_facecolor(style(row.layer)["color"])
    axes.scatter(range(1, len(rows) + 1), [np.median(each) for each in values], color="black", marker="_")
    axes.set_xticks(range(1, len(rows) + 1), [row.layer.replace(" ", "\n") for row in rows], fontsize="small")
    low, high = axes.get_ylim()
    steps = [value for power in range(-3, 5) for value in (10.0**power * digit for digit in (1, 2, 5))]
    ticks = [value for value in steps if low <= np.log10(value) <= high]
    axes.set_yticks(np.log10(ticks), [f"{value:g}" for value in ticks])
    axes.set_ylabel("µs a launch, slowest 5 % left out")
    axes.grid(axis="y", alpha=0.3, linewidth=0.4)
    return figure


def draw(report: Report, folder: Path, prefix: str) -> Iterator[Path]:
    """Draw every picture that the result has the rows of, as PNG and SVG; give the files' paths.

    The folder is made if it is not there. The files' names begin with the prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("queues", "distribution", "graphs", "steps"):
        figure = distribution(report) if name == "distribution" else panels(report, name)
        if figure is None:
            continue
        about = report.about["device"]
        figure.suptitle(f"{about['platform']} · {about['description']}", fontsize="small")
        for suffix in (".png", ".svg"):
            path = folder / f"{prefix}{name}{suffix}"
            figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == ".svg" else None)
            yield path
