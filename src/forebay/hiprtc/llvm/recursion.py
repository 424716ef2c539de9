"""Functions that call themselves. SPIR-V allows no circle of calls (2.16.1, Universal Validation Rules).

Intel's compiler for GPUs takes circles, as a stack of the thread has room for them. But it faults (IGC of 26.27) when
such a function gets a generic pointer: to find the memory that it is of, it follows the argument to the callers, round
and round. `recursive` (spirv/recursion.py) finds these functions, so that they get numbers.

Intel's CPU runtime runs a kernel with a circle in blocks of one thread. So for CPUs each function of a circle is
copied, and calls the next copy. The last one prints that the recursion is too deep, counts as a failed assertion, and
returns 0. GPUs get none: Intel's compiler for them would put all copies into each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from forebay.hiprtc.llvm.indirect_calls import result_of
from forebay.hiprtc.llvm.signatures import SYMBOL

__all__ = ["circles", "with_levels"]

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
    """Return LLVM's text with so many copies of these functions that there is no circle of calls."""
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
