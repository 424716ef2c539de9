"""Measures the start of a process with twenty kernels, with compilation and with the disk cache.

Each start is a separate process. The drivers' caches are moved, like forebay's, so that the first start finds all of
them empty.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import forebay as ps
from microbench.interleaved import Measured
from tests import null_levelzero

KERNELS = 20
COLD, WARM, DRIVERS = "compiled", "out of forebay's cache", "out of the driver's own cache only"
STARTS = {COLD: False, WARM: False, DRIVERS: True}
"""The starts of a round, in this order, and whether forebay's cache is turned off for it."""
PROCESS, PROGRAM = "the whole process", "the program: built, each kernel launched once, finished"
DRIVERS_CACHES = ("NEO_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")

PART = "typedef struct { float weight; int offset; long large; } Part;"
KERNEL = """
kernel void step{n}(global float4 *restrict to, global const float4 *from, constant int *table, local float4 *shared,
                    int count, float scale, Part part)
{{
    int me = get_global_id(0), at = get_local_id(0), size = get_local_size(0);
    float4 sum = (float4)(part.weight);
    for (int begin = 0; begin < count; begin += size) {{
        shared[at] = from[begin + at];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < size; k++) {{
            float4 apart = shared[k] - from[me];
            float square = dot(apart, apart) + {n}.5f;
            sum += apart * (scale * sin(apart.w) / (square * sqrt(square)));
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    to[me] = sum + (float) (table[part.offset] + part.large);
}}
"""


def run(name: str) -> None:
    """Build and launch twenty kernels, and print the seconds that the program took."""
    with ps.Device(name) as device, device.queue() as queue:
        source = PART + "".join(KERNEL.format(n=n) for n in range(KERNELS))
        to, start, table = device.zeros(256, "f4"), device.zeros(256, "f4"), device.zeros(4, "i4")
        part = np.zeros((), "f4,i4,i8")[()]
        device.finish()
        began = time.perf_counter()
        program = device.program(source)
        for kernel_name in program:
            queue.launch(program[kernel_name], 1, 64, to, start, table, ps.local(64 * 16), 64, 1.0, part)
        queue.finish()
        print(json.dumps(time.perf_counter() - began))


def started(name: str, folder: Path, without_cache: bool) -> tuple[float, float]:
    """Seconds that a process took, and its program."""
    command, environment = [sys.executable, "-m", __name__, name], dict(os.environ)
    if null_levelzero.inside():
        command, environment = null_levelzero.child_command("python", *command[1:])
    environment |= {"FOREBAY_CACHE": str(folder), **dict.fromkeys(DRIVERS_CACHES, str(folder / "driver"))}
    environment.pop("FOREBAY_NO_CACHE", None)
    if without_cache:
        environment["FOREBAY_NO_CACHE"] = "1"
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return took, float(json.loads(done.stdout.splitlines()[-1]))


def starts(name: str, rounds: int) -> dict[str, dict[str, Measured]]:
    """For the process and for its program, microseconds of each kind of start.

    Raises
    ------
    RuntimeError
        If a process fails.
    """
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in STARTS}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="forebay-cold-") as folder:
            Path(folder, "driver").mkdir()
            for kind, without_cache in STARTS.items():
                found[kind].append(started(name, Path(folder), without_cache))
    return {
        what: {kind: Measured(np.array([pair[i] for pair in pairs]) * 1e6) for kind, pairs in found.items()}
        for i, what in enumerate((PROCESS, PROGRAM))
    }


if __name__ == "__main__":
    run(sys.argv[1])
