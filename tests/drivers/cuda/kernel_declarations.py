"""The kernels that OpenCL C declares, without a compiler."""

from __future__ import annotations

import re
from typing import NamedTuple

from forebay.compiler.spirv.declarations import Declared
from forebay.core.errors import BuildError
from forebay.queues.kernels.parameters import read_parameter

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = r"__attribute__\s*\(\((?P<attribute>.*?)\)\)\s*"
KERNEL = re.compile(
    rf"\b(?:__)?kernel\s+(?:{ATTRIBUTE})?void\s+(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{{", re.DOTALL
)
WORD = re.compile(r"\b(?:__)?kernel\b")
BLOCK = re.compile(r"reqd_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")
STRUCTURE = re.compile(r"typedef\s+struct\s*\{(?P<members>[^{}]*)\}\s*(?P<name>\w+)\s*;")
SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8,
         "double": 8}  # fmt: skip
QUALIFIERS = {"const", "restrict", "volatile", "__restrict"}
SPACES = {"global": "pointer", "constant": "pointer", "local": "local"}


class Kernel(NamedTuple):
    name: str
    parameters: tuple
    required_block: tuple[int, int, int]


def size_of(structure):
    """The bytes of a structure of scalars, declared like ``int a; float b, c;``."""
    size = widest = 1
    end = 0
    for declaration in filter(None, map(str.strip, structure.split(";"))):
        type_name, names = declaration.split(None, 1)
        size = SIZES[type_name]
        widest = max(widest, size)
        for _ in names.split(","):
            end = -(-end // size) * size + size
    return -(-end // widest) * widest


def read_declaration(kernel, index, text, structures):
    """The Parameter of one declaration. Raises `BuildError` for what is no pointer and no value of a known size."""
    *words, name = text.replace("*", " * ").split() or [""]
    words = [word.removeprefix("__") for word in words]
    space = next((word for word in words if word in SPACES), None)
    type_name = " ".join(word for word in words if word not in QUALIFIERS | SPACES.keys() | {"*"})
    if ("*" in words) != (space is not None) or not type_name or not name.isidentifier():
        raise BuildError(f"kernel {kernel!r}: no parameter can be read from {text.strip()!r}")

    def size():
        if type_name not in structures:
            raise BuildError(f"kernel {kernel!r}: the size of {type_name!r} is not known")
        return size_of(structures[type_name])

    if space is None:
        declared = Declared(name, type_name, "value", 0)
    else:
        declared = Declared(name, f"{type_name}*", SPACES[space], 8, space == "constant" or "const" in words)
    return read_parameter(kernel, index, declared, size)


def read_kernels(source):
    """The kernels of a program, by name; there may be none. Raises `BuildError` for one that cannot be read."""
    source = COMMENT.sub(" ", source)
    structures = {found["name"]: found["members"] for found in STRUCTURE.finditer(source)}
    kernels = {}
    for found in KERNEL.finditer(source):
        texts = [] if found["parameters"].strip() in ("", "void") else found["parameters"].split(",")
        parameters = tuple(read_declaration(found["name"], i, text, structures) for i, text in enumerate(texts))
        block = BLOCK.search(found["attribute"] or "")
        required = tuple(map(int, block.groups())) if block else (0, 0, 0)
        kernels[found["name"]] = Kernel(found["name"], parameters, required)
    if len(kernels) != len(WORD.findall(source)):
        raise BuildError("not every kernel of the source can be read")
    return kernels
