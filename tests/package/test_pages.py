"""The names that the pages say are there: attributes of forebay's objects, functions of HIP, commands and variables."""

import re

import pytest

import forebay as fb
from forebay import hip
from forebay.__main__ import commands
from forebay.queues.interop.names import INSTEAD
from tests.helpers.processes import ROOT

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

KINDS = {
    "fb": fb, "forebay": fb, "device": fb.Device, "dev": fb.Device, "queue": fb.Queue, "other_queue": fb.Queue,
    "buffer": fb.Buffer, "event": fb.Event, "kernel": fb.Kernel, "program": fb.Program, "graph": fb.Graph,
    "executable": fb.ExecutableGraph, "Device": fb.Device, "Queue": fb.Queue, "Buffer": fb.Buffer, "Event": fb.Event,
    "MemoryPool": fb.MemoryPool, "Program": fb.Program, "Stats": fb.Stats, "stats": fb.Stats,
    "device.pool": fb.MemoryPool,
}  # fmt: skip
NAMED = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, KINDS))})\.([a-z_]\w*)\b(?!\.\w)")
# Submodules are no attributes of the package until they are imported; files have endings.
NO_NAMES = {("forebay", name) for name in ("hip", "hiprtc", "cupy_style", "icd", "bench", "queues")} | {
    ("program", "f"),
    ("device", "py"),
}
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}


def prose(page):
    """What a page says of forebay, without blocks; of tables that translate, the column of forebay."""
    text = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    if "coming-from" in page:
        text = re.sub(r"^\|.*\|([^|]*)\|$", r"\1", text, flags=re.MULTILINE)
    return text


def code(page):
    """The pieces in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def missing(kind, name):
    """Whether an object of this kind does not have the attribute."""
    other = {each for names in INSTEAD.get(KINDS[kind], {}).values() for each in names.split()}
    return name in other or not (name in vars(KINDS[kind]) or hasattr(KINDS[kind], name))


@pytest.mark.parametrize("page", PAGES)
def test_attributes_that_a_page_names_are_there(page):
    named = {found for piece in code(page) for found in NAMED.findall(piece)} - NO_NAMES
    assert sorted(f"{kind}.{name}" for kind, name in named if missing(kind, name)) == []


def test_there_are_names_to_look_at():
    named = {found for page in PAGES for piece in code(page) for found in NAMED.findall(piece)}
    assert len(named) > 60
    assert missing("queue", "synchronize")
    assert missing("queue", "nothing_of_that_kind")


@pytest.mark.parametrize("page", PAGES)
def test_functions_of_hip_that_a_page_names_are_there(page):
    if page == "docs/levelzero-notes.md":
        return
    named = {name for piece in code(page) for name in re.findall(r"\bhip\.(hip[A-Z]\w+)", piece)}
    assert named <= set(hip.__all__)


def test_commands_that_pages_name_are_there():
    lines = [line for text in PAGES.values() for line in re.findall(r"^    (.*)$|`([^`\n]+)`", text, re.MULTILINE)]
    named = {command for pair in lines for piece in pair for command in re.findall(r"^forebay ([a-z]+)", piece)}
    assert {"devices", "trace", "stats", "bench", "cache"} <= named
    assert named - {"bound", "step"} <= set(commands.commands)  # these are layers of measurements


def headings(page):
    """The headings of a page, without what is in its blocks."""
    return re.findall(
        r"^## (.*)$", re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )


def test_the_landing_page_and_the_readme_begin_alike():
    for page in ("README.md", "docs/index.md"):
        assert headings(page)[:4] == ["Install", "Devices", "Numbers", "Where to go on"]
    begins = [
        PAGES[page].partition("## Where to go on")[0].replace("](docs/", "](")
        for page in ("README.md", "docs/index.md")
    ]
    assert begins[0] == begins[1]
    (program,) = re.findall(r"^```python\n(.*?)^```$", begins[0], re.MULTILINE | re.DOTALL)
    assert len([line for line in program.splitlines() if line]) <= 10


# What is wider is cut on a phone, and in a window beside another.
WIDEST = 80
PROGRAMS = ("examples", "docs/coming-from")


def wide_code(text):
    """The lines of a page's blocks of code that are too wide."""
    lines, inside = text.splitlines(), False
    for line in lines:
        if line.startswith("```"):
            inside = not inside
        elif len(line if inside else line.removeprefix("    ")) > WIDEST and (inside or line.startswith("    ")):
            yield line


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_code_on_a_page_is_not_wide(page):
    assert list(wide_code((ROOT / page).read_text(encoding="utf-8"))) == []


def test_programs_to_be_read_are_not_wide():
    programs = [
        path for folder in PROGRAMS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".cl", ".hip")
    ]
    assert len(programs) > 15
    lines = ((path, line) for path in programs for line in path.read_text(encoding="utf-8").splitlines())
    assert [(path.name, line) for path, line in lines if len(line) > WIDEST] == []


def test_wide_code_is_seen():
    wide = "x" * 81
    assert list(wide_code(f"{wide}\n```python\n{wide}\n```\n    {wide}\n    {wide[1:]}\n")) == [wide, f"    {wide}"]
