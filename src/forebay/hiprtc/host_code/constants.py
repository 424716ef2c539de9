"""Constants of a program that are computed from other constants, as compilers with a host take them."""

from __future__ import annotations

import re

__all__ = ["with_constant_expressions"]

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|(?P<open>(?P<scope>\b(?:namespace(?:\s+[\w:]+)?|extern\s*"C(?:\+\+)?")\s*)?\{)|(?P<close>\})"""
    r"""|\b(?P<const>const)(?=\s+(?:static\s+)?(?:float|double)\s+\w+\s*=)"""
    r"""|\b(?:float|double)\s+(?P<later>const)(?=\s+\w+\s*=)""",
    re.DOTALL,
)


def with_constant_expressions(text: str) -> str:
    """Return the program with its floating-point constants outside of functions and classes as ``constexpr``.

    One that is computed from another is not a constant expression in C++, and clang and gcc compute it nevertheless.
    """
    made: list[str] = []
    end = 0
    scopes: list[bool] = []  # of the open braces, whether it is a namespace's
    for found in TOKEN.finditer(text):
        if found["open"]:
            scopes.append(bool(found["scope"]))
        elif found["close"] and scopes:
            scopes.pop()
        word = "const" if found["const"] else "later" if found["later"] else ""
        if word and all(scopes):
            made += [text[end : found.start(word)], "constexpr"]
            end = found.end(word)
    return "".join([*made, text[end:]])
