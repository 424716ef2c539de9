"""Changes to a program that clang refuses for what nvcc and hipcc take, or for the sake of its host's part.

Functions that say where they run in one declaration only get it in both. Code of the host that does not compile is left
out: no kernel comes of it. Lines stay where they are; columns change. What a kernel reaches of that is an error.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from forebay.compiler.assembly.statements import QUIET
from forebay.compiler.included import read_file

EXPRESSION = "name expression"  # the file that a name which is asked for is in, for clang
STATEMENTS = 4  # after this many rounds what is left out are the bodies of functions

BOTH = "__attribute__((host)) __attribute__((device)) "
MESSAGE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]*error|note): (?P<text>.*)$", re.MULTILINE
)
MISMATCH = re.compile(r"out-of-line definition of|cannot overload \S+( \S+)? function")
OTHER = re.compile(r"member declaration nearly matches|previous declaration is here")
CLASS = re.compile(r"\w+ defined here")
OVERRIDES = re.compile(r"marked '(override|final)' hides virtual .*'std::")
QUALIFIED = re.compile(r"(?:~?\w+\s*(?:<[^<>;{}]*>)?\s*::\s*)+$")
NO_FILE = re.compile(r"'([^']+)' file not found")
HEADER = "the header"
INCLUDE = re.compile(r"\s*#\s*include\s*<")


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

    `read` gives the text of another file that clang names, and None for one that is not to be changed; `look` what the
    preprocessor makes of the program's own files, with their macros.
    """

    def __init__(
        self, name: str, text: str, read: Callable[[str], str | None], look: Callable[[], str] = lambda: ""
    ) -> None:
        self.texts = {name: text}
        self.left_out: list[LeftOut] = []
        self._read = read
        self._look = look
        self._seen: str | None = None
        self.rounds = 0  # but for those that a header which is not there takes

    @property
    def told(self) -> list[str]:
        """What is left out, as warnings."""
        return [str(each) for each in self.left_out]

    def mend(self, log: str) -> set[str]:
        """Change files for the sake of what clang said; return which, and none when nothing is known to help."""
        errors = messages_of(log)
        # After a header that is not there clang has read nothing more.
        missing = [error for error in errors if NO_FILE.search(error.text)]
        self.rounds += not missing
        if REACHED.search(str(errors)):  # a kernel reaches what is left out
            return set()
        errors = missing or errors
        # A name that is asked for may be wrong; its message must not stand among those of what can be left out.
        errors = [error for error in errors if error.file != EXPRESSION] or errors
        before = dict(self.texts)
        for error in errors:
            for each in (error, *error.notes):
                if each.file not in self.texts and (text := self._read(each.file)) is not None:
                    self.texts[each.file] = text
        for error in errors:
            self._without_override(error)
        places = {place for error in errors for place in self._declarations(error)}
        for file, place in sorted(places, reverse=True):
            if not self.texts[file][:place].endswith(BOTH):
                self.texts[file] = self.texts[file][:place] + BOTH + self.texts[file][place:]
        if not self._changed(before):
            self._leave_out(errors, whole=self.rounds > STATEMENTS)
        if not self._changed(before):
            self._leave_out(errors, whole=True)
        return self._changed(before)

    def _without_override(self, error: Message) -> None:
        """Take out the word with which a class of the host overrides a function of the C++ library's, which is for both
        sides here."""
        found = OVERRIDES.search(" ".join([error.text, *(note.text for note in error.notes)]))
        text = self.texts.get(error.file, "")
        place = offset_of(text, error)
        if found and text.startswith(found[1], place):
            self.texts[error.file] = text[:place] + blanked(found[1]) + text[place + len(found[1]) :]

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
        places = [
            next((each for each in (error, *reversed(error.notes)) if each.file in self.texts), None)
            for error in errors
        ]
        for error, place in zip(errors, places, strict=True):
            if place is None:
                return  # in a header of clang's or of these, and nothing tells who asked for it
            text = self.texts[place.file]
            offset = offset_of(text, place)
            if place.file not in programs:
                macros = self._macros(error)
                there = [offset_of(text, each) for each in places if each and each.file == place.file]
                seen = self._seen or text
                programs[place.file] = Program(text, macros, kernel_names(seen), there, definitions_in(seen))
            program = programs[place.file]
            what = _without_header(program, text, offset, error)
            what = what or program.leave_out(offset, whole, len(self.left_out) + len(told))
            if not what:
                return
            line = frozenset(WORD.findall(text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]))
            words = line | {what.partition("class ")[2]}
            told.append(LeftOut(f"{place.file}:{place.line}:{place.column}", what, words, error.text))
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
        asked = all(error.file == EXPRESSION for error in errors)
        if not asked and known >= {(error.line, error.text) for error in errors}:
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
        return "\n".join([*([] if asked else [first]), text, *notes])

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
    if not found or not INCLUDE.match(text, start):
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


