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
    words : dict
        What it says for each of WORDS.
    spellings : dict
        By the character of the dtype.
    begins : dict
        What must be included, by the character of the dtype.
    references : bool
        Whether an output can be a reference to its element.
    """

    words: dict[str, str]
    spellings: dict[str, Spelling]
    begins: dict[str, str]
    references: bool

    def __getitem__(self, word: str) -> str:
        return self.words[word]

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
        return f"{self['space']}{'const ' if const else ''}{self.spell(what, dtype).memory} *"


def code_of(dtype: np.dtype[Any]) -> str:
    """Return kind and bytes: NumPy has several characters for one type."""
    return f"{dtype.kind}{dtype.itemsize}"


def _plain(names: dict[str, str]) -> dict[str, Spelling]:
    return {code: Spelling(name, name, name) for code, name in names.items()}


# In OpenCL C and in HIP C++
WORDS: dict[str, tuple[str, str]] = {
    "kernel": ("kernel void", 'extern "C" __global__ void'),
    "function": ("static inline", "static __device__"),
    "space": ("global ", ""),  # of a pointer to the device's memory
    "index": ("long", "long long"),  # 64 bits
    "first": ("get_global_id(0)", "(long long)blockIdx.x * blockDim.x + threadIdx.x"),
    "step": ("get_global_size(0)", "(long long)gridDim.x * blockDim.x"),
    "group": ("get_group_id(0)", "blockIdx.x"),
    "item": ("get_local_id(0)", "threadIdx.x"),
    "barrier": ("barrier(CLK_LOCAL_MEM_FENCE);", "__syncthreads();"),
    # The elements may have constructors, which shared memory must not.
    "local": (
        "local TYPE NAME[COUNT];",
        "__shared__ alignas(16) char NAME_bytes[COUNT * sizeof(TYPE)]; TYPE *NAME = (TYPE *)NAME_bytes;",
    ),
    "zero": ("0", "{}"),  # initializes a variable of any type
}

# A bool has a byte, as in NumPy, and kernels take none by value. A half is read and written, and computed as float: not
# every device has an arithmetic of halves.
OPENCL_C = Dialect(
    words={word: in_opencl_c for word, (in_opencl_c, _) in WORDS.items()},
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
    words={word: in_cpp for word, (_, in_cpp) in WORDS.items()},
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
