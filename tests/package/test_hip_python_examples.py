"""The runner of hip-python's examples, with programs of our own."""

import ast

import pytest

from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.processes import python
from tests.hip_python_examples import copy, error_of, examples_below, why_not, with_import_changed

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
NEEDS = "from hip import hip, hipblas\nraise SystemExit(1)\n"
LINKS = "from hip import hip, hiprtc\nlinker = hiprtc.hiprtcLinkCreate(0, None, None)\nprint('linked')\n"


PROGRAMS = {
    "works.py": WORKS,
    "fails.py": FAILS,
    "checks.py": CHECKS,
    "mistake.py": PROGRAM + "print(unknown)\n",
    "exits.py": PROGRAM + 'import sys\nsys.exit("no such thing")\n',
    "crashes.py": PROGRAM + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "needs.py": NEEDS,
    "links.py": LINKS,
    "cython.pyx": "cimport x",
}


def run(folder, programs, *options):
    """What the runner printed for these programs, and by program what its table says."""
    for name, text in programs.items():
        path = folder / "examples" / "0_Basic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = python("-m", "tests.hip_python_examples", folder, *(options or ("--device", DEVICES[0])))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    return done, {path.rpartition("/")[2]: found for path, *found in rows}


@pytest.mark.long
def test_what_becomes_of_programs(tmp_path):
    done, rows = run(tmp_path, PROGRAMS)
    computes = not on_null_hardware(DEVICES[0])
    assert rows.pop("crashes.py")[0].startswith("failed was ended by signal 9")
    assert rows == {
        "works.py": ["ran ok"],
        "fails.py": ["failed RuntimeError: hipError_t.hipErrorInvalidMemcpyDirection"],
        "checks.py": ["failed ValueError: expected 3" if computes else "submitted ValueError: expected 3"],
        "mistake.py": ["failed NameError: name 'unknown' is not defined"],
        "exits.py": ["failed exit status 1; no such thing"],
        "needs.py": ["out of scope needs hipblas"],
        "links.py": ["ran linked"],
        "cython.pyx": ["out of scope Cython"],
    }
    counts = "2 ran, 5 failed" if computes else "2 ran, 1 submitted, 4 failed"
    assert done.stdout.splitlines()[-1] == f"{counts}, 2 out of scope"
    assert done.returncode == 1


@pytest.mark.long
def test_all_that_is_in_scope_works(tmp_path):
    done, rows = run(tmp_path, {"works.py": WORKS, "needs.py": NEEDS}, "--device", DEVICES[-1], "--device", DEVICES[0])
    assert rows["works.py"] == ["ran ok", "ran ok"]
    assert rows["needs.py"] == ["out of scope needs hipblas", "out of scope needs hipblas"]
    assert done.stdout.splitlines()[-1] == "2 ran, 1 out of scope"
    assert done.returncode == 0


def test_nothing_in_scope_is_no_success(tmp_path):
    done, _ = run(tmp_path, {"needs.py": NEEDS, "setup.py": ""})
    assert done.stdout.splitlines()[-1] == "1 out of scope"
    assert done.returncode == 2


def test_one_that_hangs(tmp_path):
    hangs = PROGRAM + "import signal\nwhile True:\n    signal.pause()\n"
    done, rows = run(tmp_path, {"hangs.py": hangs}, "--device", DEVICES[0], "--timeout", 2)
    assert rows["hangs.py"] == ["failed did not end within 2 s"]
    assert done.returncode == 1


def test_a_device_that_is_not_there(tmp_path):
    done, _ = run(tmp_path, {"works.py": WORKS}, "--device", "opencl:cpu:99")
    assert done.returncode == 2
    assert "no device matches" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_the_import_is_changed():
    program = (
        b"# from hip import hip\r\n"
        b'text = "\xc3\xa4"; from  hip import hip, hiprtc as rtc  # of AMD\r\n'
        b"if text:\n\tfrom rocm.bindings.hip import (\n\t\thipMalloc,\n\t)\n"
        b"from hippo import hip as other, hip2\nfrom . import hip\nfrom\xc2\xa0os import path\n"
    ).replace(b"\xc2\xa0", b" ")
    changed = with_import_changed(program)
    assert [pair for pair in zip(program.splitlines(), changed.splitlines(), strict=True) if pair[0] != pair[1]] == [
        (
            b'text = "\xc3\xa4"; from  hip import hip, hiprtc as rtc  # of AMD',
            b'text = "\xc3\xa4"; from  forebay import hip, hiprtc as rtc  # of AMD',
        ),
        (b"\tfrom rocm.bindings.hip import (", b"\tfrom forebay.hip import ("),
    ]
    assert with_import_changed(changed) == changed
    ast.parse(changed)


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


def test_examples_of_checkouts_are_found_and_nothing_else(tmp_path):
    for name in ("a/examples/b/works.py", "a/hip/__init__.py", "a/examples/setup.py", "a/examples/test_examples.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(WORKS)
    assert [str(path) for path in examples_below(tmp_path)] == ["a/examples/b/works.py"]
    assert [str(path) for path in examples_below(tmp_path / "a" / "hip")] == ["__init__.py"]
    copy(tmp_path, tmp_path / "copy")
    assert (tmp_path / "copy/a/hip/__init__.py").read_text() == WORKS.replace("rocm.bindings", "forebay")
    assert (tmp_path / "a/hip/__init__.py").read_text() == WORKS


def test_the_error_is_the_last_exceptions_first_line():
    stderr = (
        "warning\nTraceback (most recent call last):\n  File\nKeyError: 1\n\nDuring handling, another:\n\n"
        "Traceback (most recent call last):\n  File\n    x\nRuntimeError: k:3: error: lambdas\n    auto f\nend\n"
    )
    assert error_of(stderr) == "RuntimeError: k:3: error: lambdas"
    assert error_of("warning\n") == ""
