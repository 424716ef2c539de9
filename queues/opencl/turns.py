"""Processes take turns to build a program with PoCL, whose cache on the disk does not stand several at once.

PoCL 3.1 keeps what it built in files. Who built a program that another process has built meanwhile removes the file,
writes it anew and waits for the disk. A third one that has just seen the file reads nothing: its build fails, or an
assertion ends the process.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from forebay.queues.kernels.cache import without_waiting

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

POCL = "Portable Computing Language"
SLOTS = 64  # different programs rarely wait for each other


@contextlib.contextmanager
def turn(platform: str, source: str | bytes) -> Iterator[None]:
    """Build this source within. On PoCL no other process of this user, nor another thread, does so at the same time.

    Blocks until it is its turn. Where files cannot be locked, nobody waits.
    """
    slot = open_slot(source) if platform == POCL and fcntl is not None else None
    if slot is None:
        yield
        return
    with slot:
        with contextlib.suppress(OSError):
            fcntl.flock(slot, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(slot, fcntl.LOCK_UN)  # closing is not enough: a forked child has the file open, too


def open_slot(source: str | bytes) -> IO[bytes] | None:
    """Open the file that stands for this source in the folder where PoCL keeps its own; None if that cannot be."""
    data = source.encode(errors="replace") if isinstance(source, str) else source
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/tmp", ".cache")
    folder = Path(os.environ.get("POCL_CACHE_DIR") or os.path.join(home, "pocl", "kcache"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(folder / f"forebay-{zlib.crc32(data) % SLOTS}.lock", "ab", opener=without_waiting)
    except OSError:
        return None
