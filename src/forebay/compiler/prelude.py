"""The header that every program begins with, precompiled into the cache folder at first use.

Reading it takes clang 0.7 s, reading it precompiled 0.03 s. Each version of clang and each set of flags that change the
language has its own file of about 14 MB; the few that were used last are kept.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from forebay.compiler.cache import HOUR, PART, folder_named, key_of, open_file, put_in_place
from forebay.compiler.clang import FIXED, INCLUDE, Clang

HEADER = "forebay_prelude.h"
SUFFIX = ".pch"
KEPT = 6

_lock = threading.Lock()
_temporary: list[Path] = []
_broken: set[Path] = set()  # what cannot be removed


def content_key() -> str:
    """Return what tells one content of the headers from another. Costs a `stat` a file."""
    return _content_key(_files())


def _files() -> tuple[tuple[str, int, int], ...]:
    """The headers with the times of their last change and their sizes."""
    files = sorted(path for path in INCLUDE.rglob("*") if path.is_file())
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


@functools.lru_cache(4)
def _content_key(files: tuple[tuple[str, int, int], ...]) -> str:
    return key_of(*(part for path, _, _ in files for part in (path, Path(path).read_bytes())))


def precompiled(clang: Clang, flags: tuple[str, ...]) -> Path | None:
    """Return the precompiled header for these flags, made if it is missing; None if it cannot be made or kept.

    Any number of threads and processes may ask at once. Blocks while it compiles.
    """
    # Clang knows a file that it has read by its size and time: after an installation of the same files it would read
    # them a second time.
    name = key_of(clang.identity, repr(_files()), *FIXED, *flags) + SUFFIX
    with _lock:
        for folder in _folders():
            path = folder / name
            if path in _broken:
                continue
            with contextlib.suppress(OSError), open_file(path) as file:
                if os.fstat(file.fileno()).st_size:
                    with contextlib.suppress(OSError):
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
    """Remove a precompiled header, or stop this process from using it."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        _broken.add(path)


def _folders() -> Iterator[Path]:
    """Yield the cache's, and one that this process removes, for when there is no cache or it cannot be written."""
    cached = folder_named("headers")
    if cached is not None:
        yield cached
    if not _temporary:
        with contextlib.suppress(OSError):
            _temporary.append(Path(tempfile.mkdtemp(prefix="forebay-")))
            atexit.register(_remove, _temporary[0], os.getpid())
    yield from _temporary


def _remove(folder: Path, owner: int) -> None:
    """Remove the folder of this process; not in one that was forked from it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _make(clang: Clang, flags: tuple[str, ...], path: Path) -> None:
    # It gets its name only when it is complete: another process may look for it. A clang that is killed leaves a file
    # of its own choice beside the one it was to write.
    with tempfile.TemporaryDirectory(prefix=PART, dir=path.parent) as folder:
        part = Path(folder, path.name)
        made = (
            *clang.front_end,
            *FIXED,
            *flags,
            "-fpch-instantiate-templates",
            "-emit-pch",
            "-o",
            str(part),
            str(INCLUDE / HEADER),
        )
        subprocess.run(made, capture_output=True, check=True, stdin=subprocess.DEVNULL)
        put_in_place(part, path)


def _trim(folder: Path) -> None:
    with contextlib.suppress(OSError):
        files = sorted(folder.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[KEPT:]:
            forget(file)
    for part in folder.glob(f"{PART}*"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > HOUR:  # its maker was killed
                shutil.rmtree(part)
