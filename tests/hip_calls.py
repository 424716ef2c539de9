"""Count the calls of HIP functions in programs for AMD's hip-python, and those that `forebay.hip` has.

    git clone https://github.com/KernelTuner/kernel_tuner
    python -m tests.hip_calls kernel_tuner

A call is ``hip.hipMalloc(…)``, or ``hipMalloc(…)`` in a file with ``from hip.hip import hipMalloc``, in each Python
file below the folders that imports from hip-python. A function that returns hipErrorNotSupported for every device does
not count as one that is there. The exit status is 1 when calls are missing that the hardware could do.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from forebay import hip
from forebay.hip.functions.unavailable import SUBJECTS
from forebay.hip.table import chapter_of

from .hip_python_examples import modules_of, of_hip_python

NOT_OF_THE_HARDWARE = {"mipmaps", "sparse arrays", "graphics", "external memory"}
"""The subjects of `SUBJECTS` that no device here could do."""

UNKNOWN = "not a function of HIP"


def sources_in(path: Path) -> Iterator[str]:
    """Yield the program of a file, or of each cell of a notebook."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        yield text
        return
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, KeyError):
        return
    yield "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def calls_in(source: str) -> Iterator[str]:
    """Yield the HIP functions that a program calls, each as often as it does."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return
    if not any(map(of_hip_python, (module for node in nodes for module in modules_of(node)))):
        return
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        whose = ast.unparse(called.value) if isinstance(called, ast.Attribute) else "hip"
        if name.startswith("hip") and not name.startswith(("hiprtc", "hip_")) and whose.split(".")[-1] == "hip":
            yield name


def state_of(name: str) -> str:
    """Return whether a function is there, and otherwise why not."""
    for subject in SUBJECTS:
        if name in dict(subject.outputs()):
            return subject.name
    if hasattr(hip, name):
        return "there"
    return "missing" if chapter_of(name) else UNKNOWN


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def main(folders: tuple[Path, ...]) -> None:
    """Count the calls of HIP functions in the programs below FOLDERS."""
    every: Counter[str] = Counter()
    for folder in folders:
        calls: Counter[str] = Counter()
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.ipynb")]):
            for source in sources_in(path):
                calls.update(calls_in(source))
        every += calls
        there = sum(count for name, count in calls.items() if state_of(name) == "there")
        print(f"{folder.name}: {there} of {calls.total()} calls, {len(calls)} functions")
    possible = {name: count for name, count in every.items() if state_of(name) not in {*NOT_OF_THE_HARDWARE, UNKNOWN}}
    missing = {name: count for name, count in every.items() if state_of(name) != "there"}
    for name, count in sorted(missing.items()):
        print(f"  {name}: {count} ({state_of(name)})")
    there = sum(count for name, count in possible.items() if name not in missing)
    share = 100 * there / max(sum(possible.values()), 1)
    print(f"all: {there} of {sum(possible.values())} calls that the hardware could do, {share:.1f} %")
    sys.exit(any(name in possible for name in missing))


if __name__ == "__main__":
    main()
