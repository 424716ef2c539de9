"""Runs a program with a changed environment, as ``forebay trace`` and ``forebay stats`` do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it


def run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command to its end, and return its exit status, for this process to end with. Exits if it cannot be run.

    That is 128 plus the number of the signal if one ended it. Ctrl-C and the signals that ask this process to end are
    the command's to handle.
    """
    try:
        process = subprocess.Popen(command, env=os.environ | variables)
    except OSError as error:
        program = " ".join(command)
        instead = f"; a program in Python is: python {program}" if command[0].endswith(".py") else ""
        print(f"forebay: {command[0]}: {error.strerror}{instead}", file=sys.stderr)
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    status = process.wait()
    return status if status >= 0 else 128 - status
