"""Calls through pointers to functions, and of virtual functions, for devices that have neither.

A pointer to a function becomes a number, and a call through one chooses among the functions of its type whose address
the program takes. The numbers hold for the whole program, so that a pointer may be kept in a variable of the device, be
read by the host and come back as an argument. Vtables are constants with such numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from forebay.hiprtc.llvm.signatures import QUOTED, SYMBOL

__all__ = ["are_given", "are_refused", "result_of", "with_direct_calls"]

REFUSED = re.compile(r"indirect call|function pointer", re.IGNORECASE)

LOCAL = rf"%(?:{QUOTED}|[-\w$.]+)"
DEFINED = re.compile(rf"^(define [^@\n]*\bspir_func [^@\n]*|declare [^@\n]*)@({SYMBOL})(?=\()", re.M)
# A name that is not called here: neither `@f(` nor what a line of the module begins with.
TAKEN = re.compile(rf"(?:addrspacecast \(ptr @({SYMBOL}) to (ptr addrspace\(\d+\))\)|@({SYMBOL}))(?![-\w$.(])")
# Neither the functions' heads, nor other names for them, nor metadata.
LINE = re.compile(r"^(?!define |declare |@llvm\.|@[^\n]* = [^\n]*\balias |!|attributes |\$)(@[^=\n]* = )?(.*)$", re.M)
CALL = re.compile(rf"^(  (?:{LOCAL} = )?(?:(?:tail|musttail|notail) )?call )([^@\n]*?)({LOCAL})(?=\()", re.M)
SPACE = re.compile(r"\baddrspace\((\d+)\) ")
# A pointer without an address space is one to a function, or what `byval` passes.
GIVEN = re.compile(rf"^define [^@\n]*\bspir_kernel [^@\n]*@{SYMBOL}\((?:[^\n]*[,(] ?)?ptr (?!addrspace)(?!byval)", re.M)
KERNEL = re.compile(rf"^(define [^@\n]*\bspir_kernel [^@\n]*@{SYMBOL})(\(.*\{{\n(?:[-\w$.]+:.*\n)?)", re.M)
PLAIN_POINTER = re.compile(rf"ptr (?!addrspace)(?!.*\bbyval\()[^,]*?({LOCAL})$")
BY_MEMORY = re.compile(r"\b(?:sret|byval)\(")
TOKEN = re.compile(rf"{QUOTED}|[()\[\]{{}}<>,]|[^\"()\[\]{{}}<>,]+")
OPENING, CLOSING = "([{<", ")]}>"


def are_refused(log: str) -> bool:
    """Whether the back end refused a module because of pointers to functions."""
    return REFUSED.search(log) is not None


def are_given(module: str) -> bool:
    """Whether a kernel has a parameter that is a pointer to a function."""
    return GIVEN.search(module) is not None


def with_direct_calls(module: str) -> str:
    """Return LLVM's text without pointers to functions.

    A call through a pointer that no function of its type was made into does what C++ leaves undefined.
    """
    heads = {match[2]: (match[1], _inside(module, match.end())) for match in DEFINED.finditer(module)}
    numbers: dict[str, int] = {}

    def number(symbol: str) -> int:
        return numbers.setdefault(symbol, len(numbers) + 1)

    def replaced(match: re.Match[str]) -> str:
        symbol = match[1] or match[3]
        if symbol not in heads:
            return match[0]
        return f"inttoptr (i64 {number(symbol)} to {match[2] or 'ptr'})"

    module = LINE.sub(lambda line: (line[1] or "") + TAKEN.sub(replaced, line[2]), module)
    by_type: dict[str, list[str]] = {}
    for symbol in numbers:
        head, parameters = heads[symbol]
        if head.startswith("define"):
            by_type.setdefault(_type_of(head, parameters), []).append(symbol)
    choosers: dict[str, str] = {}

    def direct(match: re.Match[str]) -> str:
        if " asm " in f" {match[2]}":
            return match[0]
        found = SPACE.search(match[2])
        pointer = f"ptr addrspace({found[1]})" if found and found[1] != "0" else "ptr"
        result = SPACE.sub("", match[2], count=1) if found else match[2]
        arguments = _inside(module, match.end())
        kind = _type_of(result, arguments)
        name = f"__forebay_call_{len(choosers)}"
        name = choosers.setdefault(f"{pointer} {kind}", name)
        comma = ", " if arguments.strip() else ""
        return f"{match[1]}{result}@{name}({pointer} {match[3]}{comma}\0"

    # What follows the name begins with its bracket, which the replacement has already.
    module = CALL.sub(direct, module).replace("\0(", "")
    made = [_chooser(name, key, by_type, numbers) for key, name in choosers.items()]
    return KERNEL.sub(_with_number, module) + "\n" + "\n".join(made)


def _chooser(name: str, key: str, by_type: dict[str, list[str]], numbers: dict[str, int]) -> str:
    """A function that calls the one that its first argument is the number of."""
    pointer, kind = re.fullmatch(r"(ptr(?: addrspace\(\d+\))?) (.*)", key, re.DOTALL).groups()  # type: ignore[union-attr]
    result, *types = kind.split("\n")
    parameters = ", ".join(f"{type} %a{at}" for at, type in enumerate(types))
    choices = [(numbers[symbol], symbol) for symbol in by_type.get(kind, ())]
    cases = " ".join(f"i64 {number}, label %f{number}" for number, _ in choices)
    bodies = [
        f"f{number}:\n  {'' if result == 'void' else f'%r{number} = '}call spir_func {result} @{symbol}({parameters})\n"
        f"  ret {result}{'' if result == 'void' else f' %r{number}'}\n"
        for number, symbol in choices
    ]
    comma = ", " if types else ""
    return (
        f"define internal spir_func {result} @{name}({pointer} %f{comma}{parameters}) {{\nentry:\n"
        f"  %n = ptrtoint {pointer} %f to i64\n  switch i64 %n, label %none [ {cases} ]\n"
        f"{''.join(bodies)}none:\n  unreachable\n}}\n"
    )


def _with_number(match: re.Match[str]) -> str:
    """A kernel's head whose pointers to functions are numbers: drivers take no such pointer as an argument."""
    inside = _inside(match[2], 0)
    parameters, made = [], ""
    for parameter in _split(inside):
        found = PLAIN_POINTER.fullmatch(parameter.strip())
        own = f'%"{found[1].strip("%").strip(chr(34))}.number"' if found else ""
        parameters.append(f"i64 {own}" if found else parameter)
        made += f"  {found[1]} = inttoptr i64 {own} to ptr\n" if found else ""
    return f"{match[1]}({', '.join(parameters)}{match[2][len(inside) + 1 :]}{made}"


