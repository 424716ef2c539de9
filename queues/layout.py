"""Shapes and element types, read the same way for device memory and for pinned host memory."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.queues.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["read_dtype", "read_shape"]


def read_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """A tuple of ints, none below `least`, from what NumPy takes for a shape."""
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
    """A dtype whose elements are bytes that can be copied."""
    try:
        read = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"dtype: {error}") from None
    if read.hasobject or read.itemsize == 0:
        raise InvalidArgumentError(f"memory cannot hold elements of {read!r}")
    return read
