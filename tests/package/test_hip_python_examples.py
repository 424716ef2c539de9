"""The runner of hip-python's examples, with programs of our own."""

import pytest
from click.testing import CliRunner

from tests.conftest import DEVICES, on_null_hardware
from tests.hip_python_examples import main, why_not

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


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("from hip import hip", None),
        ("from rocm.bindings import hip, hiprtc", None),
        ("from rocm.bindings.hip import hipMalloc", None),
        ("try:\n    from hip import hip, hiprtc\nexcept ImportError:\n    hip = None", None),
        ("from hip import hip, hipfft, hiprand", "needs hipfft, hiprand"),
        ("from rocm.bindings import hip\nfrom rocm import comgr", "needs rocm.comgr"),
        ("from rocm.bindings import hip, hiprtc\nfrom rocm.bindings.llvm.c import core", "needs llvm"),
        ("from cuda.bindings import runtime", "needs cuda.bindings.runtime"),
        ("from hip import hip, hiprtc\nhiprtc.hiprtcGetBitcode(1, 2)", None),
        ("from hip import hip\nir = 'amdgcn-amd-amdhsa'", "needs an AMD GPU: it has LLVM's text for one"),
        ("import numpy", "does not import hip"),
        ("print 1", "not Python: "),
    ],
)
def test_what_is_in_scope(program, reason):
    found = why_not(program.encode())
    assert found == reason or (reason and reason.endswith(": ") and found.startswith(reason))
