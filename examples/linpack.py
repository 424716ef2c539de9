"""HPL, the benchmark of the TOP500, with the kernels of AMD's rocHPL.

    git clone https://github.com/ROCm/rocHPL
    python -m examples.linpack rocHPL

Eight kernels of five files of rocHPL are compiled whole. This program does what
`HPL_pdgesv` does for one process: a blocked LU factorization of a random matrix
with its right-hand side, with look-ahead. One stream has the panels. It copies
each to the host, where a host function factorizes it, and back. The other one
swaps the rows of the columns that follow, and updates them: first those of the
next panel, so that it can be factorized meanwhile. Events order the two.

rocBLAS is not there. The two functions of it that are needed are in
linpack.hip. rocHPL has kernels for the panels, too, but these wait for each
other and for the host while they run, which blocks on a CPU cannot do.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from forebay import hip

from .ported import (
    Array,
    check,
    device,
    download,
    event,
    kernels,
    launch,
    pinned,
    upload,
)

FILES = {
    "auxil/HPL_dlacpy_device.cpp": ["dlacpy"],
    "auxil/HPL_dlatcpy_device.cpp": ["dlatcpy"],
    "matgen/HPL_pdrandmat_device.cpp": ["hpl_randmat"],
    "pauxil/HPL_dlaswp00N_device.cpp": ["dlaswp00N"],
    "pauxil/HPL_pdlange_device.cpp": ["normA_1", "normA_2", "norm1", "norminf"],
}
BLAS = Path(__file__).with_suffix(".hip")
# CMake makes this header of hpl_version.hpp.in
MADE = {"hpl_version.hpp": "#define __ROCHPL_VER 0\n"}
THREADS, TILE, COPIED = 512, 16, 64  # of rocHPL's kernels, dgemm, dlacpy
SEED, MULTIPLIER, ADDEND = 100, 6364136223846793005, 1
THRESHOLD = 16.0
WORD = 2**64


def jump(count: int, by: tuple[int, int]) -> tuple[int, int]:
    """The factor and the addend of `count` steps of a generator in one
    (`HPL_xjumpm`).
    """
    a, c = 1, 0
    for _ in range(count):
        a, c = a * by[0] % WORD, (c * by[0] + by[1]) % WORD
    return a, c


def random_numbers(count: int) -> Array:
    """What `hpl_randmat` fills a matrix with, column by column."""
    state, states = SEED, np.empty(count, "u8")
    for i in range(count):
        state = (state * MULTIPLIER + ADDEND) % WORD
        states[i] = state
    low, high = (states & 0xFFFFFFFF).astype("f8"), (states >> 32).astype("f8")
    return 0.5 - (low / 2**31 * 0.5 + high) / 2**31 * 0.5


def factorize(panel: Array, swaps: Array) -> None:
    """Factorize a panel in place, pivoting. `swaps` become what `dlaswp00N`
    wants: which row each of the first ones gets, and then where each of them
    goes if that is below them, or -1.
    """
    rows, columns = panel.shape
    order = np.arange(rows)
    for j in range(columns):
        pivot = j + int(np.argmax(np.abs(panel[j:, j])))
        panel[[j, pivot]], order[[j, pivot]] = (
            panel[[pivot, j]],
            order[[pivot, j]],
        )
        panel[j + 1 :, j] /= panel[j, j]
        panel[j + 1 :, j + 1 :] -= np.outer(
            panel[j + 1 :, j], panel[j, j + 1 :]
        )
    swaps[:columns], swaps[columns:] = order[:columns], -1
    below = columns + np.flatnonzero(order[columns:] < columns)
    swaps[columns + order[below]] = below


@dataclass(frozen=True)
class Stage:
    """Something that a stream did, between two events."""

    name: str
    row: int
    begin: Any
    end: Any


class Solver:
    """A matrix of `size` rows, its right-hand side behind it, in panels of
    `width` columns.
    """

    def __init__(self, functions: dict[str, Any], size: int, width: int):
        self.functions, self.size, self.width = functions, size, width
        self.matrix = check(hip.hipMalloc(8 * size * (size + 1)))
        self.work = check(hip.hipMalloc(8 * max(size, THREADS)))
        self.panels, self.updates = (
            check(hip.hipStreamCreate()) for _ in range(2)
        )
        # A panel is factorized while what the one before needs is in use.
        self.swaps = [upload(np.zeros(2 * width, "i4")) for _ in range(2)]
        self.corner = [check(hip.hipMalloc(8 * width**2)) for _ in range(2)]
        self.across = check(hip.hipMalloc(8 * width * (size + 1)))
        self.host = pinned(size * width)
        self.host_swaps = pinned(2 * width, "i4")
        self.ready = [event() for _ in range(-(-size // width) + 1)]
        self.factorized = [event() for _ in self.ready]
        self.start = check(hip.hipEventCreate())
        self.stages: list[Stage] = []

    def column(self, number: int, row: int = 0) -> int:
        """The address of an element."""
        return int(self.matrix) + 8 * (row + number * self.size)

    def generate(self) -> None:
        """Fill the matrix with random numbers (`HPL_pdrandmat`)."""
        size, width = self.size, self.width
        row = jump(1, (MULTIPLIER, ADDEND))
        column = jump(size, row)
        first = (SEED * row[0] + row[1]) % WORD
        jumps = (jump(width, column), jump(width, row), column, row)
        words = (word for each in jumps for word in each)
        launch(
            self.functions["hpl_randmat"],
            (-(-size // width), -(-(size + 1) // width)),
            THREADS,
            None,
            *(size, size + 1, width, size, *words, first, self.matrix),
        )

    def norm(self, kind: str, columns: int | None = None) -> float:
        """A norm of the matrix (`HPL_pdlange`)."""
        size, run = self.size, self.functions
        shape = (size, size, self.matrix, size, self.work)
        if kind == "A":
            grid = min(-(-size * size // THREADS), THREADS)
            launch(run["normA_1"], grid, THREADS, None, *shape)
            launch(run["normA_2"], 1, THREADS, None, grid, self.work)
            found = np.empty(1)
        else:
            name = "norm1" if kind == "1" else "norminf"
            grid = size if kind == "1" else -(-size // THREADS)
            launch(run[name], grid, THREADS, None, *shape)
            found = np.empty(size)
        download(self.work, found)
        return float(found.max())

    def whole(self) -> Array:
        """The matrix and its right-hand side."""
        host = np.empty((self.size + 1, self.size))
        download(self.matrix, host)
        return host.T

    @contextlib.contextmanager
    def timed(self, name: str, stream: Any) -> Iterator[None]:
        """Submit what is in the block between two events."""
        begin, end = (check(hip.hipEventCreate()) for _ in range(2))
        check(hip.hipEventRecord(begin, stream))
        yield
        check(hip.hipEventRecord(end, stream))
        row = int(stream is self.updates)
        self.stages.append(Stage(name, row, begin, end))

    def panel(self, step: int) -> None:
        """Submit a panel: to the host, factorize, back."""
        first, stream = step * self.width, self.panels
        columns = min(self.width, self.size - first)
        host = self.host[: columns * self.size].reshape(columns, self.size)
        to_device = hip.hipMemcpyKind.hipMemcpyHostToDevice
        at, swaps = self.column(first), self.swaps[step % 2]
        check(hip.hipStreamWaitEvent(stream, self.ready[step], 0))

        def work(_: Any) -> None:
            factorize(host[:, first:].T, self.host_swaps[: 2 * columns])

        with self.timed("panel", stream):
            download(at, host, stream)
            check(hip.hipLaunchHostFunc(stream, work, None))
            for to, of in ((at, host), (swaps, self.host_swaps)):
                check(hip.hipMemcpyAsync(to, of, of.nbytes, to_device, stream))
        check(hip.hipEventRecord(self.factorized[step], stream))

    def update(self, step: int, begin: int, end: int) -> None:
        """Submit the update of some columns by a panel (`HPL_pdupdateNT`)."""
        if begin == end:
            return
        run, size, stream = self.functions, self.size, self.updates
        first = step * self.width
        width, columns = min(self.width, size - first), end - begin
        top, corner = self.column(begin, first), self.corner[step % 2]
        shape = (columns, width, top, size)
        swaps = self.swaps[step % 2]
        launch(run["dlaswp00N"], columns, THREADS, stream, *shape, swaps)
        shape = (width, columns, corner, width, top, size)
        launch(run["dtrsm"], -(-columns // 64), 64, stream, *shape)
        rows = size - first - width
        if not rows:
            return
        self.copy("dlatcpy", columns, width, top, self.across)
        below = self.column(first, first + width)
        right = self.column(begin, first + width)
        operands = (below, size, self.across, columns, right, size)
        launch(
            run["dgemm"],
            (-(-rows // TILE), -(-columns // TILE)),
            (TILE, TILE),
            stream,
            *(rows, columns, width, *operands),
        )

    def copy(
        self, name: str, rows: int, columns: int, of: int, to: Any
    ) -> None:
        """Copy a part of the matrix, or its transpose, to memory of `rows`."""
        grid = (-(-rows // COPIED), -(-columns // COPIED))
        shape = (rows, columns, of, self.size, to, rows)
        block = (COPIED, 16)
        launch(self.functions[name], grid, block, self.updates, *shape)

    def factorize(self) -> None:
        """Submit all of it (`HPL_pdgesv`)."""
        size, width, stream = self.size, self.width, self.updates
        check(hip.hipEventRecord(self.start, None))
        check(hip.hipEventRecord(self.ready[0], stream))
        steps = -(-size // width)
        self.panel(0)
        for step in range(steps):
            first = step * width
            begin = min(first + width, size)
            ahead = min(begin + width, size)
            here = begin - first
            check(hip.hipStreamWaitEvent(stream, self.factorized[step], 0))
            corner = self.corner[step % 2]
            self.copy("dlacpy", here, here, self.column(first, first), corner)
            if step + 1 < steps:
                with self.timed("look-ahead", stream):
                    self.update(step, begin, ahead)
                check(hip.hipEventRecord(self.ready[step + 1], stream))
                self.panel(step + 1)
            with self.timed("update", stream):
                self.update(step, ahead, size + 1)

    def solution(self) -> Array:
        """Substitute backwards, on the host."""
        check(hip.hipDeviceSynchronize())
        found = self.whole()
        x = found[:, -1].copy()
        for i in reversed(range(self.size)):
            x[i] /= found[i, i]
            x[:i] -= found[:i, i] * x[i]
        return x


def draw(output: Path, solver: Solver) -> None:
    """Write the timeline of the two streams."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from .figure import COLOURS, LEGEND, STYLE

    colours = {
        "panel": COLOURS["histogram"],
        "look-ahead": COLOURS["edges"],
        "update": COLOURS["upload"],
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        axes = figure.subplots()
        for stage in solver.stages:
            begin, end = (
                check(hip.hipEventElapsedTime(solver.start, each))
                for each in (stage.begin, stage.end)
            )
            colour = colours[stage.name]
            axes.barh(stage.row, end - begin, 0.7, begin, color=colour)
        axes.set_yticks([0, 1], ["panels", "updates"])
        axes.set_ylim(1.6, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("ms")
        axes.set_title("what the two streams were at", pad=26)
        axes.legend(
            handles=[Patch(color=c, label=name) for name, c in colours.items()],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=3,
            **LEGEND,
        )
        figure.savefig(output, dpi=110)


@click.command()
@click.argument(
    "clone", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--size", default=500, show_default=True, type=click.IntRange(min=2)
)
@click.option(
    "--width",
    default=64,
    show_default=True,
    type=click.IntRange(min=1, max=1024),
    help="Columns of a panel.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
def main(clone: Path, size: int, width: int, output: Path | None) -> None:
    """Solve a system of SIZE equations with the kernels of rocHPL, of which
    CLONE is a clone.
    """
    print(f"device: {device()}")
    options = ["-std=c++17", f"-I{clone / 'include'}"]
    functions = kernels(BLAS, ["dtrsm", "dgemm"], [])
    for file, names in FILES.items():
        functions |= kernels(clone / "src" / file, names, options, MADE)
    solver = Solver(functions, size, width)
    solver.generate()
    system = solver.whole().copy()
    a, b = system[:, :-1], system[:, -1]
    made = random_numbers(size * (size + 1)).reshape(size + 1, size).T
    generated = bool(np.array_equal(system, made))
    norms = {
        "A": np.abs(a).max(),
        "1": np.abs(a).sum(0).max(),
        "I": np.abs(a).sum(1).max(),
    }
    apart = max(
        abs(solver.norm(kind) / norm - 1) for kind, norm in norms.items()
    )
    solver.factorize()
    x = solver.solution()
    expected = np.linalg.solve(a, b)
    off = float(np.abs(x - expected).max() / np.abs(expected).max())
    # as HPL_pdtest computes it
    scale = norms["I"] * np.abs(x).max() + np.abs(b).max()
    residual = float(
        np.abs(b - a @ x).max() / (np.finfo("f8").eps / 2 * scale * size)
    )
    print(
        f"{-(-size // width)} panels; the matrix is "
        f"{'' if generated else 'NOT '}that of the generator, and its norms "
        f"are off by {apart:.1e}"
    )
    if output:
        draw(output, solver)
    wrong = not generated or apart > 1e-12 or off > 1e-8
    wrong |= residual >= THRESHOLD
    print(
        f"{'WRONG' if wrong else 'OK'}: the residual is {residual:.2e}, below "
        f"{THRESHOLD:.0f}; x is off by {off:.1e} from NumPy"
    )
    sys.exit(wrong)


if __name__ == "__main__":
    main()
