"""``forebay selftest``: shows how far it is, prints the table, and writes the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from forebay.selftest.litmus import LITMUS
from forebay.selftest.messages import Begun, Ended, Message, Ran, Request
from forebay.selftest.report import Report
from forebay.selftest.supervisor import supervise
from forebay.selftest.work import work

PASSED, FAILED, NO_DEVICE, INTERRUPTED = 0, 1, 2, 130


def selftest(request: Request, output: str, in_process: bool = False) -> int:
    """Run the tests.

    Parameters
    ----------
    output
        The file to write. It is written again and again, so it is there whatever happens.
    in_process
        Whether the tests run in this process, which may hang or end then.

    Returns
    -------
    int
        The exit status: 0 if all was right, 1 if something was not, 2 if there is no such device or the file cannot be
        written, 130 after Ctrl-C.

    Notes
    -----
    Blocks, for up to ``request.seconds`` and what building takes.
    """
    existed = os.path.exists(output)
    try:
        with open(output, "a", encoding="utf-8"):
            pass
    except OSError as error:
        print(f"forebay: {output}: {error.strerror}", file=sys.stderr)
        return NO_DEVICE
    report = Report()
    status = _collect(report, work(request) if in_process else supervise(request), request, output)
    if status == NO_DEVICE:
        if not existed:
            os.remove(output)
        print(f"forebay: {report.stopped}", file=sys.stderr)
        return status
    report.write(output)
    report.show(Console(width=None if sys.stdout.isatty() else 120, highlight=False))
    print(f"The file is {output}.")
    if report.failures or report.opened is None or "level_zero" in str(report.opened.facts["name"]):
        print("Please attach it to an issue: https://github.com/forebay/forebay/issues")
    return status


def _collect(report: Report, messages: Iterator[Message], request: Request, output: str) -> int:
    """Take in all messages, and return the exit status."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
        TimeRemainingColumn(),
    )  # fmt: skip
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("opening", total=len(LITMUS) * request.rounds)
            for message in messages:
                report.note(message)
                if isinstance(message, Begun):
                    progress.update(task, description=message.what.partition(":")[0])
                elif isinstance(message, Ran):
                    progress.advance(task)
                elif not (isinstance(message, Ended) and not message.found):
                    report.write(output)  # seldom, and before what is new to the device
    except KeyboardInterrupt:
        report.stopped = "interrupted"
        return INTERRUPTED
    if report.ended is not None and not report.ended.found:
        return NO_DEVICE
    return PASSED if report.passed else FAILED
