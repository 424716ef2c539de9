"""Tables of kernels and calls, each compiled as one program, whose results on the device must be those of the host.

`kernel_differences` compiles the kernels for the host, too, with `hip_on_host.hpp`, and compares all that they leave in
memory. `call_differences` compares calls of device functions with functions of NumPy's arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.clang import find_clang
from forebay.compiler.program import KernelInfo

from ..running import Built
from .host import HostError, HostProgram, Launch, run

SCALARS = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8",
           "ulong": "u8", "half": "f2", "float": "f4", "double": "f8"}  # fmt: skip
MOST_BARRIERS = 8
INCLUDE = re.compile(r"^\s*#include .*$", re.MULTILINE)
ASSIGNS = re.compile(r"(?:^|[ {;&(,*])r(?: =|[.,)[])")  # to r itself, or passes it to what does
C_TYPES = {"i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short", "i4": "int", "u4": "unsigned",
           "i8": "long long", "u8": "unsigned long long", "f2": "__half", "f4": "float", "f8": "double"}  # fmt: skip


@dataclasses.dataclass
class Case:
    """A launch of a kernel in HIP C++, with a grid and block as for `Queue.launch`; arrays are copied in and out."""

    source: str
    grid: Any
    block: Any
    args: Sequence[Any]
    kernel: str = "k"  # its name, or an instance
    shared: int = 0  # bytes of dynamic shared memory
    rtol: float = 1e-5  # by default as far as contraction and another order of sums move floats
    atol: float = 1e-6


def case(source: str, grid: Any, block: Any, *args: Any, **more: Any) -> Case:
    """Return a `Case`."""
    return Case(source, grid, block, args, **more)


def bytes_of(value: Any, type_name: str) -> bytes:
    """Return a scalar argument as the kernel's parameter has it."""
    return np.asarray(value, SCALARS.get(type_name)).tobytes()


def three(size: Any) -> tuple[int, int, int]:
    """Return a grid or a block in three dimensions."""
    return (*np.atleast_1d(size).tolist(), 1, 1)[:3]


@functools.lru_cache(8)
def on_host(source: str, kernels: tuple[str, ...]) -> HostProgram:
    """Return a program compiled for the host, once for all devices."""
    clang, why = find_clang()
    if clang is None:  # where NVRTC compiles for the device
        pytest.skip(why)
    return HostProgram(clang, source, kernels)


def left_on_host(program: HostProgram, index: int, case: Case, info: KernelInfo) -> list[np.ndarray]:
    """Return what the arrays of a case hold after a launch on the host."""
    given = [
        arg.ravel() if isinstance(arg, np.ndarray) and arg.ndim else bytes_of(arg, parameter.type_name)
        for arg, parameter in zip(case.args, info.parameters, strict=False)
    ]
    return run(program, index, Launch(three(case.grid), three(case.block), given, case.shared))


def joined(cases: Mapping[str, Case]) -> tuple[str, tuple[str, ...]]:
    """Return one source, with a namespace for each source if there are several, and expressions for the cases' kernels."""
    spaces: dict[str, str] = {}
    for each in cases.values():
        spaces.setdefault(each.source, f"case_{len(spaces)}")
    if len(spaces) == 1:
        return next(iter(spaces)), tuple(each.kernel for each in cases.values())
    headers = dict.fromkeys(line.strip() for source in spaces for line in INCLUDE.findall(source))
    parts = (f"namespace {name} {{ {INCLUDE.sub('', source)}\n}}" for source, name in spaces.items())
    return "\n".join([*headers, *parts]), tuple(f"{spaces[each.source]}::{each.kernel}" for each in cases.values())


