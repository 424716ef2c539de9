"""The parameters of a kernel made from an expression: ``"float32 x, raw T y"``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.shapes import type_problem

KINDS = "biufc"  # of NumPy's types: numbers
IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# C's and NumPy's type of this name differ.
AMBIGUOUS = {
    "float": "float32 (C's) or float64 (NumPy's)",
    "int": "int32 (C's) or int64 (NumPy's)",
    "uint": "uint32 (C's) or uint64 (NumPy's)",
}
FORMS = 'a parameter is a type and a name, with "raw" before it or without: "float32 x, raw T y"'


class Parameter(NamedTuple):
    """One parameter."""

    name: str
    type_name: str  # as it was written
    dtype: np.dtype[Any] | None  # None for a placeholder, a type that the arguments decide
    raw: bool  # whether the expression indexes it itself

    def __str__(self) -> str:
        return f"{'raw ' if self.raw else ''}{self.type_name} {self.name}"


def read_parameters(what: str, text: Any, reserved: Sequence[str], *, c_names: bool) -> tuple[Parameter, ...]:
    """Read a list of parameters. `what` says whose it is, in messages.

    Reserved names mean something in the expression. With `c_names` ``float`` and ``int`` are refused, because C means
    other types by them than NumPy. Raises ArgumentTypeError or InvalidArgumentError.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{what}: the parameters are a str, not {type(text).__name__}: {FORMS}")
    parameters = tuple(_read(what, each.split(), c_names) for each in text.split(",") if text.strip())
    for parameter in parameters:
        if parameter.name in reserved:
            raise InvalidArgumentError(f"{what}: {parameter.name!r} has a meaning here ({', '.join(reserved)})")
    return parameters


def _read(what: str, words: list[str], c_names: bool) -> Parameter:
    raw = len(words) == 3 and words[0] == "raw"
    if len(words) != 2 and not raw:
        raise InvalidArgumentError(f"{what}: {' '.join(words)!r} is no parameter: {FORMS}")
    type_name, name = words[-2:]
    check_name(what, name)
    if len(type_name) == 1:  # as in CuPy, also for what is a type's code in NumPy
        if not type_name.isalpha():
            raise InvalidArgumentError(f"{what}: {type_name!r} is no letter, as a type that the arguments decide is")
        return Parameter(name, type_name, None, raw)
    if c_names and type_name in AMBIGUOUS:
        raise InvalidArgumentError(f"{what}: {type_name} {name}: say {AMBIGUOUS[type_name]}")
    try:
        dtype = np.dtype(type_name)
    except TypeError:
        raise InvalidArgumentError(
            f"{what}: {type_name!r} is no type: NumPy's names are, such as float32, and single letters, for a type "
            "that the arguments decide"
        ) from None
    problem = type_problem(dtype) if dtype.kind in KINDS else "not a type of numbers"
    if problem:
        raise InvalidArgumentError(f"{what}: {type_name} {name}: {problem}")
    return Parameter(name, type_name, dtype, raw)


def check_name(what: str, name: Any) -> None:
    """Refuse what cannot be a name in C, and names with a ``_`` before them, which generated code has."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{what}: a name is a str, not {type(name).__name__}")
    if not IDENTIFIER.fullmatch(name) or name.startswith("_"):
        raise InvalidArgumentError(f"{what}: {name!r} cannot be a name: letters, digits and _, and a letter first")


def check_text(what: str, name: str, text: Any) -> str:
    """Return code of the user's. Raises `ArgumentTypeError`."""
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{what}: {name} is code, a str, not {type(text).__name__}")
    return text
