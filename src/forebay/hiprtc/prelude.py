"""The header that every program begins with, precompiled into the cache folder at first use.

Reading it takes clang 0.7 s, reading it precompiled 0.03 s. Each version of clang and each set of flags that change the
language has its own file of about 14 MB; the few that were used last are kept.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import tempfile
import threading
from pathlib import Path

from forebay.hiprtc.clang import FIXED, INCLUDE, Clang
from forebay.queues.kernels.cache import folder_named, key_of

__all__ = ["HEADER", "content_key", "forget", "kept", "precompiled"]

HEADER = "forebay_prelude.h"
SUFFIX = ".pch"
KEPT = 6
PART = ".part-"

_lock = threading.Lock()
_temporary: list[tempfile.TemporaryDirectory[str]] = []


def content_key() -> str:
    """Return what tells one content of the headers from another. Costs a `stat` a file."""
    return _content_key(_files())


def _files() -> tuple[tuple[str, int, int], ...]:
    """The headers, with their times and sizes."""
    files = sorted(path for path in INCLUDE.rglob("*") if path.is_file())
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


@functools.lru_cache(4)
def _content_key(files: tuple[tuple[str, int, int], ...]) -> str:
    return key_of(*(part for path, _, _ in files for part in (path, Path(path).read_bytes())))


def precompiled(clang: Clang, flags: tuple[str, ...]) -> Path | None:
    """Return the precompiled header for these flags, made if it is missing; None if it cannot be made or kept.

    Any number of threads and processes may ask at once. Blocks while it compiles.
    """
    # Clang knows a header of it again, and does not read it twice, by time and size.
    times = str([time for _, time, _ in _files()])
    name = key_of(clang.identity, content_key(), times, *FIXED, *flags) + SUFFIX
    with _lock:
        for folder in _folders():
            path = folder / name
            with contextlib.suppress(OSError):
                if path.stat().st_size:
                    os.utime(path)
                    return path
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _make(clang, flags, path)
                _trim(folder)
                return path
    return None


def kept() -> list[Path]:
    """Return the precompiled headers in the cache."""
    folder = folder_named("headers")
    return sorted(folder.glob(f"*{SUFFIX}")) if folder is not None else []


def forget(path: Path) -> None:
    """Remove a precompiled header."""
    with contextlib.suppress(OSError):
        path.unlink()


def _folders() -> list[Path]:
    """The cache's, and one that this process removes, for when there is no cache or it cannot be written."""
    cached = folder_named("headers")
    if not _temporary:
        with contextlib.suppress(OSError):
            _temporary.append(tempfile.TemporaryDirectory(prefix="forebay-"))
    return [*([cached] if cached else []), *(Path(each.name) for each in _temporary)]


def _make(clang: Clang, flags: tuple[str, ...], path: Path) -> None:
    # It gets its name only when it is complete: another process may look for it.
    number, part = tempfile.mkstemp(prefix=PART, dir=path.parent)
    os.close(number)
    try:
        made = (
            *clang.front_end,
            *FIXED,
            *flags,
            "-fpch-instantiate-templates",
            "-emit-pch",
            "-o",
            part,
            str(INCLUDE / HEADER),
        )
        subprocess.run(made, capture_output=True, check=True, stdin=subprocess.DEVNULL)
        os.replace(part, path)
    except BaseException:
        forget(Path(part))
        raise


def _trim(folder: Path) -> None:
    with contextlib.suppress(OSError):
        files = sorted(folder.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[KEPT:]:
            forget(file)
