"""``python -m microbench launch``: tables, and JSON with ``--json``."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

import forebay as ps
from forebay.queues.selection import select
from microbench import cold_start as starting
from microbench import hip as ported
from microbench import instructions as counting
from microbench import launch as launches
from microbench.interleaved import Measured, ratio_interval

console = Console(width=None if sys.stdout.isatty() else 130)


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Microbenchmarks of forebay: ratios to the same driver calls in a compiled C loop, in one process and run."""


def number(name: str, default: int, text: str) -> Any:
    """Return an option that takes a number of at least one."""
    return click.option(f"--{name}", type=click.IntRange(1), default=default, help=text)


of_device = click.option("--device", default=None, help="Filter words, as for forebay.Device.")


@dataclass(frozen=True)
class Row:
    """One line: microseconds a call, and ratios to the C loop of the same rounds."""

    name: str
    minimum: float
    median: float
    ratio_of_minimums: float
    ratio_of_medians: float
    interval: tuple[float, float]


def row(name: str, above: Measured, below: Measured) -> Row:
    """A measurement against its floor; the interval is the bootstrap's 95 % of the ratio of the medians."""
    return Row(
        name,
        above.minimum,
        above.median,
        above.minimum / below.minimum,
        above.median / below.median,
        ratio_interval(above, below),
    )


def show(title: str, rows: list[Row], below: str = "C loop", unit: str = "µs") -> None:
    """Print a table."""
    size = {"µs": 1, "ms": 1000}[unit]
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for heading in (f"{unit} min", f"{unit} median", f"÷ {below}, min", "median", "95 %"):
        table.add_column(heading, justify="right")
    for line in rows:
        low, high = line.interval
        table.add_row(
            escape(line.name),
            f"{line.minimum / size:.3f}",
            f"{line.median / size:.3f}",
            f"{line.ratio_of_minimums:.3f}",
            f"{line.ratio_of_medians:.3f}",
            f"{low:.3f}–{high:.3f}",
        )
    console.print(table)


def beside_rows(found: dict[int, dict[str, Measured]]) -> list[Row]:
    """For each number of queues: the C loop's A/A pair, then the launch."""
    rows = []
    for count, measured in found.items():
        floor = measured[launches.FLOOR]
        rows.append(row(f"{count:5} queues: {launches.AGAIN}", measured[launches.AGAIN], floor))
        rows.append(row(f"{count:5} queues: {launches.LAUNCH}", measured[launches.LAUNCH], floor))
    return rows


@main.command("launch")
@of_device
@number("calls", 300, "Launches of one sample.")
@number("rounds", 100, "Samples of each subject.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write everything as JSON; - prints it.",
)
def launch(device: str | None, calls: int, rounds: int, json_path: Path | None) -> None:
    """What a launch costs, in every way to launch, and beside idle and busy queues."""
    with ps.Device(device) as opened, Progress(console=Console(stderr=True), transient=True) as progress:
        console.print(f"device: {opened.name}  {opened.info.platform} · {opened.info.description}")
        subject = launches.Subject(opened)
        counts = [0, 1, 8, 32, 64, 256, 1024]
        task = progress.add_task("measuring", total=6)
        results: dict[str, list[Row]] = {}
        for held in (True, False):
            measured = launches.ways_to_launch(subject, calls, rounds, held)
            title = f"One blocking queue, {'held by a gate while it is filled' if held else 'running freely'}"
            results[title] = [row(name, value, measured[launches.FLOOR]) for name, value in measured.items()]
            progress.advance(task)
        for blocking in (True, False):
            found = launches.beside_idle(subject, blocking, counts, calls, rounds)
            title = f"The {'null queue' if blocking else 'non-blocking queue'} beside idle blocking queues"
            results[title] = beside_rows(found)
            progress.advance(task)
        busy = {count: launches.beside_busy(subject, count, calls, rounds) for count in (0, 64, 256)}
        results["The null queue beside non-empty blocking queues without new work, all held"] = beside_rows(busy)
        progress.advance(task, 2)
    for title, rows in results.items():
        show(f"{title}; {calls} launches a sample, {rounds} rounds", rows)
    if json_path is not None:
        report = json.dumps(
            {
                "device": opened.name,
                "description": opened.info.description,
                "platform": opened.info.platform,
                "driver": opened.info.driver_version,
                "python": platform.python_version(),
                "calls": calls,
                "rounds": rounds,
                "tables": {title: [asdict(line) for line in rows] for title, rows in results.items()},
            },
            indent=1,
            ensure_ascii=False,
        )
        if str(json_path) == "-":
            print(report)
        else:
            json_path.write_text(report + "\n", encoding="utf-8")


