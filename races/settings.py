"""Whether races are looked for: by the program, or by the environment."""

from __future__ import annotations

import atexit
import os
import sys

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.races import reports

VARIABLE = "FOREBAY_CHECK"
SUMMARY = "FOREBAY_CHECK_SUMMARY"  # a file for `forebay check`, to which each process adds its numbers
WORDS = {"": (False, False), "races": (True, False), "races,error": (True, True)}

_process = 0


def read_check(given: str | None) -> tuple[bool, bool]:
    """Return whether to look for races, and whether to raise at one.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
    """
    source = "Device: check" if given is not None else VARIABLE
    value = os.environ.get(VARIABLE, "") if given is None else given
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{source} is a str, not {type(value).__name__}")
    try:
        return WORDS[value]
    except KeyError:
        words = ", ".join(repr(word) for word in WORDS)
        raise InvalidArgumentError(f"{source} is one of {words}, not {value!r}") from None


def begin_summary() -> None:
    """Print a summary when this process ends, if `forebay check` runs it."""
    global _process
    if _process == os.getpid() or not os.environ.get(SUMMARY):
        return
    _process = os.getpid()
    atexit.register(_end, _process)


def _end(process: int) -> None:
    if os.getpid() != process:
        return
    races = reports.everything_found()
    certain = [race for race in races if race.certain]
    print(f"forebay: process {process}: {summary(races)}", file=sys.stderr)
    for race in races:
        if not race.certain:  # the others were told when they were found
            print(race, file=sys.stderr)
    try:
        with open(os.environ[SUMMARY], "a", encoding="utf-8") as file:
            file.write(f"{len(certain)} {len(races) - len(certain)}\n")
    except OSError as error:
        print(f"forebay: {os.environ[SUMMARY]}: {error.strerror}", file=sys.stderr)


def summary(races: list[reports.Race]) -> str:
    """Return how many there are, in words."""
    certain = sum(race.certain for race in races)
    possible = len(races) - certain
    return f"{certain} race{'s' * (certain != 1)}, {possible} possible"
