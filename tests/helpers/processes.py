"""Runs Python in a process of its own: drivers' loaders read the environment once, so each case needs a fresh one.

Where this process runs under the Level Zero driver of `null_levelzero`, such a process does too.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

from tests import null_levelzero

ROOT = Path(__file__).resolve().parents[2]

UNCHOSEN = {"OCL_ICD_VENDORS": None, "OPENCL_VENDOR_PATH": None, "OCL_ICD_FILENAMES": None}
"""The environment of a user who leaves the drivers to the loader. On some machines only these variables name any."""

# pip install pyopencl[pocl] puts a driver into pyopencl's own folder, which its loader reads whatever the environment
# says.
_pyopencl = importlib.util.find_spec("pyopencl")
BUNDLED_DRIVERS = bool(_pyopencl and _pyopencl.origin and any(Path(_pyopencl.origin).parent.glob(".libs/*.icd")))


def no_opencl(folder):
    """An environment in which the loader finds no driver, because this empty folder is where it looks."""
    return {**UNCHOSEN, "OCL_ICD_VENDORS": folder}


def command(*arguments, without_level_zero=False, **environment):
    """What runs Python with these arguments: the argument list, and an environment that chooses no device but by
    `environment`, in which a variable that is None is unset. The drivers are those that this process finds.

    It has Level Zero if this process has it, unless it shall not; never with the validation layer, whose report at its
    end would stand among what it prints.
    """
    command = [sys.executable, *map(str, arguments)]
    env = null_levelzero.outside()
    if null_levelzero.inside() and not without_level_zero:
        here = null_levelzero.devices_here()
        command, env = null_levelzero.child_command("python", *map(str, arguments), devices=here)
    changes = {"FOREBAY_DEVICE": None} | environment
    env = {name: value for name, value in env.items() if name not in changes}
    return command, env | {name: str(value) for name, value in changes.items() if value is not None}


def python(*arguments, cwd=ROOT, timeout=None, **options):
    """Run Python with these arguments and `options` as `command` takes them."""
    arguments, env = command(*arguments, **options)
    return subprocess.run(
        arguments,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
    )


def output_of(*arguments, **environment):
    """Like `python`, but return what was printed, and fail if the process did."""
    done = python(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
