"""Sizes that depend on data: what `Kernel.scratch` takes, such as ``MaxOver("row_lengths") * 8``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.shapes import read_int

__all__ = ["Argument", "MaxOver", "MinOver", "Size", "SumOver", "read_size"]


class Size:
    """An integer that is known when the kernel is launched. It combines with other Sizes and ints by ``+ - * //``.

    ``//`` rounds down as in Python.
    """

    def evaluate(self, known: Mapping[Size, int]) -> int:
        """Return its value, given those of its leaves in `known`."""
        raise NotImplementedError

    def leaves(self) -> frozenset[Leaf]:
        """Return the leaves whose values are needed to evaluate it."""
        raise NotImplementedError

    def __add__(self, other: Size | int) -> Size:
        return _combine("+", self, other)

    def __radd__(self, other: int) -> Size:
        return _combine("+", other, self)

    def __sub__(self, other: Size | int) -> Size:
        return _combine("-", self, other)

    def __rsub__(self, other: int) -> Size:
        return _combine("-", other, self)

    def __mul__(self, other: Size | int) -> Size:
        return _combine("*", self, other)

    def __rmul__(self, other: int) -> Size:
        return _combine("*", other, self)

    def __floordiv__(self, other: Size | int) -> Size:
        return _combine("//", self, other)

    def __rfloordiv__(self, other: int) -> Size:
        return _combine("//", other, self)

    def __bool__(self) -> bool:
        raise ArgumentTypeError(f"{self!r} is not known before a launch")


class Constant(Size):
    """An int."""

    def __init__(self, value: int) -> None:
        self.value = value

    def evaluate(self, known: Mapping[Size, int]) -> int:
        return self.value

    def leaves(self) -> frozenset[Leaf]:
        return frozenset()

    def __repr__(self) -> str:
        return repr(self.value)


class Leaf(Size):
    """A property of one argument, by the name of its parameter. Two leaves of one kind and name are equal."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{type(self).__name__} needs the name of a parameter, not {type(name).__name__}")
        self.name = name

    def evaluate(self, known: Mapping[Size, int]) -> int:
        """Return its value, which `known` has."""
        return known[self]

    def leaves(self) -> frozenset[Leaf]:
        """Return itself alone."""
        return frozenset((self,))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.name == other.name

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Argument(Leaf):
    """The value of the scalar integer argument of the parameter `name`."""


class Over(Leaf):
    """A reduction over all elements of a buffer argument of integers; 0 when it has no elements.

    Attributes
    ----------
    place : int
        Where it is in the result of the device's reduction.
    """

    place = 0


class MinOver(Over):
    """The least element of the buffer that is the argument of the parameter `name`; 0 when it has none."""

    place = 0


class MaxOver(Over):
    """The greatest element of the buffer that is the argument of the parameter `name`; 0 when it has none."""

    place = 1


class SumOver(Over):
    """The sum of all elements of the buffer that is the argument of the parameter `name`, in 64 bits."""

    place = 2


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}


class Combined(Size):
    """Two sizes and the operation that combines them."""

    def __init__(self, operation: str, left: Size, right: Size) -> None:
        self.operation = operation
        self.left = left
        self.right = right
        self._leaves = left.leaves() | right.leaves()

    def evaluate(self, known: Mapping[Size, int]) -> int:
        left, right = self.left.evaluate(known), self.right.evaluate(known)
        if self.operation == "//" and right == 0:
            raise InvalidArgumentError(f"{self!r} divides by 0")
        return OPERATIONS[self.operation](left, right)

    def leaves(self) -> frozenset[Leaf]:
        return self._leaves

    def __repr__(self) -> str:
        return f"({self.left!r} {self.operation} {self.right!r})"


def _combine(operation: str, left: Any, right: Any) -> Size:
    return Combined(operation, read_size(left), read_size(right))


def read_size(size: Any) -> Size:
    """Convert an int or a `Size` to a `Size`.

    Raises
    ------
    ArgumentTypeError
    """
    if isinstance(size, Size):
        return size
    return Constant(read_int(size, "a size is an int or an expression"))
