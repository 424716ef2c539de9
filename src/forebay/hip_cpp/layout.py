"""Lines of the translation that the compiler attributes to the lines of the source."""

from __future__ import annotations

import re

__all__ = ["laid_out"]

MARK = re.compile("\x02([LM])(\\d+);([^\x03]*)\x03")
NEAR = 30  # lines: empty lines up to here, a #line directive beyond


def laid_out(text: str) -> str:
    """Return the text with its marks replaced by empty lines and ``#line`` directives.

    A mark that is inside of a statement moves what follows to a later line of the same file; all others are where a
    statement begins.
    """
    parts: list[str] = []
    file, line = "", 0
    position = 0
    for match in MARK.finditer(text):
        before = text[position : match.start()]
        parts.append(before)
        line += before.count("\n")
        position = match.end()
        wanted_line, wanted_file = int(match[2]), match[3]
        if match[1] == "L":
            if wanted_file == file and 0 < wanted_line - line < NEAR:
                parts.append("\n" * (wanted_line - line))
                line = wanted_line
            continue
        if wanted_file == file and 0 <= wanted_line - line < NEAR:
            parts.append("\n" * (wanted_line - line))
        else:
            name = wanted_file.replace("\\", "/").replace('"', "")
            parts.append(f'#line {wanted_line} "{name}"\n')
        file, line = wanted_file, wanted_line
    parts.append(text[position:])
    return "".join(parts)
