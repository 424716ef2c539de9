"""Shapes, element types and values, read the same way wherever they are given."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError

__all__ = [
    "Grid",
    "ShapeLike",
    "check_copied",
    "convert",
    "element_code",
    "read_dtype",
    "read_shape",
    "shortened",
    "whole_number",
]

ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Grid: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]  # also of a block: HIP has dim3


# Of numbers larger than a byte, by the character of their dtype; a complex number counts as its two halves.
_CODES = {
    **{kind: 2 * np.dtype(kind).itemsize for kind in "hHiIlLqQ"},
    **{kind: 2 * np.dtype(kind).itemsize + 1 for kind in "efdg"},
    **{kind: np.dtype(kind).itemsize + 1 for kind in "FDG"},
}


def element_code(dtype: np.dtype[Any] | None) -> int:
    """Return what memory and a pointer to it must have in common: twice the bytes, and 1 more for floating point.

    It is 0 for what fits everything: bytes, structures, unknown types (None).
    """
    return 0 if dtype is None else _CODES.get(dtype.base.char, 0)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shortened(value: Any, most: int = 80) -> str:
    """Return what stands for a value in a message: its repr in one line, cut where it is long."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except ValueError:  # an int of thousands of digits, which CPython does not print
        text = f"<{type(value).__name__} of {value.bit_length()} bits>"
    return text if len(text) <= most else f"{text[: most - 8]}…{text[-7:]}"


def check_copied(to: Any, source: Any) -> None:
    """Refuse a copy between memory whose elements are numbers of two types: the rule of `element_code`.

    Both are Buffers, views of them, arrays, or have a buffer.

    Raises
    ------
    ArgumentTypeError
    """
    into, out_of = _dtype_of(to), _dtype_of(source)
    if into is out_of or element_code(into) in (0, element_code(out_of)) or not element_code(out_of):
        return
    raise ArgumentTypeError(
        f"copy of {out_of} to {into}: a copy converts nothing; if the bytes are meant, copy .view({into.str[1:]!r}) of "
        "the source"
    )


def _dtype_of(memory: Any) -> Any:
    """Return the dtype of the numbers in memory; None when they are not known to be numbers."""
    if hasattr(memory, "dtype"):
        return memory.dtype
    view = memoryview(memory)
    kind = (view.format or "").lstrip("@=<>!^")
    # The sizes of `struct` and of NumPy differ; the view knows its own.
    return np.dtype(f"{np.dtype(kind).kind}{view.itemsize}") if kind in _CODES else None


def read_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """Convert anything that NumPy takes as a shape to a tuple of ints, each at least `least`."""
    try:
        extents: Iterable[Any] = (operator.index(shape),)
    except TypeError:
        extents = shape
    try:
        whole = tuple(map(operator.index, extents))
    except TypeError:
        raise ArgumentTypeError(f"a shape is an int or a tuple of ints, not {shortened(shape)}") from None
    if any(extent < least for extent in whole):
        raise InvalidArgumentError(f"a shape has no negative dimension: {shortened(shape)}")
    return whole


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype whose elements are bytes that can be copied. Refuses Python objects and empty elements."""
    try:
        read: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        extents = "; several extents are a tuple: (4, 4)" if isinstance(dtype, (int, np.integer)) else ""
        raise ArgumentTypeError(f"dtype: {error}{extents}") from None
    if read.hasobject or read.itemsize == 0:
        what = "Python objects" if read.hasobject else "0 bytes"
        raise InvalidArgumentError(f"memory cannot hold elements of {read!r}, which are {what}")
    return read


def whole_number(value: Any) -> int:
    """Convert an int, a bool (NumPy's too, which has no ``__index__``), or anything else with ``__index__``.

    Raises
    ------
    TypeError
        For anything else: for floats, even whole ones.
    """
    if isinstance(value, (np.bool_, np.ndarray)) and value.dtype == np.bool_ and value.ndim == 0:
        return int(value)
    return operator.index(value)


def convert(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Convert a value or values to an array of `dtype`. Unlike NumPy's own conversions it never wraps or overflows.

    Raises
    ------
    TypeError
        When the value is of another kind: a float for an integer, a complex number for a real one.
    ValueError
        When the value does not fit: out of range, or of another structure.
    """
    if dtype.kind in "iu":
        source = value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, object)
        if source.dtype.kind not in "iubO":
            raise TypeError(f"not an integer but {source.dtype}")
        numbers = [whole_number(number) for number in source.ravel().tolist()]
        limits = np.iinfo(dtype)
        for number in numbers:
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{shortened(number)} is out of its range")
        return np.array(numbers, dtype).reshape(source.shape)
    if isinstance(value, tuple) and dtype.names:
        return np.array(value, dtype)
    if dtype.kind in "fc":
        source = np.asarray(value, float) if isinstance(value, int) else np.asarray(value)
        with np.errstate(over="ignore"):
            converted = source.astype(dtype, casting="same_kind")
        if (np.isinf(converted) & ~np.isinf(source)).any():
            raise ValueError(f"{shortened(value)} is out of its range")
        return converted
    return np.asarray(value).astype(dtype, casting="same_kind")
