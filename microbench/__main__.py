"""``python -m microbench`` in a checkout, and ``forebay bench`` where forebay is installed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import forebay as fb
from forebay.core.errors import how_to_install
from forebay.selftest.command import progress_bar

from . import report as reports
from .cases import CASES
from .harness import Bench
from .layers import LAYERS

FULL, QUICK = {"rounds": 100, "calls": 200}, {"rounds": 12, "calls": 60}
"""Samples of each subject and operations of a sample; these are few enough for any driver's queue."""


class _Group(click.Group):
    """A group whose first word may be a case: then it runs cases."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Without a command it runs the cases: bench run --help lists the options of that.",
)
def main() -> None:
    """What forebay's calls cost, next to the same driver calls in a compiled C loop and to other packages."""


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


@main.command("run")
@click.argument("cases", nargs=-1, type=click.Choice(list(CASES)), metavar="[CASE]…")
@click.option("--device", default=None, help="Filter words, as for forebay.Device.")
@click.option("--quick", is_flag=True, help="Every case, fewer points and samples: under a minute.")
@click.option("--layer", "only", multiple=True, type=click.Choice(list(LAYERS)), help="Only this one; again.")
@click.option("--rounds", type=click.IntRange(2), default=None, help="Samples of each subject.")
@click.option("--calls", type=click.IntRange(2), default=None, help="Operations of one sample.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, allow_dash=True), help="Write JSON; - prints it.")
def run(
    cases: Sequence[str],
    device: str | None,
    quick: bool,
    only: Sequence[str],
    rounds: int | None,
    calls: int | None,
    json_path: Path | None,
) -> None:
    """Run the cases, or all of them, and print tables.

    \b
    Cases:
    {cases}
    """
    chosen = [CASES[name] for name in dict.fromkeys(cases or CASES)]
    usual = QUICK if quick else FULL
    begun = time.perf_counter()
    with fb.Device(device) as opened:
        bench = Bench(opened, quick, rounds or usual["rounds"], calls or usual["calls"], only)
        rows = []
        with progress_bar() as progress:
            task = progress.add_task("", total=sum(map(bench.turns, chosen)))
            for number, case in enumerate(chosen, 1):
                progress.update(task, description=case.name)
                rows += bench.run(case, lambda: progress.advance(task))
                report = reports.Report.of(bench, chosen[:number], rows, time.perf_counter() - begun)
                if json_path is not None and json_path != Path("-"):  # a run that is cut short leaves what it has
                    json_path.write_text(report.to_json(), encoding="utf-8")
        line = f"device: {opened.name}  {opened.info.platform} · {opened.info.description}"
    if json_path == Path("-"):
        print(report.to_json(), end="")
    else:
        console = _console()
        console.print(line)
        reports.show(report, console)


run.help = (run.help or "").format(cases="\n".join(f"  {name:<11} {case.title}" for name, case in CASES.items()))


def _read(path: Path) -> reports.Report:
    try:
        return reports.Report.read(path)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


existing: Any = click.Path(path_type=Path, exists=True, dir_okay=False)


@main.command("show")
@click.argument("path", type=existing)
def show(path: Path) -> None:
    """Print the tables of a result."""
    reports.show(_read(path), _console())


@main.command("compare")
@click.argument("old", type=existing)
@click.argument("new", type=existing)
@click.option("--check", is_flag=True, help="Fail when something is slower.")
def compare(old: Path, new: Path, check: bool) -> None:
    """Say what changed beyond noise between two results, both ÷ their own C loop where there is one."""
    slower = reports.show_changes(_read(old), _read(new), _console())
    if check and slower:
        raise SystemExit(1)


@main.command("counts")
@click.option("--write", is_flag=True, help="Put them into the table that the tests compare with.")
@click.option("--instructions", is_flag=True, help="Count instructions, with callgrind, instead of calls.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def count(write: bool, instructions: bool, as_json: bool) -> None:
    """Count what one operation takes of driver calls, events, markers and host syncs, in a checkout."""
    from . import counts

    if instructions:
        from . import instructions as counting

        part, found = counting.part(), counting.instructions()
    else:
        if find_spec("tests") is None or find_spec("tests.observers") is None:
            raise click.ClickException("counts need the observers of the tests, which are in a checkout")
        with counts.watched_device() as device:
            part, found = device.info.backend, counts.count(device)
    if write:
        counts.write(part, found)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for name, numbers in found.items():
        print(f"{name}: {', '.join(f'{what} {number:g}' for what, number in numbers.items())}")


@main.command("plot")
@click.argument("path", type=existing, nargs=-1, required=True)
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("."), help="Where to.")
def plot(path: Sequence[Path], folder: Path) -> None:
    """Draw the pictures of results, as PNG and SVG."""
    try:
        from . import plot as plotting
    except ImportError as error:
        raise click.ClickException(f"pictures need matplotlib: {how_to_install('bench')} ({error})") from error
    for each in path:
        for drawn in plotting.draw(_read(each), folder, f"{each.stem}-"):
            print(drawn)


if __name__ == "__main__":
    main(prog_name="python -m microbench")
