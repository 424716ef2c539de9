"""Building programs: readable logs, progress on a terminal, and builds in a process of their own.

A log has each message of a compiler, with the line of the source and a caret below.
"""

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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from forebay.core import errors
from forebay.core.driver import DeviceInfo

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# PoCL puts the kind first, and then a file of its own. Intel puts a number of its own where a file would be.
PLAIN = re.compile(r"^(\d+):(\d+): (.*)$")
IN_A_FILE = re.compile(r"^(fatal error|error|warning|note): \S*:(\d+):(\d+): (.*)$")
FILE_FIRST = re.compile(r"^(?:<[^>]*>|[^:\s]+):(\d+):(\d+): ((?:fatal error|error|warning|note|remark): .*)$")
KINDS = ("fatal error: ", "error: ", "warning: ", "note: ")
SHOWN = re.compile(r"^ *\d* \|")  # a line of the source, or what stands below it


def read_position(line: str) -> tuple[int, int, str] | None:
    """Return (line, column, message) of the first line of a message; None for other lines."""
    if found := IN_A_FILE.match(line):
        return int(found[2]), int(found[3]), f"{found[1]}: {found[4]}"
    for form in (PLAIN, FILE_FIRST):
        if (found := form.match(line)) and found[3].startswith(KINDS):
            return int(found[1]), int(found[2]), found[3]
    return None


def readable(log: str, source: str | bytes) -> str:
    """Return the messages of a compiler's log, each with the line that it is about; an empty str for none."""
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
            margin = re.sub(r"\S", " ", rows[row - 1][: column - 1])  # tabs stay, so that the caret stands right
            excerpt = [f"{row:5} | {rows[row - 1]}", f"      | {margin}^"]
        shown += excerpt
    return "\n".join(shown)


# -- shows on a terminal that something is being built, once that takes a while
#
# No compiler tells how far it is, so there is a bar without an end, and the time that went by.


AFTER = 1.0  # seconds after which it is shown
EVERY = 0.5  # seconds; drawing takes the GIL from threads that launch meanwhile
VARIABLE = "FOREBAY_PROGRESS"

_shown = threading.Lock()  # by one of the threads that build at once


@contextlib.contextmanager
def shown_while_building(what: str) -> Iterator[None]:
    """Show a bar on the standard error, from the second second of the block to its end, with what is built.

    Nothing is shown where that is no terminal, while another thread shows what it builds, and with
    ``FOREBAY_PROGRESS=0``.
    """
    try:
        is_wanted = os.environ.get(VARIABLE) != "0" and sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        is_wanted = False
    if not is_wanted or not _shown.acquire(blocking=False):
        yield
        return
    try:
        over = threading.Event()
        thread = threading.Thread(target=_show, args=(what, over), name="forebay progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
    finally:
        _shown.release()


def _show(what: str, over: threading.Event) -> None:
    if over.wait(AFTER):
        return
    from rich.console import Console  # most programs never build for so long
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("forebay: building {task.description}", markup=False), BarColumn(16), TimeElapsedColumn())
    with contextlib.suppress(OSError, ValueError):  # the terminal has gone, or the program has closed it
        console = Console(stderr=True)
        # Drawn here and not by rich's own thread. What the program prints is none of its business.
        with Progress(
            *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
            disable=not console.is_interactive,
        ) as progress:  # fmt: skip
            progress.add_task(what, total=None)
            progress.refresh()
            while not over.wait(EVERY):
                progress.refresh()


# -- builds SPIR-V in a process of its own, where a driver's compiler can end the process that calls it
#
# Intel's compilers, for CPUs and for GPUs, do so for some modules that are valid. A process is started for the first
# program, serves those that follow, and ends when nothing was asked for a while. Threads that build at once have one
# each, as far as there are processors. What comes back is the driver's binary, and facts about the kernels where its
# folder needs them. The asking process loads it as if it came from the disk cache.


ACCEPTED = "accepted"
UNAVAILABLE = "unavailable"
# Processor time after which a build is given up, unless the environment variable FOREBAY_BUILD_SECONDS gives another:
# Intel's compiler for CPUs takes for ever over some large kernels.
SECONDS = 300
LAST_WORDS = 2000  # characters of what a process that died had said
IDLE = 60.0  # seconds without a program after which the process ends
GRACE = 10.0  # seconds after which a process that should have ended itself is ended

