"""What pages and moved programs show runs as it stands, and prints what is said there."""

import importlib.util
import re

import numpy as np
import pytest

from forebay.queues.selection import devices
from tests.helpers.device_data import device_data
from tests.helpers.processes import ROOT, output_of

PRINTS = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
DEFAULT = pytest.mark.needs("the default device")
ONCE = pytest.mark.needs("no validation layer", "the default device")

pytestmark = pytest.mark.skipif(
    not any(device.usable for device in devices()) or not (ROOT / "docs").exists(),
    reason="no usable device, or no checkout",
)

# Pages


def program_of(page, start=""):
    """The Python blocks of a page as one program, each line with the number it has on the page.

    Each block has `start` in place of the line above it.
    """
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            line = start if inside else ""
        lines.append(line if inside else "")
    return "\n".join(lines)


# What else a page needs, beside kernels that really run.
WAITS = pytest.mark.executes  # it asks for times, or waits for a host function
OPENCL_CPU = pytest.mark.skipif(
    not any(each.name == "opencl:cpu:0" and each.usable for each in devices()), reason="no OpenCL CPU"
)
MARKS = {
    "docs/coming-from/pyopencl.md": [pytest.mark.needs("OpenCL")],
    "docs/concepts.md": [WAITS],
    "docs/hip-kernels.md": [],
    "docs/how-to/elementwise.md": [WAITS, pytest.mark.needs("OpenCL"), OPENCL_CPU],
    "docs/how-to/null-hardware.md": [pytest.mark.needs("Level Zero")],
    "docs/how-to/ordering-bugs.md": [WAITS],
    "docs/how-to/overlap.md": [WAITS],
    "docs/interop.md": [WAITS, pytest.mark.needs("OpenCL"), OPENCL_CPU],
    "docs/several-processes.md": [
        pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="mpi4py is not installed"),
    ],
}
PAGES = [
    pytest.param(page, marks=MARKS.get(page, []))
    for page in (path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))))
    if "```python" in (ROOT / page).read_text(encoding="utf-8")
]


@ONCE
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.long
@pytest.mark.every_driver
def test_what_a_page_shows_runs_and_prints_what_it_says(page, tmp_path):
    program = program_of(ROOT / page)
    script = tmp_path / f"{page.replace('/', '_')}.py"
    script.write_text(program, encoding="utf-8")
    expected = PRINTS.findall(program)
    assert expected
    assert device_data(output_of(script, cwd=tmp_path).splitlines()) == expected


LAG = "import time; '{0}' in globals() and {0}.host(lambda: time.sleep(0.05))"


@ONCE
@pytest.mark.executes
@pytest.mark.parametrize("queue", ["q1", "q2"])
@pytest.mark.parametrize("page", ["README.md", "docs/concepts.md", "docs/how-to/graphs-and-steps.md"])
def test_what_a_page_shows_does_not_depend_on_how_fast_a_queue_is(page, queue, tmp_path):
    script = tmp_path / f"{page.replace('/', '_')}.py"
    script.write_text(program_of(ROOT / page, start=LAG.format(queue)), encoding="utf-8")
    assert output_of(script).splitlines() == PRINTS.findall(program_of(ROOT / page))


# Programs of other packages, before and after they were moved here

FOLDER = ROOT / "docs" / "coming-from"
# What the pages say: with these, the other package sees the driver that the extras install.
SHOWN_BY = {"pyopencl": "import forebay.icd", "dpctl": "import forebay; forebay.devices()"}


def output_of_moved(package, name="after"):
    """The numbers that the program prints."""
    path = FOLDER / package / f"{name}.py"
    run = "import sys, runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    output = (
        output_of(path) if name == "after" else output_of("-W", "ignore", "-c", f"{SHOWN_BY[package]}; {run}", path)
    )
    return np.array([float(word) for word in output.strip(" []\n").split()])


def rod():
    """The temperatures that these programs print, by NumPy in double precision."""
    now = np.zeros(1024)
    now[0] = 100
    for _ in range(500):
        now[1:-1] += 0.25 * (now[:-2] - 2 * now[1:-1] + now[2:])
    return now[:64:16]


@pytest.mark.parametrize(("package", "name"), [
    *(pytest.param(each, "after", marks=DEFAULT) for each in ("dpctl", "pycuda", "pyopencl")),
    pytest.param("pyopencl", "before", marks=pytest.mark.needs("OpenCL")),
    pytest.param(
        "dpctl", "before", marks=pytest.mark.skipif(not importlib.util.find_spec("dpctl"), reason="dpctl")
    ),
])  # fmt: skip
def test_moved_programs_compute_the_temperatures(package, name):
    assert np.allclose(device_data(output_of_moved(package, name)), rod(), atol=2e-3)


@DEFAULT
def test_the_raw_kernel_computes_what_numpy_does():
    row, column = np.mgrid[:64, :96]
    c = (column / np.float32(32) - 2 + 1j * (row / np.float32(32) - 1)).astype("c8")
    z, inside = np.zeros_like(c), np.ones(c.shape, bool)
    for _ in range(100):
        inside &= z.real**2 + z.imag**2 < 4
        z = np.where(inside, z * z + c, z)
    # a multiplication and an addition may be one operation, which moves points of the edge
    assert abs(device_data(int(output_of_moved("cupy")[0])) - inside.sum()) <= 8
