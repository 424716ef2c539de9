"""Looks at the files that a program includes before a compiler opens them: it would read what has no end."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from forebay.compiler.errors import BuildError, InvalidArgumentError

__all__ = [
    "MOST_OF_CODE",
    "FileRefusedError",
    "check_text",
    "digest_of",
    "read_file",
    "read_included",
    "text_of",
    "with_whole_names",
]

# Files that programs name: regular ones, of a size that can be read. A device such as ``/dev/zero`` has no end
MOST = 64 << 20  # bytes of a file that a program includes
MOST_OF_CODE = 1 << 30  # bytes of a file with code that was compiled
INCLUDED = re.compile(
    r"""^[ \t]*\#[ \t]*(?:include|include_next|import|embed)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""", re.MULTILINE
)


class FileRefusedError(OSError):
    """The file is no regular one, or too large: the message says which."""


def check_text(what: str, text: str, errors: str = "strict") -> None:
    """Raise `InvalidArgumentError`, naming `what`, for text with a lone surrogate. `errors` is "surrogateescape" for
    text such as file names, whose surrogates stand for bytes (PEP 383).
    """
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise InvalidArgumentError(
            f"{what}: line {line} has {text[error.start]!r}, a lone surrogate, which no encoding has: read the text "
            "with the encoding it was written in"
        ) from None


def read_file(path: str | bytes, most: int = MOST) -> bytes:
    """Return what is in a file. Raises `FileRefusedError` for what is not one, or too large; OSError for a folder, and
    when there is nothing. Blocks.
    """
    status = os.stat(path)
    name = os.fsdecode(path)
    if stat.S_ISREG(status.st_mode) and status.st_size > most:
        raise FileRefusedError(f"the file '{name}' of {status.st_size} bytes is too large: {most} are read at most")
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise FileRefusedError(f"'{name}' is no regular file")
    with open(path, "rb") as file:
        return file.read(most)


def digest_of(path: str) -> str:
    """Return what tells one content of a file from another; nothing when it cannot be read."""
    try:
        import hashlib

        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError:
        return ""


def text_of(path: str) -> str:
    """Return a file as text; nothing when it cannot be read."""
    try:
        return read_file(path).decode(errors="replace")
    except OSError:
        return ""


def read_included(
    name: str, source: str, headers: Mapping[str, str], folders: Sequence[str], forced: Sequence[str]
) -> list[str]:
    """Return the files that a program may include, and where others would be found first; some need not be there.

    A program that includes something other than regular files, or one that is too large, is refused.

    Names that macros give are not looked at: there the limits of the compiler's process hold.

    Parameters
    ----------
    name, source
        What messages call the program, and its text.
    headers
        Files that it may include, by name.
    folders
        Where others are looked for.
    forced
        Files that are included before it.

    Raises
    ------
    BuildError
    """
    before = "".join(f'#include "{path}"\n' for path in forced)
    left = [("command line", before, ""), (name, source, ""), *((each, text, "") for each, text in headers.items())]
    seen: dict[str, None] = {}
    known: set[str] = set()
    looked_for: set[tuple[str, str]] = set()
    while left:
        file, text, folder = left.pop()
        for found in INCLUDED.finditer(text):
            path = found[1] or found[2]
            wanted = folder if found[1] else "", path
            if path in headers or wanted in looked_for:
                continue
            looked_for.add(wanted)
            places = [*([folder] if found[1] else []), *folders]
            seen |= dict.fromkeys(os.path.join(place, path) for place in places)
            try:
                read = next(_read(path, places), None)
            except FileRefusedError as error:
                line = text.count("\n", 0, found.start()) + 1
                log = f"{file}:{line}:1: error: {error}"
                raise BuildError(f"the program does not compile\n{log}", log=log) from None
            if read and (itself := os.path.realpath(read[0])) not in known:  # by any of its paths, such as a/../a/b.h
                known.add(itself)
                left.append((*read, os.path.dirname(read[0])))
    return list(seen)


def with_whole_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with those that they include in quotes from beside them named as a compiler without folders
    looks for them: in ``sub/a.h`` ``"b.h"`` is ``"sub/b.h"`` where there is such a header (C++, [cpp.include])."""
    return {name: INCLUDED.sub(functools.partial(_whole_name, name, headers), text) for name, text in headers.items()}


def _whole_name(name: str, headers: Mapping[str, str], found: re.Match[str]) -> str:
    beside = os.path.normpath(os.path.join(os.path.dirname(name), found[1])) if found[1] else ""
    if beside not in headers:
        return found[0]
    begin, end = found.start(1) - found.start(), found.end(1) - found.start()
    return f"{found[0][:begin]}{beside}{found[0][end:]}"


def _read(path: str, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        whole = os.path.join(folder, path)
        try:
            yield whole, read_file(whole).decode(errors="surrogateescape")
        except FileRefusedError:
            raise
        except (OSError, ValueError):  # not there, or a folder
            continue
