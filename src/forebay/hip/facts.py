"""HIP's constants, enumerations and structures, under their own names and with their own values (HIP 7.2).

They are in facts.json, and made of it here. A member of a structure has there what it is at first: a number, null for a
pointer, a list, an enumerator, the name of a structure or class, of which each structure gets a new one, "object" for
None in the place of any object, or how many bytes of 0.

Vectors, `float4` and its like, are ctypes structures, which a launch takes as they are. Their sizes are HIP's: `float3`
has 12 bytes. A kernel's own ``float3`` has 16 in OpenCL C; a launch knows that.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import json
import operator
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from forebay.c_string import CString
from forebay.core.errors import ArgumentTypeError
from forebay.hip.compiled.calls import is_null
from forebay.hip.compiled.launch import dim3
from forebay.hip.pointers import Pointer

Kind = TypeVar("Kind", bound=enum.Enum)
FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("facts.json").read_text(encoding="utf-8"))


class Record:
    """Members that are 0, None or empty until they are set. None is for pointers: it stands for every null pointer."""

    _members: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if len(args) > len(self._members):
            raise ArgumentTypeError(f"{name} has {len(self._members)} members ({len(args)} given)")
        given = dict(zip(self._members, args, strict=False))
        for member, value in kwargs.items():
            if member not in self._members or member in given:
                raise ArgumentTypeError(f"{name}: {member!r} is {'given twice' if member in given else 'no member'}")
            given[member] = value
        for member, default in self._members.items():
            if member in given:
                setattr(self, member, given[member])
            else:
                setattr(self, member, default() if callable(default) else default)

    if not TYPE_CHECKING:  # which knows the members

        def __setattr__(self, name: str, value: Any) -> None:
            is_pointer = self._members.get(name, 0) is None
            super().__setattr__(name, None if is_pointer and is_null(value) else value)

        def __getattr__(self, name: str) -> Any:
            verb, _, member = name.partition("_")
            if verb not in ("get", "set") or member not in self._members:
                raise AttributeError(f"{type(self).__name__} has no member {name!r} that means something here")

            def access(i: int, *value: Any) -> Any:  # as of AMD's, which may be arrays of structures: this is one
                structure = (self,)[i]
                return getattr(structure, member) if verb == "get" else setattr(structure, member, *value)

            return access

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of the members."""
        return list(cls._members)

    @classmethod
    def fromObj(cls, pyobj: Any) -> Any:
        """Return it when it is such a structure; TypeError for anything else: these have no memory of C's."""
        if not isinstance(pyobj, cls):
            raise ArgumentTypeError(f"{cls.__name__}.fromObj takes a {cls.__name__}, not {type(pyobj).__name__}")
        return pyobj

    @classmethod
    def c_sizeof(cls) -> int:
        """Return its bytes in C."""
        size: int = FACTS["bytes in C"][cls.__name__]
        return size

    def copy(self) -> Any:
        """Return a copy, of members that are structures too."""
        made = type(self).__new__(type(self))
        for name in self._members:
            member = self[name]
            setattr(made, name, member.copy() if isinstance(member, (Record, list)) else member)
        return made

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self._members)})"


class Opaque(Record):
    """One member, of bytes that a program passes on: such structures are equal when their bytes are."""

    def __bytes__(self) -> bytes:
        return bytes(self[next(iter(self._members))])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))


class Vector(ctypes.Structure):
    """One to four elements, x, y, z and w, given by position or by name; 0 where none is given."""

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of the elements."""
        return [field[0] for field in cls._fields_]

    @classmethod
    def fromObj(cls, pyobj: Any) -> Any:
        """Return it when it is one already, else make one of a sequence."""
        return pyobj if isinstance(pyobj, cls) else cls(*pyobj)

    def c_sizeof(self) -> int:
        """Return its bytes."""
        return ctypes.sizeof(self)

    def as_c_void_p(self) -> ctypes.c_void_p:
        """Return where it is, as a ctypes.c_void_p."""
        return ctypes.c_void_p(ctypes.addressof(self))

    def __getitem__(self, key: Any) -> Any:
        names = self.PROPERTIES()
        return getattr(self, key if key in names else names[key])

    def __len__(self) -> int:
        return len(self._fields_)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self.PROPERTIES())})"


def flags_of(function: str) -> int:
    """Return all the flags that a function of HIP takes."""
    flags: list[int] = [FACTS["constants"][name] for name in FACTS["flags"][function]]
    return functools.reduce(operator.or_, flags)


def words(kind: type[Kind]) -> dict[str, Kind]:
    """Return enumerators by forebay's words for what they mean."""
    return {word: kind[name] for word, name in FACTS["words"][kind.__name__].items()}


def _at_first(given: Any) -> Any:
    """Return what a member is at first, or what is called for that."""
    if isinstance(given, list):
        return given.copy
    if isinstance(given, dict):
        return bytes(given["zeros"])
    if isinstance(given, str):
        kind, _, enumerator = given.partition(".")
        known = CLASSES.get(kind) or globals().get(kind) or __getattr__(kind)
        return known[enumerator] if enumerator else known
    return given


def _structure(name: str, doc: str | list[str] | None, members: dict[str, Any]) -> type[Record]:
    first = {member: _at_first(given) for member, given in members.items()}
    base = Opaque if any(isinstance(value, bytes) for value in first.values()) else Record
    text = "\n".join(doc) if isinstance(doc, list) else doc
    return type(name, (base,), {"__doc__": text, "__module__": __name__, "_members": first})


def __getattr__(name: str) -> Any:
    """Make an enumeration when it is asked for: most programs need a few of them."""
    own = FACTS["aliases"].get(name, name)
    base = next((base for kinds, base in BASES.items() if own in FACTS[kinds]), None)
    if base is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _lock:
        if own not in globals():
            facts = FACTS[base.__name__]
            made = base(own, facts[own]["members"], module=__name__)
            made.__doc__ = facts[own]["doc"]
            if own == "hipError_t":
                made.__str__ = lambda code: f"hipError_t.{code.name}"  # on each version of Python
            globals()[own] = made
        return globals()[own]


CLASSES: dict[str, Any] = {"CString": CString, "Pointer": Pointer, "dim3": dim3, "object": type(None)}
BASES: dict[str, Any] = {"IntEnum": enum.IntEnum, "IntFlag": enum.IntFlag}
NAMES = {name for kinds in ("constants", *BASES, "structures", "aliases") for name in FACTS[kinds] if name[0] != "_"}
_lock = threading.RLock()

globals().update(FACTS["constants"], HIP_VERSION_GITHASH=b"", HIP_VERSION_BUILD_NAME=b"")
for _name, _facts in FACTS["structures"].items():
    globals()[_name] = _structure(_name, _facts.get("doc"), _facts["members"])
for _name, _of in FACTS["aliases"].items():
    if _of in FACTS["structures"]:
        globals()[_name] = globals()[_of]
for _element, _type in FACTS["vectors"].items():
    for _count in range(1, 5):
        _fields = [(member, getattr(ctypes, f"c_{_type}")) for member in "xyzw"[:_count]]
        _members = {"__doc__": f"A vector of {_element}, see `Vector`.", "__module__": __name__, "_fields_": _fields}
        globals()[f"{_element}{_count}"] = type(f"{_element}{_count}", (Vector,), _members)
