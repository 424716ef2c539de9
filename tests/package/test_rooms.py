"""The floors of docs/architecture.md: a module imports only what lies below it, never in a circle."""

import graphlib
import re

import pytest

from tests.helpers.processes import ROOT
from tests.helpers.rooms import FOLDERS, floor_of, read_imports

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

DRIVERS = ("queues.drivers.opencl", "queues.drivers.levelzero", "queues.drivers.sycl")


def test_imports_are_found():
    assert "queues.launch.launch" in read_imports()["queues.launcher"]
    assert "core.driver" in read_imports()["queues.launch.launch"]

    assert sum(map(len, read_imports().values())) > 500


def test_nothing_is_imported_from_above():
    up = [
        (module, other)
        for module, others in read_imports().items()
        for other in others
        if floor_of(other) > floor_of(module)
    ]
    assert up == []


def test_there_is_no_circle():
    graphlib.TopologicalSorter(read_imports()).prepare()  # raises CycleError, which names them


def test_only_the_list_of_drivers_knows_a_driver():
    """No driver knows another one, either."""
    known = [
        (module, other)
        for module, others in read_imports().items()
        for other in others
        for driver in DRIVERS
        if other.startswith(driver) and not module.startswith(driver)
    ]
    assert {module for module, _ in known if not module.startswith("queues.interop")} <= {"queues.drivers.selection"}


def test_no_folder_of_code_is_large():
    """So that a reader sees its entries at one look; stubs and compiled modules are generated."""
    for top in (*FOLDERS, "microbench"):
        most = 22 if top == "src/forebay" else 20
        for folder in {path.parent for suffix in ("py", "pyx", "pxd") for path in (ROOT / top).rglob(f"*.{suffix}")}:
            names = [path.name for path in folder.iterdir() if path.suffix not in (".so", ".pyd", ".pyi")]
            assert len([name for name in names if name != "__pycache__"]) <= most, folder


def test_no_module_has_a_typed_memoryview():
    """Each module with one has 15,000 lines more of C++, a second or two for whoever compiles it."""
    typed = re.compile(r"^ *(?:cdef|ctypedef|cpdef)[^#\n]*\[ *:[:1, ]*\]|^(?:from|import).*cython\.view", re.M)
    assert typed.search("    cdef const unsigned char[::1] view = pattern")
    sources = [path for top in FOLDERS for path in (ROOT / top).rglob("*.p[yx][xd]")]
    assert [str(path) for path in sources if typed.search(path.read_text(encoding="utf-8"))] == []
