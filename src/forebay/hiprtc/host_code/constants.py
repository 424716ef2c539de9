"""Constants of a program that are computed from others, or by ``make_float4`` and its like, as clang takes them."""

from __future__ import annotations

import re

__all__ = ["with_constant_expressions"]

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|(?P<open>(?:(?P<scope>\b(?:namespace(?:\s+[\w:]+)?|extern\s*"C(?:\+\+)?"))|(?P<value>=))?\s*\{)|(?P<close>\})"""
    r"""|\b(?P<const>const)(?=\s+(?:static\s+)?(?:float|double)\s+\w+\s*=)"""
    r"""|\b(?:float|double)\s+(?P<later>const)(?=\s+\w+\s*=)"""
    r"""|\b(?P<call>make_(?P<type>u?(?:char|short|int|long|longlong|float|double)[1-4])\s*\()|(?P<argument>\()|(?P<end>\))""",
    re.DOTALL,
)
NAMESPACE, VALUE, BODY = "namespace", "value", "body"


def with_constant_expressions(text: str) -> str:
    """Return the program with what is initialized outside of functions and classes as constant expressions.

    Floating-point constants become ``constexpr``: one that is computed from another is no constant expression in C++,
    and clang and gcc compute it nevertheless. ``make_float4(…)`` becomes ``float4{…}``.
    """
    made: list[str] = []
    done = 0
    scopes: list[str] = []  # of the open braces
    calls: list[bool] = []  # of the open parentheses: whether they became braces

    def put(begin: int, end: int, words: str) -> None:
        nonlocal done
        made.extend([text[done:begin], words])
        done = end

    for found in TOKEN.finditer(text):
        outside = BODY not in scopes
        if found["open"]:
            inside = scopes[-1:] == [VALUE]
            scopes.append(NAMESPACE if found["scope"] else VALUE if found["value"] or inside else BODY)
        elif found["close"] and scopes:
            scopes.pop()
        elif found["call"] or found["argument"]:
            calls.append(bool(found["call"]) and outside)
            if calls[-1]:
                put(*found.span(), found["type"] + "{")
        elif found["end"] and calls:
            if calls.pop():
                put(*found.span(), "}")
        elif outside and (word := "const" if found["const"] else "later" if found["later"] else ""):
            put(*found.span(word), "constexpr")
    return "".join([*made, text[done:]])
