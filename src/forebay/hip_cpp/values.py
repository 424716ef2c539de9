"""What an expression is in OpenCL C, and what the emitters of expressions, calls and statements share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from forebay.hip_cpp import constants, nodes
from forebay.hip_cpp.constants import Known
from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.types import (
    INTEGERS,
    RANK,
    SIZES,
    Array,
    Named,
    Pointer,
    Reference,
    Space,
    Type,
    arithmetic,
    declare,
    is_vector,
    same,
    spelling,
    vector_parts,
)  # fmt: skip

if TYPE_CHECKING:
    from forebay.hip_cpp.program import Translator

__all__ = ["Base", "Symbol", "Value"]


@dataclass(eq=False)
class Value:
    """An expression in OpenCL C.

    Attributes
    ----------
    atom : bool
        Whether it needs no parentheses as an operand.
    space : Space or None
        Of an lvalue: where the object is.
    native : bool
        Of a vector of three: whether it is OpenCL's (16 bytes), rather than HIP's (12 bytes, a structure).
    """

    text: str
    type: Type
    atom: bool = False
    space: Space | None = None
    native: bool = False
    is_null: bool = False
    component: bool = False

    @property
    def operand(self) -> str:
        """The text as an operand."""
        return self.text if self.atom else f"({self.text})"


@dataclass(eq=False)
class Symbol:
    """A variable that is visible; ``value`` is that of a constant integer."""

    text: str
    type: Type
    space: Space
    value: Known | None = None
    init: nodes.Expression | None = None
    shared: str = ""


@dataclass(eq=False)
class Base:
    """Types, spaces and conversions; one for each function that is translated."""

    program: Translator
    bindings: dict[str, Type | Known] = field(default_factory=dict)
    scopes: list[dict[str, Symbol]] = field(default_factory=lambda: [{}])
    constant: bool = False  # while the initializer of a constant at file scope is translated

    # -- names

    def lookup(self, name: str) -> Symbol | None:
        """Return what a name means here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self.program.file_symbol(name)

    def constant_of(self, name: str) -> Known | None:
        """Return the value of a name that is a constant integer."""
        bound = self.bindings.get(name)
        if isinstance(bound, Known) and not any(name in scope for scope in self.scopes):
            return bound
        symbol = self.lookup(name)
        return symbol.value if symbol else None

    def evaluate(self, node: nodes.Expression) -> Known | None:
        """Return the value of a constant integer expression."""
        return constants.evaluate(node, self.constant_of, lambda type: self.size_of(self.concrete(type, node.place))[0])

    def known_value(self, node: nodes.Expression, type: Named) -> Known | None:
        """Return the value of a constant of this type, if it is an integer and its initializer is known."""
        value = None if isinstance(node, nodes.InitList) or type.name not in INTEGERS else self.evaluate(node)
        return value and value.to(type.name)

    def constant_integer(self, node: nodes.Expression, what: str) -> int:
        """Return the value of an expression that has to be constant."""
        value = self.evaluate(node)
        if value is None:
            raise RefusedError(f"{what} that is not a constant integer: not in the subset of HIP C++", node.place)
        return value.value

    # -- types

    def concrete(self, type: Type, place: Place, why: str = "") -> Type:
        """Return a type of the syntax tree with the template's arguments in it and new spaces.

        Parameters
        ----------
        why
            Why the spaces of its pointers have to be found out, if they have to.
        """
        if isinstance(type, Named):
            bound = self.bindings.get(type.name)
            if bound is not None and not isinstance(bound, Known):
                result = self.concrete(bound, place, why) if not has_spaces(bound) else bound
                if isinstance(result, Named):
                    return Named(result.name, result.const or type.const, result.volatile or type.volatile)
                return result
            self.program.use_type(type.name, place)
            return type
        if isinstance(type, Pointer):
            if isinstance(type.to, Reference):
                raise RefusedError("a pointer to a reference", place)
            to = self.concrete(type.to, place, why)
            return Pointer(to, type.space or self.program.space(why=why, place=place), type.const, type.restrict)
        if isinstance(type, Reference):
            return Reference(self.concrete(type.to, place, why))
        size = type.size
        if isinstance(size, nodes.Expression):
            size = self.constant_integer(size, "an array with a size")
            if size <= 0:
                raise RefusedError(f"an array of {size} elements", place)
        return Array(self.concrete(type.of, place, why), size)

    def size_of(self, type: Type) -> tuple[int, int]:
        """(bytes, alignment) of a type, as HIP lays it out."""
        return self.program.size_of(type)

    def declare(self, type: Type, name: str, space: str = "") -> str:
        """Write a declaration."""
        return declare(type, name, self.program.symbols, space)

    # -- conversions

    def refuse(self, what: str, node: nodes.Node) -> NoReturn:
        """Refuse a construct."""
        raise RefusedError(f"{what}: not in the subset of HIP C++", node.place)

    def wrong(self, what: str, node: nodes.Node) -> NoReturn:
        """Report what would be an error in HIP C++ as well."""
        raise RefusedError(what, node.place)

    def decayed(self, value: Value) -> Value:
        """Return an array as a pointer, anything else as it is."""
        if isinstance(value.type, Array):
            return Value(value.text, Pointer(value.type.of, value.space), value.atom)
        return value

    def native(self, value: Value) -> Value:
        """Return a vector of three as OpenCL's, anything else as it is."""
        if is_three(value.type) and not value.native:
            assert isinstance(value.type, Named)
            return Value(f"hip_unpack_{value.type.name}({value.text})", value.type, True, native=True)
        return value

    def packed(self, value: Value) -> Value:
        """Return a vector of three as HIP's, anything else as it is."""
        if is_three(value.type) and value.native:
            assert isinstance(value.type, Named)
            return Value(f"hip_pack_{value.type.name}({value.text})", value.type, True)
        return value

    def truth(self, value: Value, node: nodes.Node) -> str:
        """Return the text of a condition."""
        value = self.decayed(value)
        if not arithmetic(value.type) and not isinstance(value.type, Pointer):
            self.wrong(f"a condition of type {spelling(value.type)}", node)
        return value.text

    def converted(self, value: Value, type: Type, node: nodes.Node) -> str:
        """Return the text of a value where one of this type is needed, as HIP C++ converts it by itself.

        Raises
        ------
        RefusedError
            If it does not.
        """
        value = self.decayed(value)
        if isinstance(type, Pointer):
            if value.is_null:
                return "0"
            if not isinstance(value.type, Pointer):
                self.wrong(f"a {spelling(value.type)} where a {spelling(type)} is needed", node)
            self.join_pointers(type, value.type, node, one_way=True)
            return value.text
        if not isinstance(type, Named):
            self.wrong(f"a {spelling(value.type)} where a {spelling(type)} is needed", node)
        if type.name == "bool":
            if isinstance(value.type, Named) and value.type.name == "bool":
                return value.text
            self.truth(value, node)
            return f"{value.operand} != 0"
        if arithmetic(type) and arithmetic(value.type):
            return value.text
        if same(type, value.type):
            return self.packed(value).text if not value.native or is_three(type) else value.text
        self.wrong(f"a {spelling(value.type)} where a {spelling(type)} is needed", node)

    def join_pointers(self, one: Pointer, other: Pointer, node: nodes.Node, one_way: bool = False) -> None:
        """Both point to the same space from now on, and so does what they point to if those are pointers."""
        assert one.space is not None
        assert other.space is not None
        is_void = [isinstance(pointer.to, Named) and pointer.to.name == "void" for pointer in (one, other)]
        if not same(one.to, other.to) and not is_void[0] and (one_way or not is_void[1]):
            self.wrong(f"a {spelling(other)} where a {spelling(one)} is needed", node)
        one.space.join(other.space, node.place)
        inner, others = one.to, other.to
        while isinstance(inner, Array) and isinstance(others, Array):
            inner, others = inner.of, others.of
        if isinstance(inner, Pointer) and isinstance(others, Pointer):
            self.join_pointers(inner, others, node)

    def common(self, left: Type, right: Type, node: nodes.Node) -> Named:
        """Return the type of an arithmetic operation on two scalars."""
        if not (arithmetic(left) and arithmetic(right)):
            self.wrong(f"an operation on {spelling(left)} and {spelling(right)}", node)
        assert isinstance(left, Named)
        assert isinstance(right, Named)
        return max(promoted(left), promoted(right), key=lambda type: RANK[type.name])

    def scalar(self, value: Value, name: str, node: nodes.Node) -> str:
        """Return the text of a scalar, converted to this type in writing."""
        if not arithmetic(value.type):
            self.wrong(f"a {spelling(value.type)} where a {name} is needed", node)
        assert isinstance(value.type, Named)
        if value.type.name == name:
            return value.text
        if name == "bool":
            return f"{value.operand} != 0"
        return f"({name}){value.operand}"


def promoted(type: Named) -> Named:
    """Return the type after the integer promotions."""
    return Named("int") if type.name in INTEGERS and SIZES[type.name] < 4 else Named(type.name)


def is_three(type: Type) -> bool:
    """Whether it is a vector of three."""
    return isinstance(type, Named) and vector_parts(type.name)[1] == 3


def has_spaces(type: Type) -> bool:
    """Whether it is a pointer that is no longer one of the syntax tree."""
    return isinstance(type, Pointer) and type.space is not None


def is_integer(type: Type) -> bool:
    """Whether it is an integer or bool."""
    return isinstance(type, Named) and type.name in INTEGERS


def element(type: Type) -> str:
    """Return the name of a vector's elements."""
    assert isinstance(type, Named)
    assert is_vector(type)
    return vector_parts(type.name)[0]
