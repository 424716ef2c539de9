"""Shapes, element types and values, read the same way wherever they are given."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import re
import reprlib
import sys
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError

__all__ = [
    "Grid",
    "ShapeLike",
    "check_copied",
    "check_in_place",
    "convert",
    "element_code",
    "format_problem",
    "read_dtype",
    "read_int",
    "read_shape",
    "shortened",
    "to_array",
    "type_problem",
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


@functools.lru_cache(maxsize=256)
def type_problem(dtype: np.dtype[Any]) -> str:
    """Return why a device cannot use elements of this type, and what to do; empty if it can.

    Every element type from outside is read by this, by `read_dtype`, or by `format_problem`: so that of a Buffer is
    always one of plain bytes in the machine's order.
    """
    if dtype.hasobject:
        return _objects(str(dtype))
    return "" if _is_native(dtype) else _swapped(str(dtype))


_OTHER_ORDER = "<" if sys.byteorder == "big" else ">"


def _is_native(dtype: np.dtype[Any]) -> bool:
    """Whether all numbers in an element are in the machine's byte order. NumPy's `isnative` misses those in arrays."""
    base = dtype.base
    return base.byteorder != _OTHER_ORDER and all(_is_native(base[name]) for name in base.names or ())


def _objects(kind: str) -> str:
    return f"its elements are Python objects ({kind}), which are no bytes that a device could use"


def _swapped(kind: str) -> str:
    return (
        f"its elements ({kind}) are in the other byte order, and devices compute in the machine's own: "
        'x.astype(x.dtype.newbyteorder("=")) converts an array x'
    )


def format_problem(text: str) -> str:
    """Return `type_problem` of the elements of a buffer by its format, of PEP 3118, which has one."""
    has_objects = "O" in re.sub(":[^:]*:", "", text)  # without the names of fields
    return _objects(text) if has_objects else _swapped(text)


@functools.lru_cache(maxsize=256)
def ctypes_problem(kind: type) -> str:
    """Return `type_problem` of a type of ctypes, whose unions show no format but bytes."""
    return _swapped(kind.__name__) if _has_swapped(kind) else ""


def _has_swapped(kind: Any) -> bool:
    big, little = getattr(kind, "__ctype_be__", None), getattr(kind, "__ctype_le__", None)
    if hasattr(kind, "_swappedbytes_") or (big is not little and kind is (big if _OTHER_ORDER == ">" else little)):
        return True
    if issubclass(kind, ctypes.Array):
        return _has_swapped(kind._type_)
    return any(_has_swapped(field[1]) for field in getattr(kind, "_fields_", ()))


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


def read_int(value: Any, what: str, way_out: str = "") -> int:
    """Convert an index, an extent, an axis or a count to an int.

    Python code may run. The result is an int of Python's own type, whatever was given.

    Parameters
    ----------
    what : str
        What is wanted, for the message: "a shape is an int or a tuple of ints".
    way_out : str
        What to write instead, for the end of the message.

    Raises
    ------
    ArgumentTypeError
        For what has no ``__index__``, and for what NumPy takes as a mask or as several indices: a bool, an array with
        dimensions or of bools.
    """
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool) or getattr(value, "ndim", False) or "bool" in str(getattr(value, "dtype", "")):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{what}, not {type(value).__name__}{way_out}") from None


_MOST_AXES = 64  # of NumPy's arrays; 32 before version 2


def read_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """Convert anything that NumPy takes as a shape to a tuple of ints, each at least `least`."""
    try:
        extents = (shape,) if type(shape) is int else tuple(shape)
    except TypeError:
        extents = (shape,)
    whole = tuple(
        each if type(each) is int else read_int(each, "a shape is an int or a tuple of ints", f": {shortened(shape)}")
        for each in extents
    )
    if any(extent < least for extent in whole):
        raise InvalidArgumentError(f"a shape has no negative dimension: {shortened(shape)}")
    if len(whole) > _MOST_AXES or (0 in whole and math.prod(filter(None, whole)) > sys.maxsize >> 16):
        raise InvalidArgumentError(
            f"no array has the shape {shortened(shape)}: at most {_MOST_AXES} axes, and extents whose product is a size"
        )
    return whole


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype whose elements are bytes that can be copied and computed with: see `type_problem`.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
    """
    try:
        read: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        extents = "; several extents are a tuple: (4, 4)" if isinstance(dtype, (int, np.integer)) else ""
        raise ArgumentTypeError(f"dtype: {error}{extents}") from None
    problem = type_problem(read) or ("" if read.itemsize else f"its elements ({read!r}) are 0 bytes")
    if problem:
        raise InvalidArgumentError(f"memory cannot be of {read!r}: {problem}")
    return read


