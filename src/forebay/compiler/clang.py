"""Finds the clang that compiles HIP C++, and what its front end (``-cc1``) must be told.

The front end is called itself, because the driver of a clang that was not built for AMD's GPUs refuses HIP without
AMD's device libraries. `FIXED` is what the driver would add.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from forebay.compiler.cache import BinaryCache, key_of
from forebay.compiler.errors import InvalidArgumentError, how_to_install

VARIABLE = "FOREBAY_CLANG"
OFF = "none"
OLDEST = 20  # the first whose back end for SPIR-V is no experiment
NEWEST_ON_PATH = 30
TARGET = "spirv64"
WARP = 32  # threads, on every device: `warpSize` in include/hip/device/warps.h

INCLUDE = Path(__file__).parent / "include"
HEADERS = ("-I", str(INCLUDE), "-I", str(INCLUDE / "cuda"), "-I", str(INCLUDE / "std"))

FIXED = (
    "-triple", TARGET, "-aux-triple", "x86_64-unknown-linux-musl", "-fcuda-is-device", "-x", "hip",
    "-fdeclspec", "-fgnu-keywords", "-fgnuc-version=4.2.1", "-fno-threadsafe-statics", "-fcxx-exceptions",
    "-fexceptions", "-nostdsysteminc", "-nobuiltininc", "-ferror-limit", "20",
    # As nvcc does, which many programs were written for.
    "-Wno-error=reserved-user-defined-literal",
    "-Wno-error=register", "-Wno-error=c++11-narrowing", "-D_LIBCPP_ENABLE_CXX17_REMOVED_FEATURES",
    "-D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION", "-D_LIBCPP_DISABLE_DEPRECATION_WARNINGS",
    # Types and names of parameters are read from the debug information of the kernels (signatures.py).
    "-debug-info-kind=limited", "-dwarf-version=5",
)  # fmt: skip

# The wheel's libc++ has no __config_site; zig's own driver says this instead.
CONFIG_SITE = (
    "-D_LIBCPP_ABI_VERSION=1", "-D_LIBCPP_ABI_NAMESPACE=__1", "-D_LIBCPP_HAS_THREADS=0",
    "-D_LIBCPP_HAS_MONOTONIC_CLOCK=1", "-D_LIBCPP_HAS_TERMINAL=0", "-D_LIBCPP_HAS_MUSL_LIBC=1",
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS", "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
    "-D_LIBCPP_HAS_FILESYSTEM=1", "-D_LIBCPP_HAS_RANDOM_DEVICE=0", "-D_LIBCPP_HAS_LOCALIZATION=1",
    "-D_LIBCPP_HAS_UNICODE=1", "-D_LIBCPP_HAS_WIDE_CHARACTERS=1", "-D_LIBCPP_HAS_NO_STD_MODULES",
    "-D_LIBCPP_HAS_TIME_ZONE_DATABASE=0", "-D_LIBCPP_PSTL_BACKEND_SERIAL",
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
)  # fmt: skip


class Clang(NamedTuple):
    """A clang that compiles for SPIR-V."""

    path: str  # of the program
    front_end: tuple[str, ...]  # the command up to and with ``-cc1``
    version: str  # as it says itself, such as ``"22.1.8"``
    flags: tuple[str, ...]  # where its C++ library is
    identity: str  # differs for another version or another file


def find_clang() -> tuple[Clang | None, str]:
    """Return the clang to use, or None and the reason in words.

    The environment variable ``FOREBAY_CLANG`` names one, or says ``none``. Without it the wheel ``ziglang`` is looked
    for, then ``clang`` and ``clang-20`` and newer on the PATH. Runs each at most once in a process.
    """
    return _find(os.environ.get(VARIABLE, ""), os.environ.get("PATH", ""))


def describe() -> str:
    """Return the clang that was found, or why there is none, in one line."""
    clang, why = find_clang()
    return f"clang {clang.version} ({clang.path})" if clang is not None else why


@functools.cache
def _find(chosen: str, path: str) -> tuple[Clang | None, str]:
    if chosen == OFF:
        return None, f"{VARIABLE}={OFF} turns clang off"
    if chosen:
        found, why = _look_at(shutil.which(chosen, path=path) or chosen)
        return found, f"{VARIABLE}: {why}" if why else ""
    wheel = _in_wheel()
    if wheel:
        return _look_at(wheel)
    reasons = []
    for name in ("clang", *(f"clang-{version}" for version in range(NEWEST_ON_PATH, OLDEST - 1, -1))):
        program = shutil.which(name, path=path)
        if program:
            found, why = _look_at(program)
            if found is not None:
                return found, ""
            reasons.append(why)
    advice = f"no clang {OLDEST} or newer was found: {how_to_install('hip')}, or name one in {VARIABLE}"
    return None, "; ".join([*reasons, advice])


def _in_wheel() -> str:
    """The program of the wheel ziglang; importing the wheel would only tell its folder, too."""
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for name in ("zig", "zig.exe"):
            if Path(folder, name).is_file():
                return str(Path(folder, name))
    return ""


def _look_at(program: str) -> tuple[Clang | None, str]:
    """The clang at this path, or None and why not. What was found is kept on the disk: trying one out takes 0.1 s."""
    try:
        status = os.stat(program)
    except OSError as error:
        return None, f"{program} does not run: {error}"
    cache = BinaryCache()
    key = key_of("clang", program, str(status.st_size), str(status.st_mtime_ns), *FIXED, *CONFIG_SITE)
    with contextlib.suppress(ValueError, TypeError):
        path, front_end, version, flags, identity = json.loads(cache.get(key) or b"[]")
        return Clang(path, tuple(front_end), version, tuple(flags), identity), ""
    found, why = _try_out(program, status)
    if found is not None:
        cache.put(key, json.dumps(found).encode())
    return found, why


def _try_out(program: str, status: os.stat_result) -> tuple[Clang | None, str]:
    is_zig = Path(program).stem == "zig"
    command = (program, "clang") if is_zig else (program,)
    try:
        version = _said((*command, "--version"))
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{program} does not run: {error}"
    match = re.search(r"clang version (\d+)([.\d]*)", version)
    if match is None:
        return None, f"{program} is no clang"
    number = match[1] + match[2]
    if int(match[1]) < OLDEST:
        return None, f"{program} is clang {number}; HIP C++ needs {OLDEST} or newer"
    try:
        flags = _of_zig(Path(program).parent / "lib") if is_zig else _of_clang(command)
        # A clang may be built without the target, or installed without a C++ library.
        _said((*command, "-cc1", *FIXED, *flags, "-emit-obj", "-o", os.devnull, "-"), "#include <cstddef>\n")
    except (OSError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        told = next((line for line in lines if "error" in line), str(error))
        return None, f"{program} (clang {number}) does not compile for {TARGET}: {told}"
    identity = "\n".join([program, version, str(status.st_size), str(status.st_mtime_ns), *flags])
    return Clang(program, (*command, "-cc1"), number, flags, identity), ""


def _said(command: tuple[str, ...], text: str = "") -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, input=text).stdout


def _of_zig(lib: Path) -> tuple[str, ...]:
    folders = ("libcxx/include", "libcxxabi/include", "include", "libc/include/x86_64-linux-musl",
               "libc/include/generic-musl")  # fmt: skip
    return (*(word for folder in folders for word in ("-internal-isystem", str(lib / folder))), *CONFIG_SITE)


def _of_clang(command: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that the driver would search, with LLVM's C++ library if it is installed."""
    search = (*command, "-stdlib=libc++", "-E", "-v", "-x", "c++", os.devnull)
    said = subprocess.run(
        search, capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    ).stderr
    listed = said.partition("#include <...> search starts here:\n")[2].partition("End of search list.")[0]
    return tuple(word for line in listed.splitlines() for word in ("-internal-isystem", line.strip()))


