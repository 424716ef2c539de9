"""Shapes, element types and values, read the same way wherever they are given."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["Grid", "ShapeLike", "convert", "read_dtype", "read_shape"]

ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Grid: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]  # also of a block: HIP has dim3


def read_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """Convert anything that NumPy takes as a shape to a tuple of ints, each at least `least`."""
    try:
        extents: Iterable[Any] = (operator.index(shape),)
    except TypeError:
        extents = shape
    try:
        whole = tuple(map(operator.index, extents))
    except TypeError:
        raise ArgumentTypeError(f"a shape is an int or a tuple of ints, not {shape!r}") from None
    if any(extent < least for extent in whole):
        raise InvalidArgumentError(f"a shape has no negative dimension: {shape}")
    return whole


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype whose elements are bytes that can be copied. Refuses Python objects and empty elements."""
    try:
        read: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"dtype: {error}") from None
    if read.hasobject or read.itemsize == 0:
        raise InvalidArgumentError(f"memory cannot hold elements of {read!r}")
    return read


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
        numbers = [operator.index(number) for number in source.ravel().tolist()]
        limits = np.iinfo(dtype)
        for number in numbers:
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{number} is out of its range")
        return np.array(numbers, dtype).reshape(source.shape)
    if isinstance(value, tuple) and dtype.names:
        return np.array(value, dtype)
    if dtype.kind in "fc":
        source = np.asarray(value, float) if isinstance(value, int) else np.asarray(value)
        with np.errstate(over="ignore"):
            converted = source.astype(dtype, casting="same_kind")
        if (np.isinf(converted) & ~np.isinf(source)).any():
            raise ValueError(f"{value} is out of its range")
        return converted
    return np.asarray(value).astype(dtype, casting="same_kind")
