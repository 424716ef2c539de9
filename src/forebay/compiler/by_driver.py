"""From HIP C++ to a device's code by a compiler of C++ that its driver brings: NVRTC, for CUDA.

It compiles kernels only, and knows no library of C++. So `include_nvidia` has HIP's names over CUDA's, the names of
``std`` are those of CUDA's own library (``cuda::std``), and functions of the host count as the device's, of which
nothing is left where no kernel reaches them. What of the host does not compile is left out, as for clang.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from forebay.compiler.by_clang import dumps, loads, own_version, text_for_key
from forebay.compiler.cache import BinaryCache, key_of
from forebay.compiler.errors import BuildError
from forebay.compiler.header_names import names
from forebay.compiler.host_code import Mending, with_constant_expressions
from forebay.compiler.included import digest_of, read_included, text_of, with_whole_names
from forebay.compiler.program import DriverCompiler, DriverSource, NotNamedError, Program, Source

HEADERS = Path(__file__).parent / "include_nvidia"
SHARED = Path(__file__).parent / "include"
PRELUDE = "forebay_prelude.h"
ROUNDS = 24  # how often a program that the compiler refuses is changed

# Headers of the C++ library that CUDA's own has for kernels; of C, `HEADERS` has what is not built into the compiler.
STANDARD = """
    algorithm array atomic barrier bit bitset charconv chrono cmath complex concepts cstddef cstdint cstdlib cstring
    exception execution expected functional initializer_list inplace_vector iterator latch limits mdspan memory new
    numbers numeric optional ranges ratio semaphore source_location span string_view tuple type_traits utility variant
"""
# Headers of HIP whose contents hip_runtime.h has here.
OF_RUNTIME = "channel_descriptor device_functions driver_types hip_common hip_ext math_functions"
# What only the host calls of these libraries, as far as NVRTC can read them: Thrust's algorithms and containers.
OF_HOST_HEADERS = """
    rocprim/rocprim.hpp adjacent_difference binary_search copy count device_free device_malloc device_ptr device_vector
    execution_policy extrema fill find for_each gather generate host_vector inner_product logical merge partition random
    reduce remove replace reverse scan scatter sequence set_operations sort tabulate transform transform_reduce
    transform_scan unique universal_vector
