"""Sod's shock tube with the kernels of Cholla, as its authors wrote them.

    git clone https://github.com/cholla-hydro/cholla
    python -m examples.shock_tube cholla

Seven kernels of six files of Cholla are compiled whole. This program does what
its function `VL_Algorithm_2D_CUDA` does, and what calls it. The fluxes in x and
in y do not depend on each other. Cholla computes them one after the other on
the null stream; here each has a stream of its own, and events order the two.
Two tubes run at the same time, one along x and one along y.

They are compared with each other, with the same algorithm in NumPy, and with
the exact solution.
"""

from __future__ import annotations

import sys
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

# builds/make.type.hydro, without MPI and HDF5
OPTIONS = ["-std=c++17", "-DPRECISION=2", "-DVL", "-DPLMC", "-DHLLC"]
FILES = {
    "grid/cuda_boundaries.cu": ["SetGhostCellsKernel"],
    "hydro/hydro_cuda.cu": ["Update_Conserved_Variables_2D", "Calc_dt_2D"],
    "integrators/VL_2D_cuda.cu": ["Update_Conserved_Variables_2D_half"],
    "reconstruction/pcm_cuda.cu": ["PCM_Reconstruction_2D"],
    "reconstruction/plmc_cuda.cu": ["PLMC_cuda"],
    "riemann_solvers/hllc_cuda.cu": ["Calculate_HLLC_Fluxes_CUDA"],
}
FIELDS, GHOSTS, THREADS, WIDTH, CFL = 5, 3, 256, 8, 0.3
PERIODIC, OUTFLOW = 1, 3  # kinds of boundaries
# examples/1D/sod.txt
GAMMA, END = 1.4, 0.2
LEFT, RIGHT = (1.0, 0.0, 1.0), (0.1, 0.0, 0.1)  # density, velocity, pressure
X, Y = range(2)


