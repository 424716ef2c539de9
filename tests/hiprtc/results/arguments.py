"""Arguments for a kernel of which only the types and names of its parameters are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.queues.kernels.parameters import KernelInfo, ParameterSignature

from .host import Launch

ELEMENTS = 1 << 16
SCALARS = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8",
           "ulong": "u8", "half": "f2", "float": "f4", "double": "f8"}  # fmt: skip
TYPE = re.compile(r"(u?(?:char|short|int|long)|half|float|double)(\d*)")
SIZE = re.compile(
    r"n|m|k|[NMKWHLP]|(n|num|max)_?[A-Za-z_]\w*|\w*(size|len|length|count|width|height|rows?|cols?|dim|elements?|points?|"
    r"pitch|stride|num|total|limit|end|nx|ny|nz|N)(_?\w)?",
    re.IGNORECASE,
)
SHARED = 32 << 10


@dataclass(frozen=True)
class Recipe:
    """How to launch: the grid, the block, what parameters that are sizes get, what the other integers, and the least
    and greatest of the integers in buffers; whether structures are filled with floats."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    size: int
    other: int = 1
    integers: tuple[int, int] = (0, 32)
    floats: bool = False


RECIPES = (
    Recipe((2, 1, 1), (64, 1, 1), 128),
    Recipe((2, 2, 1), (16, 16, 1), 32),
    Recipe((2, 1, 1), (64, 1, 1), 32, 0, floats=True),
    Recipe((4, 2, 1), (8, 8, 1), 16, 2),
    Recipe((1, 1, 1), (32, 1, 1), 32, 3, (0, 2)),
    Recipe((4, 1, 1), (256, 1, 1), 1024, 2, floats=True),
    Recipe((2, 2, 1), (32, 8, 1), 64, 1),
    Recipe((1, 1, 1), (64, 1, 1), 8, 2, (0, 8)),
    Recipe((2, 2, 2), (8, 4, 4), 16, 1, floats=True),
)


def dtype_of(type_name: str, floats: bool) -> np.dtype:
    """Return the type of the elements of a parameter: of a structure, words."""
    found = TYPE.fullmatch(type_name.rstrip("*"))
    if found:
        return np.dtype(SCALARS[found[1]])
    return np.dtype("u1" if type_name == "void*" and not floats else "f4" if floats else "i4")


def lanes_of(type_name: str) -> int:
    """Return how many numbers an element has."""
    found = TYPE.fullmatch(type_name.rstrip("*"))
    return int(found[2] or 1) if found else 4


def filled(random: np.random.Generator, dtype: np.dtype, count: int, recipe: Recipe) -> np.ndarray:
    """Return random numbers."""
    if dtype.kind == "f":
        return (random.random(count) + 0.25).astype(dtype)
    low, high = recipe.integers
    return random.integers(low, high, count).astype(dtype)


def value_of(random: np.random.Generator, parameter: ParameterSignature, recipe: Recipe) -> bytes:
    """Return the bytes of an argument that is no pointer."""
    dtype = dtype_of(parameter.type_name, recipe.floats)
    count = max(parameter.nbytes // dtype.itemsize, 1)
    if dtype.kind == "f":
        return filled(random, dtype, count, recipe).tobytes().ljust(parameter.nbytes, b"\0")
    if parameter.nbytes == 1:
        value = recipe.other & 1
    else:
        value = recipe.size if SIZE.fullmatch(parameter.name) or parameter.type_name == "struct" else recipe.other
    return np.full(count, value, dtype).tobytes().ljust(parameter.nbytes, b"\0")


def launches(
    kernel: KernelInfo, source: str, variables: Sequence[tuple[int, str, np.ndarray]]
) -> Iterator[tuple[Recipe, Launch, list[np.dtype]]]:
    """Yield launches to try, and the types of the numbers in the buffers of each.

    `source` tells bytes from bool. `variables` are those of the program without a value: number, type and bytes.
    """
    for number, recipe in enumerate(RECIPES):
        random = np.random.default_rng(number)
        arguments: list[np.ndarray | bytes] = []
        dtypes = []
        for parameter in kernel.parameters:
            if not parameter.is_pointer:
                arguments.append(value_of(random, parameter, recipe))
                continue
            dtype = dtype_of(parameter.type_name, recipe.floats)
            data = filled(random, dtype, ELEMENTS * lanes_of(parameter.type_name), recipe)
            if re.search(rf"\bbool\b[^,;(){{}}]*\b{parameter.name}\b", source):
                data &= 1
            arguments.append(data)
            dtypes.append(dtype)
        values = {}
        for index, type_name, data in variables:
            dtype = dtype_of(type_name, recipe.floats)
            if data.any() or data.nbytes % dtype.itemsize:
                values[index] = data
            else:
                values[index] = filled(random, dtype, data.nbytes // dtype.itemsize, recipe)
        shared = SHARED if kernel.dynamic_shared else 0
        yield recipe, Launch(recipe.grid, recipe.block, arguments, values, shared), dtypes


def disturbed(launch: Launch, seed: int) -> Launch:
    """Return a launch whose floating point numbers are a few units in the last place off."""
    random = np.random.default_rng(seed)

    def near(data: np.ndarray) -> np.ndarray:
        if data.dtype.kind != "f":
            return data
        factors = 1 + random.integers(-4, 5, data.shape) * np.finfo(data.dtype).eps
        return (data * factors).astype(data.dtype)

    arguments = [each if isinstance(each, bytes) else near(each) for each in launch.arguments]
    return Launch(
        launch.grid, launch.block, arguments, {i: near(data) for i, data in launch.variables.items()}, launch.shared
    )
