"""How Sphinx builds the site: ``make docs``, or ``python -m sphinx -W -b html docs build/docs``."""

import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().with_name("extensions")))

from docutils import nodes
from made_by_calling import MADE_BY_CALLING
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

import forebay
from forebay.queues.interop.names import add

ROOT = Path(__file__).resolve().parents[1]

project = "forebay"
author = "the authors of forebay"
version = release = forebay.__version__.partition("+")[0]

extensions = [
    "hip_functions",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
nitpicky = False
default_role = "py:obj"  # what docstrings have in single backticks
highlight_language = "text"
exclude_patterns = ["coming-from/*/**"]

myst_heading_anchors = 4  # as on GitHub, where these pages are read, too
myst_url_schemes = {"http": None, "https": None}
suppress_warnings = ["myst.xref_ambiguous"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = False

html_theme = "furo"
html_title = f"forebay {version}"  # on each page, above its contents
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_copyright = False
html_theme_options = {
    "source_repository": "https://github.com/forebay/forebay/",
    "source_branch": "main",
    "source_directory": "docs/",
}

copybutton_exclude = ".linenos, .gp, .go"

CONSTRUCTOR = r"^cdef class {}\b(?:(?!^cdef class )[\s\S])*?^    def __init__\(\s*self\b,?([\s\S]*?)\) -> None:"


def signature_in_source(kind):
    """What a compiled class is called with: compiled classes do not tell."""
    source = ROOT.joinpath(*kind.__module__.split(".")[1:]).with_suffix(".pyx").read_text(encoding="utf-8")
    found = re.search(CONSTRUCTOR.format(kind.__name__), source, re.MULTILINE)
    names = {}
    exec(f"from __future__ import annotations\ndef made({found[1] if found else ''}): ...", names)
    return inspect.signature(names["made"])


def give_signatures():
    """Give compiled classes a signature, and classes with two names the public one."""
    for name in forebay.__all__:
        kind = getattr(forebay, name)
        if isinstance(kind, type) and not sys.modules[kind.__module__].__file__.endswith(".py"):
            signature = signature_in_source(kind)
            if kind.__name__ != name:
                kind = type(name, (kind,), {"__doc__": kind.__doc__, "__module__": "forebay"})
                setattr(forebay, name, kind)
            add(kind, "__signature__", signature)


def hide_signature(app, what, name, thing, options, signature, returns):
    """Show no signature of classes that are made by their owner."""
    if what == "class" and name.startswith("forebay.") and name.count(".") == 1:
        return ("", None) if name.partition(".")[2] not in MADE_BY_CALLING else None
    return None


def hide_colons(app, what, name, thing, options, lines):
    """Keep Napoleon from taking what is before a colon in a property's docstring for its type."""
    if what in ("attribute", "property") and lines:
        lines[0] = lines[0].replace(":", "\ufffc")


def show_colons(app, what, name, thing, options, lines):
    """Put them back."""
    lines[:] = [line.replace("\ufffc", ":") for line in lines]


# Members in the pages' order: methods as the source has them, then what makes the object of another, then properties.
DEFINITION = re.compile(r"^(?:cdef )?class (\w+)|^((?:    @\S+\n)*)    (?:cp)?def (?:\w+ )?([a-z]\w*)\(", re.MULTILINE)


def give_orders():
    """Tell autodoc the order of the members of compiled classes, whose source it cannot read."""
    for module in {getattr(getattr(forebay, name), "__module__", "") for name in forebay.__all__} - {""}:
        source = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".pyx")
        if not source.exists():
            continue
        classes, members = {}, []
        for kind, decorators, name in DEFINITION.findall(source.read_text(encoding="utf-8")):
            if kind:
                members = classes.setdefault(kind, [])
            else:
                members.append(("@property" in decorators, "@staticmethod" in decorators, len(members), name))
        lines = [
            line
            for kind, members in classes.items()
            for line in (f"class {kind}:", "    pass", *(f"    def {name}(self): pass" for *_, name in sorted(members)))
        ]
        analyzer = ModuleAnalyzer.for_string("\n".join(lines) + "\n", module)
        try:
            analyzer.analyze()
        except PycodeError as error:
            raise RuntimeError(f"{source}: {error}") from error
        ModuleAnalyzer.cache["module", module] = analyzer


TYPE_FIELD = re.compile(r"\.\. attribute:: ([\w, ]+)\n((?:   .*\n|\n)*?)   :type: (.*)\n?")


def put_types_first(app, what, name, thing, options, lines):
    """Show the type of an attribute beside its name, and not as a paragraph."""
    text = "\n".join(lines) + "\n"
    lines[:] = TYPE_FIELD.sub(r".. attribute:: \1\n   :type: \3\n\2", text).split("\n")


def drop_dashes(app, doctree):
    """Leave out the dash behind exceptions of which nothing is said."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = paragraph.astext()
        if text.endswith(" – "):
            while paragraph.children and paragraph.astext() != text.removesuffix(" – "):
                del paragraph[-1]


def setup(app):
    """Connect the functions above."""
    app.connect("autodoc-process-docstring", hide_colons, priority=400)  # Napoleon's is 500
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    app.connect("autodoc-process-docstring", put_types_first, priority=700)
    give_orders()
    give_signatures()
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("doctree-read", drop_dashes)
