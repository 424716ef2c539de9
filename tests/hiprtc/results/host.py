"""The same kernels on the host: compiled for it with `hip_on_host.hpp`, and run by a child process."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebay.compiler.clang import INCLUDE, Clang

HERE = Path(__file__).parent
NAME = "k.hip"
FLAGS = (
    "-x", "c++", "-std=c++20", "-O1", "-march=x86-64-v3", "-ffp-contract=on", "-fPIC", "-w", "-ferror-limit=40",
    "-Wno-register", "-Wno-c++11-narrowing", "-fno-strict-aliasing", "-fno-unroll-loops", "-fno-vectorize", "-fno-threadsafe-statics",
    "-fsanitize=bounds,local-bounds,integer-divide-by-zero,shift-exponent,float-cast-overflow", "-fsanitize-trap=all",
    "--target=x86_64-linux-gnu",
)  # fmt: skip
ATTRIBUTE = r"__align__\s*\([^)]*\)|__attribute__\s*\(\([^)]*\)+|alignas\s*\([^)]*\)"
EXTERN_SHARED = re.compile(
    rf"((?:(?:\b(?:extern|static|volatile|const|__shared__)\b|{ATTRIBUTE})\s*)+)([\w:<>,\s]+?)\s*(?:{ATTRIBUTE})?\s*"
    r"\b(\w+)\s*\[\s*\]\s*;"
)
DYNAMIC = re.compile(r"HIP_DYNAMIC_SHARED\(\s*([^,]+?)\s*,\s*(\w+)\s*\)\s*;?")
# Headers of C and C++ that kernels may need.
KEPT_HEADERS = {
    "algorithm", "array", "assert.h", "bit", "bitset", "cassert", "cctype", "cfloat", "cinttypes", "climits", "cmath",
    "compare", "complex", "concepts", "cstdarg", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "ctype.h",
    "float.h", "functional", "initializer_list", "inttypes.h", "iterator", "limits", "limits.h", "math.h", "new",
    "numbers", "numeric", "optional", "ranges", "ratio", "span", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
    "stdio.h", "stdlib.h", "string.h", "tuple", "type_traits", "utility", "variant",
}  # fmt: skip
SECONDS = 8
ENDLESS = "does not end"
GUARD = 64 << 20
NO_RESERVE = 0x4000  # MAP_NORESERVE, which Python 3.11 has no name for
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class HostError(Exception):
    """The host cannot be a reference for this; the text says why."""


def on_host(source: str) -> str:
    """Return a source whose dynamic shared memory is a pointer."""

    def pointer(type_: str, name: str) -> str:
        return f"{type_} * const {name} = ({type_} *)host::dynamic_shared;"

    def declared(found: re.Match[str]) -> str:
        if "extern" not in found[1] or "__shared__" not in found[1]:
            return found[0]
        type_ = found[2].replace("__shared__", "").strip()
        return "\n" * found[0].count("\n") + pointer(f"volatile {type_}" if "volatile" in found[1] else type_, found[3])

    source = DYNAMIC.sub(lambda found: pointer(found[1], found[2]), source)
    return EXTERN_SHARED.sub(declared, source)


class HostProgram:
    """A program in HIP C++ compiled for the host, with expressions that name its kernels; or a `HostError`."""

    def __init__(self, clang: Clang, source: str, kernels: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forebay-results-")
        folder = Path(self._folder.name)
        for path in INCLUDE.rglob("*"):
            # hip_on_host.hpp has what is in it, or the kernel does not compile.
            if path.is_file() and path.name not in KEPT_HEADERS:
                for root in (INCLUDE, INCLUDE / "cuda"):
                    if path.is_relative_to(root):
                        stub = folder / path.relative_to(root)
                        stub.parent.mkdir(parents=True, exist_ok=True)
                        stub.touch()
        table = [
            f'extern "C" void run_{i}(const unsigned* g, const unsigned* b, size_t n, void** a) '
            f"{{ host::run(&{name}, g, b, n, a); }}"
            for i, name in enumerate(kernels)
        ]
        log = self._compiled(clang, folder, "\n".join([on_host(source), *table]))
        if log:
            raise HostError(next((line for line in log.splitlines() if "error:" in line), log[-200:]))
        linked = folder / "k.so"
        link = "g++", "-shared", str(folder / "k.o"), "-o", str(linked), "-lm"
        subprocess.run(link, check=True, capture_output=True)
        try:
            self.library = ctypes.CDLL(str(linked), mode=os.RTLD_LAZY)
        except OSError as error:  # of classes of the host
            raise HostError(str(error).rpartition(": ")[2]) from None

    def _compiled(self, clang: Clang, folder: Path, text: str) -> str:
        """Compile; return the log when it does not."""
        path = folder / NAME
        path.write_text(text)
        is_zig = Path(clang.path).stem == "zig"
        own = ("-isystem", str(Path(clang.path).parent / "lib" / "include")) if is_zig else ()
        done = subprocess.run(
            (clang.path, *(("clang",) if is_zig else ()), *FLAGS, "-I", str(folder), *own,
             "-include", str(HERE / "hip_on_host.hpp"), "-c", NAME, "-o", "k.o"),
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return (done.stderr or "failed") if done.returncode else ""


@dataclass(frozen=True)
class Launch:
    """A kernel's grid, block, and arguments: arrays for pointers, bytes for values."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: list[np.ndarray | bytes]
    shared: int


class Memory:
    """Memory that a child process shares, each part of it between pages that nobody may touch."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def part(self, nbytes: int) -> np.ndarray:
        """Return `nbytes` bytes; a multiple of a page."""
        whole = mmap.mmap(-1, nbytes + 2 * GUARD, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | NO_RESERVE)
        self._maps.append(whole)
        data = np.frombuffer(whole, "u1")
        for start in (0, GUARD + nbytes):
            LIBC.mprotect(data.ctypes.data + start, GUARD, 0)
        return data[GUARD : GUARD + nbytes]


def run(program: HostProgram, index: int, launch: Launch) -> list[np.ndarray]:
    """Return what a kernel leaves in its buffers; a `HostError` if it goes where it may not, or does not end."""
    memory = Memory()
    buffers = []
    pointers = (ctypes.c_void_p * (len(launch.arguments) + 1))()
    kept: list[object] = []
    for i, argument in enumerate(launch.arguments):
        if isinstance(argument, bytes):
            value = ctypes.create_string_buffer(argument + bytes(64))
        else:
            data = memory.part(argument.nbytes)
            data[:] = argument.view("u1").ravel()
            buffers.append(data)
            value = ctypes.c_void_p(data.ctypes.data)  # type: ignore[assignment]
        kept.append(value)
        pointers[i] = ctypes.addressof(value)
    grid, block = (ctypes.c_uint * 3)(*launch.grid), (ctypes.c_uint * 3)(*launch.block)
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(SECONDS)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            function = program.library[f"run_{index}"]
            function.argtypes = *[ctypes.c_void_p] * 2, ctypes.c_size_t, ctypes.c_void_p
            function(grid, block, launch.shared, pointers)
            os._exit(0)
        except BaseException:
            os._exit(77)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise HostError({signal.SIGSEGV: "outside its buffers", signal.SIGBUS: "outside its buffers",
                         signal.SIGILL: "undefined behaviour", signal.SIGALRM: ENDLESS}.get(number, f"signal {number}"))  # fmt: skip
    if os.WEXITSTATUS(status):
        raise HostError(f"exits with {os.WEXITSTATUS(status)}")
    return [data.copy() for data in buffers]
