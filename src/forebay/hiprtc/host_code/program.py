"""Takes code of the host out of a program, a statement or a declaration at a time, where a compiler refuses it.

Brackets are matched, no more: the compiler says afterwards whether what is left is a program. Lines stay.

What is left out must not change what a kernel does: a name that is found elsewhere, or a template in place of its
specialization, would. So something of the same name stays that only code of the host can use: of a function a call that
is an error for devices (the compiler knows which functions kernels call), of a class its declaration, of a variable or
a type one of an incomplete type. Where that cannot be, the names are `hidden`, for `reach` to say whether kernels have
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from forebay.hiprtc.assembly.statements import QUIET

__all__ = [
    "BASES",
    "DEVICE",
    "LAUNCHED",
    "LAUNCHED_BY_MACRO",
    "MISSING",
    "TYPE",
    "WORD",
    "Program",
    "is_function",
    "without_template",
]

DEVICE = re.compile(
    r"\b(?:__(?:device|global|constant|managed|shared|noinline)__|constexpr|consteval)\b"
    r"|\b__attribute__\s*\(\(\s*(?:__)?(?:device|global|shared)"
)
MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?(?:[^\n\\]|\\.)*?__(?:device|global)__", re.MULTILINE | re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
STOP = re.compile(r"[;({}\[]")
TRANSPARENT = re.compile(r"(?:\bnamespace\b[^()=;]*|\bextern\s*)$")
TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b")
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
LAUNCHED = re.compile(rf"{INSTANCE}\s*\)?\s*<<<")
LAUNCHED_BY_MACRO = re.compile(rf"hipLaunchKernel(?:GGL)?\s*\(\s*(?:HIP_KERNEL_NAME\s*)?\(?\s*{INSTANCE}")


class _Item(NamedTuple):
    start: int
    body: int  # where its braces begin; -1 if it has none
    end: int


class Program:
    """A program out of which code of the host is taken.

    Parameters
    ----------
    text : str
        The program.
    more : sequence of str
        Macros that stand for words of the device, besides those that it defines itself.

    Attributes
    ----------
    hidden : set of str
        What kernels must not have, because it was left out without a trace.
    """

    def __init__(self, text: str, more: Sequence[str] = ()) -> None:
        self._text = text
        self.hidden: set[str] = set()
        quiet = QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        macros = [*MACRO.findall(quiet), *more]
        self._device = re.compile("|".join([DEVICE.pattern, *(rf"\b{name}\b" for name in macros)]))
        self._bare = DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), quiet)
        self._cuts: dict[tuple[int, int], str] = {}

    def text(self) -> str:
        """Return what is left."""
        text, inner = self._text, -1
        for start, end in sorted(self._cuts, key=lambda cut: (cut[0], -cut[1])):
            if end <= inner:  # within another
                del self._cuts[start, end]
            inner = max(inner, end)
        for (start, end), instead in sorted(self._cuts.items(), reverse=True):
            text = text[:start] + instead + "\n" * text.count("\n", start, end) + text[end:]
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
        head = self._bare[item.start : item.body if item.body >= 0 else item.end]
        while item.body >= 0 and TYPE.match(without_template(head)) and self._device.search(self._whole(item)):
            inner = self._at(place, item.body + 1, item.end - 1)  # a member of a class that kernels may use
            if inner is None:
                return ""
            item = inner
            head = self._bare[item.start : item.body if item.body >= 0 else item.end]
            if not TYPE.match(head) and not is_function(head.rstrip("; ")):
                return ""  # without it the class has another size
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
        """The instances of kernels that a statement launches, which are still wanted."""
        text = self._text[start:end]
        found = [*LAUNCHED.findall(text), *LAUNCHED_BY_MACRO.findall(text)]
        return "".join(f"(void)&{' '.join(name.split())};" for name in dict.fromkeys(found))

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
