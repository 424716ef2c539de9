"""What `import forebay` brings in besides NumPy: nothing that only looking for devices needs, or only some programs."""

import subprocess

import pytest

from tests.helpers.processes import command

CHILD = """
import sys
import numpy
before = set(sys.modules)
import forebay
print(*sorted(set(sys.modules) - before))
"""
OTHERS = ["click", "dpctl", "pyopencl", "pytools", "rich"]
DRIVERS = ["levelzero", "opencl", "sycl"]
LATER = [
    "asyncio", "ctypes", "email", "glob", "graphlib", "hashlib", "html", "importlib.metadata", "importlib.resources",
    "json", "numpy.typing", "random", "shutil", "socket", "subprocess", "tempfile", "zipfile",
]  # fmt: skip


@pytest.fixture(scope="module")
def imported():
    arguments, environment = command("-c", CHILD)
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("package", OTHERS)
def test_no_package_that_only_some_programs_use(imported, package):
    assert not [module for module in imported if module.partition(".")[0] == package]


@pytest.mark.parametrize("module", LATER)
def test_nothing_of_the_standard_library_that_only_later_calls_use(imported, module):
    assert module not in imported


def test_of_a_driver_only_what_its_folder_offers(imported):
    rooms = [module.split(".")[3:] for module in imported if module.startswith("forebay.queues.drivers.")]
    assert [room for room in rooms if len(room) > 1] == [[driver, "driver"] for driver in DRIVERS]
