"""The directive ``hip-functions``: each function of `forebay.hip`, what it does, and where it does it."""

import inspect

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from forebay import hip
from forebay.hip.table import DRIVERS, table

NAMES = {"cuda": "CUDA", "level_zero": "Level Zero", "opencl": "OpenCL", "sycl": "SYCL"}


def what_it_does(name):
    """The first sentence of a function's docstring, with the names of its parameters, in Markdown."""
    function = getattr(hip, name)
    first = inspect.getdoc(function).split("\n\n")[0].replace("\n", " ")
    return first.replace("``", "`").replace("|", "\\|")


def where(row):
    """On which drivers a function works, in as few words as possible."""
    drivers = {}
    for driver, word in zip(DRIVERS, row.drivers, strict=True):
        drivers.setdefault(word, []).append(NAMES[driver])
    if len(drivers) == 1:
        return next(iter(drivers))
    return "; ".join(f"{', '.join(named)}: {word}" for word, named in drivers.items())


class HipFunctions(Directive):
    """A heading and a table for each chapter of HIP's interface."""

    def run(self):
        """Return the chapters as sections."""
        chapters = {}
        for row in filter(lambda row: row.there, table()):
            chapters.setdefault(row.chapter, []).append(row)
        text = []
        for chapter, rows in chapters.items():
            text += [f"## {chapter.capitalize()}", "", "| function | what it does | where |", "|---|---|---|"]
            text += [f"| `{row.name}` | {what_it_does(row.name)} | {where(row)} |" for row in rows]
            text.append("")
        parent = nodes.section()
        parent.document = self.state.document
        self.state.nested_parse(StringList(text, source="hip_functions"), 0, parent, match_titles=True)
        return parent.children


def setup(app):
    """Add the directive."""
    app.add_directive("hip-functions", HipFunctions)
    return {"parallel_read_safe": True}
