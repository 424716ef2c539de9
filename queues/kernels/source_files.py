"""Files that programs name: regular ones, of a size that can be read. A device such as ``/dev/zero`` has no end."""

from __future__ import annotations

import hashlib
import os
import stat

__all__ = ["MOST", "MOST_OF_CODE", "FileRefusedError", "check_file", "digest_of", "read_file", "text_of"]

MOST = 64 << 20
"""Bytes of a file that a program includes."""
MOST_OF_CODE = 1 << 30
"""Bytes of a file with code that was compiled."""


class FileRefusedError(OSError):
    """The file is no regular one, or too large: the message says which."""


def check_file(path: str | bytes, most: int = MOST) -> None:
    """Refuse what should not be read.

    Raises
    ------
    FileRefusedError
        For what is neither a file nor a folder, and for a file of more bytes.
    OSError
        When there is nothing.
    """
    status = os.stat(path)
    name = os.fsdecode(path)
    if stat.S_ISREG(status.st_mode) and status.st_size > most:
        raise FileRefusedError(f"the file '{name}' of {status.st_size} bytes is too large: {most} are read at most")
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise FileRefusedError(f"'{name}' is no regular file")


def read_file(path: str | bytes, most: int = MOST) -> bytes:
    """Return what is in a file; the errors are those of `check_file`. Blocks."""
    check_file(path, most)
    with open(path, "rb") as file:
        return file.read(most)


def digest_of(path: str) -> str:
    """Return what tells one content of a file from another; nothing when it cannot be read."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError:
        return ""


def text_of(path: str) -> str:
    """Return a file as text; nothing when it cannot be read."""
    try:
        return read_file(path).decode(errors="replace")
    except OSError:
        return ""
