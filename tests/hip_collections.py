"""Compile the kernels of a public collection of HIP or CUDA programs, and say what became of each.

    git clone https://github.com/ROCm/rocm-examples
    python -m tests.hip_collections rocm-examples
    python -m tests.hip_collections cuda-samples --device level_zero --only histogram
    python -m tests.hip_collections HIP-Examples --architecture 9.0     # by NVRTC, without a GPU: nothing is loaded

Each file with kernels is cut down to them (`tests.helpers.hip_sources`), as somebody does who moves to hiprtc. What is
left of the host and does not compile without it goes too, one declaration after another. Then the file is compiled
with `hiprtc` for the device and loaded; if that fails, each kernel by itself. Of a template, an instance that the
program launches, or else one for float. Of a Python program, each string with kernels.

Nothing is run. The exit status is 1 when less than `--at-least` of the kernels load.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import re
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

import forebay.hiprtc
from forebay import hip, hiprtc
from forebay.core.errors import BuildError
from forebay.hiprtc.driver_compiler import as_clang_says, compile_cpp
from forebay.hiprtc.options import split_options
from forebay.queues.cuda.nvrtc import NvrtcCompiler

from .helpers.hip_builds import asked_at, declaration_of, defined_under, macros_for
from .helpers.hip_instances import Instances
from .helpers.hip_sources import (
    DEVICE,
    Collection,
    Item,
    guessed,
    host_functions,
    items,
    strings_of,
    with_types,
    without,
)

TEXTS = (".py", ".rst")
HEADERS = (".cuh", ".hpp", ".h", ".inl", ".inc")
SOURCES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".C", ".c", *HEADERS, *TEXTS)
ROUNDS = 24
TRIES = 3
"""With how many of the files that include it a kernel is tried."""
OPTIONS: list[str] = []
"""More options of the compiler, from the command line."""
NVRTC: list[NvrtcCompiler] = []
"""The compiler to use instead of the device's."""
NAME = "k.hip"
ERROR = re.compile(r"^[^\n:]*:\d+:\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
ERROR_LINE = re.compile(rf"^{re.escape(NAME)}:(\d+):\d+: (?:fatal )?error: ", re.MULTILINE)

UNKNOWN = re.compile(r"(?:undeclared identifier|unknown type name|no template named|no type named) '(\w+)'")
MEANT = re.compile(r"'(\w+)'; did you mean '([\w:]+)'")
UNDEFINED = re.compile(r"the function _Z(\w+) is declared, and defined nowhere")
STANDARD = re.compile(r"'std::\w*?(ostream|istream|stringstream|ofstream|ifstream)|in namespace 'std'")
STREAMS = "".join(f"#include <{name}>\n" for name in ("iostream", "sstream", "fstream", "string", "vector", "map"))
"""Headers of the host that are left out, until a class in a kernel's file turns out to need one."""
MISSING = re.compile(r"the program has no kernel")
NAMES = 8
"""How many names of other files or of the build a program is given."""
FAILURE = re.compile(r"error:|not found|Invalid|UNLINKED|ended by")

# An instance whose arguments are numbers and types of C.
PLAIN = re.compile(
    r"\w+ ?< ?(?:(?:\d+u?|true|false|(?:unsigned |signed )?\w*(?:int|float|double|char|short|long))[, ]*)+ ?>"
)

CAUSES = {
    "textures and surfaces": r"textures and surfaces|[tT]exture|surf[123]D|cudaSurface|tex[123]D|CU(tex|surf)Object",
    "a barrier of the grid": r"no barrier across blocks|grid_group|multi_grid",
    "a kernel that launches":
        r"<<<|kernel call|cuda(?:Malloc|Free|Memcpy|Launch|Stream\w*|Graph|GetParameterBuffer)|named_type_kernel",
    "assembly of a GPU": r"\basm\b|[iI]nline [Aa]ss?e?m|invalid (output|input) constraint|constraint '",
    "a GPU's own instructions":
        r"amdgcn|__nv_|nvcuda|wmma|mma|cuda::(?:pipeline|barrier|ptx)|__pipeline|'cuda'|block_tile_memory",
    "another library":
        r"thrust|cub\b|rocprim|hipcub|curand|hiprand|rocrand|cufft|boost|rocfft|libcu|cutlass|GL\w+|Kokkos|\bVK_|'Vertex'",
    "memory from a kernel's heap": r"cannot be allocated in a kernel|operator new|operator delete|_Zn[aw]m|_Zd[al]Pv",
    "functions of another file": r"Symbols not found|MODULE_UNLINKED|defined nowhere",
    "a macro of its build":
        r"undeclared identifier '(?!CU|HIP)([A-Z][A-Z0-9_]{2,})'(?!.*\b\1::)|has no kernel, or was cut off",
    "pointers to functions, virtual functions": r"function pointer|virtual|vtable|indirect call",
}  # fmt: skip
"""What a program needs that is missing -> a pattern of the message."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a kernel: "loads", "does not load", "does not compile", and the first message.

    Of one that loads also what was compiled: the source, and the instances of its templates.
    """

    file: Path
    kernel: str
    state: str
    message: str = ""
    source: str = dataclasses.field(default="", repr=False)
    expressions: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """What the program needs and does not find; the message when that is not known."""
        found = (cause for cause, pattern in CAUSES.items() if re.search(pattern, self.message))
        return next(found, self.message[:160])


class CompileError(Exception):
    """A program does not compile; the text is the log."""


def check(result: tuple) -> object:
    """Return what a function of HIP gave besides its status."""
    if int(result[0]):
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def compile_by_nvrtc(source: str, expressions: list[str], options: list[bytes]) -> bytes:
    """As `compile_`."""
    words = split_options([option.decode() for option in options])
    try:
        return compile_cpp(NVRTC[0], source, NAME, {}, words, expressions).code
    except BuildError as error:
        log = as_clang_says(error.log)
        log = re.sub(r'identifier "(\w+)" is undefined', r"use of undeclared identifier '\1'", log)
        log = re.sub(r'name(space|d type)? "(\w+)" is (not|un)\w+( a type name)?', r"unknown type name '\2'", log)
        symbols = re.sub(
            r"Unresolved extern function '(_Z\w+)'", r"the function \1 is declared, and defined nowhere", log
        )
        raise CompileError(symbols) from None


def compile_(source: str, expressions: list[str], macros: Mapping[str, str] = types.MappingProxyType({})) -> bytes:
    """Return the code of a program; raises `CompileError`."""
    options = [b"-ferror-limit=40", b"-std=c++20", *(option.encode() for option in OPTIONS)]
    options += [f"-D{name}={value}".encode() for name, value in macros.items()]
    if NVRTC:
        return compile_by_nvrtc(source, expressions, options)
    program = check(hiprtc.hiprtcCreateProgram(source.encode(), NAME.encode(), 0, [], []))
    try:
        for expression in expressions:
            check(hiprtc.hiprtcAddNameExpression(program, expression.encode()))
        if int(hiprtc.hiprtcCompileProgram(program, len(options), options)[0]):
            log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program)))
            hiprtc.hiprtcGetProgramLog(program, log)
            raise CompileError(log.rstrip(b"\0").decode(errors="replace"))
        code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
        check(hiprtc.hiprtcGetCode(program, code))
        return bytes(code)
    finally:
        hiprtc.hiprtcDestroyProgram(program)


