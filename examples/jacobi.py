"""Poisson's equation by Jacobi's method, as HIP programs do it.

Run it by ``python -m examples.jacobi``.

The square is cut into blocks. Each has two streams. One computes the residual
of the points inside; the other packs the sides of the block meanwhile and
copies them to the neighbours. Events order the two: the points at the sides
wait for what the neighbours have sent. Every step adds up the squares of its
residual on the device, and the host looks at them now and then only.

The kernels are templates in HIP C++, jacobi.hip. Clang compiles them to SPIR-V,
NVRTC for CUDA. NumPy computes the same steps, and the solution is known.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from forebay import hip, hiprtc
from forebay.core.errors import NotInstalledError

from .poisson import Array, Mesh, forcing, on_the_host, solution

KERNELS = Path(__file__).with_suffix(".hip")
GROUP = 128
SIDES = BELOW, ABOVE, LEFT, RIGHT = range(4)
OPPOSITE = (ABOVE, BELOW, RIGHT, LEFT)
TOLERANCES = {"double": 1e-10, "float": 1e-3}
SPIRV = (0x07230203).to_bytes(4, "little")


def check(result: Any) -> Any:
    """Return the outputs; raise if the code is not success."""
    code, *outputs = result
    if code not in (
        hip.hipError_t.hipSuccess,
        hiprtc.hiprtcResult.HIPRTC_SUCCESS,
    ):
        raise RuntimeError(f"{code.name}: {hip.last_exception()}")
    return outputs[0] if len(outputs) == 1 else outputs


class Program:
    """The compiled kernels for one type of numbers."""

    NAMES = (
        "pack_sides",
        "inner_residual",
        "outer_residual",
        "update",
        "add_up",
    )

    def __init__(self, real: str):
        self.real = ctypes.c_double if real == "double" else ctypes.c_float
        source = check(
            hiprtc.hiprtcCreateProgram(
                KERNELS.read_bytes(), KERNELS.name.encode(), 0, [], []
            )
        )
        names = [f"{name}<{real}>".encode() for name in self.NAMES]
        for name in names:
            check(hiprtc.hiprtcAddNameExpression(source, name))
        properties = hip.hipDeviceProp_t()
        check(hip.hipGetDeviceProperties(properties, check(hip.hipGetDevice())))
        arch = b"--offload-arch=" + properties.gcnArchName
        options = [arch, b"-DGROUP=%d" % GROUP]
        (result,) = hiprtc.hiprtcCompileProgram(source, len(options), options)
        if result != hiprtc.hiprtcResult.HIPRTC_SUCCESS:
            log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(source)))
            check(hiprtc.hiprtcGetProgramLog(source, log))
            raise click.ClickException(
                f"{KERNELS.name} does not compile, or the device has no "
                f"{real}\n{log.decode()}"
            )
        code = bytearray(check(hiprtc.hiprtcGetCodeSize(source)))
        check(hiprtc.hiprtcGetCode(source, code))
        self.compiler = (
            "compiled by clang" if SPIRV in code else "compiled by NVRTC"
        )
        module = check(hip.hipModuleLoadData(code))
        lowered = [
            check(hiprtc.hiprtcGetLoweredName(source, name)) for name in names
        ]
        self.functions = dict(
            zip(
                self.NAMES,
                [
                    check(hip.hipModuleGetFunction(module, name))
                    for name in lowered
                ],
                strict=True,
            )
        )
        self.device = properties.gcnArchName.decode()

    def launch(
        self,
        name: str,
        grid: tuple[int, int],
        block: tuple[int, int],
        stream: Any,
        *arguments: Any,
    ) -> None:
        """Launch a kernel; an int argument is an int in C, a float a number of
        the program's type.
        """
        kinds = {int: ctypes.c_int, float: self.real}
        extra = tuple(
            kinds[type(each)](each) if type(each) in kinds else each
            for each in arguments
        )
        check(
            hip.hipModuleLaunchKernel(
                self.functions[name],
                *grid,
                1,
                *block,
                1,
                0,
                stream,
                None,
                extra,
            )
        )


def groups(points: int) -> tuple[int, int]:
    """The grid for so many points in a row."""
    return -(-points // GROUP), 1


class Block:
    """A part of the square on the device."""

    def __init__(
        self,
        program: Program,
        mesh: Mesh,
        rows: slice,
        columns: slice,
        steps: int,
    ):
        self.program, self.mesh, self.rows, self.columns = (
            program,
            mesh,
            rows,
            columns,
        )
        self.ny, self.nx = rows.stop - rows.start, columns.stop - columns.start
        self.compute, self.data = (
            check(hip.hipStreamCreate()) for _ in range(2)
        )
        self.sent, self.updated, *self.times = (
            check(hip.hipEventCreate()) for _ in range(6)
        )
        self.neighbours: dict[int, Block] = {}
        dtype = np.dtype(program.real)
        lengths = (self.nx, self.nx, self.ny, self.ny)
        self.offsets = [
            end * dtype.itemsize
            for end in itertools.accumulate(lengths, initial=0)
        ]
        below, above = (
            slice(rows.start, rows.start + 1),
            slice(rows.stop + 1, rows.stop + 2),
        )
        left, right = (
            slice(columns.start, columns.start + 1),
            slice(columns.stop + 1, columns.stop + 2),
        )
        here = (
            slice(rows.start + 1, rows.stop + 1),
            slice(columns.start + 1, columns.stop + 1),
        )
        around = [
            (below, here[1]),
            (above, here[1]),
            (here[0], left),
            (here[0], right),
        ]
        edges = mesh.sample(solution)
        edges[1:-1, 1:-1] = 0
        self.u = self._copied(np.zeros((self.ny, self.nx), dtype))
        self.f = self._copied(mesh.sample(forcing)[here].astype(dtype))
        self.halo = self._copied(
            np.concatenate([edges[side].ravel() for side in around]).astype(
                dtype
            )
        )
        self.sides, self.residual = (
            check(hip.hipMalloc(self.offsets[-1])),
            self._copied(np.zeros_like(edges, dtype)),
        )
        self.groups = min(GROUP, groups(self.nx * self.ny)[0])
        self.sums = check(hip.hipMalloc(self.groups * dtype.itemsize))
        self.squares = np.zeros(steps, dtype)
        self.norms = self._copied(self.squares)

    def _copied(self, array: Array) -> Any:
        memory = check(hip.hipMalloc(array.nbytes))
        check(
            hip.hipMemcpy(
                memory,
                np.ascontiguousarray(array),
                array.nbytes,
                hip.hipMemcpyKind.hipMemcpyHostToDevice,
            )
        )
        return memory

    def send(self) -> None:
        """Give the neighbours the sides of the last step. Their halo is free
        once they have done it.
        """
        begin, end = self.times[:2]
        for block in (self, *self.neighbours.values()):
            check(hip.hipStreamWaitEvent(self.data, block.updated, 0))
        check(hip.hipEventRecord(begin, self.data))
        grid = groups(2 * (self.nx + self.ny))
        self.program.launch(
            "pack_sides",
            grid,
            (GROUP, 1),
            self.data,
            self.u,
            self.sides,
            self.nx,
            self.ny,
        )
        for side, other in self.neighbours.items():
            size = self.offsets[side + 1] - self.offsets[side]
            to, source = (
                int(other.halo) + other.offsets[OPPOSITE[side]],
                int(self.sides) + self.offsets[side],
            )
            check(
                hip.hipMemcpyAsync(
                    to,
                    source,
                    size,
                    hip.hipMemcpyKind.hipMemcpyDeviceToDevice,
                    self.data,
                )
            )
        check(hip.hipEventRecord(end, self.data))
        check(hip.hipEventRecord(self.sent, self.data))

    def step(self, number: int) -> None:
        """Do a step, once all have called `send`: the points inside wait for
        nothing, those at the sides for it.
        """
        begin, end = self.times[2:]
        size, distances = (self.nx, self.ny), (self.mesh.dx, self.mesh.dy)
        check(hip.hipEventRecord(begin, self.compute))
        inside = -(-max(self.nx - 2, 1) // 32), -(-max(self.ny - 2, 1) // 4)
        field = (self.f, self.residual, *size, *distances)
        self.program.launch(
            "inner_residual", inside, (32, 4), self.compute, self.u, *field
        )
        check(hip.hipEventRecord(end, self.compute))
        # itself, too, because `update` writes what `pack_sides` reads
        for block in (self, *self.neighbours.values()):
            check(hip.hipStreamWaitEvent(self.compute, block.sent, 0))
        grid = groups(2 * sum(size))
        self.program.launch(
            "outer_residual",
            grid,
            (GROUP, 1),
            self.compute,
            self.u,
            self.halo,
            *field,
        )
        arguments = (
            self.u,
            self.residual,
            self.sums,
            self.nx * self.ny,
            self.mesh.inverse,
        )
        self.program.launch(
            "update", (self.groups, 1), (GROUP, 1), self.compute, *arguments
        )
        self.program.launch(
            "add_up",
            (1, 1),
            (GROUP, 1),
            self.compute,
            self.sums,
            self.groups,
            self.norms,
            number,
        )
        check(hip.hipEventRecord(self.updated, self.compute))

    def fetch(self, host: Array, memory: Any) -> None:
        """Copy from the device, after what the block computes. Blocks, since
        NumPy's memory is pageable.
        """
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        check(hip.hipMemcpyAsync(host, memory, host.nbytes, kind, self.compute))


def cut(
    mesh: Mesh, across: int, down: int, program: Program, steps: int
) -> list[Block]:
    """Cut the square into blocks, and tell each its neighbours."""
    rows, columns = (
        [
            slice(*map(int, ends))
            for ends in itertools.pairwise(
                np.linspace(0, size, parts + 1, dtype=int)
            )
        ]
        for size, parts in ((mesh.rows, down), (mesh.columns, across))
    )
    table = [
        [Block(program, mesh, row, column, steps) for column in columns]
        for row in rows
    ]
    for first, second in itertools.pairwise(table):
        for low, high in zip(first, second, strict=True):
            low.neighbours[ABOVE], high.neighbours[BELOW] = high, low
    for row_of in table:
        for left, right in itertools.pairwise(row_of):
            left.neighbours[RIGHT], right.neighbours[LEFT] = right, left
    return [block for row_of in table for block in row_of]


def solve(
    blocks: list[Block], mesh: Mesh, steps: int, every: int, tolerance: float
) -> tuple[Array, float]:
    """Do steps until the residual is `tolerance` times the first one; return
    the residuals and milliseconds.
    """
    start, stop = (check(hip.hipEventCreate()) for _ in range(2))
    check(hip.hipEventRecord(start, None))
    done, norms = 0, np.ones(1)
    while done < steps and norms[-1] > tolerance * norms[0]:
        for number in range(done, min(done + every, steps)):
            for block in blocks:
                block.send()
            for block in blocks:
                block.step(number)
        done = min(done + every, steps)
        for block in blocks:
            block.fetch(block.squares, block.norms)
        norms = mesh.norm(
            sum(block.squares[:done].astype("f8") for block in blocks)
        )
    # on the null stream, after all others
    check(hip.hipEventRecord(stop, None))
    check(hip.hipEventSynchronize(stop))
    return norms, check(hip.hipEventElapsedTime(start, stop))


def draw(output: Path, found: Array, norms: Array, expected: Array) -> None:
    """Write a picture of the solution and of the residuals."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 4.4), layout="constrained"
    )
    image = left.imshow(
        found, cmap="viridis", origin="lower", extent=(-0.5, 0.5, -0.5, 0.5)
    )
    figure.colorbar(image, ax=left)
    left.set(title=f"u after {len(norms)} steps", xlabel="x", ylabel="y")
    right.semilogy(norms, linewidth=3, color="tab:orange", label="forebay")
    right.semilogy(expected, "--", color="black", linewidth=1, label="NumPy")
    right.set(title="norm of the residual", xlabel="step")
    right.legend()
    figure.savefig(output, dpi=120)


