"""What clang's LLVM module says of the kernels and the variables: names, types, constness.

A SPIR-V module has none of it: pointers to const are pointers, and a structure is bytes. The debug information of the
LLVM module has it all, also for ``extern "C"`` kernels and for instances of templates, whose mangled names do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from forebay.hip_cpp.translate import KernelInfo, ParameterInfo

__all__ = [
    "SYMBOL",
    "KernelSignature",
    "ParameterSignature",
    "Signatures",
    "VariableSignature",
    "fields_of",
    "kernel_info",
    "nodes_of",
    "plain_names",
    "read_signatures",
    "unquoted",
]

QUOTED = r'"(?:[^"\\]|\\[0-9A-Fa-f]{2})*"'
SYMBOL = rf"(?:{QUOTED}|[-\w$.]+)"
KERNEL = re.compile(rf"define [^@]*\bspir_kernel void @({SYMBOL})\(.*!dbg !(\d+)")
# Of those that are local to the module the host is told nothing.
LOCAL = "external |private |internal "
VARIABLE = re.compile(rf"@({SYMBOL}) = (?!{LOCAL})[\w() ]*addrspace\(1\)[\w() ]* (?:global|constant) .*!dbg !(\d+)")
NODE = re.compile(r"^!(\d+) = (?:distinct )?!(.*)", re.MULTILINE)
FIELD = re.compile(rf"(\w+): (?:!(\d+)|({QUOTED})|([^,()]+))")
REFERENCE = re.compile(r"!(\d+)|null")
VECTOR = re.compile(r"u?(?:char|short|int|long|longlong)[1234]|(?:float|double|half)[1234]")
HALF = ("__half", "half", "_Float16", "__half_raw")

SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
FLOATING = {2: "half", 4: "float", 8: "double"}
LOOKED_THROUGH = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_atomic_type")
OBJECTS = ("cudaTextureObject_t", "cudaSurfaceObject_t")  # numbers that are addresses
POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")


class ParameterSignature(NamedTuple):
    """A parameter: its name, its type in the words of OpenCL C (``"struct"`` for what those have none for), whether it
    is a pointer to const, its size and alignment in bytes, and whether pointers can be reached through it."""

    name: str
    type_name: str
    is_pointer: bool
    const: bool
    nbytes: int
    alignment: int
    follows: bool


class KernelSignature(NamedTuple):
    """A kernel: its name in the source (``"scale<float>"``), its symbol, its parameters and its line."""

    name: str
    symbol: str
    parameters: tuple[ParameterSignature, ...]
    line: int


class VariableSignature(NamedTuple):
    """A variable in global memory: its name, its symbol, its type, its size, and whether it holds pointers."""

    name: str
    symbol: str
    type_name: str
    nbytes: int
    follows: bool
    line: int


class Signatures(NamedTuple):
    """The kernels and the variables of a module."""

    kernels: tuple[KernelSignature, ...]
    variables: tuple[VariableSignature, ...]


def read_signatures(module: str) -> Signatures:
    """Read LLVM's text, made with ``-debug-info-kind=limited``."""
    return _Module(module).signatures()


class _Type(NamedTuple):
    """A type as an argument: its name, its bytes and its alignment, and whether it has pointers in it."""

    name: str
    nbytes: int
    alignment: int
    holds_pointers: bool


