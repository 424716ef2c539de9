"""What a litmus test is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebay.selftest.scene import Scene

__all__ = ["Chapter", "Litmus"]


@dataclass(frozen=True)
class Litmus:
    """A small program with one right result.

    Attributes
    ----------
    chapter, name : str
        Together they name one test.
    needs_execution : bool
        Whether it would wait for ever on a device that executes nothing.
    """

    chapter: str
    name: str
    run: Callable[[Scene], None]
    needs_execution: bool = False

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"


class Chapter:
    """Collects tests: a decorator of functions, whose docstrings are the names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tests: list[Litmus] = []

    def __call__(self, function: Callable[[Scene], None]) -> Callable[[Scene], None]:
        """Collect a test."""
        self.add(str(function.__doc__).strip().rstrip("."), function)
        return function

    def needs_execution(self, function: Callable[[Scene], None]) -> Callable[[Scene], None]:
        """Collect a test that would wait for ever where nothing executes."""
        self.add(str(function.__doc__).strip().rstrip("."), function, True)
        return function

    def add(self, name: str, function: Callable[[Scene], None], needs_execution: bool = False) -> None:
        """Add a test under another name."""
        self.tests.append(Litmus(self.name, name, function, needs_execution))
