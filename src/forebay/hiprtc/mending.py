"""Changes to a program that clang refuses for what nvcc and hipcc take, or for the sake of its host's part.

Functions that say where they run in one declaration only get it in both. Code of the host that does not compile is left
out: no kernel comes of it. Lines stay where they are; columns change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from forebay.hiprtc.host_code import Program

__all__ = ["Message", "both_logs", "mended", "messages_of"]

BOTH = "__attribute__((host)) __attribute__((device)) "
MESSAGE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]*error|note): (?P<text>.*)$", re.MULTILINE
)
MISMATCH = re.compile(r"out-of-line definition of|cannot overload \S+( \S+)? function")
OTHER = re.compile(r"member declaration nearly matches|previous declaration is here")
CLASS = re.compile(r"\w+ defined here")
QUALIFIED = re.compile(r"(?:~?\w+\s*(?:<[^<>;{}]*>)?\s*::\s*)+$")
NO_FILE = re.compile(r"'([^']+)' file not found")
ANGLES = re.compile(r"\s*#\s*include\s*<")


@dataclass
class Message:
    """An error, or a note that belongs to one."""

    file: str
    line: int
    column: int
    text: str
    notes: list[Message] = field(default_factory=list)


def messages_of(log: str) -> list[Message]:
    """Return the errors of clang's log, with their notes."""
    errors: list[Message] = []
    for found in MESSAGE.finditer(log):
        each = Message(found["file"], int(found["line"]), int(found["column"]), found["text"])
        if found["kind"] != "note":
            errors.append(each)
        elif errors:
            errors[-1].notes.append(each)
    return errors


def mended(text: str, name: str, log: str) -> tuple[str, list[str]] | None:
    """Return a changed program, and warnings that say what was left out; None when nothing is known to help.

    Parameters
    ----------
    text
        The program.
    name
        What clang calls it.
    log
        What clang said of it.
    """
    errors = messages_of(log)
    places = sorted({place for error in errors for place in _declarations(text, name, error)}, reverse=True)
    changed = text
    for place in places:
        if not changed[:place].endswith(BOTH):
            changed = changed[:place] + BOTH + changed[place:]
    if changed != text:
        return changed, []
    program = Program(text)
    told = []
    for error in errors:
        place = next((each for each in (error, *reversed(error.notes)) if each.file == name), None)
        if place is None:
            return None  # in a header, and nothing tells who asked for it
        offset = offset_of(text, place)
        what = _without_header(program, text, offset, error) or program.leave_out(offset)
        if not what:
            return None
        told.append(f"{name}:{place.line}:{place.column}: warning: {what} is left out: {error.text}")
    return (program.text(), told) if told else None


def both_logs(first: str, last: str) -> str:
    """Return the log of a program that is refused, with what clang says after the last change if that is news."""
    told = {(error.line, error.text) for error in messages_of(first)}
    return first if told >= {(error.line, error.text) for error in messages_of(last)} else f"{first}\n{last}"


def offset_of(text: str, place: Message) -> int:
    """Return where in the text a message is; clang counts bytes."""
    lines = text.split("\n")
    if place.line > len(lines):
        return len(text)
    before = lines[place.line - 1].encode(errors="surrogateescape")[: place.column - 1].decode(errors="ignore")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + len(before)


def _without_header(program: Program, text: str, offset: int, error: Message) -> str:
    """Leave out an include of a library that is not there; a program's own header, in quotes, is missed."""
    found = NO_FILE.search(error.text)
    start = text.rfind("\n", 0, offset) + 1
    if not found or not ANGLES.match(text, start):
        return ""
    program.blank(start, (text + "\n").find("\n", start))
    return f"the header {found[1]}"


def _declarations(text: str, name: str, error: Message) -> Iterator[int]:
    """Where the two declarations begin of a function that says in one only where it runs."""
    if error.file != name or not MISMATCH.search(error.text):
        return
    place = offset_of(text, error)
    others = [each for each in error.notes if OTHER.match(each.text)]
    if others:
        found = [offset_of(text, others[0])] if others[0].file == name else []
    else:
        classes: Sequence[Message] = [each for each in error.notes if CLASS.match(each.text) and each.file == name]
        found = list(_members(text, offset_of(text, classes[0]), text[place:])) if classes else []
    if found:
        yield from found
        qualified = QUALIFIED.search(text[max(place - 400, 0) : place])
        yield place - (len(qualified[0]) if qualified else 0)


def _members(text: str, start: int, rest: str) -> Iterator[int]:
    """The declarations of a member in the class whose name is at this place."""
    name = re.match(r"~?\w+", rest)
    begin = text.find("{", start)
    if not name or begin < 0:
        return
    depth, end = 0, begin
    for end in range(begin, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if not depth:
            break
    for found in re.compile(rf"(?<![\w.>]){re.escape(name[0])}(?=\s*\()").finditer(text, begin, end):
        yield found.start()
