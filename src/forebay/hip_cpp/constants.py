"""Constant expressions: sizes of arrays, labels of cases, arguments of templates."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import NamedTuple

from forebay.hip_cpp import nodes
from forebay.hip_cpp.errors import RefusedError
from forebay.hip_cpp.types import INTEGERS, RANK, SIZES, Named, Type

__all__ = ["CONSTANTS", "Known", "character", "evaluate", "number"]

NUMBER = re.compile(r"(0[xX][\da-fA-F]+|0[bB][01]+|\d+)([uUlL]*)$")
FLOAT = re.compile(r"(0[xX][\da-fA-F.]+[pP][+-]?\d+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fF]?)$")
ESCAPES = re.compile(r"'(?:[^\\]|\\(?:[0-7]{1,3}|x[\da-fA-F]{1,2}|[abfnrtv\\'\"?]))'$")

INTS = """
    CHAR_BIT SCHAR_MAX SCHAR_MIN CHAR_MAX CHAR_MIN UCHAR_MAX SHRT_MAX SHRT_MIN USHRT_MAX INT_MAX INT_MIN FLT_DIG
    FLT_MANT_DIG FLT_MAX_EXP FLT_MIN_EXP DBL_DIG DBL_MANT_DIG
"""
FLOATS = "FLT_MAX FLT_MIN FLT_EPSILON INFINITY NAN HUGE_VALF"
DOUBLES = """
    DBL_MAX DBL_MIN DBL_EPSILON HUGE_VAL M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI
    M_SQRT2 M_SQRT1_2
"""
# Constants that both languages have, and HIP's names for them: (text, type).
CONSTANTS = {
    "true": ("1", "bool"), "false": ("0", "bool"),
    **{name: (name, "int") for name in INTS.split()},
    "UINT_MAX": ("UINT_MAX", "uint"), "LONG_MAX": ("LONG_MAX", "long"), "LONG_MIN": ("LONG_MIN", "long"),
    "ULONG_MAX": ("ULONG_MAX", "ulong"), "LLONG_MAX": ("LONG_MAX", "long"), "LLONG_MIN": ("LONG_MIN", "long"),
    "ULLONG_MAX": ("ULONG_MAX", "ulong"), "INT32_MAX": ("INT_MAX", "int"), "INT32_MIN": ("INT_MIN", "int"),
    "UINT32_MAX": ("UINT_MAX", "uint"), "INT64_MAX": ("LONG_MAX", "long"), "INT64_MIN": ("LONG_MIN", "long"),
    "UINT64_MAX": ("ULONG_MAX", "ulong"), "SIZE_MAX": ("ULONG_MAX", "ulong"),
    **{name: (name, "float") for name in FLOATS.split()},
    **{name: (name, "double") for name in DOUBLES.split()},
}  # fmt: skip


def divided(a: int, b: int) -> int:
    """Return the quotient as C rounds it."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": divided, "%": lambda a, b: a - b * divided(a, b),
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)), "||": lambda a, b: int(bool(a) or bool(b)),
}  # fmt: skip


def number(node: nodes.Number) -> tuple[str, str, int | None]:
    """(text in OpenCL C, type, value of an integer) of a literal.

    Raises
    ------
    RefusedError
        For a literal that C++ has not, or a long double.
    """
    text = node.text.replace("'", "")
    if match := NUMBER.match(text):
        digits, suffix = match[1], match[2].lower()
        if suffix not in ("", "u", "l", "ul", "lu", "ll", "ull", "llu"):
            raise RefusedError(f"the literal {node.text}", node.place)
        octal = digits.isdigit() and digits.startswith("0") and digits != "0"
        if octal and set(digits) & set("89"):
            raise RefusedError(f"the literal {node.text}", node.place)
        value = int(digits, 8 if octal else 0)
        signed = [] if "u" in suffix else [("int", 31), ("long", 63)]
        unsigned = [("uint", 32), ("ulong", 64)] if "u" in suffix or not digits.isdigit() or octal else []
        types = [
            (name, bits) for name, bits in sorted(signed + unsigned, key=lambda type: type[1])
            if value < 1 << bits and ("l" not in suffix or "long" in name)
        ]  # fmt: skip
        if not types:
            raise RefusedError(f"the literal {node.text} fits no type", node.place)
        name = types[0][0]
        ending = ("U" if name[0] == "u" else "") + ("L" if name.endswith("long") else "")
        return (hex(value) if not digits.isdigit() or octal else str(value)) + ending, name, value
    if match := FLOAT.match(text):
        return match[1] + ("f" if match[2] else ""), "float" if match[2] else "double", None
    raise RefusedError(f"the literal {node.text} is not in the subset of HIP C++", node.place)


