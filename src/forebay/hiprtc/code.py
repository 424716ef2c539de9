"""What ``hiprtcGetCode`` gives and ``hipModuleLoadData`` takes: OpenCL C, SPIR-V or a cubin, its kernels and variables.

A code object of forebay is

===== ====================================================
bytes
===== ====================================================
8     the magic ``FOREBAY``
4     the version of the format, little-endian: 4
4     the length of what follows the checksum
4     CRC-32 of that
4     the length of the text that follows
…     JSON in UTF-8
…     SPIR-V or a cubin, or nothing
===== ====================================================

But for a cubin it is no machine code: the module loader compiles it for the device it loads it on. That is what lets a
code object move between devices; SPIR-V moves between those that take it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.compiler.program import KernelInfo, VariableSignature, kernels_from, variables_from
from forebay.core.driver import Language
from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"FOREBAY"
VERSION = 4
HEADER = struct.Struct("<8sIII")
LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Code:
    """What a code object holds.

    Kernels and variables are those of a program in HIP C++. The driver knows those of one that was OpenCL C.
    """

    name: str  # of the program
    language: Language  # that the program was written in: HIP C++ or OpenCL C
    text: str | bytes  # OpenCL C, or SPIR-V or a cubin
    options: tuple[str, ...] = ()  # for ``Device.program``
    kernels: tuple[KernelInfo, ...] = ()
    variables: tuple[VariableSignature, ...] = ()

    def find(self, name: str) -> KernelInfo | None:
        """Return the kernel of this name, name expression, mangled name or symbol, or None."""
        found = (each for what in ("name", "mangled", "symbol") for each in self.kernels if getattr(each, what) == name)
        return next(found, None)

    def find_variable(self, name: str) -> VariableSignature | None:
        """Return the variable of this name or symbol, or None."""
        found = (each for what in ("name", "symbol") for each in self.variables if getattr(each, what) == name)
        return next(found, None)


def pack_code(
    name: str,
    language: Language,
    text: str | bytes,
    options: Sequence[str] = (),
    kernels: Sequence[KernelInfo] = (),
    variables: Sequence[VariableSignature] = (),
) -> bytes:
    """Return a code object; the parameters are the attributes of `Code`."""
    compiled = text if isinstance(text, bytes) else b""
    facts = json.dumps(
        {"name": name, "language": language, "text": "" if compiled else text, "options": list(options),
         "kernels": kernels, "variables": variables}
    ).encode()  # fmt: skip
    content = LENGTH.pack(len(facts)) + facts + compiled
    return HEADER.pack(MAGIC, VERSION, len(content), zlib.crc32(content)) + content


def is_code(data: Buffer) -> bool:
    """Whether these bytes begin like a code object of forebay."""
    return bytes(memoryview(data).cast("B")[: len(MAGIC)]) == MAGIC


def unpack_code(data: Buffer) -> Code:
    """Return what a code object holds; bytes behind its end do not matter.

    Raises InvalidArgumentError if it is not a code object, is of another version, cut off or damaged.
    """
    view = memoryview(data).cast("B")
    if not is_code(view) or len(view) < HEADER.size:
        raise InvalidArgumentError(
            "these bytes are not a code object of forebay; forebay.hiprtc.hiprtcGetCode gives one"
        )
    _, version, length, checksum = HEADER.unpack(view[: HEADER.size])
    if version != VERSION:
        raise InvalidArgumentError(f"a code object of version {version}: this forebay knows version {VERSION}")
    content = bytes(view[HEADER.size : HEADER.size + length])
    if len(content) != length or zlib.crc32(content) != checksum:
        raise InvalidArgumentError("the code object is cut off or damaged")
    (length,) = LENGTH.unpack_from(content)
    compiled = content[LENGTH.size + length :]
    found = json.loads(content[LENGTH.size :][:length])
    language, text = Language(found["language"]), compiled or found["text"]
    kernels, variables = kernels_from(found["kernels"]), variables_from(found["variables"])
    return Code(found["name"], language, text, tuple(found["options"]), kernels, variables)