# -- a program as text
#
# Code of the host is taken out, a statement or a declaration at a time, where a compiler refuses it. Brackets are
# matched, no more: the compiler says afterwards whether what is left is a program. Lines stay.
#
# What is left out must not change what a kernel does: a name that is found elsewhere, or a template in place of its
# specialization, would. So something of the same name stays that only code of the host can use: of a function a call
# that is an error for devices (the compiler knows which functions kernels call), of a class its declaration, of a
# variable or a type one of an incomplete type. Where that cannot be, the names are `hidden`, for `reached_names` to say
# whether kernels have them.


DEVICE = re.compile(
    r"\b(?:__(?:device|global|constant|managed|shared|noinline)__|constexpr(?!\s*\()|consteval)\b"
    r"|\b__attribute__\s*\(\(\s*(?:__)?(?:device|global|shared)"
)
MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?(?:[^\n\\]|\\.)*?__(?:device|global)__", re.MULTILINE | re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|el|endif)(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
KEPT = re.compile(rf"{CONDITIONAL.pattern.replace('(if', '(?:if')}|\n", re.MULTILINE | re.DOTALL)
STOP = re.compile(r"[;({}\[]")
TRANSPARENT = re.compile(r"(?:\bnamespace\b[^()=;]*|\bextern\s*)$")
TYPE = re.compile(r"\s*(?:[A-Z_]{4,}\s+)?(?:typedef\s+)?(?:struct|class|union|enum)\b")  # also behind a macro
AFTER_PARAMETERS = re.compile(
    r"\)\s*(?:(?:const|noexcept|override|final|volatile|&&?)\s*)*(?:->[^;]*|:[^:].*)?\s*$", re.DOTALL
)
CONTROL = re.compile(
    r"\s*(?:(?:else\s+)?(?:if\s*(?:constexpr\s*)?|for\s*|while\s*|switch\s*|catch\s*)\(.*\)|(?:else|do|try)?)\s*",
    re.DOTALL,
)
LOOP_OR_CONDITION = re.compile(r"\s*(?:else\s+)?(if|for|while|switch|catch)\s*(?:constexpr\s*)?\(")
SPECIALIZATION = re.compile(r"\s*template\s*<\s*>")
TEMPLATE = re.compile(r"\s*template\s*<")
NO_NAME = re.compile(
    r"\s*(?:static_assert|using\s+namespace|template\s+|extern\s+template|friend|asm|__asm__|public|private|protected)\b"
)
BASES = re.compile(r"(?<!:):(?!:).*|\bfinal\b", re.DOTALL)
CALLED = re.compile(r"(\w+)\s*\(")
ANGLES = re.compile(r"<[^<>;]*>")
BRACKETS = re.compile(r"<[^<>;]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
ENUMERATOR = re.compile(r"(?:^|[{,])\s*(\w+)")
WORD = re.compile(r"[A-Za-z_]\w*")
MISSING = "__forebay_is_left_out"  # an incomplete type
INSTANCE = r"((?:::)?\w+(?:::\w+)*\s*<(?:[^<>;]|<[^<>;]*>)*>)"
NAMED = re.compile(rf"(?<![\w&:]){INSTANCE}")


class _Item(NamedTuple):
    start: int
    body: int  # where its braces begin; -1 if it has none
    end: int


class Program:
    """A program out of which code of the host is taken.

    `more` are macros that stand for words of the device, besides those that it defines itself; `kernels` the names of
    all kernels; `places` where something may be taken out: other branches of the preprocessor than theirs do not count;
    `definitions` the macros that stand for whole definitions.
    """

    def __init__(
        self, text: str, more: Sequence[str] = (), kernels: Set[str] = frozenset(), places: Sequence[int] = (),
        definitions: Set[str] = frozenset(),
    ) -> None:  # fmt: skip
        self._text = text
        self._kernels, self._definitions = kernels, definitions
        self.hidden: set[str] = set()  # what kernels must not have, because it was left out without a trace
        quiet = self._quiet = QUIET.sub(lambda found: blanked(found[0]), text)
        macros = [*MACRO.findall(quiet), *more]
        self._device = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in macros)]))
        self._bare = DIRECTIVE.sub(lambda found: blanked(found[0]), quiet)
        for start, end in other_branches(quiet, places):
            self._bare = self._bare[:start] + blanked(self._bare[start:end]) + self._bare[end:]
        self._cuts: dict[tuple[int, int], str] = {}

    def text(self) -> str:
        """Return what is left. Conditions of the preprocessor stay."""
        text, inner = self._text, -1
        for start, end in sorted(self._cuts, key=lambda cut: (cut[0], -cut[1])):
            if end <= inner:  # within another
                del self._cuts[start, end]
            inner = max(inner, end)
        for (start, end), instead in sorted(self._cuts.items(), reverse=True):
            kept = KEPT.findall(self._quiet, start, end)
            text = text[:start] + instead + "".join(kept) + text[end:]
        return text

    def blank(self, start: int, end: int) -> None:
        """Take out what is between two places."""
        self._cuts[start, end] = ""

    def leave_out(self, place: int, whole: bool = False, number: int = 0) -> str:
        """Take out the code of the host at a place, of a function a statement or the whole body.

        Returns what that is, and nothing if it is the device's. A compiler that finds a kernel reach it says `number`.
        """
        instead = f"::__forebay_left_out<{number}>()"
        item = self._at(place, 0, len(self._bare))
        if item is None:
            return ""
        while (found := CALLED.match(self._bare, item.start)) and found[1] in self._definitions:
            start = self._past_space(self._closing(found.end() - 1), item.end)  # it needs no semicolon
            if place < start:
                return ""
            item = item._replace(start=start)
        head = self._bare[item.start : item.body if item.body >= 0 else item.end]
        while item.body >= 0 and TYPE.match(without_template(head)) and self._device.search(self._whole(item)):
            inner = self._at(place, item.body + 1, item.end - 1)  # a member of a class that kernels may use
            member = self._bare[inner.start : inner.body if inner.body >= 0 else inner.end] if inner else ""
            if inner is None or not (TYPE.match(member) or is_function(member.rstrip("; "))):
                # The class would have another size. What uses it finds one that is not defined.
                self._cuts[item.start, item.end] = self._declared(item, place)
                return f"the class {WORD.findall(_bare(BASES.sub('', without_template(head))))[-1]}"
            item, head = inner, member
        if item.body < 0 or not is_function(head):
            if self._device.search(self._whole(item)):
                return ""
            self._cuts[item.start, item.end] = self._declared(item, place)
            return "a declaration of the host"
        if self._device.search(head) or self._is_in_device(place, item):
            return ""
        if place <= item.body:
            members = _initializers(head)
            if 0 <= members < place - item.start:
                self._cuts[item.start + members, item.end] = f"{{ {instead}; }}"
                return "the body of a function of the host"
            self._cuts[item.start, item.end] = ""
            if SPECIALIZATION.match(head):
                self.hidden |= {*CALLED.findall(_without(ANGLES, head))}
            return "a function of the host"
        if whole:
            self._cuts[item.body + 1, item.end - 1] = f"{self._instances(item.body, item.end)}{instead};"
            return "the body of a function of the host"
        self._statement(place, item.body + 1, item.end - 1, instead)
        return "a statement of the host"

    def _declared(self, item: _Item, place: int) -> str:
        """What stays of a declaration that is left out; `hidden` has the names of which nothing does."""
        whole = self._whole(item)
        head = self._bare[item.start : item.body if item.body >= 0 else item.end].rstrip("; \n")
        plain = without_template(head).lstrip()
        names = _names(plain)
        if TYPE.match(plain) and item.body >= 0:
            if re.match(r"(?:typedef\s+)?enum\b", plain):
                self.hidden |= {*names, *ENUMERATOR.findall(whole[len(head) :])}
                return ""
            return self._class_declared(item, head, plain, place)
        if (is_function(plain) and not SPECIALIZATION.match(head)) or NO_NAME.match(plain):
            return ""
        known = _bare(plain.partition("=")[0])
        if TEMPLATE.match(head) or MISSING in head or re.search(r"::\s*\w+\s*$", known):
            self.hidden |= {*names}
            return ""
        if re.match(r"using\b", plain):
            return f"typedef ::{MISSING} {names[0]};"
        if len(known.split(",")[0].split()) < 2:  # a macro, as it seems
            return ""
        return f"{'typedef' if known.startswith('typedef') else 'extern'} ::{MISSING} {', '.join(names)};"

    def _class_declared(self, item: _Item, head: str, plain: str, place: int) -> str:
        """The declaration of a class without its members and bases, and of what is declared with it."""
        bases = BASES.search(head)
        words = WORD.findall(_bare(BASES.sub("", plain)))
        is_typedef = words[0] == "typedef"
        stays = f"{BASES.sub('', head).removeprefix('typedef').strip()};" if len(words) > 1 + is_typedef else ""
        if place < item.body and not (bases and bases.start() < place - item.start):
            stays = ""  # it is not known what class this is
            self.hidden |= {*words[-1:]} if TEMPLATE.match(head) else set()
        names = _names(self._bare[self._closing(item.body) : item.end].rstrip("; "))
        return f"{stays} {'typedef' if is_typedef else 'extern'} ::{MISSING} {', '.join(names)};" if names else stays

    def _is_in_device(self, place: int, item: _Item) -> bool:
        """Whether a place is in a function of the device within one of the host, such as a lambda."""
        for found in re.compile(r"{").finditer(self._bare, item.body + 1, place):
            if self._closing(found.start()) > place:
                begin = max(self._bare.rfind(sign, item.body, found.start()) for sign in ";{}")
                if self._device.search(self._bare[begin : found.start()]):
                    return True
        return False

    def declarations(self) -> Iterator[tuple[str, str, bool]]:
        """What stands before the body, the whole, and whether it is the device's, of all that kernels may name.

        That is all but functions of the host. One that is no specialization, nor defined outside of its class, is none
        of theirs.
        """
        yield from self._declarations(0, len(self._bare))

    def _declarations(self, start: int, end: int) -> Iterator[tuple[str, str, bool]]:
        for item in self._items(start, end):
            whole = self._whole(item)
            head = self._bare[item.start : item.body if item.body >= 0 else item.end]
            if is_function(head) and item.body >= 0:
                is_device = bool(self._device.search(head))
                if is_device or SPECIALIZATION.match(head) or re.search(r"::\s*~?\w+\s*\(", head):
                    yield head, whole, is_device
            elif item.body >= 0 and TYPE.match(without_template(head)):
                members = [head] + [
                    each for _, each, _ in self._declarations(item.body + 1, self._closing(item.body) - 1)
                ]
                yield head, "\n".join(members), bool(self._device.search(whole))
            else:
                yield head.partition("=")[0], whole, bool(self._device.search(whole))

    def _whole(self, item: _Item) -> str:
        return self._bare[item.start : item.end]

    def _at(self, place: int, start: int, end: int) -> _Item | None:
        return next((each for each in self._items(start, end) if each.start <= place < each.end), None)

    def _items(self, start: int, end: int) -> Iterator[_Item]:
        """The declarations, or members of a class, between two places; namespaces are looked into."""
        at = start = self._past_space(start, end)
        body = -1
        while found := STOP.search(self._bare, at, end):
            sign, at = found[0], found.end()
            head = self._bare[start : found.start()]
            if sign in "([":
                at = min(self._closing(at - 1), end)
                continue
            if sign == "{" and not TRANSPARENT.search(head):
                body = found.start() if body < 0 else body
                at = min(self._closing(at - 1), end)
                if not is_function(head):
                    continue
            if sign == ";" or (sign == "{" and body >= 0):
                yield _Item(start, body, at)
            start, body = self._past_space(at, end), -1
        if start < end:
            yield _Item(start, body, end)

    def _statement(self, place: int, start: int, end: int, instead: str) -> None:
        """Take out the innermost statement at a place."""
        at = start = self._past_space(start, end)
        while found := STOP.search(self._bare, at, end):
            sign, at = found[0], found.end()
            if sign in "([":
                at = min(self._closing(at - 1), end)
                if at > place and LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end()):
                    word = LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end())[1]  # type: ignore[index]
                    self._cuts[found.end(), at - 1] = {"for": f";{instead};", "catch": "..."}.get(word, instead)
                    return
                if LOOP_OR_CONDITION.fullmatch(self._bare, start, found.end()):
                    start = self._past_space(at, end)
                continue
            if sign == "{":
                inner, at = at, min(self._closing(at - 1), end)
                if not CONTROL.fullmatch(self._bare[start : inner - 1]):
                    continue  # a lambda, or an initializer
                if place < at:
                    self._statement(place, inner, at - 1, instead)
                    return
            elif place < at:
                break
            start = at = self._past_space(at, end)
        else:
            at = end
        self._cuts[start, at] = f"{self._instances(start, at)}{instead};"

    def _instances(self, start: int, end: int) -> str:
        """The instances of kernels that a statement names, launched or handed on, which are still wanted."""
        found = dict.fromkeys(instances(self._text[start:end], self._kernels))
        return "".join(f"(void)&{' '.join(name.split())};" for name in found)

    def _past_space(self, at: int, end: int) -> int:
        while at < end and self._bare[at].isspace():
            at += 1
        return at

    def _closing(self, start: int) -> int:
        depth = 0
        for found in re.compile(r"[()\[\]{}]").finditer(self._bare, start):
            depth += 1 if found[0] in "([{" else -1
            if not depth:
                return found.end()
        return len(self._bare)


