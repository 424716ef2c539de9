"""Reads PTX: its entries with their parameters, and its variables.

PTX ISA, "Kernel and Function Directives" and "State Spaces". No compiler's layout is relied on, only the directives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["NAME", "PtxEntry", "PtxModule", "PtxParameter", "PtxVariable", "bodies_of", "read_ptx", "without_comments"]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NAME = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)"
FUNCTION = re.compile(rf"\.(entry|func)\s+(?:\([^)]*\)\s*)?({NAME})\s*(?:\(([^)]*)\))?([^{{;]*)([{{;])")
PARAMETER = re.compile(
    r"\.param\s+(?P<outer>\.align\s+\d+\s+)?\.(?P<type>\w+)"
    r"(?P<pointer>\s+\.ptr(?:\s+\.(?P<space>global|shared|local|const))?)?"
    rf"(?:\s+\.align\s+(?P<inner>\d+))?\s+(?P<name>{NAME})\s*(?P<dimensions>(?:\[\d+\])*)"
)
VARIABLE = re.compile(
    r"(?:^|(?<=[;{}\n]))\s*(?P<linkage>\.(?:visible|extern|weak|common)\s+)?\.(?P<space>global|const|shared)\s"
    rf"(?P<rest>(?:\.attribute\([^)]*\)|[^;={{}}()])*?)\.(?P<type>\w+)\s+(?P<name>{NAME})\s*(?P<dimensions>(?:\[\d*\])*)\s*(?=[;=])"
)
BLOCK = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
ALIGNMENT = re.compile(r"\.align\s+(\d+)")
VECTOR = re.compile(r"\.v([248])\b")
WORD = re.compile(NAME)
# What is loaded from a parameter is an address if it becomes one of global memory, or is used as one.
LOADED = re.compile(rf"ld\.param\.[bus]64\s+({NAME})\s*,\s*\[\s*({NAME})\s*\]")
ADDRESS = re.compile(rf"cvta\.to\.global\.u64\s+{NAME}\s*,\s*({NAME})|\[\s*({NAME})\s*(?:\+-?\d+\s*)?\]")


class PtxParameter(NamedTuple):
    """A parameter of an entry.

    Attributes
    ----------
    name
    type
        As in PTX: ``"u64"``; that of the elements for an array, which is how structures are passed.
    nbytes, alignment
        For a pointer to shared memory the alignment is that of what it points to.
    is_pointer
        Whether it is declared as one, or its value is used as an address.
    space
        The memory that it points to: "global", "shared", "local", "const"; empty if that is not declared.
    """

    name: str
    type: str
    nbytes: int
    alignment: int
    is_pointer: bool
    space: str


class PtxEntry(NamedTuple):
    """A kernel. `dynamic_alignment` is that of the dynamic shared memory that it or a function of the module uses; 0
    for none. `static_shared` are the bytes of shared memory that it declares itself."""

    name: str
    parameters: tuple[PtxParameter, ...]
    required_block: tuple[int, int, int]
    static_shared: int
    dynamic_alignment: int


class PtxVariable(NamedTuple):
    """A variable of the module in "global" or "const" memory."""

    name: str
    space: str
    nbytes: int
    alignment: int


class PtxModule(NamedTuple):
    """What a module has."""

    entries: tuple[PtxEntry, ...]
    variables: tuple[PtxVariable, ...]


def read_ptx(text: str) -> PtxModule:
    """Read the entries and the variables that have their memory in this module."""
    code = without_comments(text)
    functions = [(match, _body(code, match)) for match in FUNCTION.finditer(code)]
    variables, dynamic = [], dict[str, int]()
    for match in VARIABLE.finditer(code):
        nbytes, alignment = _size(match)
        if match["space"] == "shared":
            if (match["linkage"] or "").strip() == ".extern":
                dynamic[match["name"]] = alignment
        elif (match["linkage"] or "").strip() != ".extern":
            variables.append(PtxVariable(match["name"], match["space"], nbytes, alignment))
    using = _users(functions, dynamic)
    return PtxModule(
        tuple(_entry(match, body, using.get(match[2], 0)) for match, body in functions if match[1] == "entry" and body),
        tuple(variables),
    )


def bodies_of(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield each entry: its name, the names of its parameters, and its instructions."""
    code = without_comments(text)
    for match in FUNCTION.finditer(code):
        body = _body(code, match) if match[1] == "entry" else ""
        if body:
            yield match[2], [each["name"] for each in PARAMETER.finditer(match[3] or "")], body


