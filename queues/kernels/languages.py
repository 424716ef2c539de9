"""What a program is written in, or was compiled to."""

from __future__ import annotations

import re

from forebay.core.driver import Language
from forebay.core.errors import InvalidArgumentError

__all__ = ["check_text", "language_of"]

SPIRV_MAGIC = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")  # SPIR-V 1.6, 2.3: in either order of bytes
ELF, MACHINE, CUDA = b"\x7fELF", slice(18, 20), b"\xbe\x00"
# PTX ISA, "PTX Module Directives": a module begins with .version, followed by .target
PTX = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*\.version\s+\d+\.\d+\s[^;{}]*?\.target\s", re.DOTALL)
NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
# A macro of this name makes a kernel of OpenCL C one of HIP elsewhere.
KERNEL_OF_HIP = re.compile(r"\b__global__\b")
OWN_MACRO = re.compile(r"^\s*#\s*define\s+__global__\b", re.MULTILINE)


def language_of(source: str | bytes) -> Language:
    """Return the language of a program by how it looks: what nothing else is said of is OpenCL C.

    HIP C++ has a ``__global__`` that is not a macro of its own. CUDA C++ looks the same.

    Raises
    ------
    InvalidArgumentError
        For bytes that are neither SPIR-V nor PTX nor a cubin.
    """
    if isinstance(source, str):
        if "__global__" in source:
            code = NOT_CODE.sub(" ", source)
            if KERNEL_OF_HIP.search(code) and not OWN_MACRO.search(code):
                return Language.HIP_CPP
        return Language.PTX if ".version" in source and PTX.match(source) else Language.OPENCL_C
    if source[:4] in SPIRV_MAGIC:
        return Language.SPIRV
    if source[:4] == ELF and source[MACHINE] == CUDA:
        return Language.CUBIN
    if b".version" in source and PTX.match(source.decode("latin-1")):
        return Language.PTX
    raise InvalidArgumentError("program: these bytes are not SPIR-V, nor PTX or a cubin; pass other source as str")


def check_text(what: str, text: str, errors: str = "strict") -> None:
    """Refuse source text with a lone surrogate.

    Parameters
    ----------
    what : str
        What it is, for the message.
    errors : str
        "surrogateescape" where the compiler gets the bytes for which such halves stand (PEP 383), as in names of files.

    Raises
    ------
    InvalidArgumentError
    """
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise InvalidArgumentError(
            f"{what}: line {line} has {text[error.start]!r}, a lone surrogate, which no encoding has: read the text "
            "with the encoding it was written in"
        ) from None
