"""Whole programs in HIP C++: the same is left in memory as on the host."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

RNG = np.random.default_rng(11)


def program(name, grid, block, *args, **more):
    source = (Path(__file__).parent / "programs" / f"{name.partition('<')[0]}.hip").read_text()
    return case(source, grid, block, *args, kernel=name, **more)


def floats(*shape):
    return RNG.random(shape, dtype="f4")


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


def integers(low, high, *shape, dtype="i4"):
    return RNG.integers(low, high, shape, dtype=dtype)


def sparse(density):
    """Which of a matrix are there, where each row begins, and the column of each."""
    there = RNG.random((500, 500)) < density
    return np.concatenate([[0], np.cumsum(there.sum(1))]).astype("i4"), np.nonzero(there)[1].astype("i4")


ROWS, COLUMNS = sparse(0.02)
REACHED = np.where(np.arange(500) < 5, 3, -1).astype("i4")
PROGRAMS = (
    program("saxpy", 40, 256, 2.5, floats(10_000), floats(10_000), 10_000),
    program("matmul", (8, 8), (16, 16), floats(128, 128), floats(128, 128), zeros(128, 128), 128),
    program("reduction", 8, 256, floats(50_000), zeros(8), 50_000),
    program("histogram", 8, 256, integers(0, 256, 50_000, dtype="u1"), zeros(256, dtype="u4"), 50_000),
    program("nbody", 4, 128, floats(512, 4), zeros(512, 4), 512, 0.01, rtol=1e-3, atol=0.05),
    program("scan", 16, 256, integers(-99, 99, 16, 256), zeros(16, 256, dtype="i4"), zeros(16, dtype="i4"), shared=2048),
    program("sort", 16, 256, floats(16, 512)),
    program("stencil", (7, 13), (32, 8), floats(100, 200), zeros(100, 200), 200, 100),
    program("transpose<float>", (8, 8), (16, 16), floats(128, 128), zeros(128, 128), 128),
    program("fft", 16, 128, RNG.normal(size=(16, 512)).astype("f4"), zeros(16, 512), rtol=1e-3, atol=1e-3),
    program("spmv", 32, 128, ROWS, COLUMNS, RNG.random(len(COLUMNS)), RNG.random(500), np.zeros(500), 500, rtol=1e-12),
    program("life", (4, 8), (32, 8), integers(0, 2, 60, 100, dtype="u1"), zeros(60, 100, dtype="u1"), 100, 60),
    program("kmeans", 8, 128, floats(5_000, 2), zeros(5_000, dtype="i4"), zeros(5, 2), zeros(5, dtype="i4"), 5_000, rtol=1e-4),
    program("black_scholes<double>", 8, 128, *(RNG.uniform(5, 30, 1024) for _ in range(3)), 0.02, 0.3, *np.zeros((2, 1024)),
            rtol=1e-9, atol=1e-9),
    program("merge", 8, 128, np.sort(integers(0, 500, 1000)), 1000, np.sort(integers(0, 500, 777)), 777, zeros(1777, dtype="i4")),
    program("search", 4, 128, ROWS, COLUMNS, REACHED, 3, 500, zeros(1, dtype="i4")),
)  # fmt: skip


@pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")
def test_the_same_is_left_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, {each.kernel: each for each in PROGRAMS})) == []
