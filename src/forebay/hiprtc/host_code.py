"""Takes code of the host out of a program, a statement or a declaration at a time, where a compiler refuses it.

Brackets are matched, no more: the compiler says afterwards whether what is left is a program. Lines stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from forebay.hiprtc.assembly.statements import QUIET

__all__ = ["Program", "without_template"]

DEVICE = re.compile(r"\b(?:__(?:device|global|constant|managed|shared|noinline)__|constexpr|consteval)\b")
MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?(?:[^\n\\]|\\.)*?__(?:device|global)__", re.MULTILINE | re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
STOP = re.compile(r"[;({}\[]")
TRANSPARENT = re.compile(r"(?:\bnamespace\b[^()=;]*|\bextern\s*)$")
TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b")
AFTER_PARAMETERS = re.compile(
    r"\)\s*(?:(?:const|noexcept|override|final|volatile|&&?)\s*)*(?:->[^;]*|:[^:].*)?\s*$", re.DOTALL
)
CONTROL = re.compile(
    r"\s*(?:(?:else\s+)?(?:if\s*(?:constexpr\s*)?|for\s*|while\s*|switch\s*|catch\s*)\(.*\)|(?:else|do|try)?)\s*",
    re.DOTALL,
)
LOOP_OR_CONDITION = re.compile(r"\s*(?:else\s+)?(if|for|while|switch|catch)\s*(?:constexpr\s*)?\(")
INSTANCE = r"((?:::)?\w+(?:::\w+)*\s*<(?:[^<>;]|<[^<>;]*>)*>)"
LAUNCHED = re.compile(rf"{INSTANCE}\s*\)?\s*<<<")
LAUNCHED_BY_MACRO = re.compile(rf"hipLaunchKernel(?:GGL)?\s*\(\s*(?:HIP_KERNEL_NAME\s*)?\(?\s*{INSTANCE}")


class _Item(NamedTuple):
    start: int
    body: int  # where its braces begin; -1 if it has none
    end: int


class Program:
    """A program out of which code of the host is taken.

    Parameters
    ----------
    text : str
        The program.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        quiet = QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        macros = MACRO.findall(quiet)
        self._device = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in macros)]))
        self._bare = DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), quiet)
        self._cuts: dict[tuple[int, int], str] = {}

    def text(self) -> str:
        """Return what is left."""
        text, inner = self._text, -1
        for start, end in sorted(self._cuts, key=lambda cut: (cut[0], -cut[1])):
            if end <= inner:  # within another
                del self._cuts[start, end]
            inner = max(inner, end)
        for (start, end), instead in sorted(self._cuts.items(), reverse=True):
            text = text[:start] + instead + "\n" * text.count("\n", start, end) + text[end:]
        return text

    def blank(self, start: int, end: int) -> None:
        """Take out what is between two places."""
        self._cuts[start, end] = ""

    def leave_out(self, place: int, whole: bool = False) -> str:
        """Take out the code of the host at a place, of a function a statement or the whole body.

        Returns what that is, and nothing if it is the device's.
        """
        item = self._at(place, 0, len(self._bare))
        if item is None:
            return ""
        head = self._bare[item.start : item.body if item.body >= 0 else item.end]
        while item.body >= 0 and TYPE.match(without_template(head)) and self._device.search(self._whole(item)):
            inner = self._at(place, item.body + 1, item.end - 1)  # a member of a class that kernels may use
            if inner is None:
                return ""
            item = inner
            head = self._bare[item.start : item.body if item.body >= 0 else item.end]
            if not TYPE.match(head) and not _is_function(head.rstrip("; ")):
                return ""  # without it the class has another size
        if item.body < 0 or not _is_function(head):
            if self._device.search(self._whole(item)):
                return ""
            self._cuts[item.start, item.end] = ""
            return "a declaration of the host"
        if self._device.search(head):
            return ""
        if place <= item.body:
            self._cuts[item.start, item.end] = ""
            return "a function of the host"
        if whole:
            self._cuts[item.body + 1, item.end - 1] = self._instances(item.body, item.end)
            return "the body of a function of the host"
        self._statement(place, item.body + 1, item.end - 1)
        return "a statement of the host"

    def _whole(self, item: _Item) -> str:
        return self._bare[item.start : item.end]

    def _at(self, place: int, start: int, end: int) -> _Item | None:
        return next((each for each in self._items(start, end) if each.start <= place < each.end), None)

    def _items(self, start: int, end: int) -> Iterator[_Item]:
        """The declarations, or members of a class, between two places; namespaces are looked into."""
        at = start = self._past_space(start, end)
        body = -1
        while found := STOP.search(self._bare, at, end):
            sign, at = found[0], found.end()
            head = self._bare[start : found.start()]
            if sign in "([":
                at = min(self._closing(at - 1), end)
                continue
            if sign == "{" and not TRANSPARENT.search(head):
                body = found.start() if body < 0 else body
                at = min(self._closing(at - 1), end)
                if not _is_function(head):
                    continue
            if sign == ";" or (sign == "{" and body >= 0):
                yield _Item(start, body, at)
            start, body = self._past_space(at, end), -1
        if start < end:
            yield _Item(start, body, end)

    def _statement(self, place: int, start: int, end: int) -> None:
        """Take out the innermost statement at a place."""
        at = start = self._past_space(start, end)
        while found := STOP.search(self._bare, at, end):
            sign, at = found[0], found.end()
            if sign in "([":
                at = min(self._closing(at - 1), end)
                if at > place and LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end()):
                    word = LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end())[1]  # type: ignore[index]
                    self._cuts[found.end(), at - 1] = {"for": ";;", "catch": "..."}.get(word, "0")
                    return
                if LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end()):
                    start = self._past_space(at, end)
                continue
            if sign == "{":
                inner, at = at, min(self._closing(at - 1), end)
                if not CONTROL.fullmatch(self._bare[start : inner - 1]):
                    continue  # a lambda, or an initializer
                if place < at:
                    self._statement(place, inner, at - 1)
                    return
            elif place < at:
                break
            start = at = self._past_space(at, end)
        else:
            at = end
        self._cuts[start, at] = f"{self._instances(start, at)};"

    def _instances(self, start: int, end: int) -> str:
        """The instances of kernels that a statement launches, which are still wanted."""
        text = self._text[start:end]
        found = [*LAUNCHED.findall(text), *LAUNCHED_BY_MACRO.findall(text)]
        return "".join(f"(void)&{' '.join(name.split())};" for name in dict.fromkeys(found))

    def _past_space(self, at: int, end: int) -> int:
        while at < end and self._bare[at].isspace():
            at += 1
        return at

    def _closing(self, start: int) -> int:
        depth = 0
        for found in re.compile(r"[()\[\]{}]").finditer(self._bare, start):
            depth += 1 if found[0] in "([{" else -1
            if not depth:
                return found.end()
        return len(self._bare)


def without_template(head: str) -> str:
    """Return a declaration without the ``template <…>`` that it begins with."""
    while found := re.match(r"\s*template\s*<", head):
        depth, at = 1, found.end()
        while at < len(head) and depth:
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
        head = head[at:]
    return head


def _is_function(head: str) -> bool:
    """Whether what comes before a brace declares a function."""
    plain = re.sub(r"\boperator\s*(?:\(\)|[^\s\w(]+)|[=!<>]=", "operator", without_template(head))
    return "=" not in plain.split("(")[0] and bool(AFTER_PARAMETERS.search(plain))
