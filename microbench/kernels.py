"""The kernels that are launched, in the language of each compiler. All do next to nothing, with one work-item."""

from __future__ import annotations

ARGUMENTS = (1, 2, 4, 8, 16, 32, 64)
"""The numbers of arguments: a pointer to 32-bit floats, and then 32-bit integers."""


def name_of(arguments: int) -> str:
    """The name of the kernel with the given number of arguments."""
    return f"take{arguments}"


def _source(head: str, pointer: str) -> str:
    lines = []
    for count in ARGUMENTS:
        numbers = [f"n{index}" for index in range(1, count)]
        parameters = ", ".join([pointer, *(f"int {name}" for name in numbers)])
        lines.append(f"{head} {name_of(count)}({parameters}) {{ a[0] = {' + '.join(numbers) or '1'}; }}")
    return "\n".join(lines)


def opencl() -> str:
    """OpenCL C."""
    return _source("kernel void", "global float *a")


def cuda() -> str:
    """CUDA C++."""
    return _source('extern "C" __global__ void', "float *a")


def values(arguments: int) -> list[int]:
    """What the integers are."""
    return list(range(100, 100 + arguments - 1))
