"""What the pages show is run as it stands, and prints what the comments behind its prints say."""

import importlib.util
import re

import pytest

from forebay.queues.drivers.selection import devices
from tests.helpers.processes import ROOT, output_of

PRINTS = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)

pytestmark = [
    pytest.mark.needs("no validation layer", "the default device"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]


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
WAITS = pytest.mark.executes(run=False)  # it asks for times, or waits for a host function
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
        pytest.mark.executes(reads="output_of"),
        pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="mpi4py is not installed"),
    ],
}
PAGES = [
    pytest.param(page, marks=MARKS.get(page, [pytest.mark.executes(reads="output_of")]))
    for page in (path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))))
    if "```python" in (ROOT / page).read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.long
def test_what_a_page_shows_runs_and_prints_what_it_says(page, tmp_path):
    program = program_of(ROOT / page)
    script = tmp_path / f"{page.replace('/', '_')}.py"
    script.write_text(program, encoding="utf-8")
    expected = PRINTS.findall(program)
    assert expected
    assert output_of(script, cwd=tmp_path).splitlines() == expected


LAG = "import time; '{0}' in globals() and {0}.host(lambda: time.sleep(0.05))"


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("queue", ["q1", "q2"])
@pytest.mark.parametrize("page", ["README.md", "docs/concepts.md", "docs/how-to/graphs-and-steps.md"])
def test_what_a_page_shows_does_not_depend_on_how_fast_a_queue_is(page, queue, tmp_path):
    script = tmp_path / f"{page.replace('/', '_')}.py"
    script.write_text(program_of(ROOT / page, start=LAG.format(queue)), encoding="utf-8")
    assert output_of(script).splitlines() == PRINTS.findall(program_of(ROOT / page))
