"""Run the kernels of a public collection on the device and on the host, and compare all they leave in memory.

    python -m tests.hiprtc.results rocm-examples --report rocm-examples.json

Each program that `tests.hip_collections` cuts out and that loads is compiled for the host, too, with a header that was
written for this alone (`hip_on_host.hpp`), and run there three times, in different orders of its threads, and twice with
inputs that are a few units in the last place off. Launches that touch what is not theirs, whose result depends on the
order, or that change nothing are set aside. Integers must then be the same; floating point numbers may differ by what
the reference itself does when its inputs are that little off, times 16, and 32 units in the last place.

The exit status is 1 when a kernel differs.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ...hip_collections import Outcome, outcomes_of

SECONDS = 240


def programs_of(found: list[Outcome], folder: Path) -> list[dict]:
    """Return the programs that load, and the kernels that each was compiled for."""
    programs: dict[tuple[str, tuple[str, ...]], dict] = {}
    for outcome in found:
        if outcome.state != "loads":
            continue
        key = outcome.source, outcome.expressions
        program = programs.setdefault(key, {"source": key[0], "expressions": key[1], "kernels": []})
        program["kernels"].append((outcome.kernel, str(outcome.file.relative_to(folder))))
    return list(programs.values())


def results_of(program: dict, device: str | None) -> list[dict]:
    """Return what a process of its own finds for a program's kernels."""
    environment = dict(os.environ, **({"FOREBAY_DEVICE": device} if device else {}))
    command = [sys.executable, "-m", "tests.hiprtc.results.compared"]
    try:
        given = {"input": json.dumps(program), "timeout": SECONDS, "env": environment}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
        lines = done.stdout.splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        why = f"ended by {done.returncode}: {done.stderr[-300:]}" if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        found = [json.loads(line) for line in text.decode().splitlines() if line.startswith("{")]
        why = "does not end"
    known = {result["kernel"] for result in found}
    places = dict(program["kernels"])
    for name in places:
        if name not in known:
            found.append({"kernel": name, "state": "process" if why else "no host", "why": why or "not found"})
    return [result | {"file": places[result["kernel"]]} for result in found if result["kernel"] in places]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--device", help="As in FOREBAY_DEVICE.")
@click.option("--only", default="", help="Only files whose path has this in it.")
@click.option("--report", type=click.Path(path_type=Path), help="A file for all results, in JSON.")
def main(folder: Path, device: str | None, only: str, report: Path | None) -> None:
    """Compare what the kernels of the programs below FOLDER leave in memory with what they leave on the host."""
    if device:
        os.environ["FOREBAY_DEVICE"] = device
    console = Console(stderr=True)
    quiet = not console.is_terminal
    found = outcomes_of(folder, only, lambda paths: track(paths, "compiling", console=console, disable=quiet))
    programs = programs_of(found, folder)
    results = []
    for program in track(programs, "comparing", console=console, disable=quiet):
        results += results_of(program, device)
        if report:
            report.write_text(json.dumps({"kernels": len(found), "results": results}, indent=1))
    shown = Console() if sys.stdout.isatty() else Console(width=180)
    table = Table("file", "kernel", "state", "why")
    for result in results:
        if result["state"] in ("differs", "process", "refused"):
            table.add_row(result["file"], result["kernel"], result["state"], result["why"][:200])
    shown.print(table)
    states = collections.Counter(result["state"] for result in results)
    counts = ", ".join(f"{n} {state}" for state, n in states.most_common())
    print(f"{len(found)} kernels, of which {len(results)} load: {counts}")
    sys.exit(1 if states["differs"] or states["process"] else 0)


if __name__ == "__main__":
    main()
