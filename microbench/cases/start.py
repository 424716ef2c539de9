"""The start of a process: the import, and a program with kernels to compile, with forebay's cache and without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ..harness import Bench, Point, Subjects
from ..layers import Subject
from ..processes import run_python

DRIVERS_CACHES = ("NEO_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")
MODULE = __package__.removesuffix(".cases") + ".program"


def importing(package: str, note: str = "") -> Subject:
    """A process that imports a package."""
    return Subject(lambda n: sum(run_python("-c", f"import {package}")[0] for _ in range(n)), nullcontext, note)


@contextmanager
def imports(bench: Bench) -> Iterator[Subjects]:
    """Processes that only import."""
    floor = importing("numpy", "import numpy")
    yield {"C": floor, "forebay": importing("forebay"), "pyopencl": importing("pyopencl")}


@contextmanager
def programs(count: int, compiled: bool, environment: dict[str, str], bench: Bench) -> Iterator[Subjects]:
    """Processes that use the given number of kernels, each compiled or out of a cache.

    The drivers' caches are moved like forebay's, so that both begin empty.
    """

    def program(folder: str) -> float:
        driver = Path(folder, "driver")
        driver.mkdir(exist_ok=True)
        moved: dict[str, Any] = {"FOREBAY_CACHE": folder, "FOREBAY_NO_CACHE": None}
        moved |= dict.fromkeys(DRIVERS_CACHES, str(driver))
        return run_python("-m", MODULE, bench.device.name, str(count), **moved | environment)[0]

    def fresh() -> float:
        with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
            return program(folder)

    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as filled:
        if not compiled:
            program(filled)
        run = fresh if compiled else partial(program, filled)
        yield {"forebay": Subject(lambda n: sum(run() for _ in range(n)), nullcontext)}


def points(bench: Bench) -> Sequence[Point]:
    """An import, and the program."""
    count, rounds = (4, 1) if bench.quick else (20, 7)
    caches: dict[str, tuple[bool, dict[str, str]]] = {
        "compiled": (True, {}),
        "out of forebay's cache": (False, {}),
        "out of the driver's cache": (False, {"FOREBAY_NO_CACHE": "1"}),
    }
    return [
        Point("import", calls=1, rounds=rounds, setup=imports),
        *(
            Point(f"{count} kernels, {name}", calls=1, rounds=rounds, setup=partial(programs, count, *how))
            for name, how in caches.items()
        ),
    ]
