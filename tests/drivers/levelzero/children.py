"""Runs Python under Intel's driver with null hardware. Each run is a separate process, because the driver and discovery
read the environment only once.
"""

import functools
import subprocess
from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, UNCHOSEN
from tools import null_levelzero


@functools.cache
def why_not():
    """The reason why the driver is not available here; empty if it is. Fetches it the first time."""
    try:
        null_levelzero.ensure()
    except null_levelzero.UnavailableError as error:
        return str(error).splitlines()[0]
    return ""


def under_driver(code, devices=1, validate=False, **environment):
    """Run Python code under the driver. Skip the test if it is not available. A variable that is None is unset."""
    if why_not():
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {why_not()}")
    command, env = null_levelzero.child_command("python", "-c", code, devices=devices, validate=validate)
    changes = {"FOREBAY_DEVICE": None} | UNCHOSEN | environment
    env = {name: value for name, value in env.items() if name not in changes}
    env |= {name: str(value) for name, value in changes.items() if value is not None}
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )


def pytest_of_its_own(name, *options):
    """Run tests of a file of this folder under the driver, in a process of their own."""
    options = ("-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *options)
    command, env = null_levelzero.child_command("python", "-m", "pytest", *options, str(Path(__file__).with_name(name)))
    env["FOREBAY_DEVICE"] = "level_zero"
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250, check=False)


def output_under_driver(code, **options):
    """Like `under_driver`, but return the output, and fail if the process fails."""
    done = under_driver(code, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout
