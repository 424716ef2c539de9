"""Which names kernels may have, by the text of a preprocessed program, and which macros are words of the device.

More than they have: it is what must not be left out without a trace (`program`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forebay.hiprtc.host_code.program import (
    BASES,
    DEVICE,
    LAUNCHED,
    LAUNCHED_BY_MACRO,
    TYPE,
    WORD,
    Program,
    is_function,
    without_template,
)

__all__ = ["device_macros", "own_text", "reached_names"]

DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?(.*)$", re.MULTILINE)
GLOBAL = re.compile(r"\b__global__\b|\b__attribute__\s*\(\(\s*(?:__)?global")
MARKER = re.compile(r'^# \d+ "((?:[^"\\\n]|\\.)*)"[ \d]*\n', re.MULTILINE)
KEYWORDS = frozenset(WORD.findall("""
    alignas auto bool break case catch char class const constexpr continue decltype default delete do
    double else enum explicit extern false float for friend goto if inline int long mutable namespace
    new noexcept nullptr operator private protected public register return short signed sizeof static
    struct switch template this throw true try typedef typename union unsigned using virtual void
    volatile while __attribute__ device host global shared
"""))  # fmt: skip


class _Declared(NamedTuple):
    head: frozenset[str]
    words: frozenset[str]
    is_root: bool


def own_text(preprocessed: str, is_own: Callable[[str], bool]) -> str:
    """Return what comes of the files that are the program's own, with their ``#define``."""
    parts = MARKER.split(preprocessed)
    return parts[0] + "".join(text for file, text in zip(parts[1::2], parts[2::2], strict=True) if is_own(file))


def device_macros(text: str) -> list[str]:
    """Return the macros that stand for words of the device, also through others."""
    found: list[str] = []
    pattern = DEVICE
    while True:
        more = [name for name, body in DEFINE.findall(text) if name not in found and pattern.search(body)]
        if not more:
            return found
        found += dict.fromkeys(more)
        pattern = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in found)]))


def reached_names(text: str) -> set[str]:
    """Return the names in kernels, in launches and in variables of the device, and in what these name of the rest."""
    declared = _declared(Program(text))
    reached = {
        word for name in [*LAUNCHED.findall(text), *LAUNCHED_BY_MACRO.findall(text)] for word in WORD.findall(name)
    }
    while True:
        now = [each for each in declared if each.is_root or each.head & reached]
        if not now:
            return reached
        reached = reached.union(*(each.words for each in now)) - KEYWORDS
        declared = [each for each in declared if each not in now]


def _declared(program: Program) -> list[_Declared]:
    found = []
    for head, whole, is_device in program.declarations():
        function, is_class = is_function(head), TYPE.match(without_template(head))
        plain = head.partition("(")[0] if function else BASES.sub("", without_template(head))
        is_root = bool(GLOBAL.search(head)) or (is_device and not function and not is_class)
        names = frozenset(WORD.findall(plain)) - KEYWORDS
        found.append(_Declared(names, frozenset(WORD.findall(whole)), is_root))
    return found
