"""The compiled floor: lists of driver calls that C makes over and over, and for each driver the calls there are."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import platformdirs


class NoCompilerError(RuntimeError):
    """There is no C compiler, so there is no floor to compare with."""


class Call(ctypes.Structure):
    """A step in C, one driver call: ``struct call`` of calls.c.

    Attributes
    ----------
    function : int
    arguments, arity
        Integers, and how many.
    loaded : int
        A bit for each argument that is the address of the value to pass, because an earlier call puts it there.
    result : int
        Where to put what it returns; 0 when that is an error code.
    kept : object
        What the addresses in it belong to.
    note : str
        Why it is not like for like with what others do, if it is not.
    """

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("arguments", ctypes.c_uint64 * 12),
        ("arity", ctypes.c_uint32),
        ("loaded", ctypes.c_uint32),
        ("result", ctypes.c_void_p),
    )

    def __init__(self, function: int, arguments: Sequence[int], loaded: int = 0, result: int = 0):
        given = (ctypes.c_uint64 * 12)(*(value & (1 << 64) - 1 for value in arguments))
        super().__init__(function, given, len(arguments), loaded, result)
        self.kept: object = None
        self.note = ""


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
        draft = target.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [*command, "-O2", "-shared", "-fPIC", "-pthread", str(source), "-o", str(draft)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoCompilerError(f"{shlex.join(command)} does not compile {source.name}:\n{done.stderr[-500:]}")
        draft.rename(target)  # another process may be at the same
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


class Loop:
    """A list of calls, or with `threads` one for each thread. ``loop(n)`` makes n operations of each list.

    A list has `operations` operations.

    Raises
    ------
    RuntimeError
        When a call fails.
    """

    def __init__(self, *lists: Sequence[Call], operations: int = 1, threads: bool = False):
        self._kept = lists
        self._arrays = [(Call * len(calls))(*calls) for calls in lists]
        self._operations = operations
        size = ctypes.c_size_t(len(lists[0]))
        if threads:
            self._pointers = (ctypes.c_void_p * len(lists))(*map(ctypes.addressof, self._arrays))
            self._run = partial(loops().run_threads, self._pointers, size, ctypes.c_size_t(len(lists)))
        else:
            self._run = partial(loops().run, self._arrays[0], size)

    def __call__(self, n: int) -> float:
        """Seconds that n operations take; in threads, until each has made them."""
        passes = max(n // self._operations, 1)
        taken: float = self._run(ctypes.c_size_t(passes))
        if taken < 0:
            raise RuntimeError("a driver call of the C loop failed")
        return taken * n / (passes * self._operations)
