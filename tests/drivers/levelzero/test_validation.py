"""Under the validation layer a test that makes a mistake fails, and a test that makes none passes."""

import re
import subprocess

import pytest

from tests.helpers.processes import ROOT
from tools import null_levelzero

from .children import why_not

pytestmark = pytest.mark.needs("no chosen device")

CONFTEST = """
from tests.drivers.levelzero import validation

validation.begin()
pytest_configure = validation.register
"""
TESTS = """
import ctypes
import forebay as fb
from tests.helpers.observer import observer_of
observer = observer_of('level_zero')

kept = []

def test_good():
    with fb.Device("level_zero", private=True) as device:
        device.array([1, 2]).get()

def test_that_leaves_a_device():
    kept.append(fb.Device("level_zero", private=True))

def test_that_is_refused():
    with fb.Device("level_zero", private=True):  # the layer is there when Level Zero was initialised
        ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)(observer.pointer("zeEventHostSignal"))(None)

def test_that_fails():
    kept.append(fb.Device("level_zero", private=True))
    assert not kept
"""


def test_a_mistake_fails_its_test_and_no_other(tmp_path):
    if why_not():
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {why_not()}")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ("-rA", "--tb=short", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    command, environment = null_levelzero.child_command("python", "-m", "pytest", *options, validate=True)
    environment["PYTHONPATH"] = ":".join(filter(None, [environment.get("PYTHONPATH"), str(ROOT)]))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    errors = dict(re.findall(r"^_+ ERROR at teardown of (\w+) _+\n(.*)$", said, re.MULTILINE))
    assert errors.keys() == {"test_that_leaves_a_device", "test_that_is_refused", "test_that_fails"}, said
    assert "left behind" in errors["test_that_fails"]
    assert "refused with" in errors["test_that_is_refused"]
    assert "1 failed, 3 passed, 3 errors" in said
    assert "validation layer, after the last test:" in said
