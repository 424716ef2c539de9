"""What the kernels of PTX do with the memory that their parameters point to, as far as their instructions show.

PTX ISA, "Instruction Set". A register counts as an address of a parameter's memory if anything was computed into it
from that parameter, in any order of the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from forebay.queues.cuda.compilers.ptx import NAME, bodies_of
from forebay.spirv.access import ATOMICS, READS, UNKNOWN, WRITES

__all__ = ["accesses_of"]

INSTRUCTION = re.compile(r"(?:@!?[%\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)\s*(.*)", re.DOTALL)
REGISTER = re.compile(r"%[A-Za-z_$][\w$]*")
MEMORY = re.compile(r"\[([^\]]*)\]")
FIRST = re.compile(r"\s*(\{[^}]*\}|[^,\s]+)")
# Labels, and where lines of the source begin.
WITHOUT_SEMICOLON = re.compile(r"^[ \t]*(?:[$%\w]+:(?!:)|\.loc\b[^\n]*)", re.MULTILINE)
# What only reads where it is told to, or decides by a value.
READING = {
    "ld", "ldu", "prefetch", "prefetchu", "ldmatrix", "setp", "bra", "brx", "ret", "exit", "bar", "barrier", "membar",
    "fence", "isspacep", "tex", "trap",
}  # fmt: skip


def accesses_of(text: str, symbol: str) -> list[str]:
    """Return for each parameter of a kernel what is done with the memory that it points to.

    Returns
    -------
    list of str
        As `forebay.spirv.access.accesses_of`; empty when there is no such kernel, or its text is not understood.
    """
    for name, parameters, body in bodies_of(text):
        if name == symbol:
            try:
                return _accesses(parameters, body)
            except ValueError:
                return []
    return []


def _accesses(parameters: list[str], body: str) -> list[str]:
    instructions = list(_instructions(body))
    index = {name: at for at, name in enumerate(parameters)}
    origins: dict[str, int] = {}  # a mask of the parameters that a register's value comes from
    changed = True
    while changed:
        changed = False
        for kind, operands in instructions:
            mask = _origin(kind, operands, index, origins)
            first = FIRST.match(operands)
            for register in REGISTER.findall(first[1]) if mask and first else ():
                if origins.get(register, 0) | mask != origins.get(register, 0):
                    origins[register] = origins.get(register, 0) | mask
                    changed = True
    written = atomic = lost = 0
    for kind, operands in instructions:
        name = kind.partition(".")[0]
        places = _mask(" ".join(MEMORY.findall(operands)), origins)
        if name in ("st", "call"):
            written |= places if name == "st" else 0
            lost |= _mask(MEMORY.sub(" ", operands), origins)  # to where it cannot be followed
        elif name in ("atom", "red"):
            first = FIRST.match(operands) if name == "atom" else None
            lost |= _mask(MEMORY.sub(" ", operands[first.end() :] if first else operands), origins)
            atomic |= places
        elif name not in READING and not kind.startswith("wmma.load"):
            written |= places
    return [
        WRITES if written >> at & 1 else UNKNOWN if lost >> at & 1 else ATOMICS if atomic >> at & 1 else READS
        for at in range(len(parameters))
    ]


def _origin(kind: str, operands: str, index: dict[str, int], origins: dict[str, int]) -> int:
    """The parameters that the result of an instruction comes from."""
    name = kind.partition(".")[0]
    if kind.startswith("ld.param"):
        named = re.match(rf"\s*({NAME})", (MEMORY.findall(operands) or [""])[0])
        return 1 << index[named[1]] if named and named[1] in index else 0
    if name in READING or name in ("st", "atom", "red", "call") or MEMORY.search(operands):
        return 0
    if name == "mov":  # mov.u64 of a parameter's own address
        own = [index[each] for each in re.findall(NAME, operands) if each in index]
        if own:
            return 1 << own[0]
    first = FIRST.match(operands)
    return _mask(operands[first.end() :], origins) if first else 0


def _mask(text: str, origins: dict[str, int]) -> int:
    mask = 0
    for register in REGISTER.findall(text):
        mask |= origins.get(register, 0)
    return mask


def _instructions(body: str) -> Iterator[tuple[str, str]]:
    """The instructions: the opcode with what qualifies it, and the operands."""
    for statement in WITHOUT_SEMICOLON.sub(" ", body).split(";"):
        text = statement.strip(" \t\r\n{}")
        match = INSTRUCTION.match(text)
        if match:
            yield match[1], match[2]
        elif text and not text.startswith("."):
            raise ValueError(f"this is no instruction of PTX: {text.split(chr(10))[0]!r}")