"""
OF_C = {"cassert": "assert", "cfloat": "float", "climits": "limits", "cstdio": "stdio", "ctime": "time"}
ALL_STANDARD = ("algorithm", "array", "cmath", "cstdint", "functional", "limits", "tuple", "type_traits", "utility")
NO_MEMBER = re.compile(r'error: namespace "std" has no member (?:template )?"(\w+)"')
# What NVRTC says of a program that uses names of a header, by that header
ON_DEMAND = {
    "hip/hip_texture_types.h": re.compile(
        r'identifier "(?:hip(?:Texture|Surface|Array|Mipmapped|Channel|Resource|Read|Address|Filter|Boundary)\w*'
        r'|texture\w*)"|"?texture"? is not a template'
    ),
    "hip/hip_fp16.h": re.compile(r'(?:identifier|incomplete type) "(?:(?:__)?half2?(?:_raw)?|__h\w+|__\w*half\w*)"'),
    "hip/hip_bf16.h": re.compile(r'(?:identifier|incomplete type) "\w*bfloat16\w*"'),
    "hip/hip_complex.h": re.compile(r'identifier "(?:make_)?hip(?:(?:Float|Double)?Complex|C\w+)"'),
    "hip/hip_cooperative_groups.h": re.compile(
        r'error: name (?:must be a namespace name|followed by "::" must be a class or namespace name)\n'
        r".*\bcooperative_groups\b"
    ),
}
# Of a name in std and in the global namespace: sqrt is one function there in other libraries, and two in CUDA's.
AMBIGUOUS = re.compile(r'error: more than one instance of overloaded function|error: "\w+" is ambiguous')
USING_STD = re.compile(r"\busing\s+namespace\s+std\s*;")
OF_HOST = re.compile(  # which CUDA's library has not
    r"vector|w?string(?!_view)\w*|\w*stream\w*|cout|cerr|clog|cin|endl|fixed|set\w+|flush|(?:unordered_|multi)?(?:map|set)|list|deque"
    r"|queue|stack|j?thread|\w*mutex\w*|lock_guard|\w*_ptr|make_(?:shared|unique)|to_string|sto\w+|random_device|mt19937\w*"
    r"|\w*_distribution|\w*_engine|\w*error|\w*exception|exit|getenv|filesystem|regex|function|printf|s?n?printf"
)

# What a macro names may be another file the next time, and NVRTC does not tell what it read.
COMPUTED = re.compile(r"^\s*#\s*include(?:_next)?\s+\w", re.MULTILINE)

HEAD = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|warning|note|remark)"
                  r"(?: #[\w-]+)?: (?P<text>.*)$")  # fmt: skip
CARET = re.compile(r"^ *\^ *$")
AT_LINE = re.compile(r'at line (\d+)(?: of "?([^"\n]+?)"?)?$', re.MULTILINE)
DYNAMIC = "dynamic initialization is not supported for a __device__ variable"
NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
UNRESOLVED = re.compile(r"Unresolved extern function '([^']+)'")
NAME_MAP = "__nv_name_map("  # where NVRTC's errors about name expressions are
LEFT_OUT = re.compile(r"_Z\d+__forebay_left_outILi(\d+)E")


def compile_by_driver(compiler: DriverCompiler, source: Source) -> Program:
    """Compile HIP or CUDA C++, as `compile_to_spirv` does and with its errors."""
    cache, folders, forced = BinaryCache(), source.options.folders, source.options.forced
    read = read_included(source.name, source.text, source.headers, folders, forced)
    where = os.getcwd() if read or folders or forced else ""
    key = key_of("HIP", own_version(), compiler.identity, _content_key(), text_for_key(source), where)
    computed = any(COMPUTED.search(text) for text in (source.text, *source.headers.values(), *map(text_of, read)))
    known = None if computed else loads(cache.get(key) or b"")
    if known is not None:
        return known
    program = _Compilation(compiler, source).compile()
    if not computed:
        cache.put(key, dumps(program, {path: digest_of(path) for path in read}))
    return program


@functools.cache
def _content_key() -> str:
    """What tells one content of the headers from another."""
    paths = sorted(path for folder in (HEADERS, SHARED) for path in folder.rglob("*") if path.is_file())
    return key_of(*(part for path in paths for part in (str(path), path.read_bytes())))


@functools.cache
def _more_headers(folders: tuple[str, ...]) -> dict[str, str]:
    """Headers of few lines, by name: other names of those in `HEADERS`, and the C++ library."""
    found = {name: f"#pragma once\n#include <{each}.h>\n" for name, each in OF_C.items()}
    for name in STANDARD.split():
        if any(Path(folder, "cuda/std", name).exists() for folder in folders):  # not every version has all
            text = f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace ::cuda::std; }}\n"
            found[name] = text
    for name in OF_HOST_HEADERS.split():
        found[name if "/" in name else f"thrust/{name}.h"] = "#pragma once\n"
    # Thrust's own prints to streams of the host.
    found["thrust/complex.h"] = (SHARED / "thrust/complex.h").read_text()
    for name in OF_RUNTIME.split():
        found[f"hip/{name}.h"] = "#pragma once\n#include <hip/hip_runtime.h>\n"
    for name, header in names().items():
        plain, meant = name.removeprefix("cuda/"), header.removeprefix("cuda/")
        there = any(Path(folder, plain).exists() for folder in (str(HEADERS), *folders))
        if not there and not plain.startswith(("thrust/", "cub/")):  # these are CUDA's, whole
            empty = meant == "host_library.h"
            found[plain] = "#pragma once\n" + ("" if empty else f"#include <{meant}>\n")
    return found


class _Compilation:
    """The compilation of one program."""

    def __init__(self, compiler: DriverCompiler, source: Source) -> None:
        self.compiler, self.source, self.options, self.headers = compiler, source, source.options, dict(source.headers)
        self.name = re.sub(r'[\\"\x00-\x1f]', "_", source.name) or "program.hip"

    def compile(self) -> Program:
        mending = Mending(self.name, self.source.text, self._header)
        first, included = "", set[str]()
        for _ in range(ROUNDS):
            try:
                program = self._compiled(mending.texts[self.name], sorted(included))
            except BuildError as error:
                wanted = included | _on_demand(error.log)
                if wanted != included:
                    included = wanted
                    continue
                text = mending.texts[self.name]
                if AMBIGUOUS.search(error.log) and USING_STD.search(text):
                    mending.texts[self.name] = USING_STD.sub(lambda found: " " * len(found[0]), text)
                    continue
                if DYNAMIC in error.log and (constant := with_constant_expressions(text)) != text:
                    mending.texts[self.name] = constant
                    continue
                first = first or error.log
                changed = mending.mend(as_clang_says(error.log))
                if not changed:
                    log = mending.explained(as_clang_says(first), as_clang_says(error.log)) if mending.left_out else ""
                    log = first if not log or log == as_clang_says(first) else log
                    raise type(error)(f"the program does not compile\n{log}", log=log) from None
                self.headers |= {file: mending.texts[file] for file in changed if file != self.name}
            else:
                return program._replace(log="\n".join(filter(None, [*mending.told, program.log])))
        raise BuildError(f"the program does not compile\n{first}", log=first)

    def _header(self, path: str) -> str | None:
        return self.headers.get(path)

    def _compiled(self, text: str, included: Sequence[str]) -> Program:
        headers = _more_headers(tuple(self.compiler.folders)) | with_whole_names(self.headers)
        command = [
            "-default-device",
            "-device-int128",
            # Macros of the same meaning, in these headers and in CUDA's; double4, which HIP has for good.
            "--diag-suppress=47,1444",
            f"--pre-include={PRELUDE}",
            *self.options.for_nvrtc,
            f"-I{HEADERS}",
            *(f"-I{folder}" for folder in self.options.folders),
        ]
        # CUDA's own come before those that are meant for clang too: Thrust and CUB include each other's by their names.
        more = [f"-I{folder}" for folder in (*self.compiler.folders, SHARED)]
        first = [f"#include <{each}>" for each in included if each in headers or "/" in each]
        whole = "\n".join([*first, *self.options.begins_with, f'#line 1 "{self.name}"', text, ""])
        # Of a constant NVRTC knows the address only; of a kernel, too.
        asked = {f"&{each.strip().removeprefix('&')}": each for each in self.source.expressions}
        try:
            program = self.compiler.compile(DriverSource(whole, self.name, headers, [*command, *more], list(asked)))
        except BuildError as error:
            raise (NotNamedError if NAME_MAP in error.log else BuildError)(str(error), log=error.log) from None
        return program._replace(lowered={each: program.lowered[name] for name, each in asked.items()})


def _on_demand(log: str) -> set[str]:
    """Headers with names that a program uses without including them, as hipcc lets it; reading these takes a second."""
    found = {header for header, said in ON_DEMAND.items() if said.search(log)}
    if any(not OF_HOST.fullmatch(each) for each in NO_MEMBER.findall(log)):
        found |= set(ALL_STANDARD)
    return found


def as_clang_says(log: str) -> str:
    """Return NVRTC's messages in the form of clang's, with columns, as far as `Mending` reads them."""
    said: list[str] = []
    lines = log.splitlines()
    for at, line in enumerate(lines):
        found = HEAD.match(line)
        if found is None:
            said += [
                f"ptxas:1:1: error: __forebay_left_out<{number[1]}>" if (number := LEFT_OUT.match(name)) else line
                for name in UNRESOLVED.findall(line)
            ]
            continue
        block = list(_block(lines, at + 1))
        column = next((len(each) - 3 + 1 for each in map(str.rstrip, block) if CARET.match(each)), 1)
        kind = {"catastrophic error": "fatal error"}.get(found["kind"], found["kind"])
        text = NO_FILE.sub(r"'\1' file not found", found["text"])
        said.append(f"{found['file']}:{found['line']}:{column}: {kind}: {text}")
        if kind.endswith("error"):
            for number, file in AT_LINE.findall("\n".join(block)):
                said.append(f"{file or found['file']}:{number}:1: note: instantiated here")
    return "\n".join(said)


def _block(lines: Sequence[str], at: int) -> Iterator[str]:
    """The lines of a message after its first."""
    for line in lines[at:]:
        if HEAD.match(line):
            return
        yield line
