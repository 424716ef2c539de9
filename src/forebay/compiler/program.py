"""A program in HIP C++ as a compiler gets it, and what it makes of it: code, kernels and variables.

The types of parameters are read from debug information: LLVM's, or the DWARF of NVRTC's PTX.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from forebay.compiler.errors import BuildError
from forebay.compiler.options import Options


class NotNamedError(BuildError):
    """A name expression names nothing of the program."""


class Source(NamedTuple):
    """A program in HIP C++.

    The expressions are kernels that are instances of templates, such as ``"scale<float>"``, and variables:
    ``"&count"``.
    """

    text: str
    name: str = "program.hip"  # what messages call it
    headers: Mapping[str, str] = {}  # files that it may include, by name
    options: Options = Options()
    expressions: Sequence[str] = ()


class ParameterSignature(NamedTuple):
    """A parameter of a C++ kernel."""

    name: str
    type_name: str  # in OpenCL C; "struct" for a type that it does not have
    is_pointer: bool
    const: bool  # a pointer to const
    nbytes: int
    alignment: int
    follows: bool  # pointers can be reached through it


class KernelSignature(NamedTuple):
    """A kernel of a module."""

    name: str  # in the source: "scale<float>"
    symbol: str
    parameters: tuple[ParameterSignature, ...]
    line: int


class VariableSignature(NamedTuple):
    """A variable in global memory."""

    name: str
    symbol: str
    type_name: str
    nbytes: int
    follows: bool
    line: int


class Signatures(NamedTuple):
    """The kernels and variables of a module."""

    kernels: tuple[KernelSignature, ...]
    variables: tuple[VariableSignature, ...]


class KernelInfo(NamedTuple):
    """A kernel of a compiled program."""

    name: str  # in the source, or its name expression: "scale<float>"
    symbol: str  # its name in the driver's binary
    parameters: tuple[ParameterSignature, ...] = ()
    dynamic_shared: bool = False  # the binary's kernel has one more parameter: local memory for ``extern __shared__``
    line: int = 0
    mangled: str = ""  # its mangled C++ name
    follows: bool = False  # indirect access
    required_block: tuple[int, int, int] = (0, 0, 0)  # the size of its groups; zeros for any


class Program(NamedTuple):
    """A compiled program."""

    code: bytes  # SPIR-V, or what a driver's compiler makes
    kernels: tuple[KernelInfo, ...]
    variables: tuple[VariableSignature, ...]
    lowered: dict[str, str]  # the symbol of each name expression
    log: str  # warnings


class DriverSource(NamedTuple):
    """A program for a driver's own compiler."""

    text: str
    name: str
    headers: Mapping[str, str]
    options: Sequence[str]  # that compiler's
    expressions: Sequence[str] = ()  # names whose symbols are asked for


class DriverCompiler(Protocol):
    """A driver's own C++ compiler, for one device."""

    @property
    def language(self) -> str:
        """What it makes: one of the driver's `languages`."""

    @property
    def identity(self) -> str:
        """Identifies the compiler's version and the device it compiles for."""

    @property
    def folders(self) -> Sequence[str]:
        """Where its own headers are."""

    def compile(self, source: DriverSource) -> Program:
        """Compile a program. Raises `BuildError` with the compiler's log. Blocks while it compiles."""


VECTOR = re.compile(r"u?(?:char|short|int|long|longlong)[1234]|(?:float|double|half)[1234]")
HALF = ("__half", "half", "_Float16", "__half_raw")

SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
FLOATING = {2: "half", 4: "float", 8: "double"}
LOOKED_THROUGH = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_atomic_type")
OBJECT_TYPES = ("cudaTextureObject_t", "cudaSurfaceObject_t")  # numbers that are addresses
POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")


class _Type(NamedTuple):
    """An argument type: its name, its bytes, and whether it contains pointers."""

    name: str
    nbytes: int
    holds_pointers: bool


