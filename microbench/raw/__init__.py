"""The compiled floor: lists of driver calls that C makes over and over, and for each driver the calls there are."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs


class NoCompilerError(RuntimeError):
    """There is no C compiler, so there is no floor to compare with."""


class Call(NamedTuple):
    """One driver call: the address of the function, and its arguments as integers.

    Attributes
    ----------
    function : int
    arguments : tuple of int
    loaded : tuple of int
        The indices of arguments that are the address of the value to pass, because an earlier call puts it there.
    result : int
        Where to put what it returns; 0 when that is an error code.
    """

    function: int
    arguments: tuple[int, ...]
    loaded: tuple[int, ...] = ()
    result: int = 0


class _Call(ctypes.Structure):
    """``struct call`` of calls.c."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("arguments", ctypes.c_uint64 * 12),
        ("arity", ctypes.c_uint32),
        ("loaded", ctypes.c_uint32),
        ("result", ctypes.c_void_p),
    )


def compile_c(source: Path) -> Path:
    """Compile a C file into the user's cache, unless that was done before.

    Raises
    ------
    NoCompilerError
        When there is no C compiler, or when it fails.
    """
    digest = sha256(source.read_bytes()).hexdigest()[:16]
    root = os.environ.get("FOREBAY_CACHE") or platformdirs.user_cache_dir("forebay", appauthor=False)
    target = Path(root).absolute() / "bench" / f"{source.stem}-{digest}.so"
    if not target.exists():
        named = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
        known = [words for words in (named, ["cc"], ["gcc"], ["clang"]) if words and shutil.which(words[0])]
        command = known[0] if known else None
        if command is None:
            raise NoCompilerError("no C compiler (Debian, Ubuntu: apt install gcc)")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [*command, "-O2", "-shared", "-fPIC", "-pthread", str(source), "-o", str(partial)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoCompilerError(f"{shlex.join(command)} does not compile {source.name}:\n{done.stderr[-500:]}")
        partial.rename(target)  # another process may be at the same
    return target


@cache
def loops() -> ctypes.CDLL:
    """The library that makes the calls.

    Raises
    ------
    NoCompilerError
    """
    library = ctypes.CDLL(str(compile_c(Path(__file__).with_name("calls.c"))))
    library.run.restype = library.run_threads.restype = ctypes.c_double
    return library


def address_of(thing: Any) -> int:
    """The address of a ctypes object, which the caller keeps alive."""
    return ctypes.addressof(thing)


def compiled(calls: Iterable[Call]) -> Any:
    """The calls as an array of C structures."""
    calls = list(calls)
    array = (_Call * len(calls))()
    for made, call in zip(array, calls, strict=True):
        made.function = call.function
        made.arguments[: len(call.arguments)] = [value & (1 << 64) - 1 for value in call.arguments]
        made.arity = len(call.arguments)
        made.loaded = sum(1 << index for index in call.loaded)
        made.result = call.result
    return array


def checked(seconds: float) -> float:
    """The seconds that a loop took.

    Raises
    ------
    RuntimeError
        When one of its calls failed.
    """
    if seconds < 0:
        raise RuntimeError("a driver call of the C loop failed")
    return seconds


class Sequence:
    """Calls that make up `operations` operations: ``sequence(n)`` is the seconds that n operations take."""

    def __init__(self, calls: Iterable[Call], kept: object = None, operations: int = 1):
        self._calls = compiled(calls)
        self._kept = kept  # whose addresses are used
        self._operations = operations
        self._run = loops().run

    def __call__(self, n: int) -> float:
        """Seconds that n operations take."""
        passes = max(n // self._operations, 1)
        taken = checked(self._run(self._calls, ctypes.c_size_t(len(self._calls)), ctypes.c_size_t(passes)))
        return taken * n / (passes * self._operations)


class Threads:
    """A list of calls for each of several threads; ``threads(n)`` is the seconds until each has made n passes."""

    def __init__(self, lists: Iterable[Iterable[Call]], kept: object = None):
        self._lists = [compiled(calls) for calls in lists]
        self._kept = kept
        self._pointers = (ctypes.c_void_p * len(self._lists))(*map(ctypes.addressof, self._lists))
        self._run = loops().run_threads

    def __call__(self, n: int) -> float:
        """Seconds until every thread has made n passes."""
        sizes = len(self._lists[0]), len(self._lists), n
        return checked(self._run(self._pointers, *map(ctypes.c_size_t, sizes)))