def without_comments(text: str) -> str:
    """Return PTX without its comments; lines stay where they are."""
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text.rstrip("\0"))


def _body(code: str, match: re.Match[str]) -> str:
    """The text between the braces of a function; nothing for one that is only declared."""
    if match[5] == ";":
        return ""
    depth, start = 1, match.end()
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return code[start : start + brace.start()] or " "
    return code[start:]


def _users(functions: list[tuple[re.Match[str], str]], dynamic: dict[str, int]) -> dict[str, int]:
    """The alignment of the dynamic shared memory that each function uses, itself or by one whose name it knows."""
    if not dynamic:
        return {}
    known = {match[2]: set(WORD.findall(body)) for match, body in functions if body}
    using: dict[str, int] = {}
    while True:
        whose = dynamic | using
        found = {
            name: max(whose[each] for each in there) for name, words in known.items() if (there := words & whose.keys())
        }
        if found == using:
            return using
        using = found


def _entry(match: re.Match[str], body: str, dynamic_alignment: int) -> PtxEntry:
    loaded = dict(LOADED.findall(body))
    addresses = {loaded.get(a or b, "") for a, b in ADDRESS.findall(body)} if loaded else set[str]()
    block = BLOCK.search(match[4])
    shared = (_size(each)[0] for each in VARIABLE.finditer(body) if each["space"] == "shared")
    return PtxEntry(
        match[2],
        tuple(_parameters(match[3] or "", addresses)),
        (int(block[1]), int(block[2] or 1), int(block[3] or 1)) if block else (0, 0, 0),
        sum(shared),
        dynamic_alignment,
    )


def _parameters(text: str, addresses: set[str]) -> Iterator[PtxParameter]:
    for match in PARAMETER.finditer(text):
        element = _bytes_of(match["type"])
        nbytes = element
        for dimension in re.findall(r"\d+", match["dimensions"]):
            nbytes *= int(dimension)
        pointed = bool(match["pointer"])
        outer = ALIGNMENT.search(match["outer"] or "")
        # With .ptr the alignment is that of what it points to.
        inner = match["inner"] if not pointed or match["space"] == "shared" else None
        alignment = int(outer[1]) if outer else int(inner or element or 1)
        is_pointer = pointed or (not match["dimensions"] and match["name"] in addresses)
        yield PtxParameter(match["name"], match["type"], nbytes, alignment, is_pointer, match["space"] or "")


def _size(match: re.Match[str]) -> tuple[int, int]:
    """The bytes and the alignment of a variable."""
    nbytes = _bytes_of(match["type"])
    vector = VECTOR.search(match["rest"])
    nbytes *= int(vector[1]) if vector else 1
    alignment = ALIGNMENT.search(match["rest"])
    stated = int(alignment[1]) if alignment else nbytes or 1
    for dimension in re.findall(r"\[(\d*)\]", match["dimensions"]):
        nbytes *= int(dimension or 0)
    return nbytes, stated


def _bytes_of(type: str) -> int:
    """The bytes of a fundamental type; 0 for what is none, such as texref."""
    bits = re.fullmatch(r"(?:[bus]|f|bf)(8|16|32|64|128)(?:x2)?|pred", type)
    if not bits:
        return 0
    return int(bits[1] or 8) // 8 * (2 if type.endswith("x2") and type[:1] == "f" else 1)
