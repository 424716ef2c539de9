"""docs/tutorial.ipynb is docs/tutorial.md, cell by cell, and runs."""

from xml.etree import ElementTree

import pytest

from forebay.queues.drivers.selection import devices
from tests.helpers.processes import ROOT

from .test_readme import PRINTS

NOTEBOOK, PAGE = ROOT / "docs/tutorial.ipynb", ROOT / "docs/tutorial.md"
MAKE = "jupytext --update --to ipynb docs/tutorial.md"


def read(path):
    return pytest.importorskip("jupytext").read(path)  # which takes long to import


def cells_of(path):
    return [(cell.cell_type, cell.source) for cell in read(path).cells]


def test_the_notebook_is_the_page():
    assert cells_of(NOTEBOOK) == cells_of(PAGE), f"the page was changed: {MAKE}"
    assert not [cell for cell in read(NOTEBOOK).cells if cell.get("outputs")], "outputs are one machine's"


@pytest.fixture(scope="module")
def run():
    """The cells of code after a run in a kernel of its own."""
    if not any(device.usable for device in devices()):
        pytest.skip("no usable device")
    pytest.importorskip("ipykernel")
    nbclient, notebook = pytest.importorskip("nbclient"), read(NOTEBOOK)
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
