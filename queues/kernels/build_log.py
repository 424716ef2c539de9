"""What a compiler says about a program: each message, with the line of the source and a caret below."""

from __future__ import annotations

import re

# PoCL puts the kind first, and then a file of its own. Intel puts a number of its own where a file would be.
PLAIN = re.compile(r"^(\d+):(\d+): (.*)$")
IN_A_FILE = re.compile(r"^(fatal error|error|warning|note): \S*:(\d+):(\d+): (.*)$")
FILE_FIRST = re.compile(r"^(?:<[^>]*>|[^:\s]+):(\d+):(\d+): ((?:fatal error|error|warning|note|remark): .*)$")
KINDS = ("fatal error: ", "error: ", "warning: ", "note: ")
SHOWN = re.compile(r"^ *\d* \|")  # a line of the source, or what stands below it


def read_position(line: str) -> tuple[int, int, str] | None:
    """Return (line, column, message) of the first line of a message; None for other lines."""
    if found := IN_A_FILE.match(line):
        return int(found[2]), int(found[3]), f"{found[1]}: {found[4]}"
    for form in (PLAIN, FILE_FIRST):
        if (found := form.match(line)) and found[3].startswith(KINDS):
            return int(found[1]), int(found[2]), found[3]
    return None


def readable(log: str, source: str | bytes) -> str:
    """Return the messages of a compiler's log, each with the line that it is about.

    Returns an empty str when there is no message in it.
    """
    lines, rows = log.splitlines(), source.splitlines() if isinstance(source, str) else []
    shown: list[str] = []
    i = 0
    while i < len(lines):
        position = read_position(lines[i])
        i += 1
        if position is None:
            continue
        row, column, message = position
        shown.append(f"{row}:{column}: {message}")
        excerpt = []
        while i < len(lines) and SHOWN.match(lines[i]):
            excerpt.append(lines[i])
            i += 1
        if not excerpt and 1 <= row <= len(rows):
            margin = re.sub(r"\S", " ", rows[row - 1][: column - 1])  # tabs stay, so that the caret stands right
            excerpt = [f"{row:5} | {rows[row - 1]}", f"      | {margin}^"]
        shown += excerpt
    return "\n".join(shown)