class _Module:
    def __init__(self, module: str) -> None:
        self.nodes = nodes_of(module)
        self.kernels: list[tuple[str, str]] = []
        self.variables: list[tuple[str, str]] = []
        self.names: dict[tuple[str, int], str] = {}  # of parameters, by function and position
        self._looking: set[str] = set()
        for line in module.splitlines():
            if line.startswith("define ") and (match := KERNEL.match(line)):
                self.kernels.append((unquoted(match[1]), match[2]))
            elif line.startswith("@") and (match := VARIABLE.match(line)):
                self.variables.append((unquoted(match[1]), match[2]))
        wanted = {node for _, node in self.kernels}
        for text in self.nodes.values():
            if text.startswith("DILocalVariable(") and "arg: " in text:
                fields = fields_of(text)
                if fields.get("scope") in wanted and "name" in fields:
                    self.names[fields["scope"], int(fields["arg"])] = fields["name"]

    def signatures(self) -> Signatures:
        return Signatures(
            tuple(self._kernel(symbol, node) for symbol, node in self.kernels),
            tuple(self._variable(symbol, node) for symbol, node in self.variables),
        )

    def _kernel(self, symbol: str, node: str) -> KernelSignature:
        fields = self._fields(node)
        types = REFERENCE.findall(self.nodes[self._fields(fields["type"])["types"]])[1:]  # the first is the result
        parameters = tuple(self._parameter(node, index, type) for index, type in enumerate(types))
        return KernelSignature(fields["name"], symbol, parameters, int(fields.get("line", 0)))

    def _parameter(self, kernel: str, index: int, node: str) -> ParameterSignature:
        name = self.names.get((kernel, index + 1), f"argument_{index}")
        tag, fields = self._stripped(node)
        if tag not in POINTERS:
            type = self._type(node)
            if type.name[-1:] == "3":  # HIP's vectors of three have no fourth, as OpenCL's do
                type = type._replace(name="struct")
            return ParameterSignature(name, type.name, False, False, type.nbytes, type.alignment, type.holds_pointers)
        target = fields.get("baseType", "")
        if self._stripped(target)[1].get("") == "DISubroutineType":  # a number, see indirect_calls
            return ParameterSignature(name, "ulong", False, False, 8, 8, False)
        pointed = self._type(target)
        return ParameterSignature(name, f"{pointed.name}*", True, self._is_const(target), 8, 8, pointed.holds_pointers)

    def _variable(self, symbol: str, expression: str) -> VariableSignature:
        fields = self._fields(self._fields(expression)["var"])
        type = self._type(fields["type"])
        return VariableSignature(
            fields["name"], symbol, type.name, type.nbytes, type.holds_pointers, int(fields.get("line", 0))
        )

    def _type(self, node: str) -> _Type:
        """Describe a type; a reference and a pointer are what they are as a member: eight bytes."""
        typedef, is_object = "", False
        while node:
            fields = self._fields(node)
            tag = fields.get("tag", "")
            is_object = is_object or fields.get("name") in OBJECTS
            if tag == "DW_TAG_typedef" and not typedef and VECTOR.fullmatch(fields["name"]):
                typedef = fields["name"].replace("longlong", "long")
            if tag != "DW_TAG_typedef" and tag not in LOOKED_THROUGH:
                break
            node = fields.get("baseType", "")
        if not node:
            return _Type("void", 0, 1, False)
        nbytes = int(fields.get("size", 0)) // 8
        if fields[""] == "DIBasicType":
            return _basic(fields.get("encoding", ""), nbytes)._replace(holds_pointers=is_object)
        if tag in POINTERS or tag == "DW_TAG_ptr_to_member_type":
            return _Type(f"{self._type(fields.get('baseType', '')).name}*", 8, 8, True)
        if fields[""] == "DISubroutineType":
            return _Type("void", 0, 1, False)
        if tag == "DW_TAG_enumeration_type":
            return _basic("DW_ATE_unsigned" if nbytes == 1 else "DW_ATE_signed", nbytes or 4)
        return self._compound(node, tag, fields, nbytes, typedef)

    def _compound(self, node: str, tag: str, fields: dict[str, str], nbytes: int, typedef: str) -> _Type:
        if tag == "DW_TAG_array_type":
            of = self._type(fields.get("baseType", ""))
            return _Type(of.name, nbytes, of.alignment, of.holds_pointers)
        if fields.get("name") in HALF and nbytes == 2:
            return _Type("half", 2, 2, False)
        if "DIFlagFwdDecl" in fields.get("flags", ""):
            return _Type("struct", nbytes, 1, True)  # nothing is known of it
        if node in self._looking:  # a list's node points to the next one
            return _Type("struct", nbytes, 1, False)
        self._looking.add(node)
        members = [self._type(member) for member in self._members(fields)]
        self._looking.discard(node)
        alignment = max([int(fields.get("align", 0)) // 8, 1, *(member.alignment for member in members)])
        name = typedef if typedef and nbytes % (int(typedef[-1]) or 1) == 0 else "struct"
        if fields.get("name", "").startswith("texture<"):  # the host binds it, and asks for its element
            name = fields["name"]
        return _Type(name, nbytes, alignment, any(member.holds_pointers for member in members))

    def _members(self, fields: dict[str, str]) -> Iterator[str]:
        """Yield the types of a structure's members and base classes."""
        for match in REFERENCE.finditer(self.nodes.get(fields.get("elements", ""), "")):
            member = self._fields(match[1] or "")
            if member.get("tag") in ("DW_TAG_member", "DW_TAG_inheritance") and "StaticMember" not in member.get(
                "flags", ""
            ):
                yield member.get("baseType", "")

    def _stripped(self, node: str) -> tuple[str, dict[str, str]]:
        """The tag and the fields of a type without its qualifiers and names."""
        fields = self._fields(node)
        while fields.get("tag") in (*LOOKED_THROUGH, "DW_TAG_typedef"):
            fields = self._fields(fields.get("baseType", ""))
        return fields.get("tag", ""), fields

    def _is_const(self, node: str) -> bool:
        while node:
            fields = self._fields(node)
            tag = fields.get("tag")
            if tag == "DW_TAG_const_type":
                return True
            if tag not in (*LOOKED_THROUGH, "DW_TAG_typedef", "DW_TAG_array_type"):
                return False
            node = fields.get("baseType", "")
        return False

    def _fields(self, node: str) -> dict[str, str]:
        return fields_of(self.nodes.get(node, ""))


def nodes_of(module: str) -> dict[str, str]:
    """Return the numbered metadata of LLVM's text."""
    return dict(NODE.findall(module))


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a node of debug information, references as bare numbers; its kind under the empty name."""
    fields = {
        name: reference or (unquoted(string) if string else word.strip().removeprefix("null"))
        for name, reference, string, word in FIELD.findall(text)
    }
    fields[""] = text.partition("(")[0]
    return fields


def unquoted(symbol: str) -> str:
    """Return a name of LLVM's text without its quotes."""
    if not symbol.startswith('"'):
        return symbol
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), symbol[1:-1])