_turns = threading.BoundedSemaphore(os.cpu_count() or 1)
_idle: list[ChildProcess] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # they are the parent's


class BuildProcessError(Exception):
    """No process could be started, or it does not find the device: the caller builds without one."""


class CompilerEndedError(errors.BuildError):
    """The compiler ended the process that it worked in, or was ended because it took too long."""


def build_apart(worker: str, info: DeviceInfo, source: bytes, options: tuple[str, ...]) -> bytes:
    """Build SPIR-V for a device in the other process; return what ``build`` of the worker returns there.

    The worker is a module of the driver's folder: there ``open_again(info)`` opens the device, or returns None, and
    ``build(opened, source, options)`` builds. Blocks while it compiles. As many programs are built at a time as there
    are processors.

    Raises `BuildError`, `CompilerEndedError`, `BuildProcessError`, `InvalidArgumentError` (FOREBAY_BUILD_SECONDS).
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
        except BaseException:  # Ctrl-C: the answer would be taken for that to the next request
            process.end()
            raise
        _idle.append(process)
    if kind == "built":
        return bytes(answer[0])
    if kind == UNAVAILABLE:
        raise BuildProcessError(answer[0])
    raise getattr(errors, kind, errors.BuildError)(answer[0], **({"log": answer[1]} if kind == "BuildError" else {}))


def build_seconds() -> int:
    """Return FOREBAY_BUILD_SECONDS; InvalidArgumentError if it is no number of seconds."""
    text = os.environ.get("FOREBAY_BUILD_SECONDS", str(SECONDS))
    if not text.isdecimal() or not int(text):
        raise errors.InvalidArgumentError(f"FOREBAY_BUILD_SECONDS is a whole number of seconds above 0, not {text!r}")
    return int(text)


def expect() -> None:
    """Start a process if none is idle, because a program for it is being made. Does not block."""
    if not _idle and _turns.acquire(blocking=False):  # else all are at work
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
        process.end()  # it has ended before, because it was idle
        if is_new:
            raise BuildProcessError("the process for building ended when it was asked")


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().end()


class ChildProcess:
    """A Python process that does ``serve(connection)`` of a module, with the other end of `connection`.

    Raises OSError when it cannot be started.
    """

    def __init__(self, module: str) -> None:
        from multiprocessing.connection import Pipe  # most programs start no process

        # A file, not a pipe that nobody reads until the end.
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
        """Send a request; return whether it was received."""
        try:
            self.connection.send(request)
            return bool(self.answer() == ACCEPTED)
        except (OSError, EOFError):
            return False

    def answer(self) -> Any:
        """Return what it sends next."""
        return self.connection.recv()

    def how_it_ended(self) -> tuple[str, str]:
        """Wait for its end. Return by which signal or status it ended, and all that it said."""
        status = self.child.wait()
        self.said.seek(0)
        said = self.said.read().decode(errors="replace").strip()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}", said

    def end(self) -> None:
        """End it. One that does not even end when it is killed, because the system waits for its device, is left."""
        self.child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(GRACE)
            self.connection.close()
        self.said.close()


def python_command(code: str) -> list[str]:
    """Return the command line of a Python that runs this code, and imports and loads what this one does."""
    if not sys.executable:
        raise OSError("the path of Python is not known")
    return [*_loader(), sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]


def _loader() -> list[str]:
    """What stands before Python in this process's command line, if that was started through a dynamic loader.

    Somebody who runs Python that way has libraries there that a driver needs (man ld.so).
    """
    try:
        words = Path("/proc/self/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        before = words[: len(words) - len(sys.orig_argv)]
        return before if before and os.path.samefile(before[0], "/proc/self/exe") else []
    except OSError:
        return []


# -- the other process


def serve(connection: Connection) -> None:
    """Build what is asked for until the asking process ends, or nothing comes for a while."""
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
    """End this process when the one that asks has ended, also in the middle of a build, which may take for ever."""
    import select

    poll = select.poll()
    poll.register(connection, 0)  # it tells of nothing but the other end
    poll.poll()
    os._exit(0)


_opened: dict[str, Any] = {}  # what `open_again` of a worker returned, by the name of the device


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
    except Exception as error:  # a driver's, which may not be known where it is unpickled
        return ("BuildError", f"{type(error).__name__}: {error}", str(error))
