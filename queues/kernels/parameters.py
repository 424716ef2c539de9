"""Parameters of kernels, from OpenCL C, SPIR-V or debug information, and sizes that depend on arguments and data."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forebay.compiler.spirv import declarations
from forebay.core.driver import Parameter
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, NotSupportedError
from forebay.queues.memory.shapes import read_int

UNTYPED = "u64"  # the type name of an assembly pointer; it takes ints too, because it may be a number

# Types that are handles of host objects, not values.
HOST_OBJECTS = re.compile(r"(image\w*_t|sampler_t|event_t|clk_event_t|queue_t|reserve_id_t|pipe\b.*)$")

SCALARS = {
    "char": ("b", 1), "uchar": ("B", 1), "short": ("h", 2), "ushort": ("H", 2), "int": ("i", 4), "uint": ("I", 4),
    "long": ("q", 8), "ulong": ("Q", 8), "float": ("f", 4), "double": ("d", 8), "half": ("V", 2),
    "unsigned char": ("B", 1), "unsigned short": ("H", 2), "unsigned int": ("I", 4), "unsigned long": ("Q", 8),
}  # fmt: skip
NUMPY_NAMES = {
    name: f"{'f' if code in 'fdV' else 'u' if code.isupper() else 'i'}{nbytes}"
    for name, (code, nbytes) in SCALARS.items()
}
LANES = {"2", "3", "4", "8", "16"}


def read_parameter(
    kernel: str, index: int, declared: declarations.Declared, size_of: Callable[[], int] | None = None
) -> Parameter:
    """Return the Parameter of a declaration. ``size_of()`` gives the bytes of a structure of undeclared size. Raises
    `NotSupportedError` for images, samplers and other host objects; without `size_of`, for such a structure.
    """
    name, type_name, kind, nbytes, read_only, alignment = declared
    if HOST_OBJECTS.match(type_name):
        raise NotSupportedError(
            f"kernel {kernel!r}, parameter {index} ({type_name} {name}): images, samplers and pipes are not supported"
        )
    if kind == "pointer":
        base, lanes = _split(type_name.removesuffix("*").rstrip())
        known = base in NUMPY_NAMES and (not lanes or lanes in LANES)
        return Parameter(name, type_name, "pointer", "", 8, np.dtype(NUMPY_NAMES[base]) if known else None, read_only)
    if kind == "local":
        return Parameter(name, type_name, "local", "L", 8)
    if type_name in SCALARS:
        code, nbytes = SCALARS[type_name]
        half = np.dtype("f2") if type_name == "half" else None
        return Parameter(name, type_name, "value", code, nbytes, half, alignment=nbytes)
    base, lanes = _split(type_name)
    if base in NUMPY_NAMES and lanes in LANES:
        vector = np.dtype((NUMPY_NAMES[base], (int(lanes),)))
        nbytes = vector.base.itemsize * (4 if lanes == "3" else int(lanes))
        return Parameter(name, type_name, "value", "V", nbytes, vector, alignment=alignment or nbytes)
    if not nbytes:
        if size_of is None:
            raise NotSupportedError(f"kernel {kernel!r}: its SPIR-V does not have the size of {type_name} {name}")
        nbytes = size_of()
    return Parameter(name, type_name, "value", "V", nbytes, alignment=alignment)


def kernels_in(module: bytes) -> dict[str, list[declarations.Declared]]:
    """Return the parameters of the kernels in SPIR-V. Raises `InvalidArgumentError` for other bytes."""
    try:
        return declarations.kernels_of(module)
    except ValueError as error:
        raise InvalidArgumentError(f"program: these bytes are not SPIR-V ({error}); pass OpenCL C as str") from None


def _split(type_name: str) -> tuple[str, str]:
    """Return a vector type's element name and length."""
    base = type_name.rstrip("0123456789")
    return base, type_name[len(base) :]


# -- sizes that depend on arguments and data


class Size:
    """An integer known at launch. Sizes and ints combine by ``+ - * //``, which rounds down as in Python."""

    _leaves: frozenset[Leaf] = frozenset()

    def evaluate(self, known: Mapping[Size, int]) -> int:
        """Return its value, given its leaves' values in `known`."""
        raise NotImplementedError

    def leaves(self) -> frozenset[Leaf]:
        """Return the leaves that it depends on."""
        return self._leaves

    def __add__(self, other: Size | int) -> Size:
        return _Combined("+", self, read_size(other))

    def __radd__(self, other: int) -> Size:
        return _Combined("+", read_size(other), self)

    def __sub__(self, other: Size | int) -> Size:
        return _Combined("-", self, read_size(other))

    def __rsub__(self, other: int) -> Size:
        return _Combined("-", read_size(other), self)

    def __mul__(self, other: Size | int) -> Size:
        return _Combined("*", self, read_size(other))

    def __rmul__(self, other: int) -> Size:
        return _Combined("*", read_size(other), self)

    def __floordiv__(self, other: Size | int) -> Size:
        return _Combined("//", self, read_size(other))

    def __rfloordiv__(self, other: int) -> Size:
        return _Combined("//", read_size(other), self)

    def __bool__(self) -> bool:
        raise ArgumentTypeError(f"{self!r} is not known before a launch")


class _Constant(Size):
    def __init__(self, value: int) -> None:
        self.value = value

    def evaluate(self, known: Mapping[Size, int]) -> int:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


class Leaf(Size):
    """A property of one argument, by parameter name. Leaves of one kind and name are equal."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{type(self).__name__} needs the name of a parameter, not {type(name).__name__}")
        self.name = name

    def leaves(self) -> frozenset[Leaf]:
        """Return itself."""
        return frozenset((self,))

    def evaluate(self, known: Mapping[Size, int]) -> int:
        """Return its value in `known`."""
        return known[self]

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
        Its index in the result of the device's reduction.
    """

    place = 0


class MinOver(Over):
    """The least element of the buffer argument of the parameter `name`; 0 when it has none."""


class MaxOver(Over):
    """The greatest element of the buffer argument of the parameter `name`; 0 when it has none."""

    place = 1


class SumOver(Over):
    """The sum of all elements of the buffer argument of the parameter `name`, in 64 bits."""

    place = 2


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}


class _Combined(Size):
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

    def __repr__(self) -> str:
        return f"({self.left!r} {self.operation} {self.right!r})"


def read_size(size: Any) -> Size:
    """Convert an int or a `Size` to a `Size`. Raises `ArgumentTypeError`."""
    if isinstance(size, Size):
        return size
    return _Constant(read_int(size, "a size is an int or an expression"))
