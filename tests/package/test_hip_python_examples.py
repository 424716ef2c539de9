"""The runner of hip-python's examples, with programs of our own."""

import pytest
from click.testing import CliRunner

from tests.conftest import DEVICES, on_null_hardware
from tests.hip_python_examples import main

# Of the runner, not of drivers: SYCL's environment would show the same again.
pytestmark = pytest.mark.needs("real hardware", "the default device")

PROGRAM = """
import array
from rocm.bindings import hip


def hip_check(call_result):
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if result else None


numbers = array.array("i", range(10))
nbytes = numbers.itemsize * len(numbers)
memory = hip_check(hip.hipMalloc(nbytes))
stream = hip_check(hip.hipStreamCreate())
hip_check(hip.hipMemcpyAsync(memory, numbers, nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice, stream))
hip_check(hip.hipStreamSynchronize(stream))
"""
WORKS = PROGRAM + 'hip_check(hip.hipFree(memory))\nprint("ok")\n'
FAILS = PROGRAM + "hip_check(hip.hipMemcpy(memory, numbers, nbytes, 99))\n"
CHECKS = PROGRAM.replace("rocm.bindings", "hip") + 'raise ValueError("expected 3")\n'
HANGS = PROGRAM + "import signal\nwhile True:\n    signal.pause()\n"
NEEDS = "from hip import hip, hipblas\nraise SystemExit(1)\n"


def run(folder, programs, *options):
    """What the runner printed last for these programs, its exit status, and by program what its table says."""
    for name, text in programs.items():
        path = folder / "examples" / "0_Basic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = CliRunner().invoke(main, [str(folder), *(options or ("--device", DEVICES[0]))])
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    return done.stdout.splitlines()[-1:], done.exit_code, {path.rpartition("/")[2]: found for path, *found in rows}


@pytest.mark.long
def test_what_becomes_of_programs(tmp_path):
    programs = {
        "works.py": WORKS,
        "fails.py": PROGRAM + "hip_check(hip.hipMemcpy(memory, numbers, nbytes, 99))\n",
        "checks.py": CHECKS,
        "exits.py": PROGRAM + 'import sys\nsys.exit("no such thing")\n',
        "crashes.py": PROGRAM + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "needs.py": NEEDS,
        "rocm.py": "from rocm.bindings import hip\nfrom rocm import comgr",
        "amd.py": "from hip import hip\nir = 'amdgcn-amd-amdhsa'",
        "other.py": "import numpy",
        "wrong.py": "print 1",
        "cython.pyx": "cimport x",
    }
    last, status, rows = run(tmp_path, programs)
    computes = not on_null_hardware(DEVICES[0])
    assert rows.pop("crashes.py")[0].startswith("failed was ended by signal 9")
    assert rows.pop("wrong.py")[0].startswith("out of scope not Python: ")
    assert rows == {
        "works.py": ["ran ok"],
        "fails.py": ["failed RuntimeError: hipError_t.hipErrorInvalidMemcpyDirection"],
        "checks.py": ["failed ValueError: expected 3" if computes else "submitted ValueError: expected 3"],
        "exits.py": ["failed exit status 1; no such thing"],
        "needs.py": ["out of scope needs hipblas"],
        "rocm.py": ["out of scope needs rocm.comgr"],
        "amd.py": ["out of scope needs an AMD GPU: it has LLVM's text for one"],
        "other.py": ["out of scope does not import hip"],
        "cython.pyx": ["out of scope Cython"],
    }
    counts = "1 ran, 4 failed" if computes else "1 ran, 1 submitted, 3 failed"
    assert (last, status) == ([f"{counts}, 6 out of scope"], 1)


@pytest.mark.long
def test_one_that_hangs_fails_on_each_device(tmp_path):
    found = run(tmp_path, {"hangs.py": HANGS}, "--device", DEVICES[-1], "--device", DEVICES[0], "--timeout", "2")
    assert found == (["2 failed"], 1, {"hangs.py": ["failed did not end within 2 s"] * 2})


def test_success_is_that_one_ran_and_none_failed(tmp_path):
    last, status, _ = run(tmp_path, {"needs.py": NEEDS, "setup.py": ""})
    assert (last, status) == (["1 out of scope"], 2)
    last, status, rows = run(tmp_path, {"works.py": WORKS})
    assert (last, status, rows["works.py"]) == (["1 ran, 1 out of scope"], 0, ["ran ok"])
