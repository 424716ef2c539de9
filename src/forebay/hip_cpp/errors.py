"""What is said about a program that cannot be translated."""

from __future__ import annotations

from typing import NamedTuple

from forebay.core.errors import BuildError, NotInstalledError

__all__ = ["NotInstalledError", "Place", "RefusedError"]


class Place(NamedTuple):
    """A line of the source."""

    file: str
    line: int


class RefusedError(BuildError):
    """The program is outside of the subset of HIP C++, or no C++ at all.

    Parameters
    ----------
    what
        The construct, and why it is refused.
    place
        Where it is.
    source_line
        The line itself; empty if it is not known.

    Attributes
    ----------
    line : int
    """

    def __init__(self, what: str = "", place: Place | None = None, source_line: str = "") -> None:
        place = place or Place("", 0)
        self.what = what
        self.place = place
        self.line: int = place.line
        text = f"{place.file}:{place.line}: error: {what}"
        if source_line.strip():
            text += f"\n    {source_line.strip()}"
        super().__init__(text, log=text)
