"""The pictures of docs/architecture.md fit the code: the packages what is imported, a launch's way what is called."""

import re

from docs.pictures import launch, rooms
from tools.checks import ROOT
from tools.checks.layers import LAYERS, package_of, read_imports


def calls_of(name, source):
    """Return an inline function's text; functions of the same file are in place of the calls of them."""
    (text,) = re.findall(rf"^cdef (?:inline )?[^\n]*\b{name}\((?:.|\n)*?(?=^cdef |\Z)", source, re.MULTILINE)
    text = text.split(":\n", 1)[1]
    for inner in ("launch_ready", "submit_launch"):
        if inner != name and f" {inner}(" in text and re.search(rf"^cdef [^\n]*\b{inner}\(", source, re.MULTILINE):
            text = re.sub(rf"\b{inner}\(", lambda _, inner=inner: calls_of(inner, source), text)
    return text


def findings_of_launch():
    """Check that what a launch calls is where its picture shows it, and in that order."""
    for *_, function, path, _ in (*launch.SHORT, *launch.LONG):
        if not re.search(rf"\b{function}\)?\(", (ROOT / path).read_text(encoding="utf-8")):
            yield f"{path} has no {function}, which the picture shows"
    ways = {
        "queues/launch/launch.pxd": ("launch", [step[-3] for step in launch.SHORT[1:]]),
        "sync/ordering.pyx": ("submit", ("begin_command", "call", "abort_command")),
        "queues/launch/launch.pyx": ("call_launch", ("submit_launch", "commit")),
    }
    for path, (first, names) in ways.items():
        text = calls_of(first, (ROOT / path).read_text(encoding="utf-8"))
        found = [match.start() if (match := re.search(rf"(?<!\w){name}\(", text)) else -1 for name in names]
        if found != sorted(found) or -1 in found:
            yield f"{first} of {path} does not call in this order: {', '.join(names)}"


def findings():
    """Yield where the pictures differ from the code."""
    for drawn in (rooms, launch):
        path = ROOT / "docs" / "pictures" / f"{drawn.__name__.rpartition('.')[2]}.svg"
        if path.read_text(encoding="utf-8") != drawn.draw():
            yield f"{path.relative_to(ROOT)} is not what `python -m docs.pictures` draws"
    there = {package_of(module) for module in read_imports()}
    yield from (f"no module is in {name!r} of the layers" for name in LAYERS.keys() - there)
    yield from findings_of_launch()
