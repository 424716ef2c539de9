"""Builds SPIR-V in a process of its own, where a driver's compiler can end the process that calls it.

Intel's CPU runtime does so for modules that other compilers take. The process is started for the first program, serves
those that follow, and ends when nothing was asked for a while. What comes back is the driver's binary and its facts
about the kernels, which this process loads as if they came from the disk cache.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

from forebay.core import errors
from forebay.core.driver import DeviceInfo

__all__ = ["ACCEPTED", "BuildProcessError", "build_apart", "expect", "receive", "send"]

SERVER = "forebay.queues.opencl.build_server"
LENGTH = struct.Struct("<Q")
ACCEPTED = "accepted"
LAST_WORDS = 2000  # characters of what a process that died had said

_lock = threading.Lock()
_running: list[_Process] = []


class BuildProcessError(Exception):
    """No process could be started: the caller builds without one."""


def build_apart(info: DeviceInfo, source: bytes, options: tuple[str, ...]) -> bytes:
    """Build SPIR-V for an OpenCL device in the other process; return what `programs.Entry` loads.

    Raises
    ------
    BuildError
        If the program does not build, or ended the process; with the compiler's log.
    BuildProcessError
        If no process could be started.

    Blocks while it compiles. One program is built at a time.
    """
    request = (dataclasses.replace(info, native=None), source, options)
    with _lock:
        try:
            kind, *answer = _asked(request)
        except EOFError:
            how = _running[0].last_words()
            _drop()
            message = f"the compiler of {info.name} ended its process: {how}"
            raise errors.BuildError(message, log=message) from None
        except BaseException:  # Ctrl-C: the answer would be taken for that to the next request
            _drop()
            raise
    if kind == "built":
        return bytes(answer[0])
    raise getattr(errors, kind, errors.BuildError)(answer[0], **({"log": answer[1]} if kind == "BuildError" else {}))


def expect() -> None:
    """Start the process, because a program for it is being made. Does not block."""
    if _lock.acquire(blocking=False):  # else it is at work
        try:
            with contextlib.suppress(BuildProcessError):
                _process()
        finally:
            _lock.release()


def _asked(request: object) -> Any:
    for _ in range(2):  # the process may have ended since, because it was idle
        process = _process()
        if process.accepts(request):
            return process.answer()
        _drop()
    raise BuildProcessError("the process for building ended when it was asked")


class _Process:
    def __init__(self) -> None:
        if not sys.executable:
            raise BuildProcessError("the path of Python is not known")
        self.owner = os.getpid()
        # A file, not a pipe that nobody reads until the end.
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        start = f"import sys; sys.path[:] = {sys.path!r}; from {SERVER} import serve; serve()"
        try:
            self.child = subprocess.Popen(
                [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
                start_new_session=True,  # Ctrl-C is for this process
            )  # fmt: skip
        except OSError as error:
            raise BuildProcessError(str(error)) from None

    def accepts(self, request: object) -> bool:
        """Send a request; return whether it was received."""
        try:
            send(self.child.stdin, request)
            return bool(receive(self.child.stdout) == ACCEPTED)
        except (OSError, EOFError):
            return False

    def answer(self) -> Any:
        return receive(self.child.stdout)

    def last_words(self) -> str:
        """How it ended, and the last that it said."""
        status = self.child.wait()
        self.said.seek(0, os.SEEK_END)
        self.said.seek(max(0, self.said.tell() - LAST_WORDS))
        said = self.said.read().decode(errors="replace").strip()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"{how}\n{said}".strip()

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        for file in (self.child.stdin, self.child.stdout, self.said):
            if file is not None:
                with contextlib.suppress(OSError):  # what it was sent and never read
                    file.close()


def _process() -> _Process:
    if _running and _running[0].owner != os.getpid():
        _running.clear()  # of the process that this one was forked from
    if not _running:
        _running.append(_Process())
    return _running[0]


def _drop() -> None:
    if _running:
        _running.pop().end()


@atexit.register
def _end() -> None:
    while _running and _running[0].owner == os.getpid():
        _drop()


def send(file: IO[bytes] | None, thing: object) -> None:
    """Send to the other process."""
    assert file is not None
    data = pickle.dumps(thing)
    file.write(LENGTH.pack(len(data)) + data)
    file.flush()


def receive(file: IO[bytes] | None) -> Any:
    """Wait for what the other process sends; EOFError if that has ended."""
    assert file is not None
    header = file.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError
    data = file.read(LENGTH.unpack(header)[0])
    return pickle.loads(data)
