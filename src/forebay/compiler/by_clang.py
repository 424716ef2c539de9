"""From HIP C++ to SPIR-V: clang in child processes, and the disk cache of what it made.

Clang runs twice. The first time it leaves an LLVM module as text, from which `signatures` reads the kernels. The second
time it optimizes that and makes SPIR-V of it.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path

from forebay.compiler import prelude
from forebay.compiler.assembly import without_assembly
from forebay.compiler.cache import BinaryCache, key_of, reads_files
from forebay.compiler.clang import FIXED, HEADERS, INCLUDE, TARGET, Clang, run_clang
from forebay.compiler.errors import BuildError
from forebay.compiler.header_names import overlay
from forebay.compiler.host_code import EXPRESSION, Mending, own_text
from forebay.compiler.included import digest_of, read_file, read_included, text_of
from forebay.compiler.llvm.calls import are_given, are_refused, circles, with_direct_calls, with_levels, with_library
from forebay.compiler.llvm.signatures import SYMBOL, explained, read_signatures, unquoted, without_definition
from forebay.compiler.options import Options
from forebay.compiler.program import (
    KernelSignature,
    NotNamedError,
    Program,
    Signatures,
    Source,
    kernel_info,
    kernels_from,
    plain_names,
    variables_from,
)
from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.clang_module import ClangModule
from forebay.compiler.spirv.intel_cpu.bounds import keep_bounds
from forebay.compiler.spirv.intel_cpu.early_returns import RETURNS_EARLY, find_early_returns
from forebay.compiler.spirv.intel_cpu.spinning import part_waiting
from forebay.compiler.spirv.module import ModuleError
from forebay.compiler.spirv.module import text_of as string_of

EXTENSIONS = "--spirv-ext=+SPV_EXT_relaxed_printf_string_address_space,+SPV_KHR_bit_instructions,+SPV_KHR_shader_clock"
# It makes pointers that count up, of which Intel's CPU runtime writes an "invalid binary operator record"; and the
# device's own compiler sees better what an index is.
NO_STRENGTH_REDUCTION = ("-mllvm", "-disable-lsr")
FOR_LINES = ("SPV_KHR_non_semantic_info", "--spv-emit-nonsemantic-debug-info")
VARIABLE = re.compile(rf"^@{SYMBOL} = .*addrspace\(1\) externally_initialized global ", re.M)
NO_KERNEL = '\nextern "C" __global__ void __forebay_no_kernel() {}\n'
ROUNDS = 12  # how often a program that clang refuses is changed
MOST_NAMES = 12  # of kernels, in the message about a name
MANY_ERRORS = ("-ferror-limit", "500")
ASKED = "__forebay_name_"
ASKED_LINE = re.compile(
    rf"^@{ASKED}(\d+) = .*? global ptr addrspace\(4\) (?:addrspacecast \(ptr[^@]*)?@({SYMBOL})", re.M
)
NOT_FOR_DEVICES = re.compile(rf"^@(?:{ASKED}\d+|__hip_cuid_\w*|llvm\.(?:compiler\.)?used) = .*\n", re.M)
OWN_FUNCTION = re.compile(
    r"^define (?!linkonce|internal|private|available)(?:dso_local |hidden |protected )*(?=[^@]*\bspir_func )", re.M
)
KERNEL = re.compile(rf"^define [^@\n]*\bspir_kernel void @({SYMBOL})\(.*?^}}\n", re.M | re.S)
EXPLICIT = re.compile(r"\btemplate\s+(?!<)[^;{}()]*?(\w+)\s*<")  # what an instance is asked for of in the program
NAME_OF_INSTANCE = re.compile(r"(?:[^<]*[^\w<])?(\w+)\s*<")
# The host may write to it, so its first value is not to be taken for its only one.
STATIC_VARIABLE = re.compile(rf"^(@{SYMBOL}) = internal (?=addrspace\(1\) (?:externally_initialized )?global )", re.M)
# A pointer that a kernel is passed points to global memory. Clang keeps it as a generic one without a cast that says
# so, and then no compiler after it knows what the kernel reads and writes.
GLOBAL_PARAMETER = re.compile(
    r'^  store ptr addrspace\(1\) (%[\w.$-]+|%"[^"]*"), ptr addrspace\(4\) (%([\w.$-]+)|%"([^"]*)")(.*)$', re.M
)
GENERIC_PARAMETER = (
    r'  %"\3\4.generic" = addrspacecast ptr addrspace(1) \1 to ptr addrspace(4)'
    "\n"
    r'  store ptr addrspace(4) %"\3\4.generic", ptr addrspace(4) \2\5'
)
HAS_INCLUDE = re.compile(r"""__has_include\s*\(\s*["<]([^">\n]+)[">]""")
BITCODE = b"BC\xc0\xde"
LENGTH = struct.Struct("<Q")
LANGUAGE = re.compile(r"-(?!W|w$|ferror|ftemplate-backtrace|fdiagnostics|fno-diagnostics).*")
BROKEN_HEADER = re.compile(
    r"(malformed|corrupted|invalid|not a|unable to read) .*(precompiled|PCH|AST)|PCH file|AST file"
)


