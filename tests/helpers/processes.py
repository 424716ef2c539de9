"""Runs Python in a separate process: the drivers' loaders read the environment once, so each case needs another one.

If this process runs under the Level Zero driver of `null_levelzero`, the new process does too.
"""

import contextlib
import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.queues.kernels import build
from tests.helpers import forks
from tools import null_levelzero

ROOT = Path(__file__).resolve().parents[2]

UNCHOSEN = {"OCL_ICD_VENDORS": None, "OPENCL_VENDOR_PATH": None, "OCL_ICD_FILENAMES": None}
"""The environment of a user who chooses no drivers. On some machines only these variables name any driver."""

# pip install pyopencl[pocl] puts a driver into pyopencl's own folder. Its loader always reads that folder, whatever the
# environment says.
_pyopencl = importlib.util.find_spec("pyopencl")
BUNDLED_DRIVERS = bool(_pyopencl and _pyopencl.origin and any(Path(_pyopencl.origin).parent.glob(".libs/*.icd")))


def no_opencl(folder):
    """An environment in which the loader finds no driver, because it searches only this empty folder."""
    return {**UNCHOSEN, "OCL_ICD_VENDORS": folder}


def command(*arguments, without_level_zero=False, **environment):
    """Return the argument list and the environment for running Python with these arguments.

    `environment` is applied last; a variable that is None is unset. Only it can choose a device. The drivers are those
    that this process finds. Level Zero is there if this process has it, unless `without_level_zero`. The validation
    layer is always off, because its report at exit would mix with the output.
    """
    command = [sys.executable, *map(str, arguments)]
    env = null_levelzero.outside()
    if null_levelzero.inside() and not without_level_zero:
        here = null_levelzero.devices_here()
        command, env = null_levelzero.child_command("python", *map(str, arguments), devices=here)
    # With all of CUDA's connections a process takes seconds to open a device beside others (docs/cuda.md).
    changes = {"FOREBAY_DEVICE": None, "CUDA_DEVICE_MAX_CONNECTIONS": 8} | environment
    env = {name: value for name, value in env.items() if name not in changes}
    return command, env | {name: str(value) for name, value in changes.items() if value is not None}


@functools.cache
def server():
    return forks.Server(*command(forks.__file__))


def python(*arguments, cwd=ROOT, timeout=None, fresh=False, **options):
    """Run Python with these arguments and `options` as `command` takes them.

    In a fork of a process that has imported forebay and opened no driver. A `fresh` process is for tests of imports and
    of how Python ends; it is also taken where `options` have variables that libraries read when they are loaded. The
    test fails if it takes longer than `timeout`.
    """
    line, env = command(*arguments, **options)
    kept = {"cwd": cwd, "env": env, "timeout": timeout}
    try:
        if not fresh and server().suits(env):
            return server().run([*map(str, arguments)], **kept)
        return subprocess.run(line, **kept, capture_output=True, text=True, encoding="utf-8")
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"it hangs: {error.stdout!r} {error.stderr!r}")


def output_of(*arguments, **options):
    """Like `python`, but return the output, and fail if the process fails."""
    done = python(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def quiet_output_of(code, **options):
    """Like `output_of` a program, which says nothing on stderr."""
    done = python("-W", "ignore", "-c", code, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def build_processes():
    """Return the numbers of the processes for building that this one has started and that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and f"{build.__name__} import serve" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return found
