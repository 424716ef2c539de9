"""The heat equation on a plate, on several queues and on several machines.

Run it by ``mpiexec -n 4 python -m examples.heat``.

The plate is cut into bands of rows. A band's first and last row need a row of
its neighbours in each step, the halo. A band has two queues. One computes the
two outer rows and exchanges them; the other computes all that lies between
meanwhile. Bands of one process exchange rows by copies from buffer to buffer,
processes by MPI: the rows are copied to the host, a host function sends and
receives them, and they are copied back. The program submits all steps at once
and waits for none. However many bands and processes there are, the result is
the same to the last bit.

Without mpi4py it runs in one process. With it, an MPI library is needed too:
``pip install mpi4py mpich``.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

import forebay as fb

KERNELS = Path(__file__).with_suffix(".cl")
BLOCK = (64, 4)
RATE = 0.2
HOT, COLD = 100.0, 0.0
TOLERANCE = 1e-3  # of degrees, where temperatures go up to 100


def plate(size: int) -> np.ndarray:
    """The plate at the start, with a frame of one row above and below: cold,
    with a hot edge and a hot disc.
    """
    start = np.full((size + 2, size), COLD, "f4")
    start[0] = HOT
    y, x = np.ogrid[: size + 2, :size]
    start[
        (y - 0.6 * size) ** 2 + (x - 0.3 * size) ** 2 < (0.15 * size) ** 2
    ] = HOT
    return start


def on_the_host(start: np.ndarray, steps: int) -> np.ndarray:
    """What NumPy makes of it."""
    now = start.copy()
    for _ in range(steps):
        inner = now[1:-1, 1:-1]
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        now[1:-1, 1:-1] = inner + np.float32(RATE) * (around - 4 * inner)
    return now[1:-1]


@dataclass(eq=False)
class Band:
    """Some rows of the plate, between two rows that belong to its
    neighbours.
    """

    rows: int
    now: fb.Buffer
    next: fb.Buffer
    outer: fb.Queue  # computes the first and the last row, and exchanges them
    inner: fb.Queue  # computes what lies between
    computed: fb.Event | None = None  # the outer rows of the newest step
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass(eq=False)
class Exchange:
    """What a band gives another process in each step, and gets from it."""

    rank: int
    given: int  # the row
    got: int
    out: np.ndarray  # pinned
    back: np.ndarray

    def __call__(self) -> None:
        """Run by the host thread, between two copies of the queue."""
        world().Sendrecv(
            self.out, self.rank, recvbuf=self.back, source=self.rank
        )


def world() -> Any:
    """All processes of the program, or None where there is only this one."""
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI.COMM_WORLD


class Plate:
    """This process' part of the plate on a device."""

    def __init__(
        self,
        device: fb.Device,
        start: np.ndarray,
        bands: int,
        rank: int,
        ranks: int,
    ):
        self.device = device
        self.width = start.shape[1]
        self.diffuse = device.program(KERNELS.read_text())["diffuse"]
        cuts = np.linspace(0, start.shape[0] - 2, ranks * bands + 1, dtype=int)
        self.bands: list[Band] = []
        for top, bottom in list(itertools.pairwise(cuts))[
            rank * bands : (rank + 1) * bands
        ]:
            part = np.ascontiguousarray(start[top : bottom + 2])
            queues = device.queue(blocking=False), device.queue(blocking=False)
            self.bands.append(
                Band(
                    int(bottom - top),
                    device.array(part),
                    device.array(part),
                    *queues,
                )
            )
        if rank > 0:
            self._exchange(self.bands[0], rank - 1, given=1, got=0)
        if rank < ranks - 1:
            last = self.bands[-1]
            self._exchange(last, rank + 1, given=last.rows, got=last.rows + 1)
        device.finish()

    def _exchange(self, band: Band, rank: int, given: int, got: int) -> None:
        rows = [fb.host_empty(self.width, "f4", self.device) for _ in range(2)]
        band.exchanges.append(Exchange(rank, given, got, *rows))

    def _compute(
        self, queue: fb.Queue, band: Band, first: int, rows: int
    ) -> None:
        if rows > 0:
            grid = -(-self.width // BLOCK[0]), -(-rows // BLOCK[1])
            queue.launch(
                self.diffuse,
                grid,
                BLOCK,
                band.now,
                band.next,
                self.width,
                first,
                rows,
                RATE,
            )

    def step(self) -> None:
        """Submit one step of all bands. Returns before it has run."""
        for band in self.bands:
            if band.computed is not None:
                band.inner.wait(band.computed)
            before = band.inner.record()
            self._compute(band.inner, band, 2, band.rows - 2)
            # of what lies between, the step before is enough
            band.outer.wait(before)
            self._compute(band.outer, band, 1, 1)
            self._compute(band.outer, band, band.rows, int(band.rows > 1))
            band.computed = band.outer.record()
        for above, below in itertools.pairwise(self.bands):
            above.outer.wait(below.computed)
            above.outer.copy(above.next[above.rows + 1], below.next[1])
            below.outer.wait(above.computed)
            below.outer.copy(below.next[0], above.next[above.rows])
        for band in self.bands:
            for exchange in band.exchanges:
                band.outer.copy(exchange.out, band.next[exchange.given])
                band.outer.host(exchange)
                band.outer.copy(band.next[exchange.got], exchange.back)
            band.now, band.next = band.next, band.now

    def get(self) -> np.ndarray:
        """The rows of this process. Blocks until all steps are done."""
        self.device.finish()
        return np.concatenate([band.now.get()[1:-1] for band in self.bands])


def draw(temperatures: np.ndarray, output: Path, title: str) -> None:
    """Write a picture of the plate."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 5.2), layout="constrained")
    figure.colorbar(
        axes.imshow(temperatures, cmap="inferno", vmin=COLD, vmax=HOT),
        label="temperature",
    )
    axes.set_title(title)
    axes.set_axis_off()
    figure.savefig(output, dpi=120)


@click.command()
@click.option(
    "--size",
    default=384,
    show_default=True,
    type=click.IntRange(min=8),
    help="Rows and columns.",
)
@click.option(
    "--steps", default=600, show_default=True, type=click.IntRange(min=0)
)
@click.option(
    "--bands",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="Bands of each process.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Write the temperatures there, for numpy.load.",
)
def main(
    size: int, steps: int, bands: int, output: Path | None, save: Path | None
) -> None:
    """Let heat spread over a plate, and compare the result with NumPy's."""
    communicator = world()
    rank, ranks = (
        (communicator.Get_rank(), communicator.Get_size())
        if communicator
        else (0, 1)
    )
    if size < 2 * ranks * bands:
        raise click.BadParameter(
            f"{size} rows are too few for {ranks * bands} bands",
            param_hint="--size",
        )
    device = fb.Device()
    start = plate(size)
    mine = Plate(device, start, bands, rank, ranks)
    for _ in range(steps):
        mine.step()
    parts = (
        [mine.get()]
        if communicator is None
        else communicator.gather(mine.get())
    )
    if rank > 0:
        return
    found = np.concatenate(parts)
    print(f"device: {device.name}, processes: {ranks}, bands of each: {bands}")
    off = float(np.abs(found - on_the_host(start, steps)).max())
    if save:
        np.save(save, found)
    if output:
        draw(found, output, f"after {steps} steps, {ranks} × {bands} bands")
    print(
        f"{'OK' if off <= TOLERANCE else 'WRONG'}: off by at most {off:.1e} "
        "from NumPy"
    )
    sys.exit(off > TOLERANCE)


if __name__ == "__main__":
    main()