def character(node: nodes.Char) -> int:
    """Return the value of ``'a'``.

    Raises
    ------
    RefusedError
        For several characters, or one outside of ASCII.
    """
    if not ESCAPES.match(node.text) or not node.text.isascii():
        raise RefusedError(f"the literal {node.text} is not in the subset of HIP C++", node.place)
    if match := re.fullmatch(r"'\\([0-7]{1,3})'", node.text):
        value = int(match[1], 8)
    else:
        value = ord(ast.literal_eval(node.text.replace("\\?", "?")))
    return value - 256 if value > 127 else value


class Known(NamedTuple):
    """The value of a constant integer expression, and its type."""

    value: int
    type_name: str

    def to(self, type_name: str) -> Known:
        """Return it converted to another integer type."""
        if type_name == "bool":
            return Known(int(bool(self.value)), type_name)
        bits = 8 * SIZES[type_name]
        value = self.value & ((1 << bits) - 1)
        signed = not type_name.startswith("u")
        return Known(value - (1 << bits) if signed and value >> (bits - 1) else value, type_name)


def evaluate(
    node: nodes.Expression,
    lookup: Callable[[str], Known | None],
    size_of: Callable[[Type], int] | None = None,
) -> Known | None:
    """Return the value of an integer expression; None if it is not constant, or not of integers.

    Parameters
    ----------
    lookup
        The value of a constant, by name.
    """

    def inner(node: nodes.Expression) -> Known | None:
        if isinstance(node, nodes.Number):
            _, name, value = number(node)
            return None if value is None else Known(value, name)
        if isinstance(node, nodes.Char):
            return Known(character(node), "char")
        if isinstance(node, nodes.Name):
            return {"true": Known(1, "bool"), "false": Known(0, "bool")}.get(node.name) or lookup(node.name)
        if isinstance(node, nodes.Unary) and node.op in "+-~!":
            known = inner(node.operand)
            if known is None or node.op == "!":
                return known and Known(int(not known.value), "bool")
            value = {"+": known.value, "-": -known.value, "~": ~known.value}[node.op]
            return Known(value, "int").to(wider(known))
        if isinstance(node, nodes.Binary) and node.op in OPERATIONS:
            return binary(node.op, inner(node.left), inner(node.right))
        if isinstance(node, nodes.Conditional):
            condition, left, right = inner(node.condition), inner(node.left), inner(node.right)
            if condition is None or left is None or right is None:
                return None
            name = left.type_name if left.type_name == right.type_name else wider(left, right)
            return (left if condition.value else right).to(name)
        if isinstance(node, nodes.Cast) and isinstance(node.type, Named) and node.type.name in INTEGERS:
            known = inner(node.operand)
            return known and known.to(node.type.name)
        if isinstance(node, nodes.SizeOf) and size_of is not None and not isinstance(node.of, nodes.Expression):
            return Known(size_of(node.of), "ulong")
        return None

    return inner(node)


def wider(*operands: Known) -> str:
    """Return the type of an operation on these."""
    names = (operand.type_name if operand.type_name in RANK else "int" for operand in operands)
    return max(names, key=RANK.__getitem__)


def binary(op: str, left: Known | None, right: Known | None) -> Known | None:
    """Return the value of a binary operation; None if it has none."""
    if left is None or right is None:
        return None
    if op in ("&&", "||"):
        return Known(OPERATIONS[op](left.value, right.value), "bool")
    if op in ("<<", ">>"):
        name = wider(left)
        if not 0 <= right.value < 8 * SIZES[name]:
            return None
        return Known(OPERATIONS[op](left.value, right.value), name).to(name)
    name = wider(left, right)
    one, other = left.to(name).value, right.to(name).value
    if op in "/%" and other == 0:
        return None
    result = Known(OPERATIONS[op](one, other), name)
    return Known(result.value, "bool") if op in ("==", "!=", "<", ">", "<=", ">=") else result.to(name)
