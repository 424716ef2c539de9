"""Shows what queues do: traces for Perfetto, and what a program does without need."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from forebay.core.errors import ArgumentTypeError, Error

if TYPE_CHECKING:
    from typing_extensions import Self

    from forebay.tracing.recording import Recorder

__all__ = ["begin_by_environment", "trace"]

VARIABLES = ("FOREBAY_LOG", "FOREBAY_TRACE", "FOREBAY_STATS", "FOREBAY_RANGES")


class trace:  # noqa: N801 - it is used like a function
    """Write a trace of what queues do in a ``with`` block, to be opened at https://ui.perfetto.dev.

    The file has a track for each queue, with what it was given: launches by the kernels' names, copies, fills, markers,
    and host functions. Waits are arrows from the marker that the producer made to the command that carried the wait.
    The threads of the host have tracks with the calls that may block, and the line of the program that made them. For
    each queue there is the number of commands in flight: those submitted and not known to be done.

    The times of commands are those of the driver's calls by which they were submitted. The device runs them later. When
    that was is noted if `device_times` asks for it: then each queue has a second track, with arrows from what was
    submitted to when it ran. Commands in an open `Step` are seen when they are submitted.

    Queues and kernels of before are in the trace too, with what they do in the block. A child that is forked in the
    block writes nothing. The newest 1,048,576 calls are kept, in 64 MiB of memory, and ``"lost calls"`` in the file
    says how many were not. A launch costs a twentieth more meanwhile; nothing is added to it outside the block.

    Parameters
    ----------
    path : str or path
        The file, which is replaced.
    device_times : bool
        Whether to note when launches, copies, fills, and stretches of steps and graphs ran on the device. Each of them
        is three commands of the driver's then: a timed event before it and one after it. Queues that are made meanwhile
        take timed records; of those of before, the ones that do are timed.

    Raises
    ------
    ArgumentTypeError
    OSError
        On entering, when the file cannot be written; or on leaving.
    Error
        On entering, when another trace is running.

    Notes
    -----
    Does not wait for devices. Leaving writes the file, which takes some 30 µs for each call. An exception in the block
    does not keep the file from being written.
    """

    def __init__(self, path: str | os.PathLike[str], device_times: bool = False) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(f"trace: path is a str or a path, not {type(path).__name__}")
        if not isinstance(device_times, bool):
            raise ArgumentTypeError(f"trace: device_times is a bool, not {type(device_times).__name__}")
        self.path: str = os.fspath(path)
        self.device_times = device_times
        self._recorder: Recorder | None = None
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._recorder is not None:
            raise Error("this trace is running already")
        from forebay.tracing.recording import Recorder  # late: most programs are never traced

        recorder = Recorder(self.device_times)
        recorder.begin()
        try:
            self._file = open(self.path, "w", encoding="utf-8")
        except BaseException:
            recorder.end()
            raise
        self._recorder = recorder
        return self

    def __exit__(self, *exc_info: object) -> None:
        recorder, file = self._recorder, self._file
        self._recorder = self._file = None
        if recorder is not None and file is not None and not recorder.is_forked:
            from forebay.tracing.chrome import write

            with file:
                recorder.end()
                write(recorder, file)


def begin_by_environment() -> None:
    """Begin what the environment asks for: see `forebay.tracing.environment`."""
    if any(os.environ.get(name) for name in VARIABLES):
        from forebay.tracing.environment import begin

        begin()
