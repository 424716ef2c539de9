"""Find the edges of a photograph, tile by tile, on several queues at once.

Run it by ``python -m examples.photo``.

Each tile goes through upload, blur, edges, histogram and download on one of the
queues. The edges at a tile's border need what its neighbours have blurred, so a
queue waits for events of the others there; the null queue comes after them all
and adds up their histograms. The result is compared with what SciPy computes on
the host.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import skimage
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from scipy import ndimage

import forebay as fb

from .trace import Trace

KERNELS = Path(__file__).with_suffix(".cl")
BLOCK = (16, 16)
BINS = 128
STEEPEST = 0.16  # the end of the last bin; steeper pixels count in it too
SIGMA = 2.5
RADIUS = round(4 * SIGMA)  # SciPy cuts the bell off at the same place
TOLERANCE = 1e-5  # of float32 against float64, for numbers up to about 1


def photograph() -> np.ndarray:
    """Eileen Collins, photographed by NASA (public domain): height × width × 3
    bytes. In scikit-image's own package.
    """
    return skimage.data.astronaut()


def gaussian() -> np.ndarray:
    """The weights of the blur: a bell, cut off at RADIUS."""
    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    return (weights / weights.sum()).astype("f4")


def cover(width: int, height: int) -> tuple[int, int]:
    """The grid of groups that has a work-item for every pixel."""
    return -(-width // BLOCK[0]), -(-height // BLOCK[1])


@dataclass(eq=False)
class Tile:
    """A part of the picture: where it is, the queue that works on it, and its
    memory on both sides.
    """

    index: int
    left: int
    top: int
    width: int
    height: int
    queue: fb.Queue
    source: np.ndarray  # pinned, with halo
    rgb: fb.Buffer
    grey: fb.Buffer
    edges: fb.Buffer
    histogram: fb.Buffer
    result: np.ndarray  # pinned
    neighbours: list[Tile] = field(default_factory=list)
    blurred: fb.Event | None = None


class EdgeFinder:
    """Processes photographs of one size on a device. Every `submit` uses the
    same memory and kernels.
    """

    def __init__(
        self, device: fb.Device, photo: np.ndarray, tiles: int, queues: int
    ):
        self.device = device
        self.rows, self.columns = photo.shape[:2]
        self.program = device.program(KERNELS.read_text())
        self.queues = [device.queue() for _ in range(queues)]
        self.weights = device.array(gaussian())
        self.blurred = device.empty((self.rows, self.columns))
        self.histograms = device.empty((tiles * tiles, BINS), "u4")
        self.total = device.empty(BINS, "u4")
        self.histogram = fb.host_empty(BINS, "u4", device)
        self.grid = self._cut(tiles)
        self.load(photo)
        device.finish()

    def load(self, photo: np.ndarray) -> None:
        """Take another photograph, once the device is finished. The halo beyond
        the picture repeats its border.
        """
        framed = np.pad(
            photo, [(RADIUS, RADIUS), (RADIUS, RADIUS), (0, 0)], mode="edge"
        )
        for tile in (tile for row in self.grid for tile in row):
            rows, columns = tile.source.shape[:2]
            tile.source[...] = framed[
                tile.top : tile.top + rows, tile.left : tile.left + columns
            ]

    def _cut(self, tiles: int) -> list[list[Tile]]:
        """Rows of tiles, handed to the queues in turn."""
        tops = np.linspace(0, self.rows, tiles + 1, dtype=int)
        lefts = np.linspace(0, self.columns, tiles + 1, dtype=int)
        grid: list[list[Tile]] = []
        for i in range(tiles):
            grid.append([])
            for j in range(tiles):
                top, left = int(tops[i]), int(lefts[j])
                height, width = int(tops[i + 1]) - top, int(lefts[j + 1]) - left
                index = i * tiles + j
                source = fb.host_empty(
                    (height + 2 * RADIUS, width + 2 * RADIUS, 3),
                    "u1",
                    self.device,
                )
                tile = Tile(
                    index,
                    left,
                    top,
                    width,
                    height,
                    queue=self.queues[index % len(self.queues)],
                    source=source,
                    rgb=self.device.empty(source.shape, "u1"),
                    grey=self.device.empty((height + 2 * RADIUS, width)),
                    edges=self.device.empty((height, width)),
                    histogram=self.histograms[index],
                    result=fb.host_empty((height, width), "f4", self.device),
                )
                grid[-1].append(tile)
        for i, row in enumerate(grid):
            for j, tile in enumerate(row):
                around = [
                    other
                    for near in grid[max(i - 1, 0) : i + 2]
                    for other in near[max(j - 1, 0) : j + 2]
                ]
                tile.neighbours = [
                    other for other in around if other is not tile
                ]
        return grid

    def submit(self, trace: Trace | None = None) -> None:
        """Submit everything, without waiting. The edges of a row of tiles
        follow the blur of the next row.
        """
        for i, row in enumerate(self.grid):
            for tile in row:
                self._blur(tile, trace)
            if i > 0:
                for tile in self.grid[i - 1]:
                    self._find_edges(tile, trace)
        for tile in self.grid[-1]:
            self._find_edges(tile, trace)
        self._add_up(trace)

    def _blur(self, tile: Tile, trace: Trace | None) -> None:
        queue, size = tile.queue, (tile.width, tile.height)
        with stage(trace, queue, "upload", tile):
            queue.copy(tile.rgb, tile.source)
        with stage(trace, queue, "blur", tile):
            along_rows = self.program["blur_rows"]
            along_columns = self.program["blur_columns"]
            bell = self.weights, RADIUS
            place = tile.left, tile.top, self.columns
            with_halo = cover(tile.width, tile.height + 2 * RADIUS)
            queue.launch(
                along_rows, with_halo, BLOCK, tile.rgb, tile.grey, *bell, *size
            )
            queue.launch(
                along_columns,
                cover(*size),
                BLOCK,
                tile.grey,
                self.blurred,
                *bell,
                *size,
                *place,
            )
        tile.blurred = trace.end_of(queue) if trace else queue.record()

    def _find_edges(self, tile: Tile, trace: Trace | None) -> None:
        queue, size = tile.queue, (tile.width, tile.height)
        for neighbour in tile.neighbours:
            if trace:
                trace.wait(queue, neighbour.queue, neighbour.blurred)
            else:
                queue.wait(neighbour.blurred)
        with stage(trace, queue, "edges", tile):
            place = (tile.left, tile.top, self.columns, self.rows)
            queue.launch(
                self.program["find_edges"],
                cover(*size),
                BLOCK,
                self.blurred,
                tile.edges,
                *size,
                *place,
            )
        with stage(trace, queue, "histogram", tile):
            queue.fill(tile.histogram, 0)
            args = (
                tile.edges,
                tile.histogram,
                fb.local(4 * BINS),
                tile.edges.size,
                BINS,
                BINS / STEEPEST,
            )
            queue.launch(self.program["count"], 8, 128, *args)
        with stage(trace, queue, "download", tile):
            queue.copy(tile.result, tile.edges)

    def _add_up(self, trace: Trace | None) -> None:
        """Needs no event and no wait: by HIP's rule the null queue runs after
        all commands of the blocking queues.
        """
        queue = self.device.null_queue
        with stage(trace, queue, "sum"):
            queue.launch(
                self.program["add_up"],
                1,
                BINS,
                self.histograms,
                self.total,
                len(self.histograms),
            )
        with stage(trace, queue, "download"):
            queue.copy(self.histogram, self.total)

    @property
    def result(self) -> np.ndarray:
        """The downloaded tiles, put together."""
        return np.block([[tile.result for tile in row] for row in self.grid])


def stage(
    trace: Trace | None, queue: fb.Queue, name: str, tile: Tile | None = None
):
    """Around the commands of one stage; times it when there is a trace."""
    return (
        trace.stage(queue, name, tile.index if tile else None)
        if trace
        else nullcontext()
    )


def largest_error(photo: np.ndarray, edges: np.ndarray) -> float:
    """The largest difference from SciPy's result in double precision."""
    grey = skimage.color.rgb2gray(photo)
    blurred = ndimage.gaussian_filter(
        grey, SIGMA, mode="nearest", radius=RADIUS
    )
    across, down = (
        ndimage.sobel(blurred, axis, mode="nearest") / 8 for axis in (1, 0)
    )
    return float(np.abs(edges - np.hypot(across, down)).max())


