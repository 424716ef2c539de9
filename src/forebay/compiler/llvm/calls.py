"""Calls that devices have not: through pointers to functions, of virtual functions, of themselves, of C's library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from forebay.compiler.llvm.signatures import QUOTED, SYMBOL

# -- calls through pointers to functions, and of virtual functions
#
# A pointer to a function becomes a number, and a call through one chooses among the functions of its type whose address
# the program takes. The numbers hold for the whole program, so that a pointer may be kept in a variable of the device,
# be read by the host and come back as an argument. Vtables are constants with such numbers.

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


# -- functions that call themselves: SPIR-V allows no circle of calls (2.16.1, Universal Validation Rules)
#
# Intel's compiler for GPUs takes circles, as a stack of the thread has room for them. But it faults (IGC of 26.27) when
# such a function gets a generic pointer: to find the memory that it is of, it follows the argument to the callers,
# round and round. `recursive` (spirv/recursion.py) finds these functions, so that they get numbers.
#
# Intel's CPU runtime runs a kernel with a circle in blocks of one thread. So for CPUs each function of a circle is
# copied, and calls the next copy. The last one prints that the recursion is too deep, counts as a failed assertion, and
# returns 0. GPUs get none: Intel's compiler for them would put all copies into each other.

LEVELS = range(16, 65)
LINES = 20_000  # of all copies together, unless that leaves too few levels
BODY = re.compile(rf"^define [^@\n]*@({SYMBOL})\(.*?^}}\n", re.M | re.S)
CALLED = re.compile(rf"@({SYMBOL})\(")
OF_LINES = re.compile(r", !dbg !\d+| !dbg !\d+(?= \{)|^ +#dbg_.*\n", re.M)
HEAD = re.compile(r"^define (?:(?:internal|linkonce_odr|weak_odr|weak|hidden|protected|dso_local) )*")
# Without this a function that calls itself twice is put into itself as often as two to the power of the levels.
ATTRIBUTES, NOT_INLINED = re.compile(r" #\d+(?=[^\n]* \{\n)"), " convergent noinline nounwind"
COMDAT = re.compile(r"^(define [^\n]*?) comdat(?:\([^)]*\))?")
PRINT = "@_Z6printfPU3AS1Kcz"
FAILED = "@__forebay_assertion_failed"  # of printing.h


def circles(module: str) -> list[set[str]]:
    """Return the sets of functions of LLVM's text that call each other in a circle."""
    bodies = _bodies(module)
    calls = {symbol: {*CALLED.findall(body)} & bodies.keys() - {symbol} for symbol, body in bodies.items()}
    own = {symbol for symbol, body in bodies.items() if f"@{symbol}(" in body[body.index("\n") :]}
    left = _in_circles(calls) | own
    reached = {symbol: _reached(symbol, calls, left) for symbol in left}
    found: list[set[str]] = []
    for symbol in left:
        if not any(symbol in each for each in found):
            found.append({symbol} | {other for other in reached[symbol] if symbol in reached[other]})
    return [each for each in found if len(each) > 1 or each <= own]