def load(code: bytes) -> str:
    """Build a program's code for the device; return what the driver says against it."""
    if NVRTC:
        return ""
    status, module = hip.hipModuleLoadData(code)
    if int(status):
        return str(status)
    hip.hipModuleUnload(module)
    return ""


# -- one file


class Text:
    """A program, and the instances of kernels that it launches."""

    def __init__(self, whole: str, path: Path, collection: Collection | None = None) -> None:
        self.path = path
        self._collection = collection
        self._instances = Instances(whole)

    def _expressions(self, text: str, names: list[str]) -> list[list[str]]:
        """Return for each template of these the instances to try, the best first."""
        result = []
        for item in items(text):
            head = text[item.start : item.end].split("{")[0]
            if item.kind == "kernel" and item.name in names and re.match(r"\s*template\s*<\s*[^>\s]", head):
                used = self._instances.of(item.name)
                plain = [text for text in used if PLAIN.fullmatch(text)]
                each = dict.fromkeys([*plain[:2], *used[:3], *guessed(with_types(head, text), item.name), *used])
                result.append([item.scope + instance for instance in each])
        return result

    def attempt(self, text: str, names: list[str]) -> Outcome:
        """Compile; drop what is left of the host and does not compile, and add what the build and other files have."""
        choices = self._expressions(text, names)
        macros: dict[str, str] = {}
        tried: set[str] = set()
        log = of_best = ""
        added = 0  # lines before the text, which are other files'
        for _ in range(ROUNDS):
            try:
                code = compile_(text, [choice[0] for choice in choices], macros)
            except CompileError as error:
                log = str(error)
            else:
                refusal = load(code)
                state = "does not load" if refusal else "loads"
                used = tuple(choice[0] for choice in choices)
                return Outcome(self.path, "", state, first_error(refusal), text, used)
            changed = without_failing_host(text, log, added)
            if changed is not None:
                text = changed
                continue
            mended = self._mended(text, names, log, macros, tried, added)
            if mended is not None:
                if mended.endswith(text.split("\n", added)[-1]):
                    added += mended.count("\n") - text.count("\n")
                text = mended
                continue
            of_best = of_best or log
            choices = scoped(choices, log) or narrowed(choices)
            if not choices:
                break
        return Outcome(self.path, "", "does not compile", first_error(of_best or log))

    def _mended(
        self, text: str, names: list[str], log: str, macros: dict[str, str], tried: set[str], added: int
    ) -> str | None:
        """Return a source with what an unknown name stands for after its first `added` lines, and note macros.

        Before them if they need the name. None when nothing is known of one.
        """
        if self._collection is None:
            return None
        if STANDARD.search(log) and "std" not in tried:
            tried.add("std")
            return STREAMS + text
        built = macros_for(self.path, self._collection.folder)
        before = dict(macros)
        kernels = [item for item in items(text) if item.kind == "kernel" and item.name in names]
        unknown = dict.fromkeys(UNKNOWN.findall(log))
        if MISSING.search(log) or any(kernel.name in unknown for kernel in kernels):
            for kernel in kernels:
                for name, value in asked_at(text, kernel.start).items():
                    macros.setdefault(name, built.get(name, value))
        for symbol in UNDEFINED.findall(log):
            name = last_name(symbol)
            if name not in tried:
                tried.add(name)
                found = declaration_of(name, self.path, self._collection)
                if found:
                    return text + "\n" + found
        for name in unknown:
            if name in tried or len(tried) >= NAMES:
                continue
            tried.add(name)
            if name in built:
                macros.setdefault(name, built[name])
                continue
            for macro, value in defined_under(text, name).items():
                macros.setdefault(macro, built.get(macro, value))
            if macros != before:
                break
            found = declaration_of(name, self.path, self._collection)
            if found:
                asking = re.search(rf"^{re.escape(NAME)}:(\d+):.* '{name}'", log, re.MULTILINE)
                lines = text.split("\n")
                at = added if asking is None or int(asking[1]) > added else 0
                return "\n".join([*lines[:at], found, *lines[at:]])
        if macros == before and "__CUDA_ARCH__" in text:  # which some ask for in order to know that they are on a GPU
            macros.setdefault("__CUDA_ARCH__", "700")
        return text if macros != before else None


