"""Run the examples of AMD's hip-python as they are, by ``python -m forebay.hip``.

    git clone https://github.com/ROCm/hip-python
    python -m tests.hip_python_examples hip-python
    python -m tests.hip_python_examples hip-python --device opencl:cpu:0 --device opencl:cpu:1

Each program in a copy of the folder is run by a Python of its own. One that needs a library of AMD's, LLVM or Cython is
out of scope. The exit status is 1 when one of the others fails, and 2 when there is none.

Null hardware (`tools.null_levelzero`) writes neither results nor times. There a program that ends because it found
wrong values, or asked how much time passed between two events, has done what it can: it counts as submitted.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from forebay.core.errors import Error
from forebay.queues.selection import select
from tests.helpers.processes import command
from tools import null_levelzero

AMD_TARGET = b"amdgcn-amd-amdhsa"  # LLVM's text for an AMD GPU
MISSING = re.compile(r"forebay has no \w+|No module named '(?:rocm|hip|cuda)\b")
OWN_CHECK = re.compile(r"(RuntimeError|ValueError|AssertionError)\b(?!.*(hipError|hiprtcResult|HIPRTC_))")

COLOURS = {"ran": "green", "submitted": "yellow", "failed": "red", "out of scope": "bright_black"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program on a device: one of `COLOURS`, and why, or what it printed last."""

    state: str
    text: str


def examples_below(folder: Path) -> Iterator[Path]:
    """Yield the programs below a folder, in order, as paths in it; of checkouts, what is in their ``examples``."""
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyx"))
    programs = [path for path in found if path.name != "setup.py" and not path.name.startswith("test_")]
    in_checkouts = [path for path in programs if "examples" in path.parts]
    yield from in_checkouts or programs


def run(program: Path, device: str, timeout: float) -> Outcome:
    """Run a program on a device, by a Python of its own."""
    line, env = command("-m", "forebay.hip", program, FOREBAY_DEVICE=device, PYTHONSAFEPATH=None)
    try:
        done = subprocess.run(
            line,
            env=env,
            cwd=program.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return Outcome("failed", f"did not end within {timeout:g} s")
    if done.returncode == 0:
        return Outcome("ran", last_line(done.stdout))
    if done.returncode < 0:
        return Outcome("failed", f"was ended by signal {-done.returncode}; {last_line(done.stderr)}")
    error = error_of(done.stderr) or f"exit status {done.returncode}; {last_line(done.stderr)}"
    on_null_hardware = null_levelzero.inside() and device.startswith("level_zero")
    if on_null_hardware and (OWN_CHECK.match(error) or "hipEventElapsedTime(" in done.stderr):
        return Outcome("submitted", error)
    return Outcome("out of scope" if MISSING.search(error) else "failed", error)


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    lines = text.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def error_of(stderr: str) -> str:
    """Return the first line of the exception of the last traceback; nothing when there is none."""
    _, found, traceback = stderr.rpartition("Traceback (most recent call last):\n")
    return next((line for line in traceback.split("\n") if found and line and not line.startswith(" ")), "")


# -- the command line


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--device", multiple=True, help="As in FOREBAY_DEVICE; may be given several times.")
@click.option("--timeout", type=float, default=300, show_default=True, help="Seconds for each program.")
def main(folder: Path, device: tuple[str, ...], timeout: float) -> None:
    """Run hip-python's examples below FOLDER."""
    try:
        devices = [select(words).name for words in device or [None]]
    except Error as error:
        print(f"hip_python_examples: {error}", file=sys.stderr)
        sys.exit(2)
    console = Console() if sys.stdout.isatty() else Console(width=200)
    table = Table("program", *devices)
    states: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hip-python-") as own:
        there = Path(own) / "copy"
        shutil.copytree(folder, there, ignore=shutil.ignore_patterns(".git"))
        shown = Console(stderr=True)
        for program in track(list(examples_below(folder)), "running", console=shown, disable=not shown.is_terminal):
            text = (folder / program).read_bytes()
            reason = "Cython" if program.suffix == ".pyx" else "LLVM of an AMD GPU" if AMD_TARGET in text else ""
            outcomes = [
                Outcome("out of scope", reason) if reason else run(there / program, device, timeout)
                for device in devices
            ]
            table.add_row(str(program), *map(cell, outcomes))
            states += ["out of scope"] if reason else [outcome.state for outcome in outcomes]
    console.print(table)
    print(", ".join(f"{states.count(state)} {state}" for state in COLOURS if state in states) or "no programs")
    tried = [state for state in states if state != "out of scope"]
    sys.exit(1 if "failed" in tried else 0 if tried else 2)


def cell(outcome: Outcome) -> str:
    """Return an outcome in the markup of rich."""
    return f"[{COLOURS[outcome.state]}]{outcome.state}[/] {escape(outcome.text)}"


if __name__ == "__main__":
    main()
