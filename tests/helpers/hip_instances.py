"""Which instances of a kernel template a program uses, the host's names in them replaced by what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .hip_sources import items, mask, values_for, with_types

DEPTH = 3
MOST = 6
WORD = re.compile(r"[A-Za-z_]\w*")
LOCAL = re.compile(
    r"\b(?:constexpr|const|static)\b[\w\s:<>]*?\b(\w+)\s*(?:=\s*([^;{}]+);|\{([^{};]*)\}\s*;)"
    r"|\busing\s+(\w+)\s*=\s*([^;]+);|\btypedef\s+([^;]+?)\s+(\w+)\s*;"
)


def parts_of(text: str) -> list[str]:
    """Return what commas part, outside of brackets of any kind."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def parameters_of(head: str) -> list[str]:
    """Return the parameters of the template that a declaration begins with."""
    found = re.match(r"\s*template\s*<", head)
    if not found:
        return []
    depth, at = 1, found.end()
    while at < len(head) and depth:
        depth += (head[at] == "<") - (head[at] == ">")
        at += 1
    return parts_of(head[found.end() : at - 1])


def name_of_parameter(parameter: str) -> str:
    """Return the name of a template's parameter."""
    words = WORD.findall(parameter.split("=")[0])
    return words[-1] if words else ""


class Instances:
    """The instances of templates that a source names."""

    def __init__(self, whole: str) -> None:
        self._bare = with_types(mask(whole), whole) if "concept" in whole else mask(whole)
        self._functions = [item for item in items(self._bare) if item.kind in ("function", "kernel")]
        self._uses: dict[str, list[tuple[str, int, bool]]] = {}
        for found in re.finditer(r"\b(\w+)\s*<(?![<=])", self._bare):
            depth, at = 1, found.end()
            while at < len(self._bare) and depth and self._bare[at] not in ";{}":
                depth += (self._bare[at] == "<") - (self._bare[at] == ">")
                at += 1
            if depth == 0:
                is_launch = self._bare[at : at + 30].lstrip(" \n\t)").startswith("<<<")
                use = self._bare[found.end() : at - 1], found.start(), is_launch
                self._uses.setdefault(found[1], []).append(use)

    def of(self, name: str) -> list[str]:
        """Return the instances of a kernel, those that are launched first."""
        uses = sorted(self._uses.get(name, []), key=lambda use: not use[2])
        result: dict[str, None] = {}
        for arguments, place, _ in uses:
            for each in self._resolved(arguments, place, DEPTH):
                result[f"{name}<{self._completed(name, each)}>"] = None
            if len(result) >= MOST:
                break
        return list(result)

    def _completed(self, name: str, arguments: str) -> str:
        """Return arguments with those that a launch leaves to be deduced."""
        declared = next((self._bare[item.start : item.end] for item in self._functions if item.name == name), "")
        given = parts_of(arguments)
        return ", ".join([*given, *values_for(parameters_of(declared)[len(given) :], "float")])

    def _resolved(self, arguments: str, place: int, depth: int) -> list[str]:
        """Return arguments with the names of the function around them replaced, one for each way to call it."""
        around = next((item for item in self._functions if item.start <= place < item.end), None)
        arguments = re.sub(r"[\s\\]+", " ", arguments).strip()  # also lines of a macro
        if around is None or around.name == "" or not depth:
            return [arguments]
        text = self._bare[around.start : around.end]
        names = {}
        for found in LOCAL.finditer(text[text.find("{") :]):
            value = found[2] or found[3] or found[5] or found[6]
            if value:
                is_type = found[4] or found[7]
                names[found[1] or found[4] or found[7]] = value.strip() if is_type else f"({value.strip()})"
        arguments = _with(arguments, names)
        parameters = parameters_of(text)
        if not parameters:
            return [arguments]
        wanted = [name_of_parameter(each) for each in parameters]
        if not set(wanted) & set(WORD.findall(arguments)):
            return [arguments]
        result: dict[str, None] = {}
        for given, at, _ in self._uses.get(around.name, []):
            if around.start <= at < around.end:
                continue
            for each in self._resolved(given, at, depth - 1):
                values = dict(zip(wanted, parts_of(each), strict=False))
                values |= dict(zip(wanted[len(values) :], values_for(parameters[len(values) :], "float"), strict=False))
                result[_with(arguments, values)] = None
            if len(result) >= MOST:
                break
        for type_ in ("float", "int"):
            result[_with(arguments, dict(zip(wanted, values_for(parameters, type_), strict=False)))] = None
        return list(result)


def _with(text: str, names: Mapping[str, str]) -> str:
    for _ in range(DEPTH):
        changed = WORD.sub(lambda match: names.get(match[0], match[0]), text)
        if changed == text or len(changed) > 500:
            break
        text = changed
    return text
