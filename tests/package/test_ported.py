"""The programs of docs/coming-from that were moved here compute the same as before."""

import importlib.util

import numpy as np
import pytest

from tests.helpers.processes import ROOT, output_of

FOLDER = ROOT / "docs" / "coming-from"
if not FOLDER.exists():
    pytest.skip("only in a checkout", allow_module_level=True)

# What the pages say: with these, the other package sees the driver that the extras install.
RUN = "import sys, runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
SHOWN = {"pyopencl": "import forebay.icd", "dpctl": "import forebay; forebay.devices()"}


def rod():
    """The temperatures that both programs print, by NumPy in double precision."""
    now = np.zeros(1024)
    now[0] = 100
    for _ in range(500):
        now[1:-1] += 0.25 * (now[:-2] - 2 * now[1:-1] + now[2:])
    return now[:64:16]


def numbers(output):
    return np.array([float(word) for word in output.strip(" []\n").split()])


@pytest.mark.needs("the default device")
@pytest.mark.executes(reads="output_of")
@pytest.mark.parametrize("package", ["dpctl", "pycuda", "pyopencl"])
def test_the_program_by_forebay_computes_the_temperatures(package):
    assert np.allclose(numbers(output_of(FOLDER / package / "after.py")), rod(), atol=2e-3)


@pytest.mark.needs("OpenCL")
def test_the_program_by_pyopencl_prints_the_same():
    before = output_of("-W", "ignore", "-c", f"{SHOWN['pyopencl']}; {RUN}", FOLDER / "pyopencl" / "before.py")
    assert np.allclose(numbers(before), rod(), atol=2e-3)


@pytest.mark.skipif(not importlib.util.find_spec("dpctl"), reason="dpctl is not installed")
def test_the_program_by_dpctl_prints_the_same():
    before = output_of("-c", f"{SHOWN['dpctl']}; {RUN}", FOLDER / "dpctl" / "before.py")
    assert np.allclose(numbers(before), rod(), atol=2e-3)


@pytest.mark.needs("the default device")
@pytest.mark.executes(reads="output_of")
def test_the_raw_kernel_computes_what_numpy_does():
    row, column = np.mgrid[:64, :96]
    c = (column / np.float32(32) - 2 + 1j * (row / np.float32(32) - 1)).astype("c8")
    z, inside = np.zeros_like(c), np.ones(c.shape, bool)
    for _ in range(100):
        inside &= z.real**2 + z.imag**2 < 4
        z = np.where(inside, z * z + c, z)
    # a multiplication and an addition may be one operation, which moves points of the edge
    assert abs(int(output_of(FOLDER / "cupy" / "after.py")) - inside.sum()) <= 8