def check_in_place(own: np.dtype[Any], wanted: Any) -> None:
    """Refuse ``copy=False`` of `Buffer.__array__` with another element type, which only a copy can have.

    Raises
    ------
    InvalidArgumentError
        Which is a ValueError, as NumPy 2 says.
    """
    if wanted is not None and np.dtype(wanted) != own:
        raise InvalidArgumentError(f"copy=False: elements of {own} are not {np.dtype(wanted)}, which takes a copy")


def to_array(host: Any, dtype: np.dtype[Any] | None, call: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return `host` as an array in C order, in the machine's byte order: by itself, or converted to `dtype`.

    `call` is what was asked for, for messages.

    Raises
    ------
    ArgumentTypeError
        When it cannot be converted, or something imaginary would be dropped.
    """
    again = dtype is not None and isinstance(host, (list, tuple))
    try:
        if again and dtype.kind not in "biuf":  # type: ignore[union-attr]
            return np.asarray(host, dtype, order="C")
        array = np.asarray(host)
        wanted = array.dtype.newbyteorder("=") if dtype is None else dtype
        if _is_imaginary(array, wanted):
            raise TypeError("complex numbers are no real ones: pass x.real or abs(x)")
        # A list once more by itself: its integers are converted exactly.
        return np.asarray(host if again else array, wanted, order="C")
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last from tensors that need gradients
        what = "" if dtype is None else f"no array of {dtype}: "
        raise ArgumentTypeError(f"{call}: {what}{error}") from None


def _is_imaginary(array: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> bool:
    """Whether a conversion drops the imaginary part of something. NumPy's only warns."""
    if array.dtype.names and wanted.names:
        pairs = zip(array.dtype.names, wanted.names, strict=False)
        return any(_is_imaginary(array[name], wanted[other].base) for name, other in pairs)
    if wanted.kind not in "biuf":
        return False
    if array.dtype.hasobject:
        return any(map(np.iscomplexobj, array.ravel().tolist()))
    return bool(array.dtype.kind == "c")


def whole_number(value: Any) -> int:
    """Convert the value of an integer: an int, a bool (NumPy's too, which has no ``__index__``), or anything else with
    ``__index__``. What counts, or says where something is, is read by `read_int`.

    Raises
    ------
    TypeError
        For anything else: for floats, even whole ones.
    """
    if isinstance(value, (np.bool_, np.ndarray)) and value.dtype == np.bool_ and value.ndim == 0:
        return int(value)
    return operator.index(value)


def convert(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Convert a value or values to an array of `dtype`. Unlike NumPy's own conversions it never wraps or overflows, and
    never drops what is imaginary.

    Raises
    ------
    TypeError
        When the value is of another kind: a float for an integer, a complex number for a real one.
    ValueError
        When the value does not fit: out of range, or of another structure.
    """
    if dtype.names and (isinstance(value, tuple) or np.asarray(value).dtype.names):
        return _convert_fields(value if isinstance(value, tuple) else np.asarray(value), dtype)
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
    if dtype.kind in "fc":
        source = np.asarray(value, float) if isinstance(value, int) else np.asarray(value)
        with np.errstate(over="ignore"):
            converted = source.astype(dtype, casting="same_kind")
        if (np.isinf(converted) & ~np.isinf(source)).any():
            raise ValueError(f"{shortened(value)} is out of its range")
        return converted
    return np.asarray(value).astype(dtype, casting="same_kind")


def _convert_fields(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Convert a tuple of the fields of a structure, or an array of structures, field by field."""
    fields = value if isinstance(value, tuple) else tuple(value[name] for name in value.dtype.names)
    names = dtype.names or ()
    if len(fields) != len(names):
        raise ValueError(f"{len(fields)} fields, not {len(names)}")
    made = np.zeros(() if isinstance(value, tuple) else value.shape, dtype)
    for name, field in zip(names, fields, strict=True):
        made[name] = convert(field, dtype[name].base)
    return made