def _type_of(head: str, parameters: str) -> str:
    """The types of a result and of parameters, one a line, with what says that memory is passed for a value."""
    return "\n".join([result_of(head), *(_parameter(each.strip()) for each in _split(parameters))])


def result_of(head: str) -> str:
    """Return the type that a function's head ends with, before the name: attributes come before it."""
    words = r"\b(?:spir_func|define|internal|linkonce_odr|weak_odr|weak|hidden|protected|dso_local)\b"
    pieces = _words(re.sub(words, " ", head))
    if pieces[-2:-1] == ["ptr"]:
        return " ".join(pieces[-2:])
    return pieces[-1]


def _parameter(text: str) -> str:
    pieces = _words(text)
    type = (
        " ".join(pieces[:2]) if pieces[0] == "ptr" and pieces[1:] and pieces[1].startswith("addrspace") else pieces[0]
    )
    return " ".join([type, *(each for each in pieces if BY_MEMORY.match(each))])


def _words(text: str) -> list[str]:
    """The words of a text; a bracket belongs to the word that it follows, with what is in it."""
    words, depth = [""], 0
    for token in TOKEN.findall(text):
        if token in OPENING:
            depth += 1
        if token in CLOSING:
            depth -= 1
        if depth or token in CLOSING or token.startswith('"'):
            words[-1] += token
            continue
        first, *others = re.split(r"\s+", token)
        words[-1] += first
        words += others
    return [word for word in words if word]


def _split(text: str) -> Iterator[str]:
    """Yield what commas part, outside of brackets."""
    depth, part = 0, ""
    for token in TOKEN.findall(text):
        depth += (token in OPENING) - (token in CLOSING)
        if token == "," and not depth:
            yield part
            part = ""
        else:
            part += token
    if part.strip():
        yield part


def _inside(text: str, start: int) -> str:
    """What is in the brackets that open at a place."""
    depth, at = 0, start
    for token in TOKEN.finditer(text, start):
        depth += (token[0] == "(") - (token[0] == ")")
        if not depth:
            at = token.start()
            break
    return text[start + 1 : at]
