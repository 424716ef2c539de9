"""The picture of a run of `examples.photo`: the input, the output, and the
timeline of the queues.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from forebay import Queue

from .trace import Arrow, Bar, Trace

if TYPE_CHECKING:
    from .photo import EdgeFinder

INK, FAINT, PAPER = "#1f2430", "#8a91a0", "#ffffff"
# Colour-blind readers can tell these apart; from Paul Tol's schemes.
COLOURS = {
    "upload": "#77aadd",
    "blur": "#44bb99",
    "edges": "#e8cf6a",
    "histogram": "#ee8866",
    "download": "#aa88bb",
    "sum": "#555d6e",
}
HELD, PASSED = "#c0182a", "#b9bec9"
LEGEND = {
    "handlelength": 1.2,
    "columnspacing": 1.6,
    "borderaxespad": 0.2,
    "borderpad": 0.2,
}
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "legend.frameon": False,
}


def draw(
    output: Path,
    photo: np.ndarray,
    finder: EdgeFinder,
    steepest: float,
    trace: Trace,
) -> None:
    """Write the picture of an `EdgeFinder`'s last run, which `trace` has
    recorded.
    """
    bars, arrows = trace.bars, trace.arrows
    with mpl.rc_context(STYLE):
        rows = len(finder.queues) + 1
        figure = Figure(figsize=(12, 5.5 + 0.5 * rows), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
        above, below = figure.subfigures(
            2, 1, height_ratios=[4.1, 1.4 + 0.5 * rows]
        )
        photo_axes, edges_axes, counts_axes = above.subplots(
            1, 3, width_ratios=[1, 1, 1.05]
        )
        draw_photo(photo_axes, photo, finder)
        draw_edges(edges_axes, finder)
        draw_histogram(counts_axes, finder.histogram, steepest)
        draw_timeline(below.subplots(), finder, bars, arrows)
        figure.savefig(output, dpi=100)


def draw_photo(axes: Axes, photo: np.ndarray, finder: EdgeFinder) -> None:
    """The photograph under the grid of its tiles."""
    axes.imshow(photo)
    for row in finder.grid[1:]:
        axes.axhline(row[0].top - 0.5, color=PAPER, linewidth=0.8)
    for tile in finder.grid[0][1:]:
        axes.axvline(tile.left - 0.5, color=PAPER, linewidth=0.8)
    for tile in (tile for row in finder.grid for tile in row):
        label = str(finder.queues.index(tile.queue) + 1)
        box = {
            "boxstyle": "round,pad=0.2",
            "facecolor": INK,
            "edgecolor": "none",
            "alpha": 0.6,
        }
        offset = {
            "xytext": (5, -5),
            "textcoords": "offset points",
            "va": "top",
            "ha": "left",
        }
        axes.annotate(
            label,
            (tile.left, tile.top),
            color=PAPER,
            fontsize=8,
            fontweight="bold",
            bbox=box,
            **offset,
        )
    axes.set_axis_off()
    axes.set_title("in: a photograph, and the queue of each tile")


def draw_edges(axes: Axes, finder: EdgeFinder) -> None:
    """The edges, dark on white."""
    axes.imshow(
        finder.result,
        cmap="gray_r",
        vmin=0,
        vmax=float(np.quantile(finder.result, 0.995)),
    )
    axes.set_axis_off()
    axes.set_title("out: blurred, then its edges")


def draw_histogram(axes: Axes, histogram: np.ndarray, steepest: float) -> None:
    """How steep the pixels are."""
    limits = np.linspace(0, steepest, len(histogram) + 1)
    axes.stairs(histogram, limits, fill=True, color=COLOURS["histogram"])
    axes.set_yscale("log")
    axes.set_xlim(0, steepest)
    axes.set_xlabel("change of brightness per pixel")
    axes.set_ylabel("pixels")
    axes.set_title("the null queue's sum of all tiles' histograms")


def draw_timeline(
    axes: Axes, finder: EdgeFinder, bars: list[Bar], arrows: list[Arrow]
) -> None:
    """One row per queue over time. The arrows are the waits between queues that
    were really made.
    """
    queues = [*finder.queues, finder.device.null_queue]
    row = {queue: i for i, queue in enumerate(queues)}
    height = 0.62
    for bar in bars:
        colour = COLOURS[bar.stage]
        # makes stages of a few microseconds visible
        outline = 1 if bar.queue is queues[-1] else 0
        axes.barh(
            row[bar.queue],
            bar.end - bar.begin,
            height,
            bar.begin,
            color=colour,
            linewidth=outline,
            edgecolor=colour,
        )
    end = max(bar.end for bar in bars)
    for arrow in arrows:
        draw_arrow(axes, arrow, row, height)
    axes.set_xlim(-0.005 * end, 1.005 * end)
    axes.set_ylim(len(queues) - 0.5, -0.6)
    axes.set_yticks(
        range(len(queues)),
        [*(f"queue {i + 1}" for i in range(len(queues) - 1)), "null queue"],
    )
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(
        "ms   (a bar ends when its queue is past that stage: later, while "
        "other queues have the device)"
    )
    info = finder.device.info
    axes.set_title(
        f"the queues of {info.description} ({info.platform})", pad=30
    )
    first = min(bar.begin for bar in bars if bar.queue is queues[-1])
    axes.text(
        first - 0.005 * end,
        len(queues) - 1,
        "sum ",
        color=COLOURS["sum"],
        ha="right",
        va="center",
    )
    handles = [
        Patch(color=colour, label=stage) for stage, colour in COLOURS.items()
    ]
    handles += [
        Line2D(
            [], [], color=HELD, linewidth=1.2, label="wait that held a queue"
        ),
        Line2D([], [], color=PASSED, linewidth=1.2, label="wait already over"),
    ]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(handles),
        **LEGEND,
    )


def draw_arrow(
    axes: Axes, arrow: Arrow, row: dict[Queue, int], height: float
) -> None:
    """From the producer's row, when it got there, to the consumer's, when that
    went on.
    """
    start, stop = row[arrow.producer], row[arrow.consumer]
    half = height / 2 if stop > start else -height / 2
    colour = HELD if arrow.held else PASSED
    axes.annotate(
        "",
        xy=(arrow.end, stop - half),
        xytext=(arrow.begin, start + half),
        arrowprops={
            "arrowstyle": "-|>,head_width=0.12,head_length=0.25",
            "color": colour,
            "linewidth": 0.9 if arrow.held else 0.6,
        },
        zorder=4 if arrow.held else 3,
    )
