"""The documentation builds as a site without a warning, also of links and pages left out, and has every public name."""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import forebay as fb
from forebay import cupy_style, hiprtc
from forebay.hip.table import table
from tools.checks import ROOT

BROKEN = re.compile(r'class="(?:system-message|problematic)')  # Sphinx marks what is wrong with these, and goes on.
WRITTEN = {"genindex.html", "search.html", "py-modindex.html"}
QUEUE = ["launch", "copy", "fill", "record", "wait", "finish", "capture", "step", "close"]


def findings_of_pages(pages):
    """Check that each text is a page, and what each has."""
    texts = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
    yield from (f"{page} is not built" for page in texts - pages.keys())
    brand = f'class="sidebar-brand-text">forebay {html.escape(fb.__version__.partition("+")[0])}'
    for name, text in pages.items():
        if BROKEN.search(text) or (name.startswith("reference/") and re.search(r"–\s*</p>", text)):
            yield f"{name} has what Sphinx could not make, or an empty description"
        if name not in WRITTEN and not (brand in re.sub(r">\s+", ">", text) and "copybutton.js" in text):
            yield f"{name} does not have the version, or no button that copies"


def findings_of_names(pages):
    """Check that every public name is documented, and that signatures and the order of members are the source's."""
    documented = {name for text in pages.values() for name in re.findall(r'id="(forebay[\w.]+)"', text)}
    faces = {"forebay": fb, "forebay.cupy_style": cupy_style, "forebay.hiprtc": hiprtc}
    names = {f"{face}.{name}" for face, module in faces.items() for name in module.__all__}
    yield from (f"{name} is on no page" for name in names - documented - {"forebay.__version__"})
    shown = set(re.findall(r'<span class="pre">(hip\w+)</span>', pages["reference/hip.html"]))
    yield from (f"{row.name} is not on HIP's page" for row in table() if row.there and row.name not in shown)

    def signature(page, name):
        (found,) = re.findall(rf'<dt class="sig[^>]*id="forebay.{name}">(.*?)</dt>', pages[page], re.DOTALL)
        return set(re.findall(r'<span class="n"><span class="pre">(\w+)</span></span>', found))

    if not signature("reference/devices.html", "Device") >= {"filter", "timing", "debug", "private"}:
        yield "Device is shown without its parameters"
    if signature("reference/queues.html", "Queue") or not signature("reference/queues.html", "Queue.launch"):
        yield "Queue is shown with parameters, which no program gives it, or Queue.launch without"
    members = re.findall(r'id="forebay\.Queue\.(\w+)"', pages["reference/queues.html"])
    if [name for name in members if name in QUEUE] != QUEUE:
        yield "the members of Queue are not in the order of the source"


def findings():
    """Build the site and yield what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        options = ["--quiet", "--fail-on-warning", "--keep-going", "-d", Path(folder, "read"), ROOT / "docs", site]
        done = subprocess.run([sys.executable, "-m", "sphinx", *options], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            yield f"Sphinx: {done.stderr}"
            return
        paths = sorted(site.rglob("*.html"))
        pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        yield from findings_of_pages(pages)
        yield from findings_of_names(pages)
