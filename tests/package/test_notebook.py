"""docs/tutorial.ipynb runs, and prints what it says."""

from xml.etree import ElementTree

import pytest

from forebay.queues.drivers.selection import devices
from tests.helpers.processes import ROOT

from .test_readme import PRINTS

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def run():
    """The cells of code after a run in a kernel of its own."""
    if not any(device.usable for device in devices()):
        pytest.skip("no usable device")
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    notebook = pytest.importorskip("jupytext").read(NOTEBOOK)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": NOTEBOOK.parent}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown_by(run, source):
    """The elements of what a cell shows in a browser."""
    (cell,) = (cell for cell in run if cell.source == source)
    (output,) = cell.outputs
    return ElementTree.fromstring(output.data["text/html"])


@pytest.mark.executes(run=False)
@pytest.mark.needs("no chosen device", "no validation layer")
class TestRun:
    def test_it_prints_what_it_says(self, run):
        printed = ["".join(output.text for output in cell.outputs if "text" in output) for cell in run]
        assert [text.splitlines() for text in printed] == [PRINTS.findall(cell.source) for cell in run]
        assert any(printed)

    def test_a_graph_draws_itself(self, run):
        drawing = shown_by(run, "graph")
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")] == ["axpy", "axpy"]

    def test_a_queue_draws_itself(self, run):
        words = list(shown_by(run, "queue").itertext())
        assert "blocking" in words
        assert words[words.index("state") + 1] == "empty"