def _basic(encoding: str, nbytes: int) -> _Type:
    if encoding == "DW_ATE_float":
        return _Type(FLOATING.get(nbytes, "struct"), nbytes, nbytes, False)
    name = SIGNED.get(nbytes, "struct")
    unsigned = encoding in ("DW_ATE_unsigned", "DW_ATE_unsigned_char", "DW_ATE_boolean", "DW_ATE_UTF")
    return _Type(f"u{name}" if unsigned and name != "struct" else name, nbytes, max(nbytes, 1), False)


def plain_names(kernels: Sequence[KernelSignature]) -> dict[str, str]:
    """Return new names for the kernels that are no instances of templates and whose names in the source are unique."""
    names = [kernel.name for kernel in kernels]
    symbols = {kernel.symbol for kernel in kernels}
    return {
        kernel.symbol: kernel.name for kernel in kernels
        if kernel.name.isidentifier() and names.count(kernel.name) == 1 and kernel.name not in symbols
    }  # fmt: skip


def kernel_info(
    kernel: KernelSignature, unique: bool, plain: Mapping[str, str], dynamic: set[str], follows: bool
) -> KernelInfo:
    """Return what is known of a kernel: `plain` has the new names, `dynamic` the symbols that take shared memory."""
    symbol = plain.get(kernel.symbol, kernel.symbol)
    parameters = tuple(
        ParameterInfo(each.name, each.type_name, "pointer" if each.is_pointer else "value", each.nbytes, each.alignment)
        for each in kernel.parameters
    )
    follows = follows or any(each.follows for each in kernel.parameters)
    name = kernel.name if unique else symbol
    return KernelInfo(name, symbol, parameters, symbol in dynamic, 0, kernel.line, kernel.symbol, follows)
