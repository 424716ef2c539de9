"""The documentation builds as a site without a warning, has every public name, and its links lead somewhere."""

import html
import importlib.util
import posixpath
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import forebay as fb
from forebay import cupy_style, hip, hiprtc
from forebay.hip.table import table
from tests.helpers import browser
from tests.helpers.processes import ROOT, python

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)
if not all(map(importlib.util.find_spec, ("sphinx", "furo", "myst_parser", "sphinx_copybutton"))):
    pytest.skip("Sphinx is not installed: the extra docs", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

# Sphinx marks what is wrong with these, and goes on.
BROKEN = re.compile(r'class="(?:system-message|problematic)')
WRITTEN = ("genindex.html", "search.html", "py-modindex.html")


class Page(HTMLParser):
    """The links and the anchors of a page, and the names that it documents."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(found[key])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--fail-on-warning", "--keep-going", "--fresh-env")
    done = python("-m", "sphinx", *options, "-b", "html", "-d", folder / "read", ROOT / "docs", folder / "html")
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.long
def test_it_builds_without_warnings_and_its_links_lead_somewhere(site, tmp_path):
    """One test: workers of pytest-xdist would each build it for theirs."""
    pages = {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    check_that_all_pages_are_there(site, pages)
    check_that_they_can_be_reached(pages)
    check_what_each_page_has(site, pages)
    check_links(site, pages)
    check_names(site, pages)
    check_signatures(site)
    if browser.PROGRAM:
        check_widths(site, pages, tmp_path)


def check_that_all_pages_are_there(site, pages):
    texts = [path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert len(texts) > 30
    assert set(texts) <= set(pages)
    assert [page for page in pages if BROKEN.search((site / page).read_text(encoding="utf-8"))] == []


def check_that_they_can_be_reached(pages):
    seen, left = set(), ["index.html"]
    while left:
        page = left.pop()
        if page in seen or page not in pages:
            continue
        seen.add(page)
        left += [
            posixpath.normpath(posixpath.join(posixpath.dirname(page), urlsplit(link).path))
            for link in pages[page].links
            if not urlsplit(link).scheme and urlsplit(link).path
        ]
    assert set(pages) - seen - set(WRITTEN) == set()


def check_what_each_page_has(site, pages):
    version = html.escape(fb.__version__.partition("+")[0])
    for page in set(pages) - set(WRITTEN):
        text = (site / page).read_text(encoding="utf-8")
        assert re.search(rf'class="sidebar-brand-text">\s*forebay {re.escape(version)}', text), page
        assert "copybutton.js" in text, page


def check_links(site, pages):
    dead = []
    for page, read in pages.items():
        for link in read.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue  # of another site: not fetched
            path = unquote(parts.path)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            if not (site / target).exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                dead.append((page, link))
    assert sum(len(read.links) for read in pages.values()) > 1000
    assert dead == []


def check_names(site, pages):
    anchors = set().union(*(read.anchors for read in pages.values()))
    faces = {"forebay": fb, "forebay.cupy_style": cupy_style, "forebay.hiprtc": hiprtc}
    names = {f"{face}.{name}" for face, module in faces.items() for name in module.__all__}
    assert names - anchors == {"forebay.__version__"}

    text = (site / "reference" / "hip.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<span class="pre">(hip\w+)</span>', text))
    there = {row.name for row in table(hip.__all__) if row.there}
    assert len(there) > 250
    assert there <= shown


def check_signatures(site):
    """Classes have them, members are in the order of the source, and nothing is announced and then not said."""
    text = (site / "reference" / "devices.html").read_text(encoding="utf-8")
    (device,) = re.findall(r'<dt class="sig[^>]*id="forebay.Device">(.*?)</dt>', text, re.DOTALL)
    for parameter in ("filter", "timing", "debug", "private"):
        assert f'<span class="n"><span class="pre">{parameter}</span></span>' in device
    text = (site / "reference" / "queues.html").read_text(encoding="utf-8")
    (queue,) = re.findall(r'<dt class="sig[^>]*id="forebay.Queue">(.*?)</dt>', text, re.DOTALL)
    assert "args" not in queue  # a program cannot make one by calling it
    (launch,) = re.findall(r'<dt class="sig[^>]*id="forebay.Queue.launch">(.*?)</dt>', text, re.DOTALL)
    assert "grid" in launch
    assert "result" in launch
    members = re.findall(r'id="forebay\.Queue\.(\w+)"', text)
    expected = ["launch", "copy", "fill", "record", "wait", "finish", "capture", "step", "close"]
    assert [name for name in members if name in expected] == expected
    for page in (site / "reference").glob("*.html"):
        assert not re.search(r"–\s*</p>", page.read_text(encoding="utf-8")), page


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


def check_widths(site, pages, profile):
    """No page is wider than a phone or a window, and nor is code; a wide table scrolls in a box of its own."""
    wide = []
    with browser.Browser(profile) as seen:
        seen.open("about:blank")
        for page in pages:
            url = (site / page).as_uri()
            seen.call("Page.navigate", url=url)
            seen.wait_for(f"location.href == {url!r} && document.readyState == 'complete'")
            for width in (390, 1280):
                seen.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True
                )
                wide += [(page, width, what) for what in seen.evaluate(CUT_OFF)]
    assert wide == []
