"""The syntax tree of the subset. Every node knows its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forebay.hip_cpp.errors import Place
from forebay.hip_cpp.types import Type

__all__ = [
    "Assign", "Binary", "Block", "Call", "Case", "Cast", "Char", "Conditional", "Construct", "Declaration",
    "Expression", "ExpressionStatement", "For", "Function", "If", "Index", "InitList", "Jump", "Loop",
    "Member", "Name", "Node", "Number", "Param", "Postfix", "Pragma", "Return", "SizeOf", "Statement",
    "StaticAssert", "String", "Switch", "Unary", "Variable",
]  # fmt: skip


@dataclass(eq=False)
class Node:
    """Anything in the tree."""

    place: Place


class Expression(Node):
    """Has a value."""


class Statement(Node):
    """Does something."""


@dataclass(eq=False)
class Number(Expression):
    """``1``, ``2.5f``."""

    text: str


@dataclass(eq=False)
class String(Expression):
    """``"…"``, only as an argument of printf."""

    text: str


@dataclass(eq=False)
class Char(Expression):
    """``'a'``."""

    text: str


@dataclass(eq=False)
class Name(Expression):
    """A variable or function; ``arguments`` are those of a template."""

    name: str
    arguments: list[Any] | None = None


@dataclass(eq=False)
class Unary(Expression):
    """``-x``, ``*p``, ``&x``, ``++i``."""

    op: str
    operand: Expression


@dataclass(eq=False)
class Postfix(Expression):
    """``i++``, ``i--``."""

    op: str
    operand: Expression


@dataclass(eq=False)
class Binary(Expression):
    """``a + b``, and ``a, b``."""

    op: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Assign(Expression):
    """``a = b``, ``a += b``."""

    op: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Conditional(Expression):
    """``c ? a : b``."""

    condition: Expression
    left: Expression
    right: Expression


@dataclass(eq=False)
class Call(Expression):
    """``f(…)``."""

    function: Name
    arguments: list[Expression]


@dataclass(eq=False)
class Index(Expression):
    """``a[i]``."""

    array: Expression
    index: Expression


@dataclass(eq=False)
class Member(Expression):
    """``a.x``, ``a->x``."""

    owner: Expression
    name: str
    arrow: bool


@dataclass(eq=False)
class Cast(Expression):
    """``(T)x`` and the casts of C++; ``kind`` is ``"static_cast"`` and so on, or ``""``."""

    type: Type
    operand: Expression
    kind: str = ""


@dataclass(eq=False)
class Construct(Expression):
    """``T(…)``, ``T{…}``."""

    type: Type
    arguments: list[Expression]
    braces: bool = False


@dataclass(eq=False)
class InitList(Expression):
    """``{…}`` as an initializer."""

    items: list[Expression]


@dataclass(eq=False)
class SizeOf(Expression):
    """``sizeof(T)``, ``sizeof x``."""

    of: Type | Expression


# -- statements


@dataclass(eq=False)
class Variable(Node):
    """One variable of a declaration."""

    name: str
    type: Type
    init: Expression | None
    attributes: frozenset[str]


@dataclass(eq=False)
class Declaration(Statement):
    """``int a, *b;``."""

    variables: list[Variable]


@dataclass(eq=False)
class Block(Statement):
    """``{ … }``."""

    body: list[Statement]


@dataclass(eq=False)
class ExpressionStatement(Statement):
    """``x;`` or ``;``."""

    expression: Expression | None


@dataclass(eq=False)
class If(Statement):
    """``if (c) … else …``."""

    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(eq=False)
class For(Statement):
    """``for (…; …; …) …``."""

    init: Statement | None
    condition: Expression | None
    step: Expression | None
    body: Statement


@dataclass(eq=False)
class Loop(Statement):
    """``while (c) …``, and ``do … while (c);`` when ``after``."""

    condition: Expression
    body: Statement
    after: bool


@dataclass(eq=False)
class Switch(Statement):
    """``switch (x) …``."""

    value: Expression
    body: Statement


@dataclass(eq=False)
class Case(Statement):
    """``case n:``, and ``default:`` without a value."""

    value: Expression | None


@dataclass(eq=False)
class Jump(Statement):
    """``break;``, ``continue;``."""

    word: str


@dataclass(eq=False)
class Return(Statement):
    """``return x;``."""

    value: Expression | None


@dataclass(eq=False)
class Pragma(Statement):
    """``#pragma unroll``."""

    text: str


@dataclass(eq=False)
class StaticAssert(Statement):
    """``static_assert(c, "…");``."""

    condition: Expression
    message: str


# -- the program


@dataclass(eq=False)
class Param(Node):
    """A parameter of a function."""

    name: str
    type: Type
    default: Expression | None = None


@dataclass(eq=False)
class Function(Node):
    """A function with a body; ``template`` are its template parameters, (name, type of a value or "")."""

    name: str
    result: Type
    params: list[Param]
    body: Block
    attributes: frozenset[str]
    template: list[tuple[str, str]] = field(default_factory=list)
    launch_bounds: Expression | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether it is ``__global__``."""
        return "__global__" in self.attributes
