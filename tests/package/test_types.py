"""What a type checker learns of forebay: the stubs say what is there, and what each call returns."""

import importlib.util
import shutil

import pytest

from tests.helpers.processes import ROOT, output_of, python

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)
pytest.importorskip("mypy")
if not importlib.util.find_spec("stubgen_pyx"):  # which takes long to import
    pytest.skip("stubgen-pyx is not installed", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

USE = """
from typing_extensions import assert_type

import numpy as np
from numpy.typing import NDArray

import forebay as ps

device = ps.Device("cpu", timing=True)
queue = device.queue(priority=-1)
kernel = device.program("")["k"]
buffer = device.array([1.0, 2.0])

assert_type(queue.launch(kernel, 1, 1, buffer), None)
assert_type(queue.launch(kernel, (1, 1), 1, result="f4"), ps.Result)
assert_type(queue.launch(kernel, 1, 1, buffer, result=np.dtype(("f4", 3))), ps.Result)
assert_type(kernel[1, 1](buffer), None)
assert_type(kernel[1, 1, queue](buffer, result="f4"), ps.Result)
assert_type(kernel.bind(queue, 1, 1, buffer), ps.BoundLaunch)
assert_type(kernel.device, ps.Device)
assert_type(buffer.view("u1").shape, tuple[int, ...])
assert_type(queue.record() - queue.record(), float)
device.pool.release_threshold = 1 << 20
with queue.capture() as graph:
    queue.fill(buffer, 0)
with graph.instantiate() as executable:
    assert_type(executable, ps.ExecutableGraph)
"""
MISUSE = """
import forebay as ps

device = ps.Device(1)
queue = device.queue(priority="high")
queue.launch(device.program("")["k"], 1)
queue.launch(device.program("")["k"], 1, 1, results="f4")
queue.copy(1, 2)
queue.device = device
ps.Queue(device)
"""
# A slot of the type, whose own signature has any arguments.
ALLOWED = "forebay.queues.launch.bound.BoundLaunch.__call__\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout that has the view with the stubs, which `make check` looks at."""
    checkout = tmp_path_factory.mktemp("types")
    for folder in ("core", "sync", "events", "queues", "src"):
        (checkout / folder).symlink_to(ROOT / folder)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, checkout)
    output_of("setup.py", "--quiet", "view", cwd=checkout)
    return checkout


def check(checkout, source):
    """Run mypy as `make check` does, on this source."""
    (checkout / "source.py").write_text(source)
    return python("-m", "mypy", "--follow-imports", "silent", "source.py", cwd=checkout)


def test_calls_return_what_the_stubs_say(checkout):
    done = check(checkout, USE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_wrong_is_found(checkout):
    done = check(checkout, MISUSE)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(4, 11)), done.stdout + done.stderr


def test_the_stubs_say_what_is_there(checkout):
    """Names, parameters and defaults, also of `Queue.launch`, whose signature is written by hand."""
    view = checkout / "build/view"
    modules = [
        ".".join(stub.relative_to(view).with_suffix("").parts)
        for stub in view.rglob("*.pyi")
        if "sycl" not in stub.parts  # that needs dpctl
    ]
    assert "forebay.queues.queue" in modules
    (checkout / "allowed").write_text(ALLOWED)
    options = ("--mypy-config-file", "pyproject.toml", "--allowlist", "allowed")
    options += ("--concise", "--ignore-missing-stub", "--ignore-disjoint-bases")
    done = python("-m", "mypy.stubtest", *options, *modules, cwd=checkout, MYPYPATH=view)
    assert done.returncode == 0, done.stdout + done.stderr
