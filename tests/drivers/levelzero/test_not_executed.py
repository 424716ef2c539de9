"""On null hardware, tests that compare results which were never computed must not be slow.

Each test runs a few small ones in a separate process, with every setting that makes pytest show complete differences.
"""

import subprocess

import pytest

from tests.helpers.processes import ROOT
from tools import null_levelzero

from .children import why_not

pytestmark = pytest.mark.needs("no chosen device")

DIFFERENCE = 97

TESTS = """
import difflib, os

import pytest

def ndiff(*_):
    os._exit(DIFFERENCE)  # not an exception: pytest would catch it

difflib.ndiff = ndiff

@pytest.mark.executes
def test_marked(device):
    assert device.zeros(4, "i4").get().tolist() == [5, 6, 7, 8]

@pytest.mark.executes
def test_its_environment_is_as_it_was(request):
    assert request.config.option.verbose == 0
    assert "CI" not in os.environ

def test_not_marked():
    assert os.environ["CI"] == os.environ["BUILD_NUMBER"] == "1"
    assert [0] == EXPECTED
"""


@pytest.mark.parametrize("expected", ["[0]", "[1]"])
@pytest.mark.parametrize("verbosity", ["-q", "-vv"])
@pytest.mark.long
def test_a_test_that_is_not_executed_makes_no_complete_difference(tmp_path, expected, verbosity):
    if why_not():
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {why_not()}")
    path = tmp_path / "test_it.py"
    path.write_text(TESTS.replace("EXPECTED", expected).replace("DIFFERENCE", str(DIFFERENCE)))
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", "-rA", verbosity]
    command, env = null_levelzero.child_command("python", "-m", "pytest", *map(str, options), str(path))
    env |= {"FOREBAY_DEVICE": "level_zero", "CI": "1", "BUILD_NUMBER": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    if expected == "[0]":
        assert done.returncode == 0, done.stdout + done.stderr
        assert "PASSED" in done.stdout
        assert "test_not_marked" in done.stdout
        assert "executes nothing" in done.stdout
    else:  # any other test shows all that was asked for
        assert done.returncode == DIFFERENCE, done.stdout + done.stderr