class File(Text):
    """A file with kernels, cut down to what compiles without the host."""

    def __init__(self, path: Path, collection: Collection) -> None:
        self.parts: set[Path] = set()
        whole = collection.flatten(path, self.parts)
        super().__init__(whole, path, collection)
        self.text = without(whole, host_functions(whole))
        self.kernels = [item.name for item in items(self.text) if item.kind == "kernel"]

    def outcomes(self, is_wanted: Callable[[Path, str], bool]) -> list[Outcome]:
        """Compile and load the file, or each kernel of it by itself, of those that are wanted."""
        parts = {name: part for part in sorted(self.parts) for name in kernels_in(part) if is_wanted(part, name)}
        names = [name for name in dict.fromkeys(self.kernels) if name in parts]
        if not names:
            return []
        together = self.attempt(self.text, names)
        if together.state == "loads" or len(names) == 1:
            return [dataclasses.replace(together, file=parts[name], kernel=name) for name in names]
        return [
            dataclasses.replace(self.attempt(self._with_only(name), [name]), file=parts[name], kernel=name)
            for name in names
        ]

    def _with_only(self, name: str) -> str:
        return without(self.text, [item for item in items(self.text) if item.kind == "kernel" and item.name != name])


def last_name(symbol: str) -> str:
    """Return the function's own name in a mangled one, without its ``_Z``."""
    name, at = "", re.compile(r"N?[VK]*(\d+)")
    while found := at.match(symbol):
        name, symbol = symbol[found.end() :][: int(found[1])], symbol[found.end() + int(found[1]) :]
    return name


