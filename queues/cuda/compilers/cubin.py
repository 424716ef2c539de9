"""CUDA's machine code, an ELF file, with what the compiler knew of its kernels behind its end.

Machine code says where parameters are, not what they are. SPIR-V has their types in it; for a cubin forebay puts them
behind it, where CUDA's driver does not look: it gets the cubin alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

from forebay.core.errors import InvalidArgumentError
from forebay.queues.kernels.parameters import KernelInfo, VariableSignature, kernels_from, variables_from

__all__ = ["parameters_in", "with_facts", "without_facts"]

MAGIC = b"forebay facts 2\n"
END = struct.Struct(f"<Q{len(MAGIC)}s")  # bytes of the facts, which come before; the magic

# ELF64: the header, and a header of a section.
ELF = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
# .nv.info sections are attributes: their format, their kind, and their value or the bytes of it.
ATTRIBUTE = struct.Struct("<BBH")
WITH_BYTES = 0x04
REQUIRED_BLOCK, PARAMETER = 0x10, 0x17
PARAMETER_VALUE = struct.Struct("<IHHI")  # …, ordinal, offset, flags with the size in their upper 14 bits
INFO = ".nv.info."


def with_facts(
    cubin: bytes,
    kernels: Sequence[KernelInfo],
    variables: Sequence[VariableSignature],
    accesses: Mapping[str, Sequence[str]],
) -> bytes:
    """Return a cubin with what is known of its kernels and variables, and what the kernels' PTX shows, by symbol."""
    facts = json.dumps([kernels, variables, accesses], separators=(",", ":")).encode()
    return cubin + facts + END.pack(len(facts), MAGIC)


def without_facts(
    code: bytes,
) -> tuple[bytes, tuple[KernelInfo, ...] | None, tuple[VariableSignature, ...], dict[str, list[str]]]:
    """Return the cubin itself, and what is known of it; None for the kernels of a cubin that has no facts.

    Raises
    ------
    InvalidArgumentError
        If they are damaged.
    """
    if len(code) < END.size or not code.endswith(MAGIC):
        return code, None, (), {}
    nbytes, _ = END.unpack_from(code, len(code) - END.size)
    start = len(code) - END.size - nbytes
    try:
        kernels, variables, accesses = json.loads(code[start : len(code) - END.size])
        return code[:start], kernels_from(kernels), variables_from(variables), dict(accesses)
    except (ValueError, TypeError, IndexError):
        raise InvalidArgumentError("program: what follows this cubin is damaged") from None


def parameters_in(cubin: bytes) -> dict[str, tuple[list[int], tuple[int, int, int]]]:
    """Return the bytes of each parameter of each kernel, and the size of its groups if that is required.

    Raises
    ------
    InvalidArgumentError
        For a cubin that is cut short.
    """
    try:
        return {name.removeprefix(INFO): _attributes(body) for name, body in _sections(cubin) if name.startswith(INFO)}
    except (struct.error, IndexError, ValueError):
        raise InvalidArgumentError("program: the cubin is cut short") from None


def _sections(cubin: bytes) -> list[tuple[str, bytes]]:
    header = ELF.unpack_from(cubin)
    start, size, count, names = header[6], header[11], header[12], header[13]
    if len(cubin) < max(start + size * count, header[5] + header[9] * header[10]):  # the tables of both kinds
        raise ValueError
    sections = [SECTION.unpack_from(cubin, start + size * index) for index in range(count)]
    texts = sections[names][4]
    found = []
    for section in sections:
        name = cubin[texts + section[0] : cubin.index(0, texts + section[0])].decode()
        body = cubin[section[4] : section[4] + section[5]]
        if section[1] != 8 and len(body) != section[5]:  # SHT_NOBITS has no bytes
            raise ValueError
        found.append((name, body))
    return found


def _attributes(body: bytes) -> tuple[list[int], tuple[int, int, int]]:
    sizes: dict[int, int] = {}
    block = (0, 0, 0)
    at = 0
    while at < len(body):
        form, kind, value = ATTRIBUTE.unpack_from(body, at)
        at += ATTRIBUTE.size
        if form != WITH_BYTES:
            continue
        if kind == PARAMETER:
            _, ordinal, _, flags = PARAMETER_VALUE.unpack_from(body, at)
            sizes[ordinal] = flags >> 18
        elif kind == REQUIRED_BLOCK:
            block = struct.unpack_from("<3I", body, at)
        at += value
    return [sizes[ordinal] for ordinal in sorted(sizes)], block
