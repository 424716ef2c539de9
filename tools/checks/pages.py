"""What pages name is there, what they show of other files is the same, and their code is not wide."""

import difflib
import re

import jupytext

import forebay as fb
from forebay import hip
from forebay.__main__ import commands
from forebay.queues.interop.names import INSTEAD
from tools.checks import ROOT

KINDS = {
    "fb": fb, "forebay": fb, "device": fb.Device, "dev": fb.Device, "queue": fb.Queue, "other_queue": fb.Queue,
    "buffer": fb.Buffer, "event": fb.Event, "kernel": fb.Kernel, "program": fb.Program, "graph": fb.Graph,
    "executable": fb.ExecutableGraph, "Device": fb.Device, "Queue": fb.Queue, "Buffer": fb.Buffer, "Event": fb.Event,
    "MemoryPool": fb.MemoryPool, "Program": fb.Program, "Stats": fb.Stats, "stats": fb.Stats,
    "device.pool": fb.MemoryPool,
}  # fmt: skip
NAMED = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, KINDS))})\.(?!pyx?\b)([a-z_]\w*)\b(?!\.\w)")
# Submodules are no attributes of the package until they are imported.
NO_NAMES = {("forebay", name) for name in ("hip", "hiprtc", "cupy_style", "icd", "bench", "queues")} | {
    ("program", "f")
}
LAYERS_OF_BENCH = {"bound", "step"}  # "forebay bound" is no command
WIDEST = 80  # What is wider is cut on a phone, and in a window beside another.
MOVED = ("cupy", "dpctl", "pycuda", "pyopencl")
SHOWN_BY = {"pyopencl": "import forebay.icd", "dpctl": "import forebay; forebay.devices()"}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def code_of(page, text):
    """Return the pieces in backticks; of tables that translate only those in the column of forebay."""
    text = BLOCK.sub("", text)
    if "coming-from" in page:
        text = re.sub(r"^\|.*\|([^|]*)\|$", r"\1", text, flags=re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def is_missing(kind, name):
    """Whether an object of this kind does not have the attribute, or only as another package's name."""
    other = {each for names in INSTEAD.get(KINDS[kind], {}).values() for each in names.split()}
    return name in other or not hasattr(KINDS[kind], name)


def findings_of_names(pages):
    """Check the attributes of forebay's objects, the functions of HIP, and the commands."""
    count = 0
    for page, text in pages.items():
        pieces = code_of(page, text)
        named = {found for piece in pieces for found in NAMED.findall(piece)} - NO_NAMES
        count += len(named)
        yield from (f"{page} names {kind}.{name}" for kind, name in named if is_missing(kind, name))
        if page != "docs/levelzero-notes.md":
            functions = {name for piece in pieces for name in re.findall(r"\bhip\.(hip[A-Z]\w+)", piece)}
            yield from (f"{page} names {name}" for name in functions - set(hip.__all__))
        lines = "\n".join(pieces + re.findall(r"^    (.*)$", text, re.MULTILINE))
        named = set(re.findall(r"^forebay ([a-z]+)", lines, re.MULTILINE))
        yield from (f"{page} names forebay {name}" for name in named - LAYERS_OF_BENCH - set(commands.commands))
    if count < 60:
        yield f"pages name only {count} attributes"


def wide_code(text):
    """Yield the lines of a page's blocks of code that are too wide."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif len(line if inside else line.removeprefix("    ")) > WIDEST and (inside or line.startswith("    ")):
            yield line


def findings_of_widths(pages):
    """Check the code on pages, and the programs that are there to be read."""
    for page, text in pages.items():
        yield from (f"{page} has code wider than {WIDEST}: {line}" for line in wide_code(text))
    for path in (path for folder in ("examples", "docs/coming-from") for path in (ROOT / folder).rglob("*.*")):
        if path.suffix in (".py", ".cl", ".hip") and any(len(line) > WIDEST for line in path.read_text().splitlines()):
            yield f"{path.relative_to(ROOT)} has lines wider than {WIDEST}"


def findings_of_copies(pages):
    """Check what stands in two files: the landing page, the tutorial's notebook, differences of programs."""
    begins = [
        pages[page].partition("## Where to go on")[0].replace("](docs/", "](")
        for page in ("README.md", "docs/index.md")
    ]
    headings = re.findall(r"^## (.*)$", BLOCK.sub("", begins[0]), re.MULTILINE)
    if begins[0] != begins[1] or headings != ["Install", "Devices", "Numbers"]:
        yield "README.md and docs/index.md do not begin alike, or not with Install, Devices and Numbers"
    notebook, page = (jupytext.read(ROOT / "docs" / f"tutorial.{suffix}").cells for suffix in ("ipynb", "md"))
    if [(cell.cell_type, cell.source) for cell in notebook] != [(cell.cell_type, cell.source) for cell in page]:
        yield "docs/tutorial.ipynb differs from the page: jupytext --update --to ipynb docs/tutorial.md"
    if any(cell.get("outputs") for cell in notebook):
        yield "docs/tutorial.ipynb has outputs, which are one machine's"
    for package in MOVED:
        text, folder = pages[f"docs/coming-from/{package}.md"], ROOT / "docs" / "coming-from" / package
        before, after = (folder.joinpath(name).read_text().splitlines() for name in ("before.py", "after.py"))
        changes = list(difflib.unified_diff(before, after, "before.py", "after.py", n=1, lineterm=""))
        if re.findall(r"^```diff\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL) != ["\n".join(changes)]:
            yield f"docs/coming-from/{package}.md does not show the difference of its programs"
        if any(re.match(rf"(?:import|from) {package}\b", line) for line in after):
            yield f"docs/coming-from/{package}/after.py needs the other package"
        if any(sum(line[0] == sign for line in changes[2:]) > 10 for sign in "+-"):
            yield f"docs/coming-from/{package} changes more than ten lines"
        if SHOWN_BY.get(package, "") not in " ".join(text.split()):
            yield f"docs/coming-from/{package}.md does not say what shows the driver to the other package"
    for name in ("picture", "with_dask", "with_ray"):
        if f"```{{literalinclude}} ../examples/cluster/{name}.py\n" not in pages["docs/several-processes.md"]:
            yield f"docs/several-processes.md does not show examples/cluster/{name}.py"


def findings():
    """Yield what pages name or show, and is not there."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    yield from findings_of_names(pages)
    yield from findings_of_widths(pages)
    yield from findings_of_copies(pages)
