"""Runs Python in a process of its own: OpenCL's loader reads the environment once, so each case needs a fresh one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ_BY_DISCOVERY = ("PENSTOCK_DEVICE", "OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")

# pip install pyopencl[pocl] puts a driver into pyopencl's own folder, which its loader reads whatever the environment
# says.
_pyopencl = importlib.util.find_spec("pyopencl")
BUNDLED_DRIVERS = bool(_pyopencl and _pyopencl.origin and any(Path(_pyopencl.origin).parent.glob(".libs/*.icd")))


def python(*arguments, cwd=ROOT, timeout=None, **environment):
    """Run Python with these arguments, in an environment that chooses no device but by `environment`."""
    env = {name: value for name, value in os.environ.items() if name not in READ_BY_DISCOVERY}
    env |= {name: str(value) for name, value in environment.items()}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
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
