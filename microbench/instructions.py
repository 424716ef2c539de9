"""Counts the instructions of operations with callgrind, and sorts them by the library that executes them.

One process runs all of them under callgrind, which collects only while an operation works, each into a file of its own.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import forebay as fb

from . import kernels
from .counts import OPERATIONS, Count, subject_of
from .layers import Ground, Subject, timed
from .processes import run_python
from .raw import NoCompilerError, compile_c

TURNS = 300
LOOP, FLOOR = "empty loop", "C loop"
COMPARED = tuple(name for name, operation in OPERATIONS.items() if operation.instructions)
SUBJECTS = (LOOP, FLOOR, *COMPARED)  # the first two run none of forebay
COLUMNS = ("forebay", "interpreter", "C library", "driver")
COUNTED = Path(__file__).with_name("raw") / "collected.c"


def part() -> str:
    """The part of the table: it names what decides how many instructions forebay has."""
    from forebay.queues.launch import launch

    code = Path(launch.__file__).read_bytes()
    compiler = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", code)
    made = [compiler[0].decode()] if compiler else []
    with suppress(importlib.metadata.PackageNotFoundError):
        made.append(f"Cython {importlib.metadata.version('Cython')}")
    version = ".".join(platform.python_version_tuple()[:2])
    return ", ".join([f"instructions: {platform.python_implementation()} {version}", *made, platform.machine()])


def why_not() -> str:
    """Why instructions cannot be counted here; empty if they can."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed (Debian, Ubuntu: apt install valgrind)"
    try:
        compile_c(COUNTED)
    except NoCompilerError as error:
        return str(error)
    return ""


def run(subjects: Sequence[str]) -> None:
    """Run subjects. callgrind watches this process."""
    ground = Ground(fb.Device())
    collected = ctypes.CDLL(str(compile_c(COUNTED))).collected
    for name in subjects:
        if name == LOOP:
            subject = Subject(timed("pass"), nullcontext)
        elif name == FLOOR:
            subject = ground.layer("C").launch("", 2)
        else:
            subject = subject_of(ground, name)
        with subject.around():
            subject.run(10)
        with subject.around():  # holds the queue, or callgrind would count the kernels of a device that is this CPU
            collected(ctypes.CFUNCTYPE(None)(partial(subject.run, TURNS)), name.encode())


def column_of(object_file: str) -> str:
    """The column that the instructions of a shared object belong to."""
    name = Path(object_file).name
    if ".cpython" in name or ".abi3" in name:
        return "forebay" if not name.startswith("_") else "interpreter"
    if name.startswith(("libpython", "python", "libffi")):
        return "interpreter"
    return "C library" if re.match(r"(libc|libm|libstdc\+\+|ld-linux[\w-]*|libpthread)[.-]", name) else "driver"


def _read(path: Path) -> tuple[str, Counter[str]]:
    """The subject of a file of callgrind, and its instructions of one turn, by column.

    callgrind_annotate counts the callers in progress of such a file for all that they have called. A cost is a line of
    its own, with a position before it; the line after ``calls=`` has that of the callee, which is counted there.
    """
    subject, column, counted, called = "", "", Counter[str](), False
    objects: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if named := re.match(r"ob=(\(\d+\))(?: (.*))?$", line):
            if named[2]:
                objects[named[1]] = named[2]
            column = column_of(objects[named[1]])
        elif named := re.match(r"cob=(\(\d+\)) (.*)$", line):
            objects[named[1]] = named[2]
        elif line.startswith("desc: Trigger: Client Request: "):
            subject = line.split(": ", 3)[3]
        elif cost := re.match(r"[+*\-\d]\S* (\d+)$", line):
            counted[column] += 0 if called else int(cost[1])
        called = line.startswith("calls=")
    return subject, Counter({name: round(count / TURNS) for name, count in counted.items()})


def instructions(subjects: Sequence[str] = SUBJECTS) -> dict[str, Count]:
    """For each subject the instructions of one turn, by column.

    Raises RuntimeError when valgrind or its headers are not installed, or when the process fails under it.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    with fb.Device() as device:
        device.program(kernels.opencl())  # fills the cache, so that the counted process does not compile
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        output = f"--callgrind-out-file={folder}/out"
        prefix = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", output)
        run_python("-m", __name__, *subjects, prefix=prefix)
        found = dict(_read(path) for path in sorted(Path(folder).glob("out.*")))
    return {name: {column: found[name][column] for column in COLUMNS} for name in subjects}


if __name__ == "__main__":
    run(sys.argv[1:])
