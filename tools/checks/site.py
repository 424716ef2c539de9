"""The documentation builds as a site without a warning, has every public name, and its links lead somewhere.

Where a Chromium is found, it also measures how wide the pages are: with ``python -m tools.checks site``.
"""

import html
import posixpath
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import forebay as fb
from forebay import cupy_style, hip, hiprtc
from forebay.hip.table import table
from tests.helpers import browser
from tools.checks import ROOT

BROKEN = re.compile(r'class="(?:system-message|problematic)')  # Sphinx marks what is wrong with these, and goes on.
WRITTEN = {"genindex.html", "search.html", "py-modindex.html"}
QUEUE = ["launch", "copy", "fill", "record", "wait", "finish", "capture", "step", "close"]
# What reaches beyond the window and is in no box that scrolls: the theme hides it, and so it would be lost. And code
# that has to be scrolled to be read.
CUT_OFF = """
[...document.querySelectorAll("article *")].filter(each => {
    if (each.tagName === "PRE" && each.scrollWidth > each.clientWidth + 1) return true;
    if (each.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let box = each; box.tagName !== "ARTICLE"; box = box.parentElement)
        if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    return !each.closest(".visually-hidden");
}).slice(0, 3).map(each => each.tagName + " " + each.textContent.slice(0, 60))
"""


class Page(HTMLParser):
    """The text of a page, its links and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.text, self.links, self.anchors = text, [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Collect a tag's links and anchors."""
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links += [found[key] for key in ("href", "src") if found.get(key)]


def findings_of_pages(pages):
    """Check that each text is a page, that each page can be reached, and what each has."""
    texts = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
    yield from (f"{page} is not built" for page in texts - pages.keys())
    brand = re.compile(
        rf'class="sidebar-brand-text">\s*forebay {re.escape(html.escape(fb.__version__.partition("+")[0]))}'
    )
    for name, page in pages.items():
        if BROKEN.search(page.text) or (name.startswith("reference/") and re.search(r"–\s*</p>", page.text)):
            yield f"{name} has what Sphinx could not make, or an empty description"
        if name not in WRITTEN and not (brand.search(page.text) and "copybutton.js" in page.text):
            yield f"{name} does not have the version, or no button that copies"


def findings_of_links(site, pages):
    """Check that links within the site lead somewhere, and to every page from the first."""
    leads = {}
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue  # of another site: not fetched
            path = unquote(parts.path)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            leads.setdefault(name, set()).add(target)
            if not (site / target).exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{name} has a dead link: {link}"
    seen, left = set(), ["index.html"]
    while left:
        page = left.pop()
        if page not in seen:
            seen.add(page)
            left += leads.get(page, ())
    yield from (f"no link leads to {page}" for page in pages.keys() - seen - WRITTEN)


def findings_of_names(pages):
    """Check that every public name is documented, and that signatures and the order of members are the source's."""
    anchors = set().union(*(page.anchors for page in pages.values()))
    faces = {"forebay": fb, "forebay.cupy_style": cupy_style, "forebay.hiprtc": hiprtc}
    names = {f"{face}.{name}" for face, module in faces.items() for name in module.__all__}
    yield from (f"{name} is on no page" for name in names - anchors - {"forebay.__version__"})
    shown = set(re.findall(r'<span class="pre">(hip\w+)</span>', pages["reference/hip.html"].text))
    yield from (f"{row.name} is not on HIP's page" for row in table(hip.__all__) if row.there and row.name not in shown)

    def signature(page, name):
        (found,) = re.findall(rf'<dt class="sig[^>]*id="forebay.{name}">(.*?)</dt>', pages[page].text, re.DOTALL)
        return set(re.findall(r'<span class="n"><span class="pre">(\w+)</span></span>', found))

    if not signature("reference/devices.html", "Device") >= {"filter", "timing", "debug", "private"}:
        yield "Device is shown without its parameters"
    if signature("reference/queues.html", "Queue") or not signature("reference/queues.html", "Queue.launch"):
        yield "Queue is shown with parameters, which no program gives it, or Queue.launch without"
    members = re.findall(r'id="forebay\.Queue\.(\w+)"', pages["reference/queues.html"].text)
    if [name for name in members if name in QUEUE] != QUEUE:
        yield "the members of Queue are not in the order of the source"


def findings_of_widths(site, pages, profile):
    """Check that no page is wider than a phone or a window, and no code; a wide table scrolls in its own box."""
    with browser.Browser(profile) as seen:
        seen.open("about:blank")
        for name in pages:
            url = (site / name).as_uri()
            seen.call("Page.navigate", url=url)
            seen.wait_for(f"location.href == {url!r} && document.readyState == 'complete'")
            for width in (390, 1280):
                size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
                seen.call("Emulation.setDeviceMetricsOverride", **size)
                yield from (f"{name} cuts off, {width} wide: {what}" for what in seen.evaluate(CUT_OFF))


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
        pages = {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in paths}
        yield from findings_of_pages(pages)
        yield from findings_of_links(site, pages)
        yield from findings_of_names(pages)
        if browser.PROGRAM:
            yield from findings_of_widths(site, pages, Path(folder, "profile"))