class DebugTypes(ABC):
    """Describes types by debug information. Entries are named by strings; the empty string names none."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    @abstractmethod
    def fields(self, node: str) -> dict[str, str]:
        """Return an entry in LLVM's terms: ``tag`` (``"DW_TAG_member"``), ``name``, ``baseType``, ``size`` in bits,
        ``encoding``, ``flags``. The empty key holds ``"DIBasicType"`` or ``"DISubroutineType"`` for such an entry.
        """

    @abstractmethod
    def members(self, fields: Mapping[str, str]) -> Iterable[str]:
        """Yield the types of the members and base classes of a structure with these fields."""

    def lanes(self, fields: Mapping[str, str]) -> int:
        """Return the length of a clang vector type with these fields; 0 for any other."""
        return 0

    def parameter(self, name: str, node: str, alignment: int = 0) -> ParameterSignature:
        """Describe a parameter of this type. `alignment` is for structures: debug information does not have it."""
        tag, fields = self.stripped(node)
        if tag not in POINTERS:
            type = self.type_of(node)
            if type.name[-1:] == "3" and type.nbytes % 3 == 0:  # HIP's have no padding, unlike OpenCL's and clang's
                type = type._replace(name="struct")
            alignment = alignment or max(type.nbytes & -type.nbytes, 1)
            return ParameterSignature(name, type.name, False, False, type.nbytes, alignment, type.holds_pointers)
        target = fields.get("baseType", "")
        if self.stripped(target)[1].get("") == "DISubroutineType":  # a number, see indirect_calls
            return ParameterSignature(name, "ulong", False, False, 8, 8, False)
        pointed = self.type_of(target)
        return ParameterSignature(name, f"{pointed.name}*", True, self._is_const(target), 8, 8, pointed.holds_pointers)

    def type_of(self, node: str) -> _Type:
        """Describe a type. References and pointers count as members of a structure do: eight bytes."""
        typedef, is_object = "", False
        while node:
            fields = self.fields(node)
            tag = fields.get("tag", "")
            is_object = is_object or fields.get("name") in OBJECT_TYPES
            if tag == "DW_TAG_typedef" and not typedef and VECTOR.fullmatch(fields["name"]):
                typedef = fields["name"]
            if tag != "DW_TAG_typedef" and tag not in LOOKED_THROUGH:
                break
            node = fields.get("baseType", "")
        if not node:
            return _Type("void", 0, False)
        nbytes = int(fields.get("size", 0)) // 8
        if fields[""] == "DIBasicType":
            return _basic(fields.get("encoding", ""), nbytes)._replace(holds_pointers=is_object)
        if tag in POINTERS or tag == "DW_TAG_ptr_to_member_type":
            return _Type(f"{self.type_of(fields.get('baseType', '')).name}*", 8, True)
        if fields[""] == "DISubroutineType":
            return _Type("void", 0, False)
        if tag == "DW_TAG_enumeration_type":
            return _basic("DW_ATE_unsigned" if nbytes == 1 else "DW_ATE_signed", nbytes or 4)
        return self._compound(node, tag, fields, nbytes, typedef)

    def _compound(self, node: str, tag: str, fields: dict[str, str], nbytes: int, typedef: str) -> _Type:
        if tag == "DW_TAG_array_type":
            of = self.type_of(fields.get("baseType", ""))
            return _Type(f"{of.name}{self.lanes(fields) or ''}", nbytes, of.holds_pointers)
        if fields.get("name") in HALF and nbytes == 2:
            return _Type("half", 2, False)
        if "DIFlagFwdDecl" in fields.get("flags", ""):
            return _Type("struct", nbytes, True)  # incomplete
        if node in self._looking:  # a list's node points to the next one
            return _Type("struct", nbytes, False)
        self._looking.add(node)
        members = [self.type_of(member) for member in self.members(fields)]
        self._looking.discard(node)
        typedef = typedef or fields.get("name", "")  # NVRTC's vectors are structures of these names
        is_vector = VECTOR.fullmatch(typedef) and nbytes % int(typedef[-1]) == 0
        name = typedef.replace("longlong", "long") if is_vector else "struct"
        if fields.get("name", "").startswith("texture<"):  # the host binds it, and asks for its element
            name = fields["name"]
        return _Type(name, nbytes, any(member.holds_pointers for member in members))

    def stripped(self, node: str) -> tuple[str, dict[str, str]]:
        """Return the tag and the fields of a type without qualifiers and typedefs."""
        fields = self.fields(node)
        while fields.get("tag") in (*LOOKED_THROUGH, "DW_TAG_typedef"):
            fields = self.fields(fields.get("baseType", ""))
        return fields.get("tag", ""), fields

    def _is_const(self, node: str) -> bool:
        while node:
            fields = self.fields(node)
            tag = fields.get("tag")
            if tag == "DW_TAG_const_type":
                return True
            if tag not in (*LOOKED_THROUGH, "DW_TAG_typedef", "DW_TAG_array_type"):
                return False
            node = fields.get("baseType", "")
        return False


def _basic(encoding: str, nbytes: int) -> _Type:
    if encoding == "DW_ATE_float":
        return _Type(FLOATING.get(nbytes, "struct"), nbytes, False)
    name = SIGNED.get(nbytes, "struct")
    unsigned = encoding in ("DW_ATE_unsigned", "DW_ATE_unsigned_char", "DW_ATE_boolean", "DW_ATE_UTF")
    return _Type(f"u{name}" if unsigned and name != "struct" else name, nbytes, False)


def plain_names(kernels: Sequence[KernelSignature]) -> dict[str, str]:
    """Return new names for kernels that are not template instances and whose source names are unique."""
    names = [kernel.name for kernel in kernels]
    symbols = {kernel.symbol for kernel in kernels}
    return {
        kernel.symbol: kernel.name for kernel in kernels
        if kernel.name.isidentifier() and names.count(kernel.name) == 1 and kernel.name not in symbols
    }  # fmt: skip


def kernel_info(
    kernel: KernelSignature,
    kernels: Sequence[KernelSignature],
    dynamic_shared: bool,
    follows: bool,
    required_block: tuple[int, int, int] = (0, 0, 0),
) -> KernelInfo:
    """Describe a kernel of a program. `follows`: whether a variable holds pointers."""
    symbol = plain_names(kernels).get(kernel.symbol, kernel.symbol)
    unique = sum(each.name == kernel.name for each in kernels) == 1
    follows = follows or any(each.follows for each in kernel.parameters)
    return KernelInfo(
        kernel.name if unique else symbol, symbol, kernel.parameters, dynamic_shared, kernel.line, kernel.symbol,
        follows, required_block,
    )  # fmt: skip


def kernels_from(rows: Sequence[Sequence[Any]]) -> tuple[KernelInfo, ...]:
    """Return kernels from their JSON form. Raises `TypeError` for other rows."""
    return tuple(
        KernelInfo(*row)._replace(
            parameters=tuple(ParameterSignature(*each) for each in row[2]), required_block=tuple(row[7])
        )
        for row in rows
    )


def variables_from(rows: Sequence[Sequence[Any]]) -> tuple[VariableSignature, ...]:
    """Return variables from their JSON form. Raises `TypeError` for other rows."""
    return tuple(VariableSignature(*row) for row in rows)
