"""Whole programs, written for these tests: each in HIP C++, ten also in OpenCL C, with a reference in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A launch of a program and what must come out of it.

    Attributes
    ----------
    args
        Of the kernel; arrays are copied in and out.
    expected
        Position of an argument -> what it must be then.
    rtol, atol
        As for `numpy.allclose`; 0 and 0: the same.
    shared
        Bytes of dynamic shared memory.
    expression
        The instance, of a template.
    variables
        ``__constant__`` variables that are written before.
    """

    grid: Any
    block: Any
    args: Sequence[Any]
    expected: dict[int, np.ndarray]
    rtol: float = 0
    atol: float = 0
    shared: int = 0
    expression: str = ""
    variables: dict[str, np.ndarray] | None = None


def source(name: str) -> str:
    """Return a program in HIP C++."""
    return (FOLDER / f"{name}.hip").read_text()


def opencl_source(name: str) -> str:
    """Return the same program in OpenCL C."""
    return (FOLDER / "opencl" / f"{name}.cl").read_text()


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def saxpy(n: int = 10_000) -> Case:
    x, y = rng().random((2, n), dtype="f4")
    return Case((n + 255) // 256, 256, (2.5, x, y, n), {2: np.float32(2.5) * x + y}, rtol=1e-6)


def matmul(n: int = 128) -> Case:
    a, b = rng().random((2, n, n), dtype="f4")
    return Case((n // 16, n // 16), (16, 16), (a, b, np.zeros_like(a), n), {2: a @ b}, rtol=1e-5)


def reduction(n: int = 50_000) -> Case:
    x = rng().random(n, dtype="f4")
    blocks, threads = 8, 256
    padded = np.zeros(-(-n // (blocks * threads)) * blocks * threads)
    padded[:n] = x
    sums = padded.reshape(-1, blocks, threads).sum((0, 2))
    return Case(blocks, threads, (x, np.zeros(blocks, "f4"), n), {1: sums}, rtol=1e-5)


def histogram(n: int = 50_000) -> Case:
    data = rng().integers(0, 256, n, dtype="u1")
    return Case(8, 256, (data, np.zeros(256, "u4"), n), {1: np.bincount(data, minlength=256)})


def nbody(n: int = 512) -> Case:
    bodies = rng().random((n, 4), dtype="f4")
    apart = bodies[None, :, :3].astype("f8") - bodies[:, None, :3]
    pull = bodies[:, 3] * ((apart**2).sum(2) + 0.01) ** -1.5
    expected = np.concatenate([(apart * pull[:, :, None]).sum(1), np.zeros((n, 1))], 1)
    return Case(n // 128, 128, (bodies, np.zeros_like(bodies), n, 0.01), {1: expected}, rtol=1e-3, atol=0.05)


def scan(blocks: int = 16) -> Case:
    x = rng().integers(-99, 99, (blocks, 256), dtype="i4")
    sums = np.cumsum(x, 1, dtype="i4")
    return Case(blocks, 256, (x, np.zeros_like(x), np.zeros(blocks, "i4")), {1: sums, 2: sums[:, -1]}, shared=2048)


def sort(blocks: int = 16) -> Case:
    x = rng().random((blocks, 512), dtype="f4")
    return Case(blocks, 256, (x,), {0: np.sort(x, 1)})


def stencil(width: int = 200, height: int = 100) -> Case:
    before = rng().random((height, width), dtype="f4")
    after = before.copy()
    around = before[1:-1, :-2] + before[1:-1, 2:] + before[:-2, 1:-1] + before[2:, 1:-1]
    after[1:-1, 1:-1] += np.float32(0.2) * (around - 4 * before[1:-1, 1:-1])
    grid = (-(-width // 32), -(-height // 8))
    return Case(grid, (32, 8), (before, np.zeros_like(before), width, height), {1: after}, rtol=1e-5, atol=1e-6)


def transpose(n: int = 128) -> Case:
    x = rng().random((n, n), dtype="f4")
    args = x, np.zeros_like(x), n
    return Case((n // 16, n // 16), (16, 16), args, {1: x.T}, expression="transpose<float>")


def fft(blocks: int = 16) -> Case:
    x = (rng().normal(size=(blocks, 256)) + 1j * rng().normal(size=(blocks, 256))).astype("c8")
    result = np.fft.fft(x).astype("c8").view("f4")
    return Case(blocks, 128, (x.view("f4"), np.zeros((blocks, 512), "f4")), {1: result}, rtol=1e-3, atol=1e-3)


def spmv(n: int = 200) -> Case:
    matrix = np.where(rng().random((n, n)) < 0.1, rng().random((n, n)), 0)
    rows = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype("i4")
    columns, values, x = np.nonzero(matrix)[1].astype("i4"), matrix[matrix != 0], rng().random(n)
    return Case(-(-n // 16), 128, (rows, columns, values, x, np.zeros(n), n), {4: matrix @ x}, rtol=1e-12)


def life(width: int = 100, height: int = 60) -> Case:
    before = rng().integers(0, 2, (height, width), dtype="u1")
    count = sum(np.roll(before, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - before
    args = before, np.zeros_like(before), width, height
    return Case((4, 8), (32, 8), args, {1: (count == 3) | ((before == 1) & (count == 2))})


def kmeans(n: int = 5_000) -> Case:
    points, centres = rng().random((n, 2), dtype="f4"), np.random.default_rng(1).random((5, 2), dtype="f4")
    nearest = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    sums = np.array([points[nearest == c].sum(0, dtype="f8") for c in range(5)])
    args = points, np.zeros(n, "i4"), np.zeros((5, 2), "f4"), np.zeros(5, "i4"), n
    expected = {1: nearest, 2: sums, 3: np.bincount(nearest, minlength=5)}
    return Case(8, 128, args, expected, rtol=1e-4, variables={"centres": centres})


def mandelbrot(width: int = 90, height: int = 60, limit: int = 50) -> Case:
    c = 3 * np.arange(width) / width - 2 + 1j * (2 * np.arange(height)[:, None] / height - 1)
    z, steps = np.zeros_like(c), np.zeros(c.shape, "i4")
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 <= 4
        steps += inside
        z = np.where(inside, z * z + c, z)
    return Case((3, 8), (32, 8), (np.zeros_like(steps), width, height, limit), {0: steps}, atol=1)


def black_scholes(n: int = 1024) -> Case:
    from math import erfc

    price, strike, years = rng().uniform(5, 30, (3, n))
    rate, volatility = 0.02, 0.3
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    cdf = np.vectorize(lambda x: erfc(-x / np.sqrt(2)) / 2)
    present = strike * np.exp(-rate * years)
    call = price * cdf(d1) - present * cdf(d1 - spread)
    args = price, strike, years, rate, volatility, np.zeros(n), np.zeros(n)
    expected = {5: call, 6: call - price + present}
    return Case(n // 128, 128, args, expected, rtol=1e-9, atol=1e-9, expression="black_scholes<double>")


def merge(na: int = 1000, nb: int = 777) -> Case:
    a, b = np.sort(rng().integers(0, 500, na, dtype="i4")), np.sort(rng().integers(0, 500, nb, dtype="i4"))
    return Case(8, 128, (a, na, b, nb, np.zeros(na + nb, "i4")), {4: np.sort(np.concatenate([a, b]))})


def search(n: int = 500) -> Case:
    edges = rng().random((n, n)) < 0.01
    starts = np.concatenate([[0], np.cumsum(edges.sum(1))]).astype("i4")
    distance = np.full(n, -1, "i4")
    distance[:5] = 3
    after = np.where((distance == -1) & edges[:5].any(0), 4, distance)
    args = starts, np.nonzero(edges)[1].astype("i4"), distance, 3, n, np.zeros(1, "i4")
    return Case(4, 128, args, {2: after, 5: np.ones(1)})


def philox(counters: np.ndarray, keys: tuple[int, int]) -> np.ndarray:
    """Return four numbers for each counter of four words: Philox4x32-10."""
    c, (first, second), mask = counters.astype("u8"), keys, 2**32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[:, 0], 0xCD9E8D57 * c[:, 2]
        c = np.stack([b >> 32 ^ c[:, 1] ^ first, b & mask, a >> 32 ^ c[:, 3] ^ second, a & mask], 1)
        first, second = first + 0x9E3779B9 & mask, second + 0xBB67AE85 & mask
    return c


def monte_carlo(blocks: int = 6, points: int = 50) -> Case:
    threads, steps = blocks * 128, points // 2
    counters = np.zeros((threads, steps, 4), "u8")
    counters[:, :, 0], counters[:, :, 2] = np.arange(steps), np.arange(threads)[:, None]
    drawn = philox(counters.reshape(-1, 4), (5, 7)).reshape(-1, 2) >> 16
    inside = ((drawn**2).sum(1) < 2**32).reshape(blocks, -1).sum(1).astype("u4")
    return Case(blocks, 128, (np.zeros(blocks, "u4"), 7 << 32 | 5, points), {0: inside})


COMPARED: tuple[Callable[..., Case], ...] = (
    saxpy, matmul, reduction, histogram, nbody, scan, sort, stencil, transpose, fft,
)  # fmt: skip
PROGRAMS = (*COMPARED, spmv, life, kmeans, mandelbrot, black_scholes, merge, search, monte_carlo)
