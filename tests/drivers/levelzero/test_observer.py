"""The observer finds each mistake that null hardware hides: see `mistakes`, whose tests these are."""

import subprocess
from pathlib import Path

import pytest

from tests import null_levelzero
from tests.helpers.processes import ROOT

MISTAKES = Path(__file__).with_name("mistakes.py")


@pytest.mark.needs("null hardware", "no validation layer")
def test_each_mistake_is_found():
    """The tests run in one process of their own, where what they do to the driver hits no others."""
    options = ("-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command, env = null_levelzero.child_command("python", "-m", "pytest", *options, str(MISTAKES), devices=2)
    env["FOREBAY_DEVICE"] = "level_zero"
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
