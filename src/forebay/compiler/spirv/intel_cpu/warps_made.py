"""Whether Intel's runtime for CPUs made the warps that a kernel asks for, which only its binary tells."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from forebay.compiler.spirv.module import COUNTED_WARPS

__all__ = ["NO_WARPS", "options_for_warps", "without_warps"]

NO_WARPS = (
    "it has warps, and Intel's compiler for CPUs made no vectors of it: each thread would be a warp of its own. "
    "-O3, or a loop of another form, may help"
)

# The attributes of a kernel, as clGetKernelInfo gives them, and the width of the vectors that were made (2026.2).
ASKED = re.compile(rb"intel_vec_len_hint\((\d+)\)[^\0]*\0(....)", re.DOTALL)


def options_for_warps(source: bytes, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options for the runtime's compiler: it makes no warps when it must not optimize."""
    if COUNTED_WARPS.encode() not in source:
        return options
    return tuple(each for each in options if each != "-cl-opt-disable")


def without_warps(binary: bytes, kernels: Iterable[str]) -> set[str]:
    """Return the kernels that asked for warps and got none.

    OpenCL's queries answer for them with what was asked for. In a binary of another form no such kernel is found.
    """
    names = {struct.pack("<I", len(name.encode()) + 1) + name.encode() + b"\0": name for name in kernels}
    if not names:
        return set()
    any_name = re.compile(b"|".join(map(re.escape, names)))
    found = set()
    for asked in ASKED.finditer(binary):
        (width,) = struct.unpack("<I", asked[2])
        name = any_name.search(binary, asked.end())
        if name is not None and width == 1 < int(asked[1]):
            found.add(names[name[0]])
    return found
