"""Runs clang, which some programs keep busy for ever: with limits to its time and its memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from forebay.queues.kernels.build import build_seconds

try:
    import resource
except ImportError:  # Windows: there are no limits
    resource = None  # type: ignore[assignment]

__all__ = ["run_clang"]

LEAST_MEMORY = 4 << 30
OUT_OF_MEMORY = (b"out of memory", b"bad_alloc", b"OutOfMemory")


def run_clang(command: Sequence[str], data: bytes) -> tuple[int, bytes, str, str]:
    """Return the exit status, the output, the messages, and how clang was ended, if something did.

    Raises
    ------
    OSError
        When it cannot be started.
    InvalidArgumentError
        If FOREBAY_BUILD_SECONDS is no number of seconds.

    Blocks until it ends: after 300 seconds of processor time, or as many as the environment variable
    ``FOREBAY_BUILD_SECONDS`` says. It may have half of the machine's memory.
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
