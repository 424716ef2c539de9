"""``forebay selftest``: shows how far it is, prints a table, and writes a file to attach to an issue."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from forebay.selftest import machine
from forebay.selftest.litmus import LITMUS
from forebay.selftest.supervisor import supervise
from forebay.selftest.work import Begun, Controlled, Ended, Latency, Message, Opened, Ran, Request, work

PASSED, FAILED, NO_DEVICE, INTERRUPTED = 0, 1, 2, 130
FORMAT = 1
SELDOM = 0.3  # of the races on purpose
MOST_SHOWN = 20  # failures on the screen; the file has all


def selftest(request: Request, output: str, in_process: bool = False) -> int:
    """Run the tests, in this process, which may hang or end then, or in one of their own.

    Blocks, for up to ``request.seconds`` and what building takes. The output is a file that is written again and again,
    so it is there whatever happens. Returns the exit status: 0 if all was right, 1 if something was not, 2 if there is
    no such device or the file cannot be written, 130 after Ctrl-C.
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


def progress_bar() -> Progress:
    """A bar on stderr, with the times; nothing where that is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
        TimeRemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _collect(report: Report, messages: Iterator[Message], request: Request, output: str) -> int:
    """Take in all messages, and return the exit status."""
    try:
        with progress_bar() as progress:
            task = progress.add_task("opening", total=len(LITMUS) * request.rounds)
            for message in messages:
                report.note(message)
                if isinstance(message, Begun):
                    progress.update(task, description=message.what.partition(":")[0])
                elif isinstance(message, Ran):
                    progress.advance(task)
                elif isinstance(message, Ended) and not message.found:
                    return NO_DEVICE
                else:
                    report.write(output)  # seldom, and before what is new to the device
    except KeyboardInterrupt:
        report.stopped = "interrupted"
        return INTERRUPTED
    return PASSED if report.passed else FAILED


class Report:
    """Collects what the tests tell."""

    def __init__(self) -> None:
        self.began: float = time.monotonic()
        self.date: str = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.opened: Opened | None = None  # until the device is open
        self.controlled: Controlled | None = None
        self.ended: Ended | None = None
        self.stopped: str = ""  # why not everything was run
        self.runs: Counter[str] = Counter()  # by test
        self.failures: dict[str, dict[str, Any]] = {}  # what went wrong the first time, and in which rounds
        self.absent: dict[str, str] = {}
        self.latencies: list[Latency] = []

    def note(self, message: Message) -> None:
        """Take in what was told."""
        if isinstance(message, Opened):
            self.opened = message
        elif isinstance(message, Controlled):
            self.controlled = message
        elif isinstance(message, Latency):
            self.latencies.append(message)
        elif isinstance(message, Ended):
            self.ended = message
            self.stopped = message.problem
        elif isinstance(message, Ran):
            if message.absent:
                self.absent[message.what] = message.absent
                return
            self.runs[message.what] += 1
            if message.problem:
                first = {"test": message.what, "problem": message.problem, "rounds": []}
                self.failures.setdefault(message.what, first)["rounds"].append(message.number)

    @property
    def slow(self) -> float:
        """Seconds that a slow kernel takes; 0 where nothing executes."""
        slower = 1 if self.controlled is None else self.controlled.slower
        return 0 if self.opened is None else self.opened.slow * slower

    @property
    def passed(self) -> bool:
        """Whether everything was run, and was right."""
        return self.ended is not None and not self.stopped and not self.failures

    def as_dict(self) -> dict[str, Any]:
        """All of it, for the file."""
        return {
            "format": FORMAT,
            "what": "forebay selftest",
            "passed": self.passed,
            "judged": "results" if self.opened is None or self.opened.executes else "calls only: nothing executes",
            "date": self.date,
            "seconds": round(time.monotonic() - self.began, 1),
            "stopped": self.stopped,
            "device": {} if self.opened is None else self.opened.facts,
            "machine": machine.system(),
            "versions": machine.versions(),
            "environment": machine.environment(),
            "rounds": 0 if self.ended is None else self.ended.rounds,
            "slow kernel, µs": round(self.slow * 1e6, 1),
            "races that were seen": None if self.controlled is None else asdict(self.controlled),
            "chapters": self.chapters(),
            "failures": list(self.failures.values()),
            "absent": self.absent,
            "latencies, µs": {
                row.name: {"minimum": round(row.minimum, 3), "median": round(row.median, 3)} for row in self.latencies
            },
            "counters": {} if self.ended is None else self.ended.stats,
        }

    def chapters(self) -> dict[str, dict[str, int]]:
        """Of each chapter, and then of what else has failed: how many tests, how many of these failed or could not be
        run, and all their runs.
        """
        found: dict[str, dict[str, int]] = {}
        for test in dict.fromkeys([*map(str, LITMUS), *self.failures]):
            new = dict.fromkeys(("tests", "runs", "failed", "absent"), 0)
            chapter = found.setdefault(test.partition(":")[0], new)
            chapter["tests"] += 1
            chapter["runs"] += self.runs[test]
            chapter["failed"] += test in self.failures
            chapter["absent"] += test in self.absent
        return found

    def write(self, path: str) -> None:
        """Write the file anew. Raises OSError."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.as_dict(), file, indent=1, ensure_ascii=False)
            file.write("\n")

    # -- the screen

    def show(self, console: Console) -> None:
        """Print the table, what failed, and a verdict."""
        if self.opened is not None:
            facts = self.opened.facts
            driver = f", driver {facts['driver_version']}" if facts["driver_version"] else ""
            console.print(escape(f"{facts['name']}  {facts['platform']} · {facts['description']}{driver}"))
        if self.runs or self.latencies:
            console.print(self._table())
        for failure in list(self.failures.values())[:MOST_SHOWN]:
            console.print(f"[red]failed[/] {escape(failure['test'])}")
            console.print(f"  {escape(failure['problem'])}", highlight=False)
            console.print(f"  {len(failure['rounds'])} of {self.runs[failure['test']]} runs", highlight=False)
        if len(self.failures) > MOST_SHOWN:
            console.print(f"… and {len(self.failures) - MOST_SHOWN} more tests: the file has them")
        console.print(self.verdict())

    def _table(self) -> Table:
        table = Table()
        table.add_column("what", no_wrap=True)
        table.add_column("runs", justify="right")
        table.add_column("result", no_wrap=True)
        right = "right" if self.opened is None or self.opened.executes else "calls succeed"
        for name, chapter in self.chapters().items():
            result = f"[red]{chapter['failed']} of {chapter['tests']} failed[/]" if chapter["failed"] else right
            result += f", {chapter['absent']} left out" if chapter["absent"] else ""
            table.add_row(escape(name), f"{chapter['runs']:,}", result)
        if self.controlled is not None:
            seen, of = self.controlled.seen, self.controlled.of
            table.add_section()
            table.add_row(
                "races on purpose", str(of), f"{seen} seen" if seen >= SELDOM * of else f"[yellow]{seen} seen[/]"
            )
        if self.latencies:
            table.add_section()
        for row in self.latencies:
            table.add_row(escape(row.name), "", f"{row.minimum:.2f} µs, median {row.median:.2f}")
        return table

    def verdict(self) -> str:
        """What all of it means, in the markup of rich."""
        lines = []
        if self.stopped:
            lines.append(f"[red]stopped:[/] {escape(self.stopped)}")
        if self.opened is not None and not self.opened.executes:
            lines.append(
                "[yellow]Nothing executes here, so only the calls were judged:[/] that they succeed, and that queues "
                "come to their end. No result was compared."
            )
        elif self.controlled is not None and self.controlled.seen < SELDOM * self.controlled.of:
            lines.append(
                "[yellow]Queues seldom ran side by side here:[/] most programs that lack a wait on purpose were right, "
                "too, so a wait that is lost may not have been seen."
            )
        if self.failures:
            count = len(self.failures)
            lines.append(f"[red]{count} test{'s' * (count > 1)} failed.[/]")
        elif self.passed:
            lines.append("[green]Everything was as it should be.[/]")
        return "\n".join(lines)
