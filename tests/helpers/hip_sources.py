"""Cutting a HIP or CUDA source file down to its kernels, as somebody does who moves to hiprtc.

Headers of the same collection are put in their place if kernels may need them. Headers of host libraries are left out,
and so are functions of the host, by matching braces. Lines stay where they are within a file.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path

from forebay.hiprtc.header_names import names
from forebay.hiprtc.host_code import without_template

DEVICE = re.compile(r"__(?:device|global|constant)__\b")
CONCEPT = re.compile(r"\bconcept\s+(\w+)\s*=")
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"][^\n]*')
ASKED = re.compile(r'\b__has_include\s*\(\s*[<"]([^">]+)[">]\s*\)')
DEVICE_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w+)(?:\([^)]*\))?(?:[^\n\\]|\\\n)*__(?:device|global)__")
GLOBAL_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w+)(?:[^\n\\(]|\\\n)*__global__")
QUIET = re.compile(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL)
ATTRIBUTES = re.compile(r"(?:__launch_bounds__|__attribute__|alignas|__align__|decltype|requires|noexcept)\s*\(")

KEPT_HEADERS = {
    "algorithm", "array", "assert.h", "bit", "bitset", "cassert", "cctype", "cfloat", "cinttypes", "climits", "cmath",
    "compare", "complex", "concepts", "cstdarg", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "ctype.h",
    "float.h", "functional", "initializer_list", "inttypes.h", "iterator", "limits", "limits.h", "math.h", "new",
    "numbers", "numeric", "optional", "ranges", "ratio", "span", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
    "stdio.h", "stdlib.h", "string.h", "tuple", "type_traits", "utility", "variant",
}  # fmt: skip
"""Headers of C and C++ that kernels may need."""


INDEX = re.compile(r"^(?:I|IT|Ti|Int\w*)$|[iI](?:nde?x|dx|nteger)|[sS]ize|[oO]ffset|[cC]ount|[oO]rdinal|[vV]ertex")
"""The name of a template's parameter that stands for an integer."""

LONG = 3000
"""Lines of a header that is a library of the host's, if kernels have nothing from it."""


@dataclasses.dataclass(frozen=True)
class Item:
    """A declaration at the outermost level, or a line of the preprocessor."""

    kind: str  # "directive", "function", "kernel", "other", "bracket", or "rest" of what a condition cut in two
    start: int
    end: int
    name: str = ""
    on_device: bool = False
    scope: str = ""
    """The namespaces around it: ``"a::b::"``."""


def mask(text: str) -> str:
    """Return a text whose comments and literals are blank, at the same places."""
    return QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def closing(text: str, start: int) -> int:
    """Return the place after the bracket that closes the one at `start`."""
    depth = 0
    for found in re.compile(r"[()\[\]{}]").finditer(text, start):
        depth += 1 if found[0] in "([{" else -1
        if depth == 0:
            return found.end()
    return len(text)


def name_of(head: str) -> str:
    """Return the name of the function whose declaration this is: what is before the last parenthesis, for macros of
    the program may come before it."""
    while found := ATTRIBUTES.search(head):
        head = head[: found.start()] + " " + head[closing(head, found.end() - 1) :]
    name, at = "", 0
    while found := re.compile(r"(\w+)?\s*(?:<[^()<>]*>\s*)?\(").search(head, at):
        name, at = found[1] or name, closing(head, found.end() - 1)
    return name


def is_function(head: str) -> bool:
    """Whether what comes before a brace declares a function."""
    plain = re.sub(r"operator\s*[^\s\w]+|[=!<>]=", "operator", without_template(head))
    before = plain.split("(")[0]
    return "(" in plain and "=" not in before and not re.search(r"\b(?:struct|class|union|enum)\s+\w+\s*$", before)


