"""The types of the subset, and the address spaces of pointers, which are found by unification."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from forebay.hip_cpp.errors import Place, RefusedError

__all__ = [
    "ALIASES", "INTEGERS", "RANK", "SIZES", "VECTORS", "Array", "Named", "Pointer", "Reference", "Space", "Struct",
    "Type", "arithmetic", "declare", "is_vector", "same", "spelling", "vector_parts", "words_of",
]  # fmt: skip

SIZES = {
    "bool": 1, "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
    "float": 4, "double": 8,
}  # fmt: skip
INTEGERS = {"bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"}
RANK = {name: rank for rank, name in enumerate(["int", "uint", "long", "ulong", "float", "double"])}

# Names of C++ for them. HIP's long long is OpenCL's long; size_t may not be the type of a kernel's parameter there.
ALIASES = {
    "int8_t": "char", "uint8_t": "uchar", "int16_t": "short", "uint16_t": "ushort",
    "int32_t": "int", "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong",
    "size_t": "ulong", "ptrdiff_t": "long", "intptr_t": "long",
    "uintptr_t": "ulong", "uint": "uint", "uchar": "uchar", "ushort": "ushort", "ulong": "ulong",
}  # fmt: skip
WORDS = {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"}
VECTORS = {
    f"{name}{lanes}": f"{base}{lanes}"
    for name, base in {
        **{base: base for base in SIZES if base != "bool"}, "longlong": "long", "ulonglong": "ulong",
    }.items()
    for lanes in (2, 3, 4)
}  # fmt: skip
ALIASES.update(VECTORS)


class Space:
    """The address space that a pointer points to: known, or to be found out; two that must agree are joined."""

    _ids = itertools.count()

    def __init__(self, name: str = "", place: Place | None = None, why: str = "") -> None:
        self.id: int = next(Space._ids)
        self._name = name
        self._place = place
        self._why = why  # it has a source that nothing is known about: it must be found out
        self._parent: Space | None = None

    def root(self) -> Space:
        """Return what stands for all that it was joined with."""
        space = self
        while space._parent is not None:
            space = space._parent
        return space

    @property
    def name(self) -> str:
        """global, local, constant or private; empty if it is not known yet."""
        return self.root()._name

    @property
    def why(self) -> str:
        """Why it has to be found out; empty if it does not have to."""
        return self.root()._why

    @property
    def place(self) -> Place | None:
        """Where it was learnt."""
        return self.root()._place

    def forget(self) -> None:
        """It does not have to be found out after all: all that it comes from is known."""
        self.root()._why = ""

    def join(self, other: Space, place: Place) -> None:
        """Both are the same from now on.

        Raises
        ------
        RefusedError
            If they are known to differ.
        """
        mine, others = self.root(), other.root()
        if mine is others:
            return
        if mine._name and others._name and mine._name != others._name:
            words = {"local": "shared", "hip_constant": "__constant__"}
            first, second = (words.get(name, name) for name in (mine._name, others._name))
            raise RefusedError(
                f"a pointer that points to {first} memory in one case and to {second} memory in another: OpenCL C 1.2 "
                "has no pointers for both; use two variables, or pass each to a __device__ function",
                place,
            )
        if not mine._name and others._name:
            mine._name, mine._place = others._name, place
        mine._why = mine._why or others._why
        others._parent = mine


@dataclass(eq=False)
class Named:
    """A scalar, a vector, a structure, or a parameter of a template."""

    name: str
    const: bool = False
    volatile: bool = False


@dataclass(eq=False)
class Pointer:
    """A pointer; ``space`` is None in the syntax tree, and there in what a function is translated with."""

    to: Type
    space: Space | None = None
    const: bool = False
    restrict: bool = False


@dataclass(eq=False)
class Array:
    """An array; ``size`` is an expression in the syntax tree, then an int; None if the initializer tells."""

    of: Type
    size: Any = None


@dataclass(eq=False)
class Reference:
    """A reference, which becomes a pointer."""

    to: Type


Type = Named | Pointer | Array | Reference


@dataclass(eq=False)
class Struct:
    """A structure or union; ``name`` as in the source, ``symbol`` as it is written."""

    name: str
    word: str
    place: Place
    fields: list[tuple[str, Type]] = field(default_factory=list)
    symbol: str = ""


def words_of(words: list[str], place: Place) -> str:
    """Return the name here of a type that is spelt with several words, as in ``unsigned long long``."""
    counts = {word: words.count(word) for word in words}
    unsigned = counts.pop("unsigned", 0)
    signed = counts.pop("signed", 0)
    rest = " ".join(sorted(counts.keys() - {"int"} if len(counts) > 1 else counts))
    known = {"": "int", "int": "int", "char": "char", "short": "short", "long": "long"}
    if max(counts.values(), default=0) > (2 if rest == "long" else 1) or counts.get("int", 0) > 1 or (
        rest == "char" and "int" in counts
    ):  # fmt: skip
        rest = "none"
    if unsigned + signed <= 1 and rest in known:
        return ("u" if unsigned else "") + known[rest]
    if not unsigned and not signed and len(words) == 1:
        return words[0]
    raise RefusedError(f"the type {' '.join(words)!r} is not in the subset", place)


def vector_parts(name: str) -> tuple[str, int]:
    """("float", 4) of float4; the number is 1 for anything else."""
    if name in VECTORS.values():
        return name[:-1], int(name[-1])
    return name, 1


def is_vector(type: Type) -> bool:
    """Whether it is a vector of two to four."""
    return isinstance(type, Named) and vector_parts(type.name)[1] > 1


def arithmetic(type: Type) -> bool:
    """Whether it is a scalar."""
    return isinstance(type, Named) and type.name in SIZES


def same(one: Type, other: Type) -> bool:
    """Whether the types agree, apart from qualifiers and spaces."""
    if isinstance(one, Named) and isinstance(other, Named):
        return one.name == other.name
    if isinstance(one, Pointer) and isinstance(other, Pointer):
        return same(one.to, other.to)
    if isinstance(one, Array) and isinstance(other, Array):
        return one.size == other.size and same(one.of, other.of)
    return False


def spelling(type: Type) -> str:
    """Return the type as a message or a description spells it."""
    if isinstance(type, Named):
        return ("const " if type.const else "") + type.name
    if isinstance(type, Pointer):
        return f"{spelling(type.to)}*"
    if isinstance(type, Array):
        return f"{spelling(type.of)}[{type.size if isinstance(type.size, int) else ''}]"
    return f"{spelling(type.to)}&"


def declare(type: Type, declarator: str, names: dict[str, str], space: str = "") -> str:
    """Write a declaration in OpenCL C.

    Parameters
    ----------
    declarator
        The name with what surrounds it; empty for a type alone.
    names
        The symbols of structures.
    space
        The address space of the object itself.
    """
    if isinstance(type, Pointer):
        assert type.space is not None
        qualifiers = (f"{space} " if space else "") + ("const " if type.const else "")
        qualifiers += "restrict " if type.restrict else ""
        return declare(type.to, f"*{qualifiers}{declarator}", names, f"\2S{type.space.id}\3")
    if isinstance(type, Array):
        inner = f"({declarator})" if declarator.startswith("*") else declarator
        size = "" if type.size is None else str(type.size)
        return declare(type.of, f"{inner}[{size}]", names, space)
    assert isinstance(type, Named)
    name = "uchar" if type.name == "bool" else names.get(type.name, type.name)
    if vector_parts(name)[1] == 3:
        name = f"hip_{name}"
    words = [
        space,
        "volatile" if type.volatile else "",
        "const" if type.const and "constant" not in space else "",
        name,
    ]
    return " ".join([word for word in words if word] + ([declarator] if declarator else []))
