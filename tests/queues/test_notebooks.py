"""What notebooks show: tables, and the names of kernels after ``program["``."""

import re
from xml.etree import ElementTree

import pytest

import forebay as fb


def shown(thing):
    """The elements of what a notebook shows, which must be well-formed."""
    return ElementTree.fromstring(thing._repr_html_())


def texts(element):
    return " ".join(element.itertext())


def test_a_device(device):
    assert device.name in texts(shown(device))
    assert device.info.description.split()[0] in texts(shown(device))
    assert "open" in texts(shown(device))


def test_a_queue_says_its_state_and_asks_no_driver(device, make_queue, hold):
    queue = make_queue(blocking=False)
    assert "non-blocking" in texts(shown(queue))
    assert "empty" in texts(shown(queue))
    hold(queue)
    queue.fill(device.empty(4), 1)
    before = queue.stats
    assert "has work" in texts(shown(queue))
    assert queue.stats == before
    with queue.capture():
        assert "captured" in texts(shown(queue))
    queue.close()
    assert "closed" in texts(shown(queue))


def test_counters(device, queue):
    before = queue.stats
    assert "fills" not in texts(shown(queue.stats - before))
    queue.fill(device.empty(4), 1)
    assert "fills 1" in " ".join(texts(shown(queue.stats - before)).split())


def test_a_graph(device, make_queue, program):
    queue, other = make_queue(), make_queue()
    x, y = device.zeros(4, "i4"), device.zeros(4, "i4")
    device.finish()
    with queue.capture() as graph:
        queue.launch(program["fill"], 1, 1, x, 1)
        other.wait(queue)
        queue.fill(x, 2)
        other.copy(y, x)
        queue.wait(other)
        queue.launch(program["add"], 1, 1, x, 1)
    rows = " ".join(texts(shown(graph)).split())
    for row in ("kernel nodes 2", "fill nodes 1", "copy nodes 1", "dependencies 4"):
        assert row in re.sub(r"(\D)(\d)", r"\1 \2", rows).replace("  ", " ")


@pytest.mark.parametrize("name", ["fill", "add"])
def test_kernels_are_completed(program, name):
    assert name in program._ipython_key_completions_()
    assert isinstance(program[name], fb.Kernel)
