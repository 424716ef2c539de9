"""Many small matrix products on 32 queues: ``python -m examples.products``.

Each queue multiplies matrices of its own in a chain, and waits for no other.
With one queue the same work is submitted as fast, but a device with room for
several kernels runs them one after the other. NumPy checks the results.
"""

from __future__ import annotations

import sys
import time

import click
import numpy as np

import forebay as fb

SIZE = 32
SOURCE = f"""
#define SIZE {SIZE}
kernel void multiply(global const float *a, global const float *b,
                     global float *c)
{{
    local float left[SIZE][SIZE], right[SIZE][SIZE];
    const int x = get_local_id(0), y = get_local_id(1);
    for (int row = y; row < SIZE; row += get_local_size(1)) {{
        left[row][x] = a[row * SIZE + x];
        right[row][x] = b[row * SIZE + x];
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = y; row < SIZE; row += get_local_size(1)) {{
        float sum = 0;
        for (int k = 0; k < SIZE; k++)
            sum += left[row][k] * right[k][x];
        c[row * SIZE + x] = sum;
    }}
}}
"""
BLOCK = (SIZE, 8)
TOLERANCE = 1e-4


def rotations(count: int) -> np.ndarray:
    """Orthogonal matrices, so that no product of many of them grows or
    vanishes.
    """
    random = np.random.default_rng(3)
    return np.linalg.qr(random.normal(size=(count, SIZE, SIZE)))[0].astype("f4")


@click.command()
@click.option(
    "--queues", default=32, show_default=True, type=click.IntRange(min=1)
)
@click.option(
    "--length",
    default=50,
    show_default=True,
    type=click.IntRange(min=1),
    help="Products of each chain.",
)
@click.option(
    "--chains", default=32, show_default=True, type=click.IntRange(min=1)
)
def main(queues: int, length: int, chains: int) -> None:
    """Multiply matrices in chains, and compare the results with NumPy's."""
    device = fb.Device()
    multiply = device.program(SOURCE)["multiply"]
    given = rotations(chains)
    factors = device.array(given)
    both = [device.array(given), device.empty(given.shape)]
    streams = [device.queue(blocking=False) for _ in range(queues)]
    device.finish()
    before = device.stats
    start = time.perf_counter()
    for turn in range(length):
        source, target = both[turn % 2], both[1 - turn % 2]
        for chain in range(chains):
            streams[chain % queues].launch(
                multiply, 1, BLOCK, source[chain], factors[chain], target[chain]
            )
    submitted = time.perf_counter() - start
    device.finish()
    took = time.perf_counter() - start
    made = device.stats - before
    expected = np.stack(
        [np.linalg.matrix_power(one.astype("f8"), length + 1) for one in given]
    )
    off = float(np.abs(both[length % 2].get() - expected).max())
    print(
        f"device: {device.name}, {made.launches} products of {SIZE} × {SIZE} "
        f"on {queues} queues"
    )
    print(
        f"submitted in {submitted * 1e3:.1f} ms, done after {took * 1e3:.1f} "
        f"ms; {made.waits_made} waits between queues"
    )
    print(
        f"{'OK' if off <= TOLERANCE else 'WRONG'}: off by at most {off:.1e} "
        "from NumPy"
    )
    sys.exit(off > TOLERANCE)


if __name__ == "__main__":
    main()