def with_levels(module: str, found: Iterable[set[str]]) -> str:
    """Return LLVM's text with enough copies of these functions that no circle of calls is left."""
    bodies = _bodies(module)
    made = []
    replaced = {}
    for circle in found:
        lines = sum(bodies[symbol].count("\n") for symbol in circle)
        levels = max(LEVELS[0], min(LEVELS[-1], LINES // lines))
        call = re.compile(rf"@({'|'.join(map(re.escape, circle))})(?=\()")
        for symbol in circle:
            head, _, rest = bodies[symbol].partition("\n")
            replaced[symbol] = head + "\n" + _calling(rest, call, 1)
            plain = HEAD.sub("define internal ", COMDAT.sub(r"\1", OF_LINES.sub("", bodies[symbol])))
            plain = ATTRIBUTES.sub(NOT_INLINED, plain, count=1)
            for level in range(1, levels):
                body = _calling(plain, call, level + 1)
                made.append(body.replace(f"@{_at(symbol, level + 1)}(", f"@{_at(symbol, level)}(", 1))
            made.append(_last(plain.partition("\n")[0], symbol, levels))
    module = BODY.sub(lambda match: replaced.get(match[1], match[0]), module)
    if f"declare spir_func i32 {PRINT}" not in module and not re.search(rf"^declare [^\n]*{PRINT}\(", module, re.M):
        made.append(f"declare spir_func i32 {PRINT}(ptr addrspace(1), ...)\n")
    if f"\n{FAILED} = " not in module:
        made.append(f"{FAILED} = linkonce_odr addrspace(1) externally_initialized global i32 0, align 4\n")
    return module + "\n" + "".join(made)


def _bodies(module: str) -> dict[str, str]:
    return {match[1]: match[0] for match in BODY.finditer(module)}


def _in_circles(calls: Mapping[str, set[str]]) -> set[str]:
    """The functions that are left without those that call nothing of what is left."""
    left = set(calls)
    while gone := {symbol for symbol in left if not calls[symbol] & left}:
        left -= gone
    return left


def _reached(symbol: str, calls: Mapping[str, set[str]], left: set[str]) -> set[str]:
    seen: set[str] = set()
    waiting = [symbol]
    while waiting:
        for other in calls[waiting.pop()] & left:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def _calling(text: str, call: re.Pattern[str], level: int) -> str:
    """Code that calls the functions of one level."""
    return call.sub(lambda match: f"@{_at(match[1], level)}", text)


def _at(symbol: str, level: int) -> str:
    """The name of a copy."""
    return f'{symbol[:-1]}.level{level}"' if symbol.endswith('"') else f"{symbol}.level{level}"


def _last(head: str, symbol: str, levels: int) -> str:
    """The function at the last level; `head` is the first line of the others."""
    head = head.replace(f"@{symbol}(", f"@{_at(symbol, levels)}(", 1)
    text = f"{symbol.strip(chr(34))}: more than {levels} calls of itself are open\\0A\\00".replace("%", "%%")
    length = len(re.sub(r"\\[0-9A-F]{2}", "x", text))
    name = _at(symbol, 0).replace(".level0", ".told")
    kind = result_of(head.partition("@")[0])
    back = "ret void" if kind == "void" else f"ret {kind} zeroinitializer"
    return (
        f'@{name} = internal unnamed_addr addrspace(1) constant [{length} x i8] c"{text}"\n{head}\n'
        f"  call spir_func i32 (ptr addrspace(1), ...) {PRINT}(ptr addrspace(1) @{name})\n"
        f"  store volatile i32 1, ptr addrspace(1) {FAILED}, align 4\n  {back}\n}}\n"
    )


# -- functions of C's library that clang calls of its own accord, and that no driver has
#
# Intel's CPU runtime finds them in the process that it works in; on Level Zero a kernel that calls them cannot be made.

MEMCMP = """define internal spir_func i32 @memcmp(ptr addrspace(4) %a, ptr addrspace(4) %b, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %same ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %equal, label %body
body:
  %ap = getelementptr i8, ptr addrspace(4) %a, i64 %i
  %bp = getelementptr i8, ptr addrspace(4) %b, i64 %i
  %x = load i8, ptr addrspace(4) %ap
  %y = load i8, ptr addrspace(4) %bp
  %next = add i64 %i, 1
  %differ = icmp ne i8 %x, %y
  br i1 %differ, label %found, label %same
same:
  br label %head
found:
  %xi = zext i8 %x to i32
  %yi = zext i8 %y to i32
  %difference = sub i32 %xi, %yi
  ret i32 %difference
equal:
  ret i32 0
}
"""
FUNCTIONS = {"memcmp": MEMCMP, "bcmp": MEMCMP.replace("@memcmp", "@bcmp")}
DECLARED = re.compile(rf"^declare [^@\n]*@({'|'.join(FUNCTIONS)})\(.*\n", re.MULTILINE)


def with_library(module: str) -> str:
    """Return LLVM's text with these functions defined where it only declares them."""
    return DECLARED.sub(lambda match: FUNCTIONS[match[1]], module)
