"""What the environment asks for: a trace, or a report, of the whole process. Written when the interpreter ends."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import IO, TYPE_CHECKING

from forebay.queues import queue as queues
from forebay.tracing import calls
from forebay.tracing.call_records import CallRecorder
from forebay.tracing.chrome import write
from forebay.tracing.findings import report
from forebay.tracing.ranges import LIBRARIES, Ranges
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
    if libraries := os.environ.get(RANGES):
        begin_ranges(libraries)
    if path := os.environ.get(TRACE):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.access(folder, os.W_OK):
            problem = "it cannot be written to" if os.path.isdir(folder) else "there is no such folder"
            print(f"forebay: {TRACE}={path}: {folder}: {problem}", file=sys.stderr)
            sys.exit(2)
        ProcessTrace(path).begin()
    if os.environ.get(STATS):
        begin_stats()


def begin_log(level: str) -> None:
    """Print what forebay logs, from this level on, on stderr. Handlers of the program's own get it as well."""
    if level.lower() not in LEVELS:
        print(f"forebay: {LOG}={level}: the levels are {', '.join(LEVELS)}", file=sys.stderr)
        sys.exit(2)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logger = logging.getLogger("forebay")
    logger.addHandler(handler)
    logger.setLevel(level.upper())


def begin_ranges(libraries: str) -> None:
    """Make ranges for profilers from now on, in these libraries, which commas divide."""
    for library in libraries.split(","):
        if library not in LIBRARIES:
            print(f"forebay: {RANGES}={libraries}: the libraries are {', '.join(LIBRARIES)}", file=sys.stderr)
            sys.exit(2)
        try:
            Ranges(library).begin()
        except ImportError as error:
            print(f"forebay: {RANGES}={libraries}: {error}: pip install {library}", file=sys.stderr)
            sys.exit(2)


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
    """Begin to record calls, and report at the end of the interpreter."""
    recorder, process, begin = CallRecorder(), os.getpid(), calls.now()
    recorder.begin()

    def end() -> None:
        if os.getpid() == process:
            stats, found = recorder.end()
            if stats or found:
                text = report(stats, found, calls.nanoseconds_a_tick(begin, calls.now()))
                print(f"forebay: what process {process} did\n{text}", file=sys.stderr)

    atexit.register(end)
