"""The kernels that are launched, in the language of each compiler. All do next to nothing, with one work-item."""

from __future__ import annotations

from collections.abc import Iterable

ARGUMENTS = (1, 2, 4, 8, 16, 32, 64)
"""The numbers of arguments: a pointer to 32-bit floats, and then 32-bit integers."""


def name_of(arguments: int) -> str:
    """The name of the kernel with so many arguments."""
    return f"take{arguments}"


def _numbers(arguments: int) -> list[str]:
    return [f"n{index}" for index in range(1, arguments)]


def _sum(arguments: int) -> str:
    return " + ".join(_numbers(arguments)) or "1"


def opencl(arguments: Iterable[int] = ARGUMENTS) -> str:
    """OpenCL C."""
    return "\n".join(
        f"kernel void {name_of(count)}({', '.join(['global float *a', *(f'int {n}' for n in _numbers(count))])}) "
        f"{{ a[0] = {_sum(count)}; }}"
        for count in arguments
    )


def cuda(arguments: Iterable[int] = ARGUMENTS) -> str:
    """CUDA C++."""
    return "\n".join(
        f'extern "C" __global__ void {name_of(count)}('
        f"{', '.join(['float *a', *(f'int {n}' for n in _numbers(count))])}) {{ a[0] = {_sum(count)}; }}"
        for count in arguments
    )


def values(arguments: int) -> list[int]:
    """What the integers are."""
    return list(range(100, 100 + arguments - 1))
