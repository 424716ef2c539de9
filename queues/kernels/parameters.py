"""The parameters of kernels: converts declarations in OpenCL C or SPIR-V for the packing of arguments."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from forebay.core import errors
from forebay.core.driver import Parameter
from forebay.spirv import declarations

__all__ = ["UNTYPED", "read_parameter"]

UNTYPED = "u64"
"""The type name of a pointer which may as well be a number: of assembly, where nobody knows. It takes ints, too."""

# Types that are handles of the host's objects rather than values.
OBJECTS = re.compile(r"(image\w*_t|sampler_t|event_t|clk_event_t|queue_t|reserve_id_t|pipe\b.*)$")

SCALARS = {
    "char": ("b", 1), "uchar": ("B", 1), "short": ("h", 2), "ushort": ("H", 2), "int": ("i", 4), "uint": ("I", 4),
    "long": ("q", 8), "ulong": ("Q", 8), "float": ("f", 4), "double": ("d", 8), "half": ("V", 2),
    "unsigned char": ("B", 1), "unsigned short": ("H", 2), "unsigned int": ("I", 4), "unsigned long": ("Q", 8),
}  # fmt: skip
NUMPY_NAMES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "float": "f4", "double": "f8", "half": "f2",
    "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4", "unsigned long": "u8",
}  # fmt: skip
LANES = {"2", "3", "4", "8", "16"}


def read_parameter(
    kernel: str, index: int, declared: declarations.Declared, size_of: Callable[[], int] | None = None
) -> Parameter:
    """Return the Parameter of a declaration. ``size_of()`` gives the bytes of a structure of undeclared size.

    Raises
    ------
    NotSupportedError
        For images, samplers and other objects of the host; without `size_of`, for a structure of undeclared size.
    """
    name, type_name, kind, nbytes, read_only, alignment = declared
    if OBJECTS.match(type_name):
        raise errors.NotSupportedError(
            f"kernel {kernel!r}, parameter {index} ({type_name} {name}): images, samplers and pipes are not supported"
        )
    if kind == "pointer":
        base, lanes = _split(type_name.removesuffix("*").rstrip())
        known = base in NUMPY_NAMES and (not lanes or lanes in LANES)
        return Parameter(name, type_name, "pointer", "", 8, np.dtype(NUMPY_NAMES[base]) if known else None, read_only)
    if kind == "local":
        return Parameter(name, type_name, "local", "L", 8)
    if type_name in SCALARS:
        code, nbytes = SCALARS[type_name]
        half = np.dtype("f2") if type_name == "half" else None
        return Parameter(name, type_name, "value", code, nbytes, half, alignment=nbytes)
    base, lanes = _split(type_name)
    if base in NUMPY_NAMES and lanes in LANES:
        vector = np.dtype((NUMPY_NAMES[base], (int(lanes),)))
        nbytes = vector.base.itemsize * (4 if lanes == "3" else int(lanes))
        return Parameter(name, type_name, "value", "V", nbytes, vector, alignment=alignment or nbytes)
    if not nbytes:
        if size_of is None:
            raise errors.NotSupportedError(
                f"kernel {kernel!r}: its SPIR-V does not have the size of {type_name} {name}"
            )
        nbytes = size_of()
    return Parameter(name, type_name, "value", "V", nbytes, alignment=alignment)


def _split(type_name: str) -> tuple[str, str]:
    """Return the name of a vector's elements, and their number."""
    base = type_name.rstrip("0123456789")
    return base, type_name[len(base) :]