def items(text: str) -> Iterator[Item]:
    """Yield the declarations of a source; namespaces and ``extern "C"`` are looked into."""
    bare = mask(text)
    device = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in DEVICE_MACRO.findall(text))]))
    kernel = re.compile("|".join([r"__global__\b", *(rf"\b{name}\b" for name in GLOBAL_MACRO.findall(text))]))
    directive = re.compile(r"[ \t]*#(?:[^\n\\]|\\.)*", re.DOTALL)
    stop = re.compile(r"[;({}\[]|(?<=\n)[ \t]*#")
    at = 0
    scopes: list[str] = []
    while at < len(bare):
        if bare[at].isspace():
            at += 1
            continue
        start = at
        if bare[at] == "#":
            at = found.end() if (found := directive.match(bare, at)) else at + 1
            yield Item("directive", start, at)
            continue
        kind = ""
        while not kind and (found := stop.search(bare, at)):
            at = found.end()
            sign = found[0][-1]
            head = bare[start : found.start()]
            if sign == "#" and head.strip():  # within a declaration
                at = directive.match(bare, found.start()).end()  # type: ignore[union-attr]
            elif sign in "([":
                at = closing(bare, at - 1)
            elif sign == ";":
                kind = "other"
            elif sign == "}":
                kind = "rest" if head.strip() else "bracket"
                scopes = scopes[:-1]
            elif space := re.search(r"\b(?:namespace\b\s*([\w:]*)[^()=;]*|extern\s*)$", head):
                kind = "bracket"
                scopes.append(f"{space[1]}::" if space[1] else "")
            else:
                at = closing(bare, at - 1)
                kind = "function" if is_function(head) else ""
        if not kind:
            at = len(bare)
            kind = "other"
        whole = bare[start:at]
        head = whole.split("{")[0]
        on_device = bool(device.search(head if kind == "function" else whole))
        on_device |= kind == "function" and "constexpr" in head
        if kind == "function" and kernel.search(head):
            yield Item("kernel", start, at, name_of(kernel.sub("", head)), True, "".join(scopes))
        else:
            yield Item(kind, start, at, name_of(head) if kind == "function" else "", on_device)


def host_functions(text: str) -> list[Item]:
    """Return the functions of a source that are for the host only, and their declarations."""
    bare = mask(text)
    return [
        item for item in items(text)
        if not item.on_device and (item.kind == "function" or (item.kind == "other" and is_declared(bare, item)))
    ]  # fmt: skip


def is_declared(bare: str, item: Item) -> bool:
    """Whether an item declares a function without its body."""
    there = bare[item.start : item.end]
    return "{" not in there and is_function(there) and not re.search(r"\b(using|typedef)\b", there)


def without(text: str, gone: list[Item]) -> str:
    """Return a source without these items; its lines, and what the preprocessor does, stay where they are."""
    for item in reversed(gone):
        kept: list[str] = []
        goes_on = False
        for line in text[item.start : item.end].split("\n"):
            is_kept = goes_on or bool(re.match(r"\s*#\s*(if|elif|else|endif|define|undef)", line))
            goes_on = is_kept and line.endswith("\\")
            kept.append(line if is_kept else "")
        text = text[: item.start] + "\n".join(kept) + text[item.end :]
    return text