def dumps(program: Program, files: Mapping[str, str]) -> bytes:
    """Return a program as bytes, with the files that it was made from."""
    facts = json.dumps([*program[1:], files]).encode()
    return LENGTH.pack(len(facts)) + facts + program.code


def loads(data: bytes) -> Program | None:
    """Return it from bytes; None if they are not whole, or a file that it was made from is another now."""
    try:
        (length,) = LENGTH.unpack_from(data)
        kernels, variables, lowered, log, files = json.loads(data[LENGTH.size :][:length])
        if any(digest_of(path) != digest for path, digest in files.items()):
            return None
        code = data[LENGTH.size + length :]
        return Program(code, kernels_from(kernels), variables_from(variables), lowered, log)
    except (struct.error, ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None


def compile_to_spirv(
    clang: Clang, source: Source, on_miss: Callable[[], None] = lambda: None, copies: bool = True
) -> Program:
    """Compile HIP C++ to SPIR-V.

    With `copies` functions that call themselves are copied, for devices that run such kernels in blocks of one thread.

    Blocks while it compiles. A program that any process has compiled before comes from the cache; `on_miss` is called
    before clang is. Raises BuildError with clang's messages as ``log``: `NotNamedError` for those about an expression.
    """
    cache, options = BinaryCache(), source.options
    reads = reads_files(source.text) or bool(options.includes) or any(word.startswith("-I") for word in options.macros)
    where = os.getcwd() if reads else ""
    key = key_of("HIP", own_version(), clang.identity, prelude.content_key(), text_for_key(source), where, str(copies))
    known = loads(cache.get(key) or b"")
    if known is not None:
        return known
    on_miss()
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        work = _Compilation(clang, source, Path(folder), copies)
        module, log = work.module_of(source.text)
        if " spir_kernel " not in module:  # which no driver takes
            module, log = work.module_of(source.text + NO_KERNEL)
            if not VARIABLE.search(module):
                log = "\n".join(filter(None, [log, f"{work.name}: warning: the program has no kernel"]))
        compiled = work.finished(module, log)
        cache.put(key, dumps(compiled, work.files()))
    return compiled


def compile_to_bitcode(clang: Clang, source: Source) -> tuple[bytes, str]:
    """Compile HIP C++ to LLVM's bitcode, for `link_bitcode`; return it and the warnings. As `compile_to_spirv`,
    uncached, without names of expressions.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        work = _Compilation(clang, source._replace(expressions=()), Path(folder))
        module, log = work.module_of(source.text)
        return work.bitcode_of(module), log


def link_bitcode(clang: Clang, modules: Sequence[bytes], options: Options, copies: bool = True) -> Program:
    """Link LLVM modules, in bitcode or text, to one program, as `compile_to_spirv`. Blocks while it compiles."""
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        work = _Compilation(clang, Source("", "linked", {}, options), Path(folder), copies)
        bitcode = [module if module.startswith(BITCODE) else work.bitcode_of(module) for module in modules]
        return work.finished(work.linked(bitcode), "")


@functools.cache
def own_version() -> str:
    """Return what differs when the code that makes what is kept has changed."""
    return key_of(*(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py"))))


def text_for_key(source: Source) -> str:
    """Return a program with all that its compilation depends on, as text."""
    return repr([source.text, source.name, sorted(source.headers.items()), source.options, [*source.expressions]])


class _Compilation:
    """The compilation of one program, in a folder of its own."""

    def __init__(self, clang: Clang, source: Source, folder: Path, copies: bool = True) -> None:
        self.clang, self.source, self.options, self.folder, self.copies = clang, source, source.options, folder, copies
        self.name = re.sub(r'[\\"\x00-\x1f]', "_", source.name) or "program.hip"
        self.listed = folder / "read"
        self.own = folder / "headers"
        self.sources: dict[str, str] = {**source.headers}
        self.changed: dict[str, Path] = {}
        self.macros: tuple[str, ...] = ()  # of the compiler that the program is for
        for name, text in source.headers.items():
            path = self.own / os.path.normpath(name)
            if not path.is_relative_to(self.own) or ".." in path.parts:
                message = f"{self.name}: error: the header {name!r} is not the relative path of a file"
                raise BuildError(message, log=message)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(as_clang_takes_it(text), encoding="utf-8", errors="surrogateescape")

    def module_of(self, text: str) -> tuple[str, str]:
        """The LLVM module of a program, and the warnings."""
        self.sources[self.name] = text
        read = read_included(self.name, text, self.source.headers, self.options.folders, self.options.forced)
        self.macros = AS_NVCC if is_for_nvcc([*self.sources.values(), *map(text_of, read)]) else ()
        mending = Mending(
            self.name, as_clang_takes_it(text), self._header, lambda: self._preprocessed(mending.texts[self.name])
        )
        more: tuple[str, ...] = ()
        first = ""
        while mending.rounds < ROUNDS:
            try:
                module, log = self._llvm(self._whole(mending.texts[self.name]), more)
            except BuildError as error:
                changed = mending.mend(error.log)
                first = first or error.log
                if not changed and error.log == first:
                    raise
                if not changed:
                    log = mending.explained(first, error.log)
                    raise type(error)(f"the program does not compile\n{log}", log=log) from None
                self._write_changed({file: mending.texts[file] for file in changed if file != self.name})
                more = MANY_ERRORS
            else:
                return module, "\n".join(filter(None, [*mending.told, log]))
        raise BuildError(f"the program does not compile\n{first}", log=first)

    def _header(self, path: str) -> str | None:
        """The text of a header of the program's that clang names, as clang takes it."""
        if path in self.sources:
            return as_clang_takes_it(self.sources[path])
        whole = os.path.abspath(path)
        if path.startswith("<") or whole.startswith((str(INCLUDE), *self._libraries())) or not os.path.isfile(whole):
            return None
        return as_clang_takes_it(read_file(whole).decode(errors="surrogateescape"))

    def _libraries(self) -> tuple[str, ...]:
        return tuple(flag for flag in self.clang.flags if os.path.isabs(flag))

    def _write_changed(self, texts: Mapping[str, str]) -> None:
        """Give clang other texts of the program's headers; those on the disk stay as they are."""
        for path, text in texts.items():
            if path in self.sources:
                target = self.own / os.path.normpath(path)
            else:
                whole = os.path.abspath(path)
                target = self.changed.setdefault(whole, self.folder / f"changed{len(self.changed)}.h")
            target.write_text(text, encoding="utf-8", errors="surrogateescape")

    def bitcode_of(self, module: str | bytes) -> bytes:
        """LLVM's bitcode of a module in either of its forms."""
        command = ("-triple", TARGET, "-disable-llvm-passes", "-w", "-x", "ir", "-emit-llvm-bc", "-o", "-", "-")
        text = NOT_FOR_DEVICES.sub("", module) if isinstance(module, str) else module
        return self._made("bitcode", (*self.clang.front_end, *command), text)

    def linked(self, modules: Sequence[bytes]) -> str:
        """One module of several in bitcode."""
        paths = [self.folder / f"{number}.bc" for number in range(len(modules))]
        for path, module in zip(paths, modules, strict=True):
            path.write_bytes(module)
        others = (word for path in paths[1:] for word in ("-mlink-bitcode-file", str(path)))
        command = ("-triple", TARGET, "-disable-llvm-passes", "-w", "-x", "ir", *others, "-emit-llvm", "-o", "-")
        made = self._made("program of these modules", (*self.clang.front_end, *command, str(paths[0])), "")
        return made.decode(errors="surrogateescape")

    def _made(self, what: str, command: Sequence[str], text: str | bytes) -> bytes:
        status, made, log = self._run(command, text)
        if status:
            raise BuildError(f"clang makes no {what}\n{log}", log=log)
        return made

    def finished(self, module: str, log: str) -> Program:
        symbols = {int(number): unquoted(symbol) for number, symbol in ASKED_LINE.findall(module)}
        lowered = {text: symbols[number] for number, text in enumerate(self.source.expressions) if number in symbols}
        module = NOT_FOR_DEVICES.sub("", module)
        module = STATIC_VARIABLE.sub(r"\1 = ", module)
        try:
            signatures = read_signatures(module)
        except (KeyError, ValueError, IndexError) as error:  # a version of LLVM that writes its text in another way
            signatures = Signatures((), ())
            log = f"{log}\nwarning: the types of parameters are not known ({error!r})".strip()
        known = {each.symbol for part in signatures for each in part}
        for expression, symbol in lowered.items():
            if known and symbol not in known:
                message = f"{EXPRESSION}:1: error: {expression!r} is neither a kernel nor a variable of the device"
                names = sorted({kernel.name for kernel in signatures.kernels})
                message += f"; its kernels: {', '.join(names[:MOST_NAMES])}" if names else ""
                raise NotNamedError(message, log=message)
        if lowered:
            module, signatures = self._asked_only(module, signatures, {*lowered.values()})
        # Nothing else calls them, so those that are not used, or inlined, go.
        module = OWN_FUNCTION.sub("define internal ", module)
        spirv = self._spirv(with_library(GLOBAL_PARAMETER.sub(GENERIC_PARAMETER, module)))
        missing = imported_functions(spirv)
        if missing:
            log = without_definition(missing, module, self.sources)
            raise BuildError(f"the program does not compile\n{log}", log=log)
        plain = plain_names(signatures.kernels)
        try:
            spirv, dynamic, warnings = finish_module(spirv, signatures.kernels, plain)
        except ModuleError as error:
            message = "\n".join(filter(None, [log, f"{self.name}: error: {error}"]))
            raise BuildError(message, log=message) from None
        log = "\n".join(filter(None, [log, *warnings]))
        follows = any(variable.follows for variable in signatures.variables)
        kernels = tuple(
            kernel_info(kernel, signatures.kernels, plain.get(kernel.symbol, kernel.symbol) in dynamic, follows)
            for kernel in signatures.kernels
        )
        return Program(spirv, kernels, signatures.variables, lowered, log)

    def _asked_only(self, module: str, signatures: Signatures, asked: Set[str]) -> tuple[str, Signatures]:
        """The module without instances of kernels that only code of the host names: programs have hundreds of them."""
        texts = [*self.sources.values(), *(text_of(path) for path in self._read())]
        explicit = {name for text in texts for name in EXPLICIT.findall(text)}
        uses = collections.Counter(re.findall(rf"@({SYMBOL})", module))
        gone = {
            kernel.symbol for kernel in signatures.kernels
            if kernel.symbol not in asked and uses[kernel.symbol] == 1
            and (found := NAME_OF_INSTANCE.match(kernel.name)) and found[1] not in explicit
        }  # fmt: skip
        kernels = tuple(kernel for kernel in signatures.kernels if kernel.symbol not in gone)
        module = KERNEL.sub(lambda found: "" if unquoted(found[1]) in gone else found[0], module)
        return module, signatures._replace(kernels=kernels)

    def files(self) -> dict[str, str]:
        """The files that were read and may change, with what they held."""
        read = self._read()
        return {path: digest_of(path) for path in (*read, *self._elsewhere(read))}

    def _read(self) -> list[str]:
        """The files that clang has read, but for forebay's and the C++ library's."""
        try:
            listed = self.listed.read_text(errors="surrogateescape")
        except OSError:
            return []
        words = re.split(r"(?<!\\)\s+", listed.partition(":")[2].replace("\\\n", " "))
        paths = [re.sub(r"\\([ #\\])", r"\1", word).replace("$$", "$") for word in words if word]
        ours = (str(self.folder), str(INCLUDE), *self._libraries())
        return [path for path in paths if path != "-" and not path.startswith(ours)]

    def _elsewhere(self, read: Sequence[str]) -> list[str]:
        """Where clang would look for these files, too, and for those that the program asks for: one may appear."""
        folders = [*self.options.folders]
        folders += sorted({os.path.dirname(path) for path in read})
        within = [os.path.relpath(path, folder or ".") for path in read for folder in folders]
        texts = [*self.sources.values(), *(text_of(path) for path in read)]
        names = {name for name in within if not name.startswith("..")}
        names |= {name for text in texts for name in HAS_INCLUDE.findall(text)}
        return [os.path.join(folder, name) for folder in ("", *folders) for name in sorted(names)]

    def _whole(self, text: str, asks: bool = True) -> str:
        """The program, after macros and before what asks for names.

        Macros come after the prelude, precompiled or not: a name of the program's, such as T, is none of its business.
        """
        asked = [
            f'#line 1 "{EXPRESSION}"\nextern "C" __attribute__((device)) const void* {ASKED}{number} = '
            f"(const void*)&{expression.strip().removeprefix('&')};"
            for number, expression in enumerate(self.source.expressions if asks else ())
        ]
        return "\n".join([*self.macros, *self.options.begins_with, f'#line 1 "{self.name}"', text, *asked, ""])

    def _preprocessed(self, text: str) -> str:
        """What the preprocessor makes of the program's own files, with their macros."""
        command, _ = self._read_by("-E", "-dD", "-w")
        _, made, _ = self._run(command, self._whole(text, asks=False))
        libraries = (str(INCLUDE), *self._libraries(), "<")
        return own_text(made.decode(errors="surrogateescape"), lambda file: not file.startswith(libraries))

    def _read_by(self, *more: str) -> tuple[tuple[str, ...], Path | None]:
        """The command that reads a program from the standard input, and the precompiled header in it."""
        language = (
            *(flag for flag in self.options.front_end if LANGUAGE.fullmatch(flag)),
            *HEADERS,
            *self.clang.flags,
        )
        header = prelude.precompiled(self.clang, language)
        first = (
            ("-include-pch", str(header), "-fno-validate-pch")
            if header
            else ("-include", str(INCLUDE / prelude.HEADER))
        )
        folders = [f"-I{self.own}", *(word for word in self.options.macros if word.startswith("-I"))]
        included = zip(self.options.includes[::2], self.options.includes[1::2], strict=True)
        folders += [word for option, path in included if option != "-include" for word in (option, path)]
        command = (
            *self.clang.front_end, *FIXED, *self.options.front_end, *folders, *HEADERS, *self.clang.flags,
            "-ivfsoverlay", str(self._names()), *first,
            "-main-file-name", self.name, *more, "-o", "-", "-",
        )  # fmt: skip
        return command, header

    def _llvm(self, text: str, more: Sequence[str] = ()) -> tuple[str, str]:
        """The LLVM module, and the warnings."""
        command, header = self._read_by(
            "-dependency-file", str(self.listed), "-sys-header-deps", "-MT", "program", "-disable-llvm-passes",
            "-emit-llvm", *more,
        )  # fmt: skip
        status, module, log = self._run(command, text)
        if status and header and BROKEN_HEADER.search(log):
            prelude.forget(header)
            return self._llvm(text, more)
        if status:
            earliest = next((line for line in log.splitlines() if "error: " in line), "")
            kind = NotNamedError if earliest.startswith(f"{EXPRESSION}:") else BuildError
            raise kind(f"the program does not compile\n{log}", log=log)
        return module.decode(errors="surrogateescape"), log

    def _names(self) -> Path:
        """The file that tells clang of more names of the headers."""
        path = self.folder / "names.json"
        path.write_text(overlay(INCLUDE, tuple(self.changed.items())), encoding="utf-8")
        return path

    def _spirv(self, module: str) -> bytes:
        if are_given(module):
            module = with_direct_calls(module)
        status, spirv, log = self._emitted(module)
        if status and are_refused(log):
            module = with_direct_calls(module)
            status, spirv, log = self._emitted(module)
        if status:
            log = explained(log, module, self.sources)
            raise BuildError(f"clang makes no SPIR-V of the program\n{log}", log=log)
        return spirv

    def _emitted(self, module: str) -> tuple[int, bytes, str]:
        level = next(flag for flag in self.options.front_end if flag.startswith("-O"))
        command = (
            *self.clang.front_end, "-triple", TARGET, level, "-w", *NO_STRENGTH_REDUCTION, "-mllvm",
            *((f"{EXTENSIONS},+{FOR_LINES[0]}", "-mllvm", FOR_LINES[1]) if self.options.lines else (EXTENSIONS,)),
            "-x", "ir", "-o", "-", "-",
        )  # fmt: skip
        if not self.copies or not circles(module):
            return self._run((*command, "-emit-obj"), module)
        # First what LLVM makes loops of: what is left is copied.
        status, optimized, log = self._run((*command, "-emit-llvm"), module)
        if status:
            return status, b"", log
        module = optimized.decode(errors="surrogateescape")
        return self._run((*command, "-emit-obj", "-disable-llvm-passes"), with_levels(module, circles(module)))

    def _run(self, command: Sequence[str], text: str | bytes) -> tuple[int, bytes, str]:
        """The exit status, the output and the messages of clang; a clang that was killed says so in its messages."""
        data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        try:
            status, made, said, ended = run_clang(command, data)
        except OSError as error:
            raise BuildError(f"clang does not run: {error}", log=f"{command[0]}: {error}") from None
        log = said.replace(f"{self.own}{os.sep}", "").strip()
        return status, made, f"{self.name}: error: clang was ended by {ended}\n{log}" if ended else log


# -- makes what drivers of OpenCL and Level Zero take of the SPIR-V that clang made for HIP


def finish_module(
    module: bytes, kernels: Sequence[KernelSignature], renamed: Mapping[str, str]
) -> tuple[bytes, set[str], list[str]]:
    """Return the module as drivers take it, the kernels whose last parameter is dynamic shared memory, and warnings.

    The module is what clang made, with these kernels; those that are renamed are given by symbol.
    """
    spirv = ClangModule(module)
    if not spirv.entries:
        raise ModuleError("the program has no kernel")
    spirv.say_source()
    spirv.widen_bools()
    spirv.number_pointers()
    spirv.free_width()
    part_waiting(spirv)
    keep_bounds(spirv)
    relying = spirv.relying()
    dynamic = spirv.pass_shared_memory()
    spirv.describe(kernels, dynamic, renamed)
    found = find_early_returns(spirv.dumps())
    if found.kernels:
        spirv.say(RETURNS_EARLY)
    warnings = [
        f"warning: the kernel {renamed.get(name, name)} reads volatile shared memory that other threads of a warp have "
        "written, without a barrier: threads of a warp do not go on together here, so __syncwarp() must stand between"
        for name in relying
    ]
    warnings += [
        f"warning: threads of the kernel {name} may return or part before a barrier that others reach. Intel's runtime "
        f"for CPUs does not let that pass, and forebay cannot mend it here: {reason}"
        for name, reason in found.refused.items()
    ]
    return spirv.dumps(), {renamed.get(name, name) for name in dynamic}, warnings


def imported_functions(module: bytes) -> list[str]:
    """Return the names of the functions that a module calls and does not have."""
    spirv = ClangModule(module)
    functions = {each[2] for each in spirv.all_of(op.FUNCTION)}
    return [
        string_of(each[3:-1])
        for each in spirv.all_of(op.DECORATE)
        if each[2] == op.LINKAGE and each[-1] == op.IMPORTED and each[1] in functions
    ]


# -- what a program says that clang does not know for SPIR-V, said in another way


# Macros of nvcc, for programs that ask for them and name nothing of HIP's. The architecture is the first with atomicAdd
# of doubles, and has no instructions of its own for matrices.
ASKS_FOR_NVCC = re.compile(r"\b__(?:CUDACC|NVCC|CUDA_ARCH)__\b")
NAMES_HIP = re.compile(r"(?<![A-Za-z])(?:hip(?:[A-Z_/.]|[a-z]{3})|HIP(?:CC|\b)|(?<![A-Za-z]_)HIP_)")  # not a hip
AS_NVCC = (
    "#define __CUDACC__ 1", "#define __NVCC__ 1", "#define __CUDA_ARCH__ 600",
    *(f"#undef __{name}__" for name in ("HIPCC", "HIP", "HIP_PLATFORM_AMD", "HIP_PLATFORM_HCC", "HIP_DEVICE_COMPILE")),
)  # fmt: skip


def is_for_nvcc(texts: Iterable[str]) -> bool:
    """Return whether a program, with the headers that it brings, is one of CUDA's that asks which compiler it has."""
    whole = "\n".join(texts)
    return ASKS_FOR_NVCC.search(whole) is not None and NAMES_HIP.search(whole) is None


# As nvcc takes it: `__device__ __shared__` of a variable within a function.
SHARED_TWICE = re.compile(r"\b__device__(?=\s+__shared__\b)|(?<=\b__shared__ )__device__\b")
# Integers that SPIR-V has not: classes of the headers do what they do.
UNSIGNED_WIDE = re.compile(r"\b(?:unsigned\s+__int128(?:_t)?|__int128(?:_t)?\s+unsigned|__uint128_t)\b")
WIDE = re.compile(r"\b(?:signed\s+)?__int128(?:_t)?\b")


def as_clang_takes_it(source: str) -> str:
    """Return the text of a file without what only nvcc and AMD's clang know, at the same lines."""
    if "int128" in source:
        source = UNSIGNED_WIDE.sub("__forebay::uint128", source)
        source = WIDE.sub("__forebay::int128", source)
    return without_assembly(SHARED_TWICE.sub(" " * len("__device__"), source))