@main.command("by-value")
@of_device
@number("nbytes", 4096, "Bytes of the argument.")
@number("calls", 300, "Launches of one sample.")
@number("rounds", 100, "Samples of each subject.")
def by_value(device: str | None, nbytes: int, calls: int, rounds: int) -> None:
    """What a launch costs whose argument is bytes by value: the same as before, and new ones."""
    with ps.Device(device) as opened:
        console.print(f"device: {opened.name}  {opened.info.platform} · {opened.info.description}")
        measured = launches.by_value(launches.Subject(opened), nbytes, calls, rounds)
    for floor, below in ((launches.LAUNCH, "launch"), (launches.UPLOADING_FLOOR, "C loop")):
        rows = [row(name, value, measured[floor]) for name, value in measured.items()]
        show(f"{nbytes} bytes by value; {calls} launches a sample, {rounds} rounds", rows, below)


@main.command("graph")
@of_device
@number("length", 100, "Launches of the chain.")
@number("calls", 5, "Chains of one sample.")
@number("rounds", 100, "Samples of each subject.")
def graph(device: str | None, length: int, calls: int, rounds: int) -> None:
    """What replaying a captured chain of launches costs, next to the same launches from C."""
    with ps.Device(device) as opened:
        console.print(f"device: {opened.name}  {opened.info.platform} · {opened.info.description}")
        subject = launches.Subject(opened)
        for held in (True, False):
            measured = launches.graphs(subject, length, calls, rounds, held)
            rows = [row(name, value, measured[launches.FLOOR]) for name, value in measured.items()]
            state = "held by a gate while it is filled" if held else "running freely"
            show(f"A chain of {length} launches, the queue {state}; {calls} a sample, {rounds} rounds", rows)


@main.command("scratch")
@of_device
@number("calls", 300, "Launches of one sample.")
@number("rounds", 100, "Samples of each subject.")
def scratch(device: str | None, calls: int, rounds: int) -> None:
    """What a launch costs whose scratch is sized by data that has not changed."""
    with ps.Device(device) as opened:
        console.print(f"device: {opened.name}  {opened.info.platform} · {opened.info.description}")
        measured, spent = launches.with_scratch(opened, calls, rounds)
    rows = [row(name, value, measured[launches.LAUNCH]) for name, value in measured.items()]
    show(f"Scratch sized by data; {calls} launches a sample, {rounds} rounds", rows, "launch")
    console.print(
        f"in {spent.launches:,} launches: {spent.reductions} reductions, {spent.allocations} allocations, "
        f"{spent.copies} copies, {spent.events_made} events"
    )


@main.command("hip")
@number("length", 100, "Launches of the graph.")
@number("calls", 300, "Launches of one sample.")
@number("rounds", 100, "Samples of each subject.")
def of_hip(length: int, calls: int, rounds: int) -> None:
    """What forebay.hip adds to a launch, and what idle streams cost a program; the device is FOREBAY_DEVICE's."""
    console.print(f"device: {select(None).name}")
    launched, replayed = ported.against_the_runtime(length, calls, rounds)
    for title, measured, below in (
        (f"Launches, held; {calls} a sample", launched, launches.LAUNCH),
        (f"A graph of {length} launches, held", replayed, launches.GRAPH),
    ):
        show(
            f"{title}, {rounds} rounds", [row(name, value, measured[below]) for name, value in measured.items()], below
        )
    turns, only_launches = ported.beside_idle_streams(rounds)
    for title, measured in (("and its copy and synchronize", turns), ("alone", only_launches)):
        rows = [row(name, value, measured[ported.ALONE]) for name, value in measured.items()]
        show(f"{ported.ARRAYS} launches on the null stream {title}; {rounds} rounds", rows, ported.ALONE)


@main.command("cold-start")
@of_device
@number("rounds", 7, "Processes of each kind.")
def cold_start(device: str | None, rounds: int) -> None:
    """What the start of a process with twenty kernels costs: compiled, and out of the disk cache."""
    chosen = select(device)
    console.print(f"device: {chosen.name}  {chosen.platform} · {chosen.description}")
    for what, measured in starting.starts(chosen.name, rounds).items():
        rows = [row(name, value, measured[starting.COLD]) for name, value in measured.items()]
        show(f"{what[0].upper()}{what[1:]}; {rounds} rounds", rows, "compiled", "ms")


@main.command("instructions")
def count_instructions() -> None:
    """How many instructions a launch takes, and whose they are, counted by callgrind."""
    found = counting.instructions()
    table = Table(title="Instructions of one launch", title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for column in counting.COLUMNS:
        table.add_column(column, justify="right")
    for subject, counts in found.items():
        table.add_row(subject, *(f"{counts[column]:,}" for column in counting.COLUMNS))
    console.print(table)


if __name__ == "__main__":
    main(prog_name="python -m microbench")