def narrowed(choices: list[list[str]]) -> list[list[str]]:
    """Return the choices without the first of each, which did not compile; nothing when all are tried."""
    if all(len(choice) == 1 for choice in choices):
        return []
    return [choice[1:] or choice for choice in choices]


def scoped(choices: list[list[str]], log: str) -> list[list[str]]:
    """Return the choices whose names have the namespaces that clang's messages give them; nothing if it gives none."""
    full = {short: long for short, long in MEANT.findall(log) if long.endswith("::" + short)}
    if not full:
        return []
    missing = re.compile(rf"(?<![\w:])(?:{'|'.join(full)})\b")
    result = [[missing.sub(lambda found: full[found[0]], each) for each in choice] for choice in choices]
    return result if result != choices else []


def without_failing_host(text: str, log: str, added: int = 0) -> str | None:
    """Return a source without its declarations of the host that do not compile; None when there are none.

    The first `added` lines were put there for the kernels, and stay.
    """
    lines = {line for line in map(int, ERROR_LINE.findall(log)) if line > added}
    wanted = text.split("\n")
    asking = [number for number in lines if re.match(r"\s*#\s*error\b", wanted[number - 1])]
    if asking:  # for a system of the host
        return "\n".join("" if number in asking else line for number, line in enumerate(wanted, 1))
    failing = []
    for item in items(text):
        if item.kind in ("other", "rest") and at_lines(text, item, lines):
            # Of a class, which kernels may use, what they do not.
            members = [
                each for each in members_of(text, item)
                if at_lines(text, each, lines) and not each.on_device
                and (each.kind == "function" or not item.on_device)
            ]  # fmt: skip
            failing += members or ([] if item.on_device else [item])
        elif item.kind == "function" and "constexpr" in text[item.start : item.end] and at_lines(text, item, lines):
            failing += [] if DEVICE.search(text[item.start : item.end]) else [item]
    return without(text, failing) if failing else None


def members_of(text: str, item: Item) -> list[Item]:
    """Return the members of a class."""
    start = text.find("{", item.start, item.end) + 1
    if not start:
        return []
    inside = [dataclasses.replace(each, start=each.start + start, end=each.end + start)
              for each in items(text[start : item.end - 1])]  # fmt: skip
    return [each for each in inside if each.kind in ("function", "other")]


def at_lines(text: str, item: Item, lines: set[int]) -> bool:
    """Whether one of these lines is in an item."""
    first = text.count("\n", 0, item.start) + 1
    last = text.count("\n", 0, item.end) + 1
    return any(first <= line <= last for line in lines)


def first_error(log: str) -> str:
    """Return the first error of a log of clang with the line it is about, or the first line that says anything."""
    found = ERROR.search(log)
    if not found:
        return next((line for line in log.split("\n") if FAILURE.search(line)), log.strip()[-160:])
    quoted = re.match(r"\n[^|\n]*\|([^\n]*)", log[found.end() :])
    return found[1] + (f" | {quoted[1].strip()}" if quoted else "")


# -- the command line


def outcomes_of(folder: Path, only: str, show: Callable[[list[Path]], object]) -> list[Outcome]:
    """Return what became of the kernels below a folder."""
    own = Path(forebay.hiprtc.__file__).parent / "include"
    collection = Collection(folder, own, own / "cuda")
    paths = sources_of(folder, collection, only)
    result: dict[tuple[Path, str], Outcome] = {}
    tries: collections.Counter[tuple[Path, str]] = collections.Counter()

    def is_wanted(path: Path, name: str) -> bool:
        known = result.get((path, name))
        return known is None or (known.state != "loads" and tries[path, name] < TRIES)

    for path in show(paths):  # type: ignore[attr-defined]
        found = in_python(path) if path.suffix in TEXTS else File(path, collection).outcomes(is_wanted)
        for outcome in found:
            key = outcome.file, outcome.kernel
            tries[key] += 1
            if key not in result or outcome.state == "loads":
                result[key] = outcome
    return list(result.values())


