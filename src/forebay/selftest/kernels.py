"""The kernels of the litmus tests: slow when asked to be, so that a command that does not wait is seen."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import forebay as fb

WIDTH = 16
"""Work-items of a launch, in one group: what is slow must not keep other queues from the device."""

# What a kernel reads and writes comes after the loop, because the compiler cannot know that its state is never 0.
IN_OPENCL_C = """
kernel void combine(global uint *to, global const uint *from, uint steps, uint number) {
    uint state = 2463534242u;
    for (uint i = 0; i < steps; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    uint at = (uint) get_global_id(0) + (state == 0);
    to[at] = to[at] * 5u + from[at] * 3u + number;
}

kernel void increase(global uint *to, uint number) { to[get_global_id(0)] += number; }

kernel void nothing(void) { }
"""
IN_CPP = re.sub(
    r"\b(?:kernel|global|uint|get_global_id\(0\))(?!\w)",
    lambda word: {
        "kernel": 'extern "C" __global__', "global": "", "uint": "unsigned int",
        "get_global_id(0)": "(blockIdx.x * blockDim.x + threadIdx.x)",
    }[word[0]],
    IN_OPENCL_C,
)  # fmt: skip

SLOW = 300e-6  # seconds that a slow kernel takes, or more
ROUND_TRIPS = 5  # that fit into it, or more: in that time the next command is submitted
FEWEST, MOST = 10_000, 50_000_000  # steps of its loop


def build(device: fb.Device) -> tuple[fb.Program, str]:
    """Build the kernels. Returns the program, and the language that it is in.

    Raises the error of OpenCL C when they build neither from that nor from C++.
    """
    try:
        return device.program(IN_OPENCL_C), "OpenCL C"
    except fb.Error:
        try:  # Intel's GPUs need a separate compiler for OpenCL C, and clang comes from PyPI
            return device.program(IN_CPP), "C++"
        except fb.Error:
            pass
        raise  # that of OpenCL C, which says what to install


def calibrate(launch_and_finish: Callable[[int], None]) -> tuple[int, float]:
    """Find how many steps make a kernel slow, and how many seconds that takes.

    The function launches a kernel with that many steps, and waits for it.
    """

    def seconds(steps: int) -> float:
        began = time.perf_counter()
        launch_and_finish(steps)
        return time.perf_counter() - began

    launch_and_finish(0)
    wanted = max(SLOW, ROUND_TRIPS * min(seconds(0) for _ in range(10)))
    steps = FEWEST
    while (taken := min(seconds(steps) for _ in range(3))) < wanted and steps < MOST:
        steps *= 2
    return steps, taken