@click.command()
@click.option(
    "--size",
    default=(48, 48),
    show_default=True,
    type=(click.IntRange(min=4), click.IntRange(min=4)),
)
@click.option(
    "--grid",
    default=(2, 2),
    show_default=True,
    type=(click.IntRange(min=1), click.IntRange(min=1)),
)
@click.option(
    "--steps",
    default=6000,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most.",
)
@click.option(
    "--every",
    default=500,
    show_default=True,
    type=click.IntRange(min=1),
    help="Steps between two looks.",
)
@click.option(
    "--tolerance",
    default=1e-5,
    show_default=True,
    help="Of the residual, relative to the first.",
)
@click.option(
    "--real",
    default="double",
    show_default=True,
    type=click.Choice(list(TOLERANCES)),
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
def main(
    size: tuple[int, int],
    grid: tuple[int, int],
    steps: int,
    every: int,
    tolerance: float,
    real: str,
    output: Path | None,
) -> None:
    """Solve Poisson's equation on SIZE points across and down, in GRID blocks
    across and down.
    """
    if any(
        points < 2 * parts for points, parts in zip(size, grid, strict=True)
    ):
        raise click.BadParameter(
            f"{size} points are too few for {grid} blocks", param_hint="--grid"
        )
    try:
        program = Program(real)
    except NotInstalledError as error:
        raise click.ClickException(str(error)) from None
    print(f"device: {program.device}, the kernels are {program.compiler}")
    mesh = Mesh(rows=size[1], columns=size[0])
    blocks = cut(mesh, *grid, program, steps)
    norms, took = solve(blocks, mesh, steps, every, tolerance)
    found = np.empty((mesh.rows, mesh.columns), program.real)
    for block in blocks:
        part = np.empty((block.ny, block.nx), program.real)
        block.fetch(part, block.u)
        found[block.rows, block.columns] = part
    halo, inner = (
        [
            check(hip.hipEventElapsedTime(*block.times[at : at + 2]))
            for block in blocks
        ]
        for at in (0, 2)
    )
    expected, curve = on_the_host(mesh, len(norms))
    print(
        f"{len(norms)} steps of {len(blocks)} blocks in {took:.0f} ms; the "
        f"residual fell to {norms[-1] / norms[0]:.1e}"
    )
    print(
        f"in the last step the halos took up to {max(halo):.3f} ms, and beside "
        f"them the insides {max(inner):.3f} ms"
    )
    print(
        f"off by {np.abs(found - mesh.sample(solution)[1:-1, 1:-1]).max():.1e} "
        "from the equation's solution"
    )
    if output:
        draw(output, found, norms, curve)
    off = float(np.abs(found - expected).max())
    apart = float(np.abs(norms / curve - 1)[curve > 1e-3 * curve[0]].max())
    wrong = max(off, apart) > TOLERANCES[real]
    print(
        f"{'WRONG' if wrong else 'OK'}: off by at most {off:.1e} from NumPy, "
        f"and the residuals by {apart:.1e}"
    )
    sys.exit(wrong)


if __name__ == "__main__":
    main()