def units_between(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return how many units in the last place are between floats; infinity where only one is NaN."""
    least, wide = np.iinfo(f"i{got.dtype.itemsize}").min, "i8" if got.dtype.itemsize < 8 else "O"
    words = (each.view(f"i{each.dtype.itemsize}").astype(wide) for each in (got, expected))
    a, b = (np.where(each < 0, least - each, each) for each in words)
    one, both = np.isnan(got) ^ np.isnan(expected), np.isnan(got) & np.isnan(expected)
    return np.where(both, 0, np.where(one, np.inf, abs(a - b).astype("f8")))


def first_difference(
    name: str, got: np.ndarray, expected: np.ndarray, rtol: float, atol: Any, units: float | None = None
) -> list[str]:
    """Return where two arrays differ, in words."""
    if units is not None:
        same = units_between(got, expected) <= units
    elif expected.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            same = np.isclose(got, expected, rtol, atol, equal_nan=True)
    else:
        same = got == expected
    if same.all():
        return []
    at = np.flatnonzero(~same.ravel())
    return [f"{name}: {len(at)} differ, [{at[0]}] {got.ravel()[at[0]]}, on the host {expected.ravel()[at[0]]}"]


def kernel_differences(
    device: fb.Device, queue: fb.Queue, cases: Mapping[str, Case], options: Sequence[str] = ()
) -> list[str]:
    """Return what the kernels leave in another way on the device than on the host."""
    source, kernels = joined(cases)
    built = Built(device, queue, source, options, tuple(dict.fromkeys(kernels)))
    host = on_host(source, kernels)
    found = []
    for index, (name, each) in enumerate(cases.items()):
        args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in each.args]
        built.run(kernels[index], each.grid, each.block, *args, shared=each.shared)
        try:
            left = iter(left_on_host(host, index, each, built.info(kernels[index])))
        except HostError as error:
            raise HostError(f"{name}: {error}") from None
        for place, arg in enumerate(args):
            if isinstance(arg, np.ndarray) and arg.ndim:
                expected = next(left).view(arg.dtype).reshape(arg.shape)
                found += first_difference(f"{name}, argument {place}", arg, expected, each.rtol, each.atol)
    return found


@dataclasses.dataclass
class Calls:
    """Calls of device functions, each on the same arrays.

    A call is an expression of the names in `given`, or statements that assign to ``r``. Its function of the arrays may
    return how far each result may be, too.
    """

    rows: Mapping[str, Callable[..., Any]]
    result: str  # the type of the results
    given: Mapping[str, np.ndarray]  # one element for each thread
    head: str = ""  # C++ before the kernel
    begin: str = ""  # statements before all rows
    block: Any = 0  # threads of a block; by default at most 64
    rtol: float = 0  # as for `numpy.isclose`; integers must be the same
    atol: float = 0
    # Instead of these, by call: how many units in the last place a result may be from the exact one's nearest float.
    units: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def parts(self) -> list[Calls]:
        """Return tables of fewer rows each if there are barriers, over many of which Intel's compiler for CPUs crashes."""
        rows = list(self.rows.items())
        most = MOST_BARRIERS if "__shared__" in self.begin else len(rows)
        return [dataclasses.replace(self, rows=dict(rows[at : at + most])) for at in range(0, len(rows), most)]

    def kernel(self) -> str:
        """Return the kernel ``k``."""
        kinds = {name: C_TYPES[array.dtype.str[1:]] for name, array in self.given.items()}
        result = C_TYPES[self.result]
        parameters = ", ".join([*(f"const {kind}* {name}_" for name, kind in kinds.items()), f"{result}* out_"])
        loads = "".join(f"{kind} {name} = {name}_[i]; " for name, kind in kinds.items())
        between = "__syncthreads(); " if "__shared__" in self.begin else ""
        calls = (call if ASSIGNS.search(call) else f"r = ({result})({call})" for call in self.rows)
        rows = "\n".join(
            f"{{ {result} r; {call}; out_[{number} * n + i] = r; {between}}}" for number, call in enumerate(calls)
        )
        return f"""{self.head}
            __global__ void k({parameters}) {{
                int rank = threadIdx.x + blockDim.x * threadIdx.y, size = blockDim.x * blockDim.y;
                int i = blockIdx.x * size + rank, n = gridDim.x * size; {loads}
                {self.begin}
                {rows}
            }}"""

    def differences(self, built: Built, kernel: str) -> list[str]:
        """Return what the device finds in another way than the host."""
        (count,) = {len(array) for array in self.given.values()}
        block = self.block or min(count, 64)
        grid = count // int(np.prod(block))
        out = np.zeros((len(self.rows), count), self.result)
        built.run(kernel, grid, block, *(array.copy() for array in self.given.values()), out)
        found = []
        with np.errstate(all="ignore"):
            for (call, function), got in zip(self.rows.items(), out, strict=True):
                wide = (a.astype("f8") if a.dtype.kind == "f" else a for a in self.given.values())
                exact, atol = value if isinstance(value := function(*wide), tuple) else (value, self.atol)
                expected = np.broadcast_to(np.asarray(exact), got.shape).astype(got.dtype)
                found += first_difference(call, got, expected, self.rtol, atol, self.units.get(call))
        return found


def call_differences(
    device: fb.Device, queue: fb.Queue, tables: Sequence[Calls], options: Sequence[str] = ()
) -> list[str]:
    """Return which calls find something else on the device than on the host, and what."""
    tables = [part for each in tables for part in each.parts()]
    source, kernels = joined({str(number): case(each.kernel(), 1, 1) for number, each in enumerate(tables)})
    built = Built(device, queue, source, options, kernels)
    return [line for each, kernel in zip(tables, kernels, strict=True) for line in each.differences(built, kernel)]