def blanked(text: str) -> str:
    """Return as many spaces, on the same lines."""
    return re.sub(r"[^\n]", " ", text)


def other_branches(text: str, places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The branches of the preprocessor's conditions that are not compiled where another of them has a place.

    Where none has one, and one of them opens a brace that is closed behind all, the first counts.
    """
    chains: list[list[int]] = []
    for found in CONDITIONAL.finditer(text):
        if found[1] == "if":
            chains.append([])
        if chains:
            chains[-1].append(found.start())
        if found[1] == "endif" and chains:
            branches = [*itertools.pairwise(chains.pop())]
            has_place = [any(start < place < end for place in places) for start, end in branches]
            if not any(has_place) and any(text.count("{", *each) != text.count("}", *each) for each in branches):
                has_place[0] = True
            if any(has_place):
                yield from (each for each, is_there in zip(branches, has_place, strict=True) if not is_there)


def without_template(head: str) -> str:
    """Return a declaration without the ``template <…>`` that it begins with."""
    while found := re.match(r"\s*template\s*<", head):
        depth, at = 1, found.end()
        while at < len(head) and depth:
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
        head = head[at:]
    return head


def _bare(head: str) -> str:
    """A declaration without what is in brackets."""
    return _without(BRACKETS, head).partition("(")[0]


def _without(pattern: re.Pattern[str], head: str) -> str:
    """A text without what matches, also not after that is gone."""
    plain = ""
    while plain != head:
        plain, head = head, pattern.sub(" ", head)
    return plain


def _names(declaration: str) -> list[str]:
    """The names that a declaration of variables or types declares, by what stands last before each comma."""
    found = [WORD.findall(part) for part in re.sub(r"=[^,]*", " ", _bare(declaration)).split(",")]
    return [words[-1] for words in found if words]


def _initializers(head: str) -> int:
    """Where the initializers of a constructor's members begin in what comes before its body; -1 without any."""
    depth = 0
    for found in re.compile(r"[()\[\]{}]|(?<=[)\w\s])(?<!:):(?!:)").finditer(head):
        if found[0] == ":":
            if not depth and ")" in head[: found.start()]:
                return found.start()
        else:
            depth += 1 if found[0] in "([{" else -1
    return -1


def is_function(head: str) -> bool:
    """Whether what comes before a brace declares a function."""
    plain = re.sub(r"\boperator\s*(?:\(\)|[^\s\w(]+)|[=!<>]=", "operator", without_template(head))
    return "=" not in plain.split("(")[0] and bool(AFTER_PARAMETERS.search(plain))


# -- which names kernels may have, by the text of a preprocessed program, and which macros are words of the device
#
# More than they have: it is what must not be left out without a trace.


DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?(.*)$", re.MULTILINE)
CONSTANT = re.compile(r"\bconst(?:expr|eval)\b")
STATEMENT = re.compile(r"[;{}]")
GLOBAL = re.compile(r"\b__global__\b|\b__attribute__\s*\(\(\s*(?:__)?global")
GLOBAL_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(\s*(?:__)?global(?:__)?\s*\)\)")
BALANCED = functools.reduce(lambda inner, _: rf"\((?:[^()]|{inner})*\)", range(4), r"\([^()]*\)")
ATTRIBUTE = re.compile(rf"\b__(?:attribute|launch_bounds)__\s*{BALANCED}")
KERNEL = re.compile(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(")
MARKER = re.compile(r'^# \d+ "((?:[^"\\\n]|\\.)*)"[ \d]*\n', re.MULTILINE)
KEYWORDS = frozenset(WORD.findall("""
    alignas auto bool break case catch char class const constexpr continue decltype default delete do
    double else enum explicit extern false float for friend goto if inline int long mutable namespace
    new noexcept nullptr operator private protected public register return short signed sizeof static
    struct switch template this throw true try typedef typename union unsigned using virtual void
    volatile while __attribute__ device host global shared
"""))  # fmt: skip


class _Declared(NamedTuple):
    head: frozenset[str]
    words: frozenset[str]
    is_root: bool


def own_text(preprocessed: str, is_own: Callable[[str], bool]) -> str:
    """Return what comes of the files that are the program's own, with their ``#define``."""
    parts = MARKER.split(preprocessed)
    return parts[0] + "".join(text for file, text in zip(parts[1::2], parts[2::2], strict=True) if is_own(file))


def device_macros(text: str) -> list[str]:
    """Return the macros that stand for words of the device, also through others."""
    # A constant in what a macro does says nothing of where it runs.
    bodies = [(name, CONSTANT.sub("", body) if STATEMENT.search(body) else body) for name, body in DEFINE.findall(text)]
    found: list[str] = []
    pattern = DEVICE
    while True:
        more = [name for name, body in bodies if name not in found and pattern.search(body)]
        if not more:
            return found
        found += dict.fromkeys(more)
        pattern = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in found)]))