# -- running clang, which some programs keep busy for ever: with limits to its time and its memory


try:
    import resource
except ImportError:  # Windows: there are no limits
    resource = None  # type: ignore[assignment]


# Processor seconds after which a build is given up, unless the environment variable FOREBAY_BUILD_SECONDS gives another
# limit: Intel's compiler for CPUs never ends for some large kernels.
SECONDS = 300
LEAST_MEMORY = 4 << 30
OUT_OF_MEMORY = (b"out of memory", b"bad_alloc", b"OutOfMemory")


def run_clang(command: Sequence[str], data: bytes) -> tuple[int, bytes, str, str]:
    """Return the exit status, the output, the messages, and how clang was ended, if something did.

    Blocks until it ends: after 300 seconds of processor time, or as many as the environment variable
    ``FOREBAY_BUILD_SECONDS`` says. It may have half of the machine's memory. Raises OSError when it cannot be started.
    """
    seconds, memory = build_seconds(), most_memory()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            _limit(process.pid, seconds, memory)
            made, said = process.communicate(data)
        except BaseException:  # Ctrl-C
            process.kill()
            raise
    ended = signal.Signals(-process.returncode).name if process.returncode < 0 else ""
    if ended == "SIGXCPU":
        ended = f"{ended}: it had not finished after {seconds} seconds of processor time"
        ended += " (FOREBAY_BUILD_SECONDS gives it more)"
    elif process.returncode and any(words in said for words in OUT_OF_MEMORY):
        ended = f"{ended or 'itself'}: it may have {memory / (1 << 30):.1f} GiB of memory"
    return process.returncode, made, said.decode(errors="replace"), ended


def build_seconds() -> int:
    """Return FOREBAY_BUILD_SECONDS. Raises InvalidArgumentError if it is not a number of seconds."""
    text = os.environ.get("FOREBAY_BUILD_SECONDS", str(SECONDS))
    if not text.isdecimal() or not int(text):
        raise InvalidArgumentError(f"FOREBAY_BUILD_SECONDS is a whole number of seconds above 0, not {text!r}")
    return int(text)


def most_memory() -> int:
    """Return how many bytes a clang may have."""
    try:
        return max(LEAST_MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    except (AttributeError, ValueError, OSError):
        return LEAST_MEMORY


def _limit(process: int, seconds: int, memory: int) -> None:
    if not hasattr(resource, "prlimit"):
        return
    for kind, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with contextlib.suppress(OSError, ValueError):  # it has ended, or may not be limited
            soft, hard = resource.prlimit(process, kind)
            known = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
            resource.prlimit(process, kind, (min([value, *known]), hard))
