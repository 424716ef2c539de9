"""What `import forebay` brings in: next to nothing. With the first name that is used it is NumPy, and nothing that only
looking for devices needs, or only some programs.
"""

from tests.helpers.processes import output_of

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
OTHERS = {"click", "dpctl", "pyopencl", "pytools", "rich"}
DRIVERS = ["cuda", "levelzero", "opencl", "sycl"]
LATER = {
    "asyncio", "ctypes", "email", "glob", "graphlib", "hashlib", "html", "importlib.metadata", "importlib.resources",
    "json", "numpy.typing", "random", "shutil", "socket", "subprocess", "tempfile", "zipfile",
}  # fmt: skip


def test_only_what_is_used_is_imported():
    alone, imported = map(str.split, output_of("-c", CHILD, fresh=True).splitlines())
    ours = [module for module in alone if module.partition(".")[0] == "forebay"]
    errors = ["forebay.compiler", "forebay.compiler.errors", "forebay.core", "forebay.core.errors"]
    assert ours == ["forebay", *errors, "forebay.tracing"]
    assert "numpy" not in alone
    assert not OTHERS & {module.partition(".")[0] for module in imported}
    assert not LATER & {*imported}
    inside = [module.split(".")[2:] for module in imported if module.startswith("forebay.queues.")]
    of_drivers = [names for names in inside if names[0] in DRIVERS and len(names) > 1]
    assert of_drivers == [[driver, "driver"] for driver in DRIVERS]


# Each runs in a fork of a process that has imported nothing of forebay.
EACH = """
import os, sys, traceback, numpy, pyopencl.tools
for program in sys.argv[1:]:
    process = os.fork()
    if not process:
        try:
            exec(program, {})
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(1)
    if os.waitpid(process, 0)[1]:
        print("failed:", program, flush=True)
"""
MODULE = """
import forebay.{}
from forebay.queues.kernels.program import FRONT_ENDS
from forebay.queues.queue import Queue
assert FRONT_ENDS and any('synchronize' in vars(kind) for kind in Queue.__mro__)
"""
THREADS = """
import forebay, threading
found, start = [], threading.Barrier(8)
def use(i):
    start.wait()
    found.append((forebay.Device, forebay.Queue, forebay.trace) if i % 2 else forebay.Error)
threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(found) == 8 and len({*found}) == 2
"""
FIRST = [
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
]


def test_names_are_there_whoever_asks_first():
    """Modules beside it are whole without it: HIP C++ is a language, and types know other packages' names."""
    usable = "\nimport forebay\nassert forebay.Device().name"
    programs = [*(f"{first}{usable}" for first in FIRST), MODULE.format("hip"), MODULE.format("cupy_style"), THREADS]
    assert output_of("-c", EACH, *programs, fresh=True) == ""
