"""How long the same kernels run, in HIP C++ through clang and in OpenCL C.

    python -m tests.hiprtc.compare
    python -m tests.hiprtc.compare --device opencl:cpu:0 --repeats 40 matmul fft

Ten programs of `tests.hiprtc.programs`, larger than in the tests. Both are launched in turn, each several times before one
`finish`; the ratio is of their minima, and beside it of their medians. Results are compared too.
"""

from __future__ import annotations

import statistics
import sys
import time

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import forebay as fb
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import compile_hip
from forebay.hiprtc.options import split_options

from .programs import COMPARED, Case, opencl_source, source

SIZES = {"saxpy": 4_000_000, "matmul": 512, "reduction": 4_000_000, "histogram": 4_000_000, "nbody": 4096, "scan": 4000,
         "sort": 1000, "stencil": (2000, 1000), "transpose": 1536, "fft": 4000}  # fmt: skip


class Run:
    """A kernel with arguments of its own, ready to be launched."""

    def __init__(self, device: fb.Device, kernel: fb.Kernel, case: Case) -> None:
        self.queue = device.queue()
        self.args = [device.array(arg) if isinstance(arg, np.ndarray) else arg for arg in case.args]
        more = [fb.local(case.shared)] if case.shared else []
        self.launch = kernel.bind(self.queue, case.grid, case.block, *self.args, *more)

    def time(self, launches: int) -> float:
        """Return seconds a launch."""
        start = time.perf_counter()
        for _ in range(launches):
            self.launch()
        self.queue.finish()
        return (time.perf_counter() - start) / launches

    def results(self) -> list[np.ndarray]:
        """Return what the arrays hold."""
        return [arg.get() for arg in self.args if isinstance(arg, fb.Buffer)]


def kernels(device: fb.Device, name: str, case: Case, options: list[str]) -> tuple[fb.Kernel, fb.Kernel]:
    """Return a program's kernel through clang and in OpenCL C."""
    clang, why = find_clang()
    if clang is None:
        sys.exit(f"compare: {why}")
    names = [case.expression] if case.expression else []
    made = compile_hip(clang, source(name), f"{name}.hip", {}, split_options(options), names)
    symbol = made.lowered.get(case.expression, name)
    return device.program(made.code)[symbol], device.program(opencl_source(name))[name]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--device", help="As in FOREBAY_DEVICE.")
@click.option("--repeats", default=20, show_default=True)
@click.option("--launches", default=4, show_default=True, help="Launches before each finish.")
@click.option("--option", multiple=True, help="An option of hiprtcCompileProgram.")
def main(names: tuple[str, ...], device: str | None, repeats: int, launches: int, option: tuple[str, ...]) -> None:
    """Compare the run time of kernels through clang and in OpenCL C."""
    table = Table("kernel", "clang ms", "OpenCL C ms", "ratio of minima", "ratio of medians", "same results")
    ratios = []
    with fb.Device(device) as dev:
        for program in COMPARED:
            name = program.__name__
            if names and name not in names:
                continue
            size = SIZES[name]
            case = program(*size) if isinstance(size, tuple) else program(size)
            ours, theirs = (Run(dev, kernel, case) for kernel in kernels(dev, name, case, list(option)))
            ours.time(1), theirs.time(1)
            pairs = zip(ours.results(), theirs.results(), strict=True)
            same = all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in pairs)
            times = [(ours.time(launches), theirs.time(launches)) for _ in range(repeats)]
            clang, opencl = zip(*times, strict=True)
            low, middle = min(clang) / min(opencl), statistics.median(clang) / statistics.median(opencl)
            ratios.append(low)
            shown = f"{min(clang) * 1e3:.3f}", f"{min(opencl) * 1e3:.3f}", f"{low:.2f}", f"{middle:.2f}", str(same)
            table.add_row(name, *shown)
    Console().print(table)
    print(f"median of the ratios of minima {statistics.median(ratios):.2f}, greatest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
