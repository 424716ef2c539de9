"""What the environment asks for: a trace, or a report, of the whole process. Written when the interpreter ends."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO, TYPE_CHECKING, NoReturn

from forebay.queues import queue as queues
from forebay.tracing import calls, watching
from forebay.tracing.chrome import write
from forebay.tracing.findings import Findings, report
from forebay.tracing.recording import Recorder

if TYPE_CHECKING:
    from forebay.queues.queue import Queue

LOG = "FOREBAY_LOG"
LEVELS = ("debug", "info", "warning", "error")
TRACE = "FOREBAY_TRACE"
DEVICE_TIMES = "FOREBAY_TRACE_DEVICE_TIMES"
STATS = "FOREBAY_STATS"
RANGES = "FOREBAY_RANGES"


def begin() -> None:
    """Begin what FOREBAY_LOG, FOREBAY_RANGES, FOREBAY_TRACE and FOREBAY_STATS ask for.

    Exits with status 2 when that cannot be: there is no such level or library, or the file cannot be made.
    """
    if level := os.environ.get(LOG):
        begin_log(level)
    for library in filter(None, os.environ.get(RANGES, "").split(",")):
        if library not in LIBRARIES:
            _refuse(RANGES, f"the libraries are {', '.join(LIBRARIES)}")
        try:
            watching.add(Ranges(library))
        except ImportError as error:
            _refuse(RANGES, f"{error}: pip install {library}")
    if path := os.environ.get(TRACE):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.access(folder, os.W_OK):
            problem = "it cannot be written to" if os.path.isdir(folder) else "there is no such folder"
            _refuse(TRACE, f"{folder}: {problem}")
        ProcessTrace(path).begin()
    if os.environ.get(STATS):
        begin_stats()


def _refuse(variable: str, problem: str) -> NoReturn:
    print(f"forebay: {variable}={os.environ[variable]}: {problem}", file=sys.stderr)
    sys.exit(2)


def begin_log(level: str) -> None:
    """Print what forebay logs, from this level on, on stderr. Handlers of the program's own get it as well."""
    if level.lower() not in LEVELS:
        _refuse(LOG, f"the levels are {', '.join(LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logger = logging.getLogger("forebay")
    logger.addHandler(handler)
    logger.setLevel(level.upper())


# -- ranges for profilers: NVTX (Nsight) and ITT (VTune) show forebay's calls beside what they see of the drivers

DOMAIN = "forebay"
Begin = Callable[[str], object]
End = Callable[[], object]


def nvtx_range() -> tuple[Begin, End]:
    """The functions that begin and end a range of NVTX on this thread."""
    nvtx = import_module("nvtx")
    return lambda name: nvtx.push_range(name, domain=DOMAIN), lambda: nvtx.pop_range(domain=DOMAIN)


def itt_range() -> tuple[Begin, End]:
    """The same of ITT."""
    itt = import_module("ittapi")
    domain = itt.domain(DOMAIN)
    return lambda name: itt.task_begin(domain, itt.string_handle(name)), lambda: itt.task_end(domain)


LIBRARIES: dict[str, Callable[[], tuple[Begin, End]]] = {"nvtx": nvtx_range, "ittapi": itt_range}
"""By the package to install."""


class Ranges:
    """A listener that makes a range of each public call.

    Raises
    ------
    ImportError
        When the library is not installed.
    """

    def __init__(self, library: str) -> None:
        self._begin_range, self._end_range = LIBRARIES[library]()

    def queue_made(self, queue: Queue) -> None:
        """Nothing to mark."""

    def began(self, call: watching.Call) -> None:
        """Begin a range on this thread."""
        if "._" not in call.name:
            self._begin_range(call.name)

    def ended(self, call: watching.Call) -> None:
        """End it."""
        if "._" not in call.name:
            self._end_range()


# -- a trace, and findings


class ProcessTrace:
    """A trace from the import of forebay to the end of the interpreter.

    The file is made with the first queue, so a process without one writes none. If another process has made it, this
    one puts its number into the name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.recorder: Recorder = Recorder(bool(os.environ.get(DEVICE_TIMES)))
        self.file: IO[str] | None = None

    def begin(self) -> None:
        """Begin to note."""
        self.recorder.begin()
        queues.watchers.append(self._make_file)
        atexit.register(self.end)

    def _make_file(self, queue: Queue) -> None:
        queues.watchers.remove(self._make_file)
        if self.recorder.is_forked:
            return
        try:
            try:
                self.file = open(self.path, "x", encoding="utf-8")  # noqa: SIM115 - it is closed at the end
            except FileExistsError:
                stem, suffix = os.path.splitext(self.path)
                self.file = open(f"{stem}-{os.getpid()}{suffix}", "w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:  # the program goes on
            print(f"forebay: {TRACE}={self.path}: {error.strerror}", file=sys.stderr)

    def end(self) -> None:
        """Write the file."""
        if not self.recorder.is_forked:
            self.recorder.end()
            if self.file is not None:
                with self.file:
                    write(self.recorder, self.file)


def begin_stats() -> None:
    """Begin to look for findings, and report at the end of the interpreter."""
    findings, process, begin = Findings(), os.getpid(), calls.now()
    findings.begin()

    def end() -> None:
        if os.getpid() == process:
            stats, found = findings.end()
            if stats or found:
                text = report(stats, found, calls.nanoseconds_a_tick(begin, calls.now()))
                print(f"forebay: what process {process} did\n{text}", file=sys.stderr)

    atexit.register(end)