def definitions_in(text: str) -> set[str]:
    """Return the macros that stand for whole definitions."""
    return {name for name, body in DEFINE.findall(text) if body.rstrip().endswith(("}", ";"))}


def kernel_names(text: str) -> set[str]:
    """Return the names of the kernels that a program defines or declares."""
    return {*KERNEL.findall(ATTRIBUTE.sub("", GLOBAL_ATTRIBUTE.sub("__global__", text)))}


def instances(text: str, kernels: Set[str]) -> Iterator[str]:
    """The instances of kernels that are templates, as a text names them."""
    for name in NAMED.findall(text):
        if name.partition("<")[0].rpartition(":")[2].strip() in kernels:
            yield name


def reached_names(text: str) -> set[str]:
    """Return the names in kernels, in launches and in variables of the device, and in what these name of the rest."""
    declared = _declared(Program(text))
    reached = {word for name in instances(text, kernel_names(text)) for word in WORD.findall(name)}
    while True:
        now = [each for each in declared if each.is_root or each.head & reached]
        if not now:
            return reached
        reached = reached.union(*(each.words for each in now)) - KEYWORDS
        declared = [each for each in declared if each not in now]


def _declared(program: Program) -> list[_Declared]:
    found = []
    for head, whole, is_device in program.declarations():
        function, is_class = is_function(head), TYPE.match(without_template(head))
        plain = head.partition("(")[0] if function else BASES.sub("", without_template(head))
        is_root = bool(GLOBAL.search(head)) or (is_device and not function and not is_class)
        names = frozenset(WORD.findall(plain)) - KEYWORDS
        found.append(_Declared(names, frozenset(WORD.findall(whole)), is_root))
    return found