def sources_of(folder: Path, collection: Collection, only: str) -> list[Path]:
    """Return the files to compile: those with kernels and those that include them, before what they include.

    A header, and a file that another one includes, may need that one's macros and types.
    """
    there = [path for path in sorted(folder.rglob("*")) if path.suffix in SOURCES and path.is_file()]
    included = {path: set(collection.included_by(path)) for path in there if path.suffix not in TEXTS}
    wanted = {path for path in there if path.suffix != ".c" and "__global__" in path.read_text(errors="replace")}
    asked = [path for path in there if path in wanted and only in str(path)]
    users: set[Path] = set(asked)
    more = users
    while more:
        more = {path for path in included if not included[path].isdisjoint(more)} - users
        users |= more
    inner = {part for path in users for part in included.get(path, set()) - {path}}
    users = {path for path in users if path in asked or path.suffix not in HEADERS}
    return sorted(users, key=lambda path: (path in inner, path.suffix not in (".hip", ".cu", ".cpp"), path))


def in_python(path: Path) -> list[Outcome]:
    """Return what became of the sources in a Python program's strings; each counts as one."""
    result = []
    for number, source in enumerate(strings_of(path)):
        names = [item.name for item in items(source) if item.kind == "kernel"]
        file = Text(source, path)
        outcome = file.attempt(source, names)
        result.append(dataclasses.replace(outcome, kernel=f"{number}: {', '.join(names)[:60]}"))
    return result


@functools.cache
def kernels_in(path: Path) -> list[str]:
    """Return the names of the kernels that a file defines."""
    return [item.name for item in items(path.read_text(errors="replace")) if item.kind == "kernel"]


def of_others(found: list[Outcome]) -> float:
    """Return the percentage that load of the kernels whose failure has no name in `CAUSES`."""
    others = [outcome for outcome in found if outcome.state == "loads" or outcome.cause not in CAUSES]
    return 100 * sum(outcome.state == "loads" for outcome in others) / max(len(others), 1)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--device", help="As in FOREBAY_DEVICE.")
@click.option("--architecture", help="Compile by NVRTC for this compute capability, such as 9.0; nothing is loaded.")
@click.option("--option", multiple=True, help="An option of hiprtcCompileProgram, such as -DTILE=16.")
@click.option("--only", default="", help="Only files whose path has this in it.")
@click.option("--at-least", type=float, default=95, show_default=True, help="Percent of the kernels that must load.")
def main(
    folder: Path, device: str | None, architecture: str | None, option: tuple[str, ...], only: str, at_least: float
) -> None:
    """Compile the kernels of the HIP and CUDA programs below FOLDER, and load them."""
    console = Console() if sys.stdout.isatty() else Console(width=180)
    OPTIONS[:] = option
    if architecture:
        major, minor = map(int, architecture.split("."))
        NVRTC[:] = [NvrtcCompiler((major, minor), 99000)]
    if device:
        os.environ["FOREBAY_DEVICE"] = device
    shown = Console(stderr=True)
    found = outcomes_of(folder, only, lambda paths: track(paths, console=shown, disable=not shown.is_terminal))
    table = Table("file", "kernel", "outcome", "cause")
    for outcome in found:
        if outcome.state != "loads":
            place = str(outcome.file.relative_to(folder))
            table.add_row(place, outcome.kernel, outcome.state, escape(f"{outcome.cause}: {outcome.message[:200]}"))
    console.print(table)
    causes = collections.Counter((outcome.state, outcome.cause) for outcome in found if outcome.state != "loads")
    summary = Table("kernels", "outcome", "cause")
    for (state, cause), count in causes.most_common():
        summary.add_row(str(count), state, escape(cause))
    console.print(summary)
    states = collections.Counter(outcome.state for outcome in found)
    share = 100 * states["loads"] / max(len(found), 1)
    print(
        f"{len(found)} kernels: {', '.join(f'{count} {state}' for state, count in states.items())}; {share:.1f} % load"
    )
    print(f"of those that need nothing of the causes with a name {of_others(found):.1f} % load")
    sys.exit(0 if found and share >= at_least else 1)


if __name__ == "__main__":
    main()
