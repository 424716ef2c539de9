"""Building programs: readable logs with source lines, and builds in a process of their own."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from forebay.compiler.clang import build_seconds
from forebay.core import errors
from forebay.core.driver import DeviceInfo

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# PoCL puts the kind first, then a file of its own. Intel puts a number where a file would be.
PLAIN = re.compile(r"^(\d+):(\d+): (.*)$")
IN_A_FILE = re.compile(r"^(fatal error|error|warning|note): \S*:(\d+):(\d+): (.*)$")
FILE_FIRST = re.compile(r"^(?:<[^>]*>|[^:\s]+):(\d+):(\d+): ((?:fatal error|error|warning|note|remark): .*)$")
KINDS = ("fatal error: ", "error: ", "warning: ", "note: ")
SHOWN = re.compile(r"^ *\d* \|")  # a line of the source, or the line below it


def read_position(line: str) -> tuple[int, int, str] | None:
    """Return (line, column, message) of the first line of a message; None for other lines."""
    if found := IN_A_FILE.match(line):
        return int(found[2]), int(found[3]), f"{found[1]}: {found[4]}"
    for form in (PLAIN, FILE_FIRST):
        if (found := form.match(line)) and found[3].startswith(KINDS):
            return int(found[1]), int(found[2]), found[3]
    return None


def readable(log: str, source: str | bytes) -> str:
    """Return the messages of a compiler's log, each with its source line and a caret; "" for none."""
    lines, rows = log.splitlines(), source.splitlines() if isinstance(source, str) else []
    shown: list[str] = []
    i = 0
    while i < len(lines):
        position = read_position(lines[i])
        i += 1
        if position is None:
            continue
        row, column, message = position
        shown.append(f"{row}:{column}: {message}")
        excerpt = []
        while i < len(lines) and SHOWN.match(lines[i]):
            excerpt.append(lines[i])
            i += 1
        if not excerpt and 1 <= row <= len(rows):
            margin = re.sub(r"\S", " ", rows[row - 1][: column - 1])  # keeps tabs, which align the caret
            excerpt = [f"{row:5} | {rows[row - 1]}", f"      | {margin}^"]
        shown += excerpt
    return "\n".join(shown)


# -- builds SPIR-V in a process of its own, because a driver's compiler can end the process that calls it.
# Intel's compilers, for CPUs and for GPUs, do so for some valid modules. A process is started for the first program,
# serves later ones, and ends when idle for a while. Threads that build at once have one each, up to the number of
# processors. It returns the driver's binary, and facts about the kernels where the driver's folder needs them. The
# caller loads it as if it came from the disk cache.


ACCEPTED = "accepted"
UNAVAILABLE = "unavailable"
LAST_WORDS = 2000  # characters of a dead process's output to report
IDLE = 60.0  # seconds without a program after which the process ends
GRACE = 10.0  # seconds after which a process that should have ended itself is killed

_turns = threading.BoundedSemaphore(os.cpu_count() or 1)
_idle: list[ChildProcess] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # they are the parent's


class BuildProcessError(Exception):
    """No process could be started, or it does not find the device: the caller must build in its own process."""


class CompilerEndedError(errors.BuildError):
    """The compiler ended its process, or was ended because it took too long."""


def build_apart(worker: str, info: DeviceInfo, source: bytes, options: tuple[str, ...]) -> bytes:
    """Build SPIR-V for a device in another process; return what ``build`` of the worker returns there.

    The worker is a module of the driver's folder: its ``open_again(info)`` opens the device, or returns None, and its
    ``build(opened, source, options)`` builds. Blocks while it compiles, and while as many programs are being built as
    there are processors. Raises `BuildError`, `CompilerEndedError`, `BuildProcessError`, and those of `build_seconds`.
    """
    seconds = build_seconds()
    request = (seconds, worker, dataclasses.replace(info, native=None), source, options)
    with _turns:
        try:
            process = _accepting(request)
        except OSError as error:
            raise BuildProcessError(str(error)) from None
        try:
            kind, *answer = process.answer()
        except (EOFError, OSError):  # OSError: in the middle of an answer
            how, said = process.how_it_ended()
            words = f"{how}\n{said[-LAST_WORDS:]}".strip()
            message = f"the compiler of {info.name} ended its process: {words}"
            if how == signal.SIGXCPU.name:
                message = (
                    f"the compiler of {info.name} had not finished after {seconds} seconds of processor time, as "
                    "happens where loops with large bodies are unrolled (FOREBAY_BUILD_SECONDS gives it more)"
                )
            process.end()
            raise CompilerEndedError(message, log=message) from None
        except BaseException:  # Ctrl-C: the answer would be taken as that of the next request
            process.end()
            raise
        _idle.append(process)
    if kind == "built":
        return bytes(answer[0])
    if kind == UNAVAILABLE:
        raise BuildProcessError(answer[0])
    raise getattr(errors, kind, errors.BuildError)(answer[0], **({"log": answer[1]} if kind == "BuildError" else {}))


