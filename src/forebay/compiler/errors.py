"""The exceptions that forebay's compiler raises, and the base of all of forebay's."""

from __future__ import annotations


class Error(Exception):
    """Base class of everything forebay raises on purpose."""


class InvalidArgumentError(Error, ValueError):
    """An argument has the right type but a value that cannot work: a size, a range, a buffer of another device."""


class BuildError(Error, RuntimeError):
    """A program did not build.

    Parameters
    ----------
    message
        Text for the user.
    log
        The compiler's whole output.
    """

    def __init__(self, message: str = "", *, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class NotSupportedError(Error, NotImplementedError):
    """The device, its driver or this version of forebay cannot do this."""


class NotInstalledError(NotSupportedError, ImportError):
    """A package that is needed is not installed; the message says how to install it."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, for an error message: from an index, and from a clone."""
    return f"pip install 'forebay[{extra}]' (in a clone of forebay: '.[{extra}]')"
