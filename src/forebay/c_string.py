"""Texts that programs written for any version of hip-python can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CString(bytes):
    """A text that HIP gives: bytes, as hip-python gave them up to its version 7, which also do what the str of 10 does.

    With a str it compares, adds, splits and searches as a str and gives one, so that ``b"--offload-arch=" + name`` and
    ``"--offload-arch=" + name`` are both what their program wants. `str` and f-strings give the text itself, `repr` is
    that of bytes.
    """

    def __str__(self) -> str:
        return self.decode(errors="replace")

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes, as str does."""
        return str(self).encode(encoding, errors)

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else bytes.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return str(self) != other if isinstance(other, str) else bytes.__ne__(self, other)

    def __hash__(self) -> int:
        return bytes.__hash__(self)  # that of the same str, too, as long as it is ASCII

    def __radd__(self, other: Any) -> Any:
        return other + str(self) if isinstance(other, str) else NotImplemented

    def __getitem__(self, key: Any) -> Any:
        part = bytes.__getitem__(self, key)
        return CString(part) if isinstance(key, slice) else part


def _for_both(name: str) -> Callable[..., Any]:
    """Return a method that is str's when an argument, or the first of a tuple of them, is a str."""
    of_bytes, of_str = getattr(bytes, name), getattr(str, name)

    def method(self: CString, *args: Any, **options: Any) -> Any:
        given = [arg[0] if isinstance(arg, tuple) and arg else arg for arg in (*args, *options.values())]
        if any(isinstance(arg, str) for arg in given):
            return of_str(str(self), *args, **options)
        return of_bytes(self, *args, **options)

    method.__name__, method.__doc__ = name, of_str.__doc__
    return method


for _name in (
    "__add__", "__contains__", "count", "endswith", "find", "index", "lstrip", "partition", "removeprefix",
    "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "startswith", "strip",
):  # fmt: skip
    setattr(CString, _name, _for_both(_name))
