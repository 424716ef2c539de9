"""The two languages that kernels are generated in: how each says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.core.errors import NotSupportedError

__all__ = ["CPP", "OPENCL_C", "Dialect", "Spelling"]


@dataclass(frozen=True)
class Spelling:
    """What a type is called.

    Attributes
    ----------
    memory : str
        What an array has.
    value : str
        What the expression computes with.
    passed : str
        What a number passed by value arrives as.
    """

    memory: str
    value: str
    passed: str


@dataclass(frozen=True)
class Dialect:
    """A language.

    Attributes
    ----------
    name : str
        That of the object in this module.
    kernel, function : str
        What begins a kernel, and a function that it calls.
    space : str
        Of a pointer to the device's memory.
    index : str
        The type of indices, 64 bits.
    first, step : str
        The index of the work-item, and how many there are.
    group, item : str
        The number of the group, and that of the work-item in it.
    barrier : str
    local : str
        Declares an array TYPE NAME[COUNT] in local memory.
    zero : str
        Initializes a variable of any type.
    spellings : dict
        By the character of the dtype.
    begins : dict
        What must be included, by the character of the dtype.
    references : bool
        Whether an output can be a reference to its element.
    """

    name: str
    kernel: str
    function: str
    space: str
    index: str
    first: str
    step: str
    group: str
    item: str
    barrier: str
    local: str
    zero: str
    spellings: dict[str, Spelling]
    begins: dict[str, str]
    references: bool

    def __reduce__(self) -> str:
        return self.name  # a pickle has the name, since there is one object of each

    def spell(self, what: str, dtype: np.dtype[Any]) -> Spelling:
        """Return the names of a type.

        Raises
        ------
        NotSupportedError
            When the language has no such type.
        """
        found = self.spellings.get(code_of(dtype))
        if found is None and dtype.kind == "c" and self is OPENCL_C:
            raise NotSupportedError(
                f"{what}: OpenCL C has no {dtype}: forebay.cupy_style.ElementwiseKernel takes C++, which has; or pass "
                "the two parts by .view"
            )
        if found is None:
            raise NotSupportedError(f"{what}: devices have no {dtype}")
        return found

    def load(self, dtype: np.dtype[Any], pointer: str, at: str) -> str:
        """Return the expression for an element."""
        if dtype.char == "e":
            return f"vload_half({at}, {pointer})" if self is OPENCL_C else f"__half2float({pointer}[{at}])"
        return f"{pointer}[{at}]"

    def store(self, dtype: np.dtype[Any], pointer: str, at: str, value: str) -> str:
        """Return the statement that sets an element."""
        if dtype.char == "e":
            if self is OPENCL_C:
                return f"vstore_half({value}, {at}, {pointer});"
            return f"{pointer}[{at}] = __float2half({value});"
        return f"{pointer}[{at}] = {value};"

    def pointer(self, dtype: np.dtype[Any], what: str, const: bool) -> str:
        """Return the type of a pointer to elements."""
        return f"{self.space}{'const ' if const else ''}{self.spell(what, dtype).memory} *"


def code_of(dtype: np.dtype[Any]) -> str:
    """Return kind and bytes: NumPy has several characters for one type."""
    return f"{dtype.kind}{dtype.itemsize}"


def _plain(names: dict[str, str]) -> dict[str, Spelling]:
    return {code: Spelling(name, name, name) for code, name in names.items()}


# A bool has a byte, as in NumPy, and kernels take none by value. A half is read and written, and computed as float: not
# every device has an arithmetic of halves.
OPENCL_C = Dialect(
    name="OPENCL_C",
    kernel="kernel void",
    function="static inline",
    space="global ",
    index="long",
    first="get_global_id(0)",
    step="get_global_size(0)",
    group="get_group_id(0)",
    item="get_local_id(0)",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    local="local TYPE NAME[COUNT];",
    zero="0",
    spellings={
        **_plain({
            "i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "long",
            "u8": "ulong", "f4": "float", "f8": "double",
        }),
        "b1": Spelling("uchar", "bool", "uchar"),
        "f2": Spelling("half", "float", "float"),
    },
    begins={},
    references=False,
)  # fmt: skip

# CUDA's compiler finds several meanings of a half + a float.
HALVES = """\
#include <hip/hip_fp16.h>
struct _halves {
    const __half *data; long long count;
    __device__ float operator[](long long at) const { return __half2float(data[at]); }
    __device__ long long size() const { return count; }
};"""

CPP = Dialect(
    name="CPP",
    kernel='extern "C" __global__ void',
    function="static __device__",
    space="",
    index="long long",
    first="(long long)blockIdx.x * blockDim.x + threadIdx.x",
    step="(long long)gridDim.x * blockDim.x",
    group="blockIdx.x",
    item="threadIdx.x",
    barrier="__syncthreads();",
    # the elements may have constructors, which shared memory must not
    local="__shared__ alignas(16) char NAME_bytes[COUNT * sizeof(TYPE)]; TYPE *NAME = (TYPE *)NAME_bytes;",
    zero="{}",
    spellings={
        **_plain({
            "i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short", "i4": "int",
            "u4": "unsigned int", "i8": "long long", "u8": "unsigned long long", "f4": "float", "f8": "double",
            "c8": "complex<float>", "c16": "complex<double>",
        }),
        "b1": Spelling("bool", "bool", "unsigned char"),
        "f2": Spelling("__half", "float", "float"),
    },
    begins={"f2": HALVES, "c8": "#include <cupy/complex.cuh>",
            "c16": "#include <cupy/complex.cuh>"},
    references=True,
)  # fmt: skip
