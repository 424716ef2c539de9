"""What the pages show is run as it stands, and prints what the comments behind its prints say."""

import re

import pytest

from forebay.queues.selection import devices
from tests.helpers.processes import ROOT, output_of

PRINTS = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)

pytestmark = [
    pytest.mark.needs("no validation layer"),
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


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("README.md", marks=pytest.mark.executes),
        pytest.param("docs/hip.md", marks=pytest.mark.executes),
        pytest.param("docs/tutorial.md", marks=pytest.mark.executes),
        "docs/hip-kernels.md",
        pytest.param(
            "docs/interop.md",
            marks=[
                pytest.mark.executes(run=False),
                pytest.mark.needs("OpenCL"),
                pytest.mark.skipif(
                    not any(each.name == "opencl:cpu:0" and each.usable for each in devices()), reason="no OpenCL CPU"
                ),
            ],
        ),
        pytest.param("docs/cupy.md", marks=pytest.mark.executes),
        pytest.param("docs/concepts.md", marks=pytest.mark.executes(run=False)),  # it asks for times
        pytest.param("docs/tracing.md", marks=pytest.mark.executes),
    ],
)
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
@pytest.mark.parametrize("page", ["README.md", "docs/concepts.md"])
def test_what_a_page_shows_does_not_depend_on_how_fast_a_queue_is(page, queue, tmp_path):
    script = tmp_path / f"{page.replace('/', '_')}.py"
    script.write_text(program_of(ROOT / page, start=LAG.format(queue)), encoding="utf-8")
    assert output_of(script).splitlines() == PRINTS.findall(program_of(ROOT / page))
