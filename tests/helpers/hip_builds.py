"""What a program gets from its build and from its other files: macros that a Makefile defines, and declarations."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from .hip_sources import Collection, items, mask, shared_parts

BUILD_FILES = ("Makefile*", "makefile*", "GNUmakefile", "CMakeLists.txt", "*.mk", "*.cmake", "make.inc*", "*.make")
OPTION = re.compile(r"(?<![\w-])-D\s*([A-Za-z_]\w*)(?:=(\"[^\"]*\"|'[^']*'|(?:\$\(\w+\)|[^\s\"'),])+))?")
IN_CMAKE = re.compile(r"\b(?:target|add)_compile_definitions\s*\(([^)]*)\)")
DEFINITION = re.compile(r"(?:-D|(?<![\w-]))([A-Z]\w*)(?:=(\"[^\"]*\"|[^\s\")]+))?")
WORDS_OF_CMAKE = {"PRIVATE", "PUBLIC", "INTERFACE"}
ASSIGNED = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*[:?]?=[ \t]*([^\n#]*)|\bset\s*\(\s*(\w+)\s+([^\s)]+)", re.MULTILINE
)
ASKED_OF_USER = "16"
"""The value of a variable that a Makefile leaves empty, for its user to give."""
VALUE_OF = re.compile(r"\$[({](\w+)[)}]")
CONDITION = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
COMPARED = re.compile(r"\b([A-Za-z_]\w*)\s*(>=|==|>)\s*(\d+)")
DEFINED = re.compile(r"(!?)\s*\bdefined\s*\(?\s*(\w+)")


@functools.cache
def macros_of(file: Path) -> dict[str, str]:
    """Return the macros that a file of a build defines, with their values."""
    text = file.read_text(errors="replace")
    variables = {(each[1] or each[3]): (each[2] or each[4] or "").strip() for each in ASSIGNED.finditer(text)}
    found = OPTION.findall(text)
    for listed in IN_CMAKE.findall(text):
        found += [each for each in DEFINITION.findall(listed) if each[0] not in WORDS_OF_CMAKE]
    result: dict[str, str] = {}
    for name, value in found:
        value = VALUE_OF.sub(lambda match: variables.get(match[1], match[0]), value.strip("\"'")) if value else "1"
        value = value or ASKED_OF_USER
        if value.strip() and "$" not in value and not name.startswith("CMAKE_"):
            result.setdefault(name, value.strip())
    return result


@functools.cache
def build_files(folder: Path) -> list[Path]:
    """Return the files of builds below a folder."""
    return sorted({path for pattern in BUILD_FILES for path in folder.rglob(pattern) if path.is_file()})


def macros_for(path: Path, folder: Path) -> dict[str, str]:
    """Return the macros that the builds of a collection define, those of the build nearest to a file first."""
    result: dict[str, str] = {}
    for file in sorted(build_files(folder), key=lambda file: -len(shared_parts(file, path))):
        for name, value in macros_of(file).items():
            result.setdefault(name, value)
    return result


def conditions_at(text: str, place: int) -> list[str]:
    """Return the conditions of the preprocessor around a place; `"!"` is before those that must not hold."""
    stack: list[str] = []
    for line in text[:place].split("\n"):
        found = CONDITION.match(line)
        if not found:
            continue
        kind, rest = found[1], found[2].strip()
        if kind == "endif":
            stack = stack[:-1]
        elif kind in ("else", "elif"):
            stack = [*stack[:-1], rest if kind == "elif" else "!"]
        else:
            stack.append({"ifdef": f"defined({rest})", "ifndef": "!"}.get(kind, rest))
    return stack


def asked_at(text: str, place: int) -> dict[str, str]:
    """Return macros with which a place of a source is compiled, as far as the conditions around it say it simply."""
    result: dict[str, str] = {}
    for condition in conditions_at(text, place):
        if condition.startswith("!"):
            continue
        first = re.split(r"\|\|", condition)[0]
        result |= {name: "1" for sign, name in DEFINED.findall(first) if not sign}
        for name, sign, number in COMPARED.findall(first):
            result[name] = str(int(number) + (sign == ">"))
        if re.fullmatch(r"[A-Za-z_]\w*", first.strip()):
            result[first.strip()] = "1"
    return result


def defined_under(text: str, name: str) -> dict[str, str]:
    """Return macros with which a source defines or declares a name."""
    for found in re.finditer(rf"#[ \t]*define[ \t]+{name}\b|\b{name}\s*(?=[=({{;\[])", text):
        asked = asked_at(text, found.start())
        if asked:
            return asked
    return {}


def declaration_of(name: str, near: Path, collection: Collection) -> str:
    """Return the text with which the file of a collection that is nearest to `near` declares a name for kernels."""
    word = re.compile(rf"\b{name}\b")
    declares = re.compile(
        rf"\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:\w+\s+)?{name}\b[^;]*\{{|\btypedef\b.*\b{name}\s*;|\busing\s+{name}\s*="
        rf"|\b{name}\s*(?:\[[^\]]*\]\s*)*(?:=|\{{)|#[ \t]*define[ \t]+{name}\b|__constant__[^;]*\b{name}\b",
        re.DOTALL,
    )
    nearest = sorted(collection.paths(), key=lambda path: -len(shared_parts(path, near)))
    for path in nearest:
        if path == near or len(shared_parts(path, near)) < len(shared_parts(near, near)) - 3:
            continue
        text = path.read_text(errors="replace").replace("\r", "")
        if not word.search(text):
            continue
        for item in items(text):
            whole = text[item.start : item.end]
            if item.kind == "function" and item.name == name and item.on_device:
                return whole
            is_for_kernels = (
                item.kind == "directive"
                or item.on_device
                or re.match(
                    r"\s*(?:__constant__|template|struct|class|union|enum|typedef|using|(?:static\s+)?const|(?:inline\s+)?constexpr)\b",
                    whole,
                )
            )
            if item.kind in ("directive", "other") and is_for_kernels and declares.search(mask(whole)):
                return whole
    return ""
