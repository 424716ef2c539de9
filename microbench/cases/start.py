"""The start of a process: the import, and a program with kernels to compile, with forebay's cache and without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ..bench import Bench, Case, Point, Subjects
from ..layers import Subject
from ..processes import run_python

DRIVERS_CACHES = ("NEO_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")
MODULE = __package__.removesuffix(".cases") + ".program"


def importing(package: str, note: str = "") -> Subject:
    """A process that imports a package."""
    return Subject(lambda n: sum(run_python("-c", f"import {package}")[0] for _ in range(n)), nullcontext, note)


@contextmanager
def imports() -> Iterator[Subjects]:
    """Processes that only import."""
    floor = importing("numpy", "import numpy")
    yield {"C": floor, "forebay": importing("forebay"), "pyopencl": importing("pyopencl")}


def points(bench: Bench) -> Sequence[Point]:
    """An import, and the program. The drivers' caches are moved like forebay's, so that both begin empty."""
    count = 4 if bench.quick else 20
    rounds = 1 if bench.quick else 7

    def program(folder: Path, **environment: str) -> float:
        (folder / "driver").mkdir(exist_ok=True)
        moved: dict[str, Any] = {"FOREBAY_CACHE": str(folder), "FOREBAY_NO_CACHE": None}
        moved |= dict.fromkeys(DRIVERS_CACHES, str(folder / "driver"))
        return run_python("-m", MODULE, bench.device.name, str(count), **moved | environment)[0]

    def once(n: int) -> float:
        taken = 0.0
        for _ in range(n):
            with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
                taken += program(Path(folder))
        return taken

    def point(name: str, **environment: str) -> Point:
        @contextmanager
        def setup() -> Iterator[Subjects]:
            with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:

                def again(n: int, folder: Path = Path(folder)) -> float:
                    return sum(program(folder, **environment) for _ in range(n))

                if name == "compiled":
                    yield {"forebay": Subject(once, nullcontext)}
                else:
                    again(1)
                    yield {"forebay": Subject(again, nullcontext)}

        return Point(f"{count} kernels, {name}", setup, calls=1, rounds=rounds)

    return [
        Point("import", imports, calls=1, rounds=rounds),
        point("compiled"),
        point("out of forebay's cache"),
        point("out of the driver's cache", FOREBAY_NO_CACHE="1"),
    ]


CASE = Case("start", "The start of a process", points)
