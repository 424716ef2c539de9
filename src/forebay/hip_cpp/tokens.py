"""The tokens of HIP C++, as they are cut out of its text."""

from __future__ import annotations

import re
from typing import NamedTuple

from forebay.hip_cpp.errors import Place, RefusedError

__all__ = ["Token", "belong", "directive_tokens", "tokenize", "tokens_of"]

LINE_DIRECTIVE = re.compile(r'line\s+\d+(\s+"[^"]*")?')

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+)|(?P<newline>\n)
    |(?P<raw>\b(?:u8|[uUL])?R")|(?P<string>\b(?:u8|[uUL])"|"(?:[^"\\\n]|\\.)*")
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>(?:0[xX](?:[\da-fA-F']*\.?[\da-fA-F']+\.?)(?:[pP][+-]?\d+)?|0[bB][01']+|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\w*)
    |(?P<name>[A-Za-z_$]\w*)
    |(?P<op><<<|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]#@\\`])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token; ``kind`` is name, number, string, char, op, pragma or end."""

    kind: str
    text: str
    place: Place


def belong(run: str, text: str) -> bool:
    """Whether two things that touch in the source may be one token, although pcpp thinks otherwise."""
    if run[0].isdigit() or (run[0] == "." and (len(run) > 1 or text[0].isdigit())):
        return text[0].isalnum() or text[0] in "._'" or (text in "+-" and run[-1] in "eEpP")
    return run in (":", ".", "..", "<<", "->", "u8", "u", "U", "L", "R", "LR") and (
        text in (":", ".", "<", "*") or text[0] == '"'
    )


def directive_tokens(text: str, place: Place) -> list[Token]:
    """Return the token of a directive that the preprocessor leaves alone; none for #line.

    That one is not followed: messages show the line that they are about, and count as the program was given.
    """
    if LINE_DIRECTIVE.fullmatch(text.strip()):
        return []
    word, _, rest = text.strip().partition(" ")
    if word != "pragma":
        raise RefusedError(f"#{text.strip()}", Place(place.file, place.line))
    return [Token("pragma", rest.strip(), place)]


def tokenize(text: str, file: str) -> list[Token]:
    """Cut a line that needs no preprocessor into tokens."""
    place = Place(file, 1)
    return [*tokens_of(text, place), Token("end", "its end", place)]


def tokens_of(row: str, place: Place) -> list[Token]:
    """Return the tokens of one line, or of a part of it."""
    tokens = []
    position = 0
    while position < len(row):
        match = TOKEN.match(row, position)
        if match is None:
            raise RefusedError(f"unexpected character {row[position]!r}", place)
        kind = match.lastgroup or ""
        if (
            kind == "raw"
            or (kind == "string" and not match[0].endswith('"'))
            or (kind == "string" and match[0][0] != '"')
        ):
            raise RefusedError("raw and prefixed string literals are not in the subset", place)
        if match[0] == "<<<":
            raise RefusedError("a kernel launch inside of a kernel is not in the subset", place)
        position = match.end()
        if kind not in ("space", "newline"):
            tokens.append(Token(kind, match[0], place))
    return tokens