def counted(edges: np.ndarray) -> np.ndarray:
    """NumPy's histogram of the same numbers, to show that nothing is missing or
    counted twice.
    """
    bins = np.minimum(
        (edges * np.float32(BINS / STEEPEST)).astype(int), BINS - 1
    )
    return np.bincount(bins.ravel(), minlength=BINS)


def table_of(stats: fb.Stats) -> Table:
    """The counters of one run, in two pairs of columns."""
    shown = [
        ("launches", stats.launches),
        ("waits made", stats.waits_made),
        ("copies", stats.copies),
        ("waits saved", stats.waits_elided),
        ("fills", stats.fills),
        ("markers made", stats.markers_made),
        ("host waits", stats.host_syncs),
        ("markers shared", stats.markers_shared),
        ("argument bytes set", stats.arg_bytes_set),
        ("argument bytes saved", stats.arg_bytes_skipped),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(2):
        table.add_column()
        table.add_column(justify="right")
    for (left, a), (right, b) in zip(shown[::2], shown[1::2], strict=True):
        table.add_row(left, f"{a:,}", f"   {right}", f"{b:,}")
    return table


@contextmanager
def progress_after(
    seconds: float, steps: int, console: Console
) -> Iterator[Progress]:
    """A progress bar that appears only if the user has to wait."""
    progress = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    progress.add_task("", total=steps)
    timer = threading.Timer(seconds, progress.start)
    timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
        timer.join()
        if progress.live.is_started:
            progress.stop()


@click.command(context_settings={"show_default": True})
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default="demo.png",
    help="Where the picture goes.",
)
@click.option(
    "--tiles",
    type=click.IntRange(1, 16),
    default=4,
    help="Tiles along each side of the photograph.",
)
@click.option(
    "--queues",
    type=click.IntRange(1, 16),
    default=4,
    help="Queues that share the tiles.",
)
def main(output: Path, tiles: int, queues: int) -> None:
    """Find the edges of a photograph on several queues, check the result, and
    draw what ran when.
    """
    # a device's name must not end the program on an ASCII terminal
    sys.stdout.reconfigure(errors="replace")
    try:
        device = fb.Device(timing=True)
    except fb.Error as error:
        print(f"photo: {error}", file=sys.stderr)
        sys.exit(2)
    console = Console(highlight=False, soft_wrap=True)
    info = device.info
    print(
        f"device: {device.name}  {info.platform} · {info.description}",
        flush=True,
    )

    with device, progress_after(2, 4, console) as progress:
        bar = progress.task_ids[0]
        progress.update(bar, description="building the kernels")
        photo = photograph()
        finder = EdgeFinder(device, photo, tiles, queues)
        # some drivers compile a kernel only when it is first launched
        finder.submit()
        device.finish()

        progress.update(bar, description="running", advance=1)
        # other bytes: those that are there would not have to be uploaded
        finder.load(photo[:, ::-1])
        before, start = device.stats, time.perf_counter()
        finder.submit()
        submitted = 1e3 * (time.perf_counter() - start)
        device.finish()
        finished = 1e3 * (time.perf_counter() - start)
        stats = device.stats - before
        finder.load(photo)
        # a separate run, because timing the stages takes commands
        trace = Trace(device)
        finder.submit(trace)
        device.finish()

        progress.update(bar, description="comparing with SciPy", advance=1)
        edges = finder.result
        error = largest_error(photo, edges)
        right = error < TOLERANCE and np.array_equal(
            finder.histogram, counted(edges)
        )

        progress.update(bar, description="drawing", advance=1)
        # matplotlib takes a second to import: the bar should be there by then
        from .figure import draw

        draw(output, photo, finder, STEEPEST, trace)

    console.print(
        f"{tiles * tiles} tiles on {queues} queues and the null queue: "
        f"submitted in {submitted:.1f} ms, "
        f"done after {finished:.1f} ms"
    )
    console.print(table_of(stats))
    if not right:
        console.print(
            f"WRONG: off by {error:.1g} from SciPy, {finder.histogram.sum():,} "
            f"of {edges.size:,} pixels counted"
        )
        sys.exit(1)
    console.print(
        f"OK: off by at most {error:.1g} from SciPy, all {edges.size:,} pixels "
        f"counted; see {output}"
    )


if __name__ == "__main__":
    main()
