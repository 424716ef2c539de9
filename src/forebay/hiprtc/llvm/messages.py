"""Where in the source the reason is when clang's back end refuses a program: it tells no line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from forebay.hiprtc.llvm.signatures import SYMBOL, fields_of, nodes_of, unquoted

__all__ = ["explained", "without_definition"]

# What the back end says, what is looked for in the module, and what that is called in HIP.
REASONS = (
    ("Inline assembly", re.compile(r"\bcall [^@]*\basm .*!dbg !(\d+)"),
     "inline assembly is a GPU's own, and this device has none"),
)  # fmt: skip
BACK_END = re.compile(r"error in backend: (.*)")
IN_FUNCTION = re.compile(r"\(in function: ([^)\s]+)\)")
DEFINED = re.compile(rf"define [^@]*@({SYMBOL})\(.*!dbg !(\d+)")


def explained(log: str, module: str, sources: Mapping[str, str]) -> str:
    """Return the back end's message with the file, the line and a caret, as far as they can be found.

    Parameters
    ----------
    log
        What clang said.
    module
        The LLVM module that it said it of, with debug information.
    sources
        The texts of the program and of its headers, by name.
    """
    said = BACK_END.search(log)
    if said is None:
        return log
    reason = said[1]
    for words, pattern, meaning in REASONS:
        if words in reason:
            reason = f"{meaning} ({reason})"
            place = next(_places(module, pattern), None)
            break
    else:
        place = _of_function(module, IN_FUNCTION.search(reason))
    return _at(place, f"error: {reason}", sources)


def without_definition(symbols: Sequence[str], module: str, sources: Mapping[str, str]) -> str:
    """Return the messages about functions that are declared and called, and defined nowhere."""
    messages = []
    for symbol in symbols:
        call = re.compile(rf'\b(?:call|invoke) [^@\n]*@"?{re.escape(symbol)}"?\(.*!dbg !(\d+)')
        place = next(_places(module, call), None)
        messages.append(_at(place, f"error: the function {symbol} is declared, and defined nowhere", sources))
    return "\n".join(messages)


def _at(place: tuple[str, int, int] | None, message: str, sources: Mapping[str, str]) -> str:
    """A message with the line that it is about, and a caret."""
    if place is None:
        return message
    file, line, column = place
    lines = sources.get(file, "").splitlines()
    text = f"{file}:{line}:{column}: {message}"
    if 0 < line <= len(lines):
        margin = f"{line:5} | "
        text += f"\n{margin}{lines[line - 1]}\n{' ' * (len(margin) - 2)}| {' ' * max(column - 1, 0)}^"
    return text


def _places(module: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """The file, line and column of the instructions that match; where they were inlined, of the call."""
    nodes = nodes_of(module)
    for match in pattern.finditer(module):
        fields = fields_of(nodes.get(match[1], ""))
        yield _file(nodes, fields.get("scope", "")), int(fields.get("line", 0)), int(fields.get("column", 1))


def _of_function(module: str, match: re.Match[str] | None) -> tuple[str, int, int] | None:
    for symbol, node in DEFINED.findall(module) if match else ():
        if match and unquoted(symbol) == match[1]:
            nodes = nodes_of(module)
            return _file(nodes, node), int(fields_of(nodes[node]).get("line", 0)), 1
    return None


def _file(nodes: Mapping[str, str], scope: str) -> str:
    return fields_of(nodes.get(fields_of(nodes.get(scope, "")).get("file", ""), "")).get("filename", "")
