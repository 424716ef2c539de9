"""What `import forebay` brings in: next to nothing. With the first name that is used it is NumPy, and nothing that only
looking for devices needs, or only some programs.
"""

import subprocess

import pytest

from tests.helpers.processes import command

CHILD = """
import sys
before = set(sys.modules)
import forebay
alone = set(sys.modules) - before
import numpy
before = set(sys.modules) - alone
forebay.Device
print(*sorted(alone))
print(*sorted(set(sys.modules) - before))
"""
OTHERS = ["click", "dpctl", "pyopencl", "pytools", "rich"]
DRIVERS = ["cuda", "levelzero", "opencl", "sycl"]
LATER = [
    "asyncio", "ctypes", "email", "glob", "graphlib", "hashlib", "html", "importlib.metadata", "importlib.resources",
    "json", "numpy.typing", "random", "shutil", "socket", "subprocess", "tempfile", "zipfile",
]  # fmt: skip


def output_of(program):
    arguments, environment = command("-c", program)
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def outputs():
    return [line.split() for line in output_of(CHILD).splitlines()]


@pytest.fixture(scope="module")
def imported(outputs):
    return outputs[1]


def test_without_a_name_there_are_neither_numpy_nor_compiled_modules(outputs):
    ours = [module for module in outputs[0] if module.partition(".")[0] == "forebay"]
    assert ours == ["forebay", "forebay.core", "forebay.core.errors", "forebay.tracing"]
    assert "numpy" not in outputs[0]


@pytest.mark.parametrize("package", OTHERS)
def test_no_package_that_only_some_programs_use(imported, package):
    assert not [module for module in imported if module.partition(".")[0] == package]


@pytest.mark.parametrize("module", LATER)
def test_nothing_of_the_standard_library_that_only_later_calls_use(imported, module):
    assert module not in imported


def test_of_a_driver_only_what_its_folder_offers(imported):
    rooms = [module.split(".")[3:] for module in imported if module.startswith("forebay.queues.drivers.")]
    assert [room for room in rooms if len(room) > 1] == [[driver, "driver"] for driver in DRIVERS]


# Whatever asks first


@pytest.mark.parametrize(
    "first",
    [
        "from forebay import *; assert Device and by_value and __version__",
        "import forebay; assert {'Device', 'by_value', '__version__'} <= {*dir(forebay)}",
        "import forebay; assert {'Device', 'by_value', '__version__'} <= {*forebay.__all__}",
        "import forebay; assert forebay.queues.queue.Queue is forebay.Queue",
        "import forebay; assert not hasattr(forebay, 'Stream')",
        "import forebay; assert not hasattr(forebay, '__wrapped__')",
        "import forebay, pydoc; assert 'class Device' in pydoc.plain(pydoc.render_doc(forebay))",
        "import pickle; assert pickle.loads(b'cforebay\\nTimeoutError\\n.').__name__ == 'TimeoutError'",
        "import forebay; from unittest.mock import patch; patch('forebay.local', 5).start(); assert forebay.local == 5",
        "import forebay; forebay.devices = 5; assert forebay.Device and forebay.devices == 5",
    ],
)
def test_names_are_there_whoever_asks_first(first):
    output_of(f"{first}\nimport forebay\nassert forebay.Device().name")


@pytest.mark.parametrize("module", ["hip", "cupy_style"])
def test_modules_beside_it_are_whole_without_it(module):
    """HIP C++ is a language, and types say what other packages' names are called here."""
    output_of(
        f"import forebay.{module}\nfrom forebay.queues.kernels.program import _front_ends\n"
        "from forebay.queues.queue import Queue\n"
        "assert _front_ends and any('synchronize' in vars(kind) for kind in Queue.__mro__)"
    )


def test_two_threads_that_use_names_first_at_once():
    output_of(
        "import forebay, threading\n"
        "names, found, start = [*range(8)], [], threading.Barrier(8)\n"
        "def use(i):\n"
        "    start.wait()\n"
        "    found.append((forebay.Device, forebay.Queue, forebay.trace) if i % 2 else forebay.Error)\n"
        "threads = [threading.Thread(target=use, args=(i,)) for i in names]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "assert len(found) == 8 and len({*found}) == 2"
    )