# -- constants of a program that are computed from others, or by ``make_float4`` and its like, as clang takes them


TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|(?P<open>(?:(?P<scope>\b(?:namespace(?:\s+[\w:]+)?|extern\s*"C(?:\+\+)?"))|(?P<value>=))?\s*\{)|(?P<close>\})"""
    r"""|\b(?P<const>const)(?=\s+(?:static\s+)?(?:float|double)\s+\w+\s*=)"""
    r"""|\b(?:float|double)\s+(?P<later>const)(?=\s+\w+\s*=)"""
    r"""|\b(?P<call>make_(?P<type>u?(?:char|short|int|long|longlong|float|double)[1-4])\s*\()|(?P<argument>\()|(?P<end>\))""",
    re.DOTALL,
)
NAMESPACE, VALUE, BODY = "namespace", "value", "body"


def with_constant_expressions(text: str) -> str:
    """Return the program with what is initialized outside of functions and classes as constant expressions.

    Floating-point constants become ``constexpr``: one that is computed from another is no constant expression in C++,
    and clang and gcc compute it nevertheless. ``make_float4(…)`` becomes ``float4{…}``.
    """
    made: list[str] = []
    done = 0
    scopes: list[str] = []  # of the open braces
    calls: list[bool] = []  # of the open parentheses: whether they became braces

    def put(begin: int, end: int, words: str) -> None:
        nonlocal done
        made.extend([text[done:begin], words])
        done = end

    for found in TOKEN.finditer(text):
        outside = BODY not in scopes
        if found["open"]:
            inside = scopes[-1:] == [VALUE]
            scopes.append(NAMESPACE if found["scope"] else VALUE if found["value"] or inside else BODY)
        elif found["close"] and scopes:
            scopes.pop()
        elif found["call"] or found["argument"]:
            calls.append(bool(found["call"]) and outside)
            if calls[-1]:
                put(*found.span(), found["type"] + "{")
        elif found["end"] and calls:
            if calls.pop():
                put(*found.span(), "}")
        elif outside and (word := "const" if found["const"] else "later" if found["later"] else ""):
            put(*found.span(word), "constexpr")
    return "".join([*made, text[done:]])
