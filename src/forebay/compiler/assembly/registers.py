"""The registers, operands and addresses of PTX as expressions of C++."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["TYPES", "Registers", "UnknownInstructionError", "names_of", "parts_of"]

TYPES = {
    **{f"{kind}{bits}": f"unsigned {name}" for kind in "ub" for bits, name in
       ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))},
    "s8": "signed char", "s16": "short", "s32": "int", "s64": "long long",
    "f16": "_Float16", "f16x2": "__half2", "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
SPECIAL = {
    "%laneid": "__lane_id()", "WARP_SZ": "32u", "%clock": "(unsigned)clock64()", "%clock64": "clock64()",
    "%clock_lo": "(unsigned)clock64()", "%globaltimer": "wall_clock64()", "%globaltimer_lo": "(unsigned)wall_clock64()",
    "%warpid": "((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32)",
    "%nwarpid": "((blockDim.x * blockDim.y * blockDim.z + 31) / 32)",
    # No device tells which of its processors runs a thread: it counts as one.
    "%smid": "0u", "%nsmid": "1u", "%gridid": "0ull",
    **{f"%lanemask_{each}": f"(unsigned)__lanemask_{each}()" for each in ("lt", "le", "gt", "ge", "eq")},
    **{f"%{ptx}.{axis}": f"{name}.{axis}" for ptx, name in
       (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim")) for axis in "xyz"},
}  # fmt: skip
NUMBER = re.compile(r"-?(?:0[xX][0-9A-Fa-f]+|\d+)U?|-?\d+\.\d*(?:[eE][-+]?\d+)?")
BITS_OF_FLOAT = re.compile(r"0[fF]([0-9A-Fa-f]{8})")
BITS_OF_DOUBLE = re.compile(r"0[dD]([0-9A-Fa-f]{16})")
ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\d+))?\s*\]")
MANY = re.compile(r"([\w$%]+)\s*<\s*(\d+)\s*>")


class UnknownInstructionError(ValueError):
    """An instruction, or an operand, that has no translation."""


class Registers:
    """What a statement of assembly has of operands and registers, and the statements of C++ made so far."""

    def __init__(self, operand: Callable[[str], str | None]) -> None:
        self._operand = operand
        self.registers: dict[str, str] = {}
        self.labels: dict[str, None] = {}
        self.made: list[str] = []

    def type_of(self, name: str) -> str:
        """Return the type of C++ for one of PTX."""
        if name not in TYPES:
            raise UnknownInstructionError(name)
        return TYPES[name]

    def variable(self, text: str) -> str:
        """Return the variable of a register or an operand."""
        text = text.strip()
        known = self.registers.get(text) or self._operand(text)
        if not known:
            raise UnknownInstructionError(text)
        return known

    def value(self, text: str, type_: str) -> str:
        """Return what an operand is worth, as this type."""
        text = text.strip()
        if text in SPECIAL:
            return f"__forebay::asm_as<{type_}>({SPECIAL[text]})"
        if found := BITS_OF_FLOAT.fullmatch(text):
            return f"__uint_as_float(0x{found[1]}u)"
        if found := BITS_OF_DOUBLE.fullmatch(text):
            return f"__longlong_as_double(0x{found[1]}ll)"
        if NUMBER.fullmatch(text):
            return f"({type_}){text}"
        return f"__forebay::asm_as<{type_}>({self.variable(text)})"

    def put(self, to: str, value: str) -> None:
        """Add the statement that gives a register a value."""
        if to.strip() != "_":
            self.made.append(f"__forebay::asm_put({self.variable(to)}, {value});")

    def place(self, text: str, type_: str, is_volatile: bool, is_shared: bool = False) -> str:
        """Return the pointer that an address in brackets is."""
        found = ADDRESS.fullmatch(text.strip())
        if not found:
            raise UnknownInstructionError(text)
        number = self.value(found[1], "unsigned" if is_shared else "unsigned long long")
        address = f"{number} + {found[2] or 0}"
        address = f"__forebay::asm_shared_pointer({address})" if is_shared else address
        return f"(({'volatile ' * is_volatile}{type_}*)({address}))"


def names_of(name: str) -> list[str]:
    """Return the registers that a name declares: ``r<3>`` is r0, r1 and r2."""
    many = MANY.fullmatch(name)
    return [f"{many[1]}{number}" for number in range(int(many[2]))] if many else [name]


def parts_of(text: str) -> list[str]:
    """Return what commas part, outside of brackets."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]
