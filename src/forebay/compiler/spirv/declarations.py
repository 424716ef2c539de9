"""Reads the kernels' declarations from a SPIR-V module, because few drivers or none have a call that returns them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from forebay.compiler.spirv import opcodes as op

__all__ = ["Declared", "kernels_of", "variables_of"]


TYPES = frozenset((
    op.TYPE_INT, op.TYPE_FLOAT, op.TYPE_VECTOR, op.TYPE_ARRAY, op.TYPE_STRUCT, op.TYPE_POINTER, op.TYPE_FUNCTION,
))  # fmt: skip
# Of thousands of instructions these are some hundred, and only they are looked at.
READ = TYPES | {
    op.NAME, op.STRING, op.ENTRY_POINT, op.CONSTANT, op.DECORATE, op.VARIABLE, op.FUNCTION, op.PARAMETER,
    op.FUNCTION_END, op.MEMORY_MODEL,
}  # fmt: skip
INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
FLOATS = {16: "half", 32: "float", 64: "double"}


class Declared(NamedTuple):
    """A parameter as declared. `kind` is "pointer", "local" or "value"; `nbytes` is the size of structures passed by
    value, and `alignment` theirs, 0 if it is not known; `read_only` is True for a pointer to constant memory or to
    const."""

    name: str
    type_name: str
    kind: str
    nbytes: int
    read_only: bool = False
    alignment: int = 0


def kernels_of(module: bytes) -> dict[str, list[Declared]]:
    """Return the parameters of each kernel.

    Raises
    ------
    ValueError
        When these bytes are not a complete module. Drivers are not robust here: Intel's CPU runtime (2026.2.0) ends the
        process when it gets a truncated module.
    """
    found = _Module(module).kernels()
    if not found:
        raise ValueError("the module has no kernel, or was cut off")
    return found


def variables_of(module: bytes) -> set[str]:
    """Return the names of the variables in global memory that other modules and the host may use.

    Raises
    ------
    ValueError
        When these bytes are not a complete module.
    """
    read = _Module(module)
    return {name for identity, name in read.exported.items() if identity in read.variables}


def _words_of(module: bytes) -> tuple[int, ...]:
    if len(module) % 4 or len(module) < 4 * op.HEADER_WORDS:
        raise ValueError(f"{len(module)} bytes are no whole number of words")
    for order in "<>":
        words = struct.unpack(f"{order}{len(module) // 4}I", module)
        if words[0] == op.MAGIC:
            return words
    raise ValueError(f"the first word is {words[0]:#x}, not {op.MAGIC:#x}")


def _text(words: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


class _Module:
    def __init__(self, module: bytes) -> None:
        self.names: dict[int, str] = {}
        self.strings: list[str] = []
        self.types: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.constants: dict[int, int] = {}
        self.packed: set[int] = set()
        self.unwritten: set[int] = set()
        self.alignments: dict[int, int] = {}
        self.exported: dict[int, str] = {}
        self.variables: set[int] = set()
        self.entries: dict[str, int] = {}
        self.parameters: dict[int, list[tuple[int, int]]] = {}  # of a function: (id, type) of each
        function = None
        complete = False
        for opcode, operands in self._instructions(_words_of(module)):
            if opcode == op.NAME:
                self.names[operands[0]] = _text(operands[1:])
            elif opcode == op.STRING:
                self.strings.append(_text(operands[1:]))
            elif opcode == op.ENTRY_POINT and operands[0] == op.KERNEL_MODEL:
                self.entries[_text(operands[2:])] = operands[1]
            elif opcode in TYPES:
                self.types[operands[0]] = (opcode, operands[1:])
            elif opcode == op.CONSTANT:
                self.constants[operands[1]] = operands[2]
            elif opcode == op.DECORATE and operands[1] == op.PACKED:
                self.packed.add(operands[0])
            elif opcode == op.DECORATE and operands[1:3] == (op.PARAMETER_ATTRIBUTE, op.NO_WRITE):
                self.unwritten.add(operands[0])
            elif opcode == op.DECORATE and operands[1] == op.ALIGNMENT:
                self.alignments[operands[0]] = operands[2]
            elif opcode == op.DECORATE and operands[1] == op.LINKAGE and operands[-1] == op.EXPORTED:
                self.exported[operands[0]] = _text(operands[2:-1])
            elif opcode == op.VARIABLE and operands[2] == op.GLOBAL_MEMORY:
                self.variables.add(operands[1])
            elif opcode == op.FUNCTION:
                function = operands[1]
                self.parameters[function] = []
            elif opcode == op.PARAMETER and function is not None:
                self.parameters[function].append((operands[1], operands[0]))
            elif opcode == op.FUNCTION_END:
                function = None
            complete = complete or opcode == op.MEMORY_MODEL
        if not complete or function is not None or not self.parameters.keys() >= set(self.entries.values()):
            raise ValueError("the module was cut off")

    @staticmethod
    def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the instructions in `READ`."""
        at, end = op.HEADER_WORDS, len(words)
        while at < end:
            start, opcode = at, words[at] & 0xFFFF
            at += words[at] >> 16
            if at == start or at > end:
                raise ValueError("the module was cut off, or is not one")
            if opcode in READ:
                yield opcode, words[start + 1 : at]

    def kernels(self) -> dict[str, list[Declared]]:
        found = {}
        for kernel, function in self.entries.items():
            parameters = self.parameters[function]
            types = self._said("kernel_arg_type", kernel, len(parameters))
            qualifiers = self._said("kernel_arg_type_qual", kernel, len(parameters))
            found[kernel] = [
                self._declared(
                    self.names.get(identity, f"argument_{index}"),
                    kind,
                    types[index],
                    identity in self.unwritten or "const" in qualifiers[index].split(),
                    self.alignments.get(identity, 0),
                )
                for index, (identity, kind) in enumerate(parameters)
            ]
        return found

    def _said(self, what: str, kernel: str, count: int) -> list[str]:
        """Return the entry of each parameter in a string that translators from OpenCL C leave. It is needed because
        SPIR-V's integers have no sign and its pointers have no const."""
        prefix = f"{what}.{kernel}."
        for text in self.strings:
            if text.startswith(prefix):
                said = text[len(prefix) :].removesuffix(",").split(",")
                if len(said) == count:
                    return said
        return [""] * count

    def _declared(self, name: str, kind: int, in_source: str, read_only: bool, stated: int) -> Declared:
        opcode, operands = self.types.get(kind, (0, ()))
        if opcode == op.TYPE_POINTER:
            storage, pointed = operands[0], operands[1]
            if storage == op.FUNCTION_STORAGE:  # a structure passed by value
                nbytes, alignment = self._layout(pointed)
                return Declared(name, in_source or "struct", "value", nbytes, alignment=stated or alignment)
            type_name = in_source or f"{self._type_name(pointed)}*"
            if storage == op.WORKGROUP:
                return Declared(name, type_name, "local", 8)
            return Declared(name, type_name, "pointer", 8, read_only or storage == op.CONSTANT_MEMORY)
        return Declared(name, in_source or self._type_name(kind), "value", self._layout(kind)[0])

    def _type_name(self, kind: int) -> str:
        opcode, operands = self.types.get(kind, (0, ()))
        if opcode in (op.TYPE_INT, op.TYPE_FLOAT):
            return (INTEGERS if opcode == op.TYPE_INT else FLOATS).get(operands[0], "struct")
        if opcode == op.TYPE_VECTOR:
            return f"{self._type_name(operands[0])}{operands[1]}"
        return "struct" if opcode in (op.TYPE_STRUCT, op.TYPE_ARRAY) else "void"

    def _layout(self, kind: int) -> tuple[int, int]:
        """Return (bytes, alignment) by OpenCL C's layout; 0 bytes for a type without a size, such as an image."""
        opcode, operands = self.types.get(kind, (0, ()))
        if opcode in (op.TYPE_INT, op.TYPE_FLOAT):
            return operands[0] // 8, operands[0] // 8
        if opcode == op.TYPE_POINTER:
            return 8, 8
        if opcode == op.TYPE_VECTOR:
            nbytes = self._layout(operands[0])[0] * (4 if operands[1] == 3 else operands[1])
            return nbytes, nbytes
        if opcode == op.TYPE_ARRAY:
            nbytes, alignment = self._layout(operands[0])
            return nbytes * self.constants.get(operands[1], 0), alignment
        if opcode == op.TYPE_STRUCT:
            end, widest = 0, 1
            for member in operands:
                nbytes, alignment = self._layout(member)
                if kind in self.packed or not alignment:
                    alignment = 1
                end = -(-end // alignment) * alignment + nbytes
                widest = max(widest, alignment)
            return -(-end // widest) * widest, widest
        return 0, 0
