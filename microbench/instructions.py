"""Counts the instructions of a launch with callgrind, and sorts them by the library that executes them.

Each subject runs in a separate process under callgrind, which collects only while the subject works.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import timeit
from collections import Counter
from pathlib import Path

import forebay as ps
from microbench.launch import FLOOR, LAUNCH, SOURCE, Subject, timed
from microbench.raw import library
from tests import null_levelzero

TURNS = 300
LOOP, BOUND = "empty loop", "bound launch"
SUBJECTS = (LOOP, FLOOR, LAUNCH, BOUND)
COLUMNS = ("forebay", "interpreter", "C library", "driver")


def run(subject: str) -> None:
    """Run one subject. callgrind watches this process."""
    device = ps.Device()
    launched = Subject(device)
    queue = device.queue()
    samples = {
        LOOP: timeit.Timer("pass").timeit,
        FLOOR: launched.raw.loop(queue),
        LAUNCH: launched.launches(queue),
        BOUND: timed("go()", go=launched.kernel.bind(queue, 1, 1, launched.buffer, 100)),
    }
    sample = samples[subject]
    sample(10)
    launched.raw.settle(queue)
    queue.finish()
    gate = queue._gate()  # or callgrind counts the kernels, too, if the device is this CPU
    work = ctypes.CFUNCTYPE(None)(lambda: sample(TURNS) and None)
    library(Path(__file__).with_name("raw") / "collected.c").collected(work)
    gate.open()


def column_of(object_file: str) -> str:
    """The column that the instructions of a shared object belong to."""
    name = Path(object_file).name
    if ".cpython" in name or ".abi3" in name:
        return "forebay" if not name.startswith("_") else "interpreter"
    if name.startswith(("libpython", "python", "libffi")):
        return "interpreter"
    return "C library" if re.match(r"(libc|libm|libstdc\+\+|ld-linux[\w-]*|libpthread)[.-]", name) else "driver"


def counted(subject: str) -> Counter[str]:
    """Instructions of one turn, by column."""
    child, environment = ["python", "-m", "microbench.instructions", subject], None
    if null_levelzero.inside():
        child, environment = null_levelzero.child_command(*child)
    else:
        child[0] = sys.executable
    with tempfile.NamedTemporaryFile(prefix="callgrind-") as out:
        output = f"--callgrind-out-file={out.name}"
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", output, *child]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        command = ["callgrind_annotate", "--threshold=100", "--show-percs=no", out.name]
        functions = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for line in functions.splitlines():
        if function := re.match(r"\s*([\d,]+) .*\[(.*)\]$", line):
            found[column_of(function[2])] += int(function[1].replace(",", ""))
    return Counter({column: round(count / TURNS) for column, count in found.items()})


def instructions() -> dict[str, Counter[str]]:
    """For each subject the instructions of one turn, by column.

    Raises
    ------
    RuntimeError
        If valgrind or its headers are not installed, or if a process fails under it.
    """
    if not shutil.which("valgrind"):
        raise RuntimeError("valgrind is not installed (Debian, Ubuntu: apt install valgrind)")
    with ps.Device() as device:
        device.program(SOURCE)  # fills the cache, so that the counted processes do not compile
    return {subject: counted(subject) for subject in SUBJECTS}


if __name__ == "__main__":
    run(sys.argv[1])
