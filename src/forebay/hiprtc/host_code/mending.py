"""Changes to a program that clang refuses for what nvcc and hipcc take, or for the sake of its host's part.

Functions that say where they run in one declaration only get it in both. Code of the host that does not compile is left
out: no kernel comes of it. Lines stay where they are; columns change. What a kernel reaches of that is an error.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forebay.hiprtc.host_code.program import MISSING, WORD, Program
from forebay.hiprtc.host_code.reach import device_macros, reached_names
from forebay.queues.kernels.program import read_file

__all__ = ["Mending", "Message", "messages_of"]

STATEMENTS = 4  # after so many rounds what is left out are the bodies of functions

BOTH = "__attribute__((host)) __attribute__((device)) "
MESSAGE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]*error|note): (?P<text>.*)$", re.MULTILINE
)
MISMATCH = re.compile(r"out-of-line definition of|cannot overload \S+( \S+)? function")
OTHER = re.compile(r"member declaration nearly matches|previous declaration is here")
CLASS = re.compile(r"\w+ defined here")
QUALIFIED = re.compile(r"(?:~?\w+\s*(?:<[^<>;{}]*>)?\s*::\s*)+$")
NO_FILE = re.compile(r"'([^']+)' file not found")
HEADER = "the header"
ANGLES = re.compile(r"\s*#\s*include\s*<")


REACHED = re.compile(r"__forebay_left_out<(\d+)>")
IN_FUNCTION = re.compile(r"' in .*function ('.*')")
CALLED_BY = re.compile(r"called by")


@dataclass(frozen=True)
class LeftOut:
    """What was left out: its place, what it is, the words of its text, and why clang refused it."""

    place: str
    what: str
    words: frozenset[str]
    why: str

    def __str__(self) -> str:
        return f"{self.place}: warning: {self.what} is left out: {self.why}"


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


class Mending:
    """The files of a program, and what is changed in them while clang refuses it.

    Parameters
    ----------
    name
        What clang calls the program.
    text
        The program.
    read
        Gives the text of another file that clang names; None for one that is not to be changed.
    look
        Gives what the preprocessor makes of the program's own files, with their macros.
    """

    def __init__(
        self, name: str, text: str, read: Callable[[str], str | None], look: Callable[[], str] = lambda: ""
    ) -> None:
        self.texts = {name: text}
        self.left_out: list[LeftOut] = []
        self._read = read
        self._look = look
        self._seen: str | None = None
        self._rounds = 0

    @property
    def told(self) -> list[str]:
        """What is left out, as warnings."""
        return [str(each) for each in self.left_out]

    def mend(self, log: str) -> set[str]:
        """Change files for the sake of what clang said; return which, and none when nothing is known to help."""
        self._rounds += 1
        errors = messages_of(log)
        if REACHED.search(str(errors)):  # a kernel reaches what is left out
            return set()
        # After a header that is not there clang has read nothing more.
        errors = [error for error in errors if NO_FILE.search(error.text)] or errors
        before = dict(self.texts)
        for error in errors:
            for each in (error, *error.notes):
                if each.file not in self.texts and (text := self._read(each.file)) is not None:
                    self.texts[each.file] = text
        places = {place for error in errors for place in self._declarations(error)}
        for file, place in sorted(places, reverse=True):
            if not self.texts[file][:place].endswith(BOTH):
                self.texts[file] = self.texts[file][:place] + BOTH + self.texts[file][place:]
        if not self._changed(before):
            self._leave_out(errors, whole=self._rounds > STATEMENTS)
        if not self._changed(before):
            self._leave_out(errors, whole=True)
        return self._changed(before)

    def _changed(self, before: Mapping[str, str]) -> set[str]:
        return {file for file, text in self.texts.items() if text != before.get(file, self._original(file))}

    def _original(self, file: str) -> str | None:
        with contextlib.suppress(OSError):
            return read_file(file).decode(errors="surrogateescape")
        return None

    def _leave_out(self, errors: Sequence[Message], whole: bool) -> None:
        """Take out the code of the host that errors are in, or `whole` bodies; nothing if one of them is not there."""
        programs: dict[str, Program] = {}
        told: list[LeftOut] = []
        for error in errors:
            place = next((each for each in (error, *reversed(error.notes)) if each.file in self.texts), None)
            if place is None:
                return  # in a header of clang's or of these, and nothing tells who asked for it
            text = self.texts[place.file]
            program = programs.get(place.file)
            offset = offset_of(text, place)
            program = program or programs.setdefault(place.file, Program(text, self._macros(error)))
            what = _without_header(program, text, offset, error)
            what = what or program.leave_out(offset, whole, len(self.left_out) + len(told))
            if not what:
                return
            line = frozenset(WORD.findall(text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]))
            told.append(LeftOut(f"{place.file}:{place.line}:{place.column}", what, line, error.text))
        hidden = set().union(*(program.hidden for program in programs.values()))
        if hidden and hidden & reached_names(self._seen or ""):
            return  # another thing of this name would take its place
        self.left_out += told
        self.texts |= {file: program.text() for file, program in programs.items()}

    def _macros(self, error: Message) -> list[str]:
        """The macros of headers that stand for words of the device."""
        if NO_FILE.search(error.text):
            return []
        if self._seen is None:
            self._seen = self._look()
        return device_macros(self._seen)

    def explained(self, first: str, last: str) -> str:
        """Return the log of a program that is refused: what clang said first and last, and what explains that."""
        errors = messages_of(last)
        reached = [(error, found) for error in errors if (found := REACHED.search(str(error)))]
        if reached:
            told = [self._reached(error, self.left_out[int(found[1])]) for error, found in reached]
            return "\n".join(dict.fromkeys(told))
        known = {(error.line, error.text) for error in messages_of(first)}
        if known >= {(error.line, error.text) for error in errors}:
            return first
        words = {word for error in errors for each in (error, *error.notes) for word in WORD.findall(each.text)}
        notes = [
            f"{each.place}: note: {each.what} was not found, and is left out"
            if each.what.startswith(HEADER)
            else f"{each.place}: note: {each.what} is left out: {each.why}"
            for each in self.left_out
            if each.what.startswith(HEADER) or each.words & words
        ]
        lines = [line for line in last.splitlines() if "__forebay" not in line or "error: " in line]
        text = "\n".join(lines).replace(f"struct {MISSING}", MISSING).replace(MISSING, "a type that is left out")
        return "\n".join([first, text, *notes])

    @staticmethod
    def _reached(error: Message, what: LeftOut) -> str:
        function = IN_FUNCTION.search(error.text)
        callers = [f"{each.file}:{each.line}:{each.column}: note: {each.text}" for each in error.notes]
        where = f"in {function[1]}, which kernels reach" if function else "which kernels reach"
        notes = [each for each in callers if CALLED_BY.search(each)]
        return "\n".join([f"{what.place}: error: {what.why} ({where})", *notes])

    def _declarations(self, error: Message) -> Iterator[tuple[str, int]]:
        """Where the two declarations begin of a function that says in one only where it runs."""
        if error.file not in self.texts or not MISMATCH.search(error.text):
            return
        text = self.texts[error.file]
        place = offset_of(text, error)
        others = [each for each in error.notes if OTHER.match(each.text)][:1]
        classes = [] if others else [each for each in error.notes if CLASS.match(each.text)][:1]
        found = [(each.file, offset_of(self.texts[each.file], each)) for each in others if each.file in self.texts]
        for each in classes:
            whole = self.texts.get(each.file, "")
            found += [(each.file, member) for member in _members(whole, offset_of(whole, each), text[place:])]
        if found:
            yield from found
            qualified = QUALIFIED.search(text[max(place - 400, 0) : place])
            yield error.file, place - (len(qualified[0]) if qualified else 0)


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
    return f"{HEADER} {found[1]}"


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
