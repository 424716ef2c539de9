"""A program with kernels to compile, in a process of its own: builds them, launches each once, and finishes."""

from __future__ import annotations

import sys

import numpy as np

import forebay as fb

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


def run(name: str, count: int) -> None:
    """Build the given number of kernels on a device and launch each."""
    with fb.Device(name) as device, device.queue() as queue:
        program = device.program(PART + "".join(KERNEL.format(n=n) for n in range(count)))
        to, start, table = device.zeros(256, "f4"), device.zeros(256, "f4"), device.zeros(4, "i4")
        part = np.zeros((), "f4,i4,i8")[()]
        for kernel_name in program:
            queue.launch(program[kernel_name], 1, 64, to, start, table, fb.local(64 * 16), 64, 1.0, part)
        queue.finish()


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