class Collection:
    """The files of a checkout, in which headers are found as a compiler with the right ``-I`` finds them."""

    def __init__(self, folder: Path, *own_headers: Path) -> None:
        self.folder = folder
        self._own = own_headers
        self._by_name: dict[str, list[Path]] = {}
        for path in folder.rglob("*"):
            if path.suffix in (".h", ".hpp", ".cuh", ".inl", ".inc", ".cu", ".hip", ".cpp", ".cc", ".c"):
                self._by_name.setdefault(path.name, []).append(path)

    def paths(self) -> list[Path]:
        """Return the files."""
        return [path for paths in self._by_name.values() for path in paths]

    def find(self, name: str, near: Path) -> Path | None:
        """Return the file that a ``#include`` in the folder `near` means."""
        if (near / name).is_file():
            return Path(os.path.normpath(near / name))
        fitting = [path for path in self._by_name.get(Path(name).name, []) if path.as_posix().endswith("/" + name)]
        return min(fitting, key=lambda path: -len(shared_parts(path, near)), default=None)

    def flatten(self, path: Path, seen: set[Path] | None = None) -> str:
        """Return a file with its collection's headers in it and those of host libraries left out.

        The files that were read are added to `seen`; a file is read once.
        """
        seen = seen if seen is not None else set()
        seen.add(path)
        # As hipify does: what is only for a compiler of GPUs is for clang, too.
        text = path.read_text(errors="replace").replace("\r", "").replace("__CUDACC__", "__HIPCC__")
        text = ASKED.sub(lambda found: str(int(self._has(found[1], path.parent))), text)
        bare = mask(text)
        return INCLUDE.sub(
            lambda found: self._included(found, path, seen) if "#" in bare[slice(*found.span())] else found[0], text
        )

    def included_by(self, path: Path) -> list[Path]:
        """Return the files of the collection that a file includes itself."""
        text = path.read_text(errors="replace")
        found = (self.find(each[2], path.parent) for each in INCLUDE.finditer(text) if each[2] not in KEPT_HEADERS)
        return [there for there in found if there is not None]

    def _has(self, name: str, near: Path) -> bool:
        return name in KEPT_HEADERS or self._is_own(name) or self.find(name, near) is not None

    def _is_own(self, name: str) -> bool:
        return any((folder / name).is_file() for folder in self._own) or bool({name, f"cuda/{name}"} & names().keys())

    def _included(self, found: re.Match[str], path: Path, seen: set[Path]) -> str:
        name = found[2]
        if name in KEPT_HEADERS:
            return found[0]
        there = self.find(name, path.parent)
        if there is None:
            return found[0] if self._is_own(name) else ""
        if there in seen or not there.is_relative_to(self.folder):
            return ""
        text = self.flatten(there, seen)
        is_short = there.read_text(errors="replace").count("\n") < LONG
        return text if is_short or DEVICE.search(text) else ""


def strings_of(path: Path) -> list[str]:
    """Return the kernels' sources that a Python program has as strings, or a page of documentation in its examples."""
    text = path.read_text(errors="replace")
    if path.suffix == ".rst":
        found = re.findall(r"r?(\'\'\'|\"\"\")(.*?)\1", re.sub(r"^ *(?:>>>|\.\.\.) ?", "", text, flags=re.M), re.DOTALL)
        return [source for _, source in found if "__global__" in source]
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [each for each in constants if isinstance(each, str) and "__global__" in each]


def shared_parts(one: Path, other: Path) -> list[str]:
    """Return the folders that two paths have in common."""
    return [a for a, b in zip(one.parts, other.parts, strict=False) if a == b]


def with_types(head: str, text: str) -> str:
    """Return a declaration with ``typename`` for the concepts that a text defines, and for those of C++."""
    concepts = [*CONCEPT.findall(text), r"std::\w+"]
    return re.sub(rf"([<,]\s*)(?:\w+::)*(?:{'|'.join(concepts)})(?=\s+\w+\s*[,>=])", r"\1typename", head)


def guessed(head: str, name: str) -> list[str]:
    """Return instances of the template that this declaration begins with: of float, int and unsigned."""
    parameters = re.findall(r"template\s*<(.*?)>\s*(?:__|static|void|inline|extern|$)", head, re.DOTALL)
    listed = re.split(r",(?![^<>]*>)", parameters[-1] if parameters else "")
    return [f"{name}<{', '.join(values_for(listed, type_))}>" for type_ in ("float", "int", "unsigned")]


def values_for(parameters: list[str], type_: str) -> list[str]:
    """Return an argument for each parameter of a template, up to those that need none."""
    values: list[str] = []
    for parameter in parameters:
        words = parameter.split()
        if "=" in parameter or "..." in parameter or not words:
            break
        if words[0] in ("typename", "class"):
            is_function = re.fullmatch(r"(F|Fn|Func\w*|\w*Op|\w*Operat\w*|Pred\w*)", words[-1])
            is_vector = re.fullmatch(r"[vV]ec\w*|\w+4", words[-1])
            is_index = INDEX.search(words[-1]) and type_ == "float"
            values.append(
                "int"
                if is_index
                else f"std::plus<{type_}>"
                if is_function
                else f"{type_.replace('unsigned', 'uint')}4"
                if is_vector
                else type_
            )
        else:
            of = " ".join(word for word in words[:-1] if word != "const")
            values.append(
                {"bool": "true"}.get(of, "16" if re.search(r"int|size_t|unsigned|long|auto", of) else f"({of})1")
            )
    return values