class Tube:
    """A tube along one direction: `cells` of them, and `WIDTH` across."""

    def __init__(self, functions: dict[str, Any], along: int, cells: int):
        self.functions, self.along, self.length = functions, along, 1 / cells
        sizes = [WIDTH + 2 * GHOSTS] * 2
        sizes[along] = cells + 2 * GHOSTS
        self.nx, self.ny = sizes
        self.grid = -(-self.nx * self.ny // THREADS)
        self.shape = (FIELDS, self.ny, self.nx)
        start = np.empty(self.shape)
        # fields, along, across
        view = start if along == Y else start.swapaxes(1, 2)
        view[...] = placed(initial(cells), along)[:, :, None]
        self.now, self.half = upload(start), upload(start)
        self.flux = [upload(np.zeros(self.shape)) for _ in (X, Y)]
        self.bounds = [
            [upload(np.zeros(self.shape)) for _ in range(2)] for _ in (X, Y)
        ]
        self.streams = [check(hip.hipStreamCreate()) for _ in (X, Y)]
        self.ready, self.done, self.known = (event() for _ in range(3))
        self.fastest = upload(np.zeros(1))
        self.reached = pinned(1)
        self.lowest = pinned(1)
        self.lowest[0] = -np.finfo("f8").max
        self.time, self.steps = 0.0, 0

    def run(self, name: str, stream: Any, *arguments: Any) -> None:
        """Launch a kernel of Cholla for all cells."""
        launch(self.functions[name], self.grid, THREADS, stream, *arguments)

    def in_both(self, compute: Any) -> None:
        """Call `compute` for x and for y, on their streams, after all that is
        on the first one and before all that comes there.
        """
        first, second = self.streams
        check(hip.hipEventRecord(self.ready, first))
        check(hip.hipStreamWaitEvent(second, self.ready, 0))
        compute(X, first)
        compute(Y, second)
        check(hip.hipEventRecord(self.done, second))
        check(hip.hipStreamWaitEvent(first, self.done, 0))

    def fluxes(self, direction: int, stream: Any) -> None:
        """Solve the Riemann problems between the cells."""
        fields = (*self.bounds[direction], self.flux[direction])
        sizes = (self.nx, self.ny, 1, GHOSTS)
        name = "Calculate_HLLC_Fluxes_CUDA"
        self.run(name, stream, *fields, *sizes, GAMMA, direction, FIELDS)

    def prepare(self) -> None:
        """Fill the ghost cells, and find how long the next step may be."""
        stream, nx, ny = self.streams[X], self.nx, self.ny
        kinds = [PERIODIC] * 6
        kinds[2 * self.along : 2 * self.along + 2] = [OUTFLOW] * 2
        for side in range(4):
            size, low = [nx, ny, 1], [0, 0, 0]
            direction = side // 2
            if direction == X:
                size[Y], low[Y] = ny - 2 * GHOSTS, GHOSTS
            if side % 2:
                low[direction] = size[direction] - GHOSTS
            size[direction] = GHOSTS
            sizes = (nx, ny, 1, FIELDS, nx * ny, GHOSTS)
            part = (*kinds, *size, *low, side)
            self.run("SetGhostCellsKernel", stream, self.now, *sizes, *part)
        kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
        check(hip.hipMemcpyAsync(self.fastest, self.lowest, 8, kind, stream))
        sizes = (GHOSTS, nx, ny, self.length, self.length)
        self.run("Calc_dt_2D", stream, self.now, self.fastest, GAMMA, *sizes)
        download(self.fastest, self.reached, stream)
        check(hip.hipEventRecord(self.known, stream))

    def step(self) -> bool:
        """Submit a step, if the end is not reached."""
        check(hip.hipEventSynchronize(self.known))
        dt = min(CFL / float(self.reached[0]), END - self.time)
        if dt < 1e-12:
            return False
        self.time += dt
        self.steps += 1
        stream, dx, flux = self.streams[X], self.length, self.flux
        sizes = (self.nx, self.ny, GHOSTS)
        bounds = (*self.bounds[X], *self.bounds[Y])
        name = "PCM_Reconstruction_2D"
        self.run(name, stream, self.now, *bounds, *sizes, GAMMA, FIELDS)
        self.in_both(self.fluxes)
        name = "Update_Conserved_Variables_2D_half"
        rest = (*sizes, dx, dx, dt / 2, GAMMA, FIELDS)
        self.run(name, stream, self.now, self.half, *flux, *rest)

        def reconstruct(direction: int, stream: Any) -> None:
            fields = (self.half, *self.bounds[direction])
            rest = (self.nx, self.ny, 1, dx, dt, GAMMA, direction, FIELDS)
            self.run("PLMC_cuda", stream, *fields, *rest)
            self.fluxes(direction, stream)

        self.in_both(reconstruct)
        name, origin = "Update_Conserved_Variables_2D", (0.0, 0.0)
        sizes = (self.nx, self.ny, 0, 0, GHOSTS)
        rest = (*sizes, dx, dx, *origin, dt, GAMMA, FIELDS, 0)
        self.run(name, stream, self.now, *flux, *rest)
        self.prepare()
        return True

    def result(self) -> Array:
        """The fields, along and across, without ghosts; the momentum along the
        tube comes first.
        """
        found = np.empty(self.shape)
        download(self.now, found, self.streams[X])
        inner = found[:, GHOSTS:-GHOSTS, GHOSTS:-GHOSTS]
        fields = inner if self.along == Y else inner.swapaxes(1, 2)
        return placed(fields, self.along)


def initial(cells: int) -> Array:
    """The conserved fields at the start, with ghosts: density, momentum along
    the tube, momentum across it (2), energy.
    """
    at = (np.arange(-GHOSTS, cells + GHOSTS) + 0.5) / cells
    d, v, p = np.where(
        at < 0.5, np.array(LEFT)[:, None], np.array(RIGHT)[:, None]
    )
    return conserved(d, v, p)


def placed(fields: Array, along: int) -> Array:
    """Exchange the momenta in x and y, if the tube is along y."""
    return fields if along == X else fields[[0, 2, 1, 3, 4]]


def conserved(d: Array, v: Array, p: Array) -> Array:
    """Density, momenta and energy."""
    still = np.zeros_like(d)
    return np.stack([d, d * v, still, still, p / (GAMMA - 1) + d * v * v / 2])


def primitive(u: Array) -> Array:
    """Density, velocity along the tube, pressure."""
    d, v = u[0], u[1] / u[0]
    return np.stack([d, v, (u[4] - d * v * v / 2) * (GAMMA - 1)])


def hllc(left: Array, right: Array) -> Array:
    """The HLLC fluxes between two conserved states (Toro; Batten et al.)."""
    (dl, vl, pl), (dr, vr, pr) = primitive(left), primitive(right)
    wl, wr = np.sqrt(dl), np.sqrt(dr)
    v = (wl * vl + wr * vr) / (wl + wr)
    h = (wl * (left[4] + pl) / dl + wr * (right[4] + pr) / dr) / (wl + wr)
    a = np.sqrt((GAMMA - 1) * (h - v * v / 2))
    sl = np.minimum(v - a, vl - np.sqrt(GAMMA * pl / dl))
    sr = np.maximum(v + a, vr + np.sqrt(GAMMA * pr / dr))
    sm = dr * vr * (sr - vr) - dl * vl * (sl - vl) + pl - pr
    sm /= dr * (sr - vr) - dl * (sl - vl)
    ps = dl * (vl - sl) * (vl - sm) + pl
    fluxes, stars = [], []
    for u, d, w, p, s in ((left, dl, vl, pl, sl), (right, dr, vr, pr, sr)):
        flux = u * w
        flux[1] += p
        flux[4] += p * w
        star = u * (s - w)
        star[0] = d * (s - w)
        star[1] += ps - p
        star[4] += ps * sm - p * w
        fluxes.append(flux)
        stars.append(star / (s - sm))
    middle = np.where(
        sm > 0,
        fluxes[0] + sl * (stars[0] - left),
        fluxes[1] + sr * (stars[1] - right),
    )
    return np.where(sl > 0, fluxes[0], np.where(sr < 0, fluxes[1], middle))


def linear(u: Array) -> tuple[Array, Array]:
    """Both sides of the interfaces, from slopes that are limited in the
    characteristic variables (Stone et al. 2008).
    """
    w = primitive(u)
    before, here, after = w[:, :-2], w[:, 1:-1], w[:, 2:]
    d, _, p = here
    a = np.sqrt(GAMMA * p / d)

    def waves(slope: Array) -> Array:
        dd, dv, dp = slope
        half = dp / (2 * a * a)
        return np.stack(
            [half - d * dv / (2 * a), dd - 2 * half, half + d * dv / (2 * a)]
        )

    low, high = here - before, after - here
    product = low * high
    leer = np.where(
        product > 0, 2 * product / np.where(product > 0, low + high, 1), 0
    )
    left, right, centre, harmonic = map(
        waves, (low, high, (after - before) / 2, leer)
    )
    size = np.minimum(
        2 * np.minimum(np.abs(left), np.abs(right)),
        np.minimum(np.abs(centre), np.abs(harmonic)),
    )
    m = np.where(left * right > 0, np.copysign(size, centre), 0)
    slope = np.stack([m.sum(0), a / d * (m[2] - m[0]), a * a * (m[0] + m[2])])
    lower = np.clip(
        here - slope / 2, np.minimum(before, here), np.maximum(before, here)
    )
    upper = np.clip(
        here + slope / 2, np.minimum(after, here), np.maximum(after, here)
    )
    # what is left of an interface, and what is right of it
    return conserved(*upper[:, :-1]), conserved(*lower[:, 1:])


def on_the_host(cells: int) -> tuple[Array, int]:
    """The same algorithm in NumPy, and its number of steps. Through the ends
    gas may leave, and not enter.
    """
    u, time, steps = initial(cells), 0.0, 0
    while True:
        for ghosts, of, inwards in (
            (slice(GHOSTS), GHOSTS, 1),
            (slice(-GHOSTS, None), -GHOSTS - 1, -1),
        ):
            d, v, p = primitive(u[:, of])
            u[:, ghosts] = conserved(d, 0 if v * inwards > 0 else v, p)[:, None]
        d, v, p = primitive(u)[:, GHOSTS:-GHOSTS]
        fastest = (np.abs(v) + np.sqrt(GAMMA * p / d)).max() * cells
        dt = min(CFL / fastest, END - time)
        if dt < 1e-12:
            return u[:, GHOSTS:-GHOSTS], steps
        flux = hllc(u[:, :-1], u[:, 1:])
        half = u.copy()
        half[:, 1:-1] += dt / 2 * cells * (flux[:, :-1] - flux[:, 1:])
        flux = hllc(*linear(half))
        u[:, 2:-2] += dt * cells * (flux[:, :-1] - flux[:, 1:])
        time, steps = time + dt, steps + 1


@dataclass
class Exact:
    """The exact solution for a gas at rest with the same temperature on both
    sides: a rarefaction, a contact and a shock (Toro, chapter 4).
    """

    p: float = 0.0
    v: float = 0.0

    def __post_init__(self) -> None:
        low, high = RIGHT[2], LEFT[2]
        for _ in range(200):
            self.p = (low + high) / 2
            if self.behind_the_shock() < self.behind_the_rarefaction():
                low = self.p
            else:
                high = self.p
        self.v = self.behind_the_shock()

    def behind_the_shock(self) -> float:
        """The velocity that a shock of pressure `p` gives."""
        d, _, p = RIGHT
        a, b = 2 / (GAMMA + 1) / d, (GAMMA - 1) / (GAMMA + 1) * p
        return float((self.p - p) * np.sqrt(a / (self.p + b)))

    def behind_the_rarefaction(self) -> float:
        """The velocity that a rarefaction down to `p` gives."""
        d, _, p = LEFT
        exponent = (GAMMA - 1) / (2 * GAMMA)
        sound = np.sqrt(GAMMA * p / d)
        return float(2 * sound / (GAMMA - 1) * (1 - (self.p / p) ** exponent))

    def at(self, x: Array, time: float) -> Array:
        """Density, velocity, pressure."""
        s, g = (x - 0.5) / time, (GAMMA - 1) / (GAMMA + 1)
        sound = np.sqrt(GAMMA * LEFT[2] / LEFT[0])
        dl = LEFT[0] * (self.p / LEFT[2]) ** (1 / GAMMA)
        ratio = self.p / RIGHT[2]
        dr = RIGHT[0] * (ratio + g) / (g * ratio + 1)
        shock = self.v * dr / (dr - RIGHT[0])
        tail = self.v - np.sqrt(GAMMA * self.p / dl)
        fan = 2 / (GAMMA + 1) - g * s / sound
        states = [
            LEFT,
            (
                LEFT[0] * fan ** (2 / (GAMMA - 1)),
                2 / (GAMMA + 1) * (sound + s),
                LEFT[2] * fan ** (2 * GAMMA / (GAMMA - 1)),
            ),
            (dl, self.v, self.p),
            (dr, self.v, self.p),
            RIGHT,
        ]
        where = np.searchsorted([-sound, tail, self.v, shock], s)
        return np.stack(
            [np.choose(where, [state[i] for state in states]) for i in range(3)]
        )


def draw(output: Path, found: Array, cells: int) -> None:
    """Write the picture: density, velocity and pressure along the tube."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from .figure import COLOURS, INK, STYLE

    at, fine = (np.arange(cells) + 0.5) / cells, np.linspace(0, 1, 2001)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        axes = figure.subplots(1, 3)
        names = "density", "velocity", "pressure"
        colours = COLOURS["upload"], COLOURS["blur"], COLOURS["histogram"]
        for ax, name, colour, values, line in zip(
            axes, names, colours, found, Exact().at(fine, END), strict=True
        ):
            ax.plot(fine, line, color=INK, linewidth=0.9, label="exact")
            ax.plot(
                at, values, "o", color=colour, markersize=3.5, label="Cholla"
            )
            ax.set_title(name)
            ax.set_xlabel("x")
        axes[0].legend()
        figure.savefig(output, dpi=110)


@click.command()
@click.argument(
    "clone", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--cells",
    default=100,
    show_default=True,
    type=click.IntRange(min=20),
    help="Along the tube.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
def main(clone: Path, cells: int, output: Path | None) -> None:
    """Run Sod's shock tube with the kernels of Cholla, of which CLONE is a
    clone.
    """
    print(f"device: {device()}")
    functions: dict[str, Any] = {}
    for file, names in FILES.items():
        functions |= kernels(clone / "src" / file, names, OPTIONS)
    tubes = [Tube(functions, along, cells) for along in (X, Y)]
    for tube in tubes:
        tube.prepare()
    running = tubes
    while running:
        running = [tube for tube in running if tube.step()]
    along_x, along_y = (tube.result() for tube in tubes)
    expected, host_steps = on_the_host(cells)
    apart = float(np.abs(along_x - along_y).max())
    off = float(np.abs(along_x - expected[:, :, None]).max())
    found = primitive(along_x[:, :, 0])
    solution = Exact().at((np.arange(cells) + 0.5) / cells, END)
    error = float(np.abs(found - solution)[0].mean())
    print(
        f"{tubes[X].steps} steps (NumPy: {host_steps}) of two tubes on four "
        f"streams; off by {error:.1e} from the exact density, on average"
    )
    if output:
        draw(output, found, cells)
    # Cholla lets gas in at the corners of the ghost cells only: on coarse
    # grids waves reach them.
    wrong = max(off, apart) > 1e-7 or error > 0.7 / cells
    print(
        f"{'WRONG' if wrong else 'OK'}: off by at most {off:.1e} from NumPy, "
        f"and the tubes by {apart:.1e} from each other"
    )
    sys.exit(wrong)


if __name__ == "__main__":
    main()