def expect() -> None:
    """Start a process if none is idle, because it will soon be needed. Does not block."""
    if not _idle and _turns.acquire(blocking=False):  # else all are busy
        try:
            with contextlib.suppress(OSError):
                _idle.append(ChildProcess(__name__))
        finally:
            _turns.release()


def _accepting(request: object) -> ChildProcess:
    while True:
        try:
            process, is_new = _idle.pop(), False
        except IndexError:
            process, is_new = ChildProcess(__name__), True
        try:
            if process.accepts(request):
                return process
        except BaseException:
            process.end()
            raise
        process.end()  # it had ended because it was idle
        if is_new:
            raise BuildProcessError("the process for building ended when it was asked")


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().end()


class ChildProcess:
    """A Python process that runs ``serve(connection)`` of a module. Raises OSError when it cannot be started."""

    def __init__(self, module: str) -> None:
        from multiprocessing.connection import Pipe  # late: most programs start no process

        # A file, because a pipe that is read only at the end would fill up.
        self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self.connection: Connection
        self.connection, theirs = Pipe()
        with theirs:
            end = theirs.fileno()
            code = f"from multiprocessing.connection import Connection; from {module} import serve"
            self.child: subprocess.Popen[bytes] = subprocess.Popen(
                python_command(f"{code}; serve(Connection({end}))"),
                stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, pass_fds=(end,),
                start_new_session=True,  # Ctrl-C is for this process
            )  # fmt: skip

    def accepts(self, request: object) -> bool:
        """Send a request; return whether it was sent."""
        try:
            self.connection.send(request)
            return bool(self.answer() == ACCEPTED)
        except (OSError, EOFError):
            return False

    def answer(self) -> Any:
        """Return its next message."""
        return self.connection.recv()

    def how_it_ended(self) -> tuple[str, str]:
        """Wait for its end. Return the signal or status of its end, and its output."""
        status = self.child.wait()
        self.said.seek(0)
        said = self.said.read().decode(errors="replace").strip()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}", said

    def end(self) -> None:
        """Kill it. A process that survives that, because the system waits for its device, is left alone."""
        self.child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(GRACE)
            self.connection.close()
        self.said.close()


def python_command(code: str) -> list[str]:
    """Return the command line of a Python that runs this code with this one's imports and libraries."""
    if not sys.executable:
        raise OSError("the path of Python is not known")
    return [*_loader(), sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]


def _loader() -> list[str]:
    """Return the dynamic loader's part of this command line, if any: it names libraries of drivers (man ld.so)."""
    try:
        words = Path("/proc/self/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        before = words[: len(words) - len(sys.orig_argv)]
        return before if before and os.path.samefile(before[0], "/proc/self/exe") else []
    except OSError:
        return []


# -- the other process


def serve(connection: Connection) -> None:
    """Build on request until the other end closes, or it is idle for a while."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    while connection.poll(IDLE):
        try:
            seconds, worker, *program = connection.recv()
        except (EOFError, ConnectionError):
            return
        wanted = int(time.process_time()) + seconds  # processor time after which SIGXCPU ends this process
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
        connection.send(ACCEPTED)
        connection.send(_built(worker, *program))


def _end_with_parent(connection: Connection) -> None:
    """End this process when its parent has ended, also in the middle of a build, which may never end."""
    import select

    poll = select.poll()
    poll.register(connection, 0)  # reports only that the other end closed
    poll.poll()
    os._exit(0)


_opened: dict[str, Any] = {}  # results of a worker's `open_again`, by device name


def _built(worker: str, info: DeviceInfo, source: bytes, options: tuple[str, ...]) -> tuple[Any, ...]:
    try:
        module = importlib.import_module(worker)
        opened = _opened[info.name] = _opened.get(info.name) or module.open_again(info)
        if opened is None:
            return (UNAVAILABLE, f"the process for building does not find {info.name}")
        return ("built", module.build(opened, source, options))
    except (ImportError, errors.DeviceNotFoundError) as error:
        return (UNAVAILABLE, str(error))
    except errors.BuildError as error:
        return ("BuildError", str(error), error.log)
    except errors.Error as error:
        return (type(error).__name__, str(error))
    except Exception as error:  # the driver's; the other process may be unable to unpickle it
        return ("BuildError", f"{type(error).__name__}: {error}", str(error))
