"""How Sphinx builds the site: ``make docs``, or ``python -m sphinx -W -b html docs build/docs`` once there is the view.

What is compiled shows its docstrings and signatures by itself, but not what its classes are called with. That is read
from the stubs that ``python setup.py view`` writes.
"""

import ast
import inspect
import sys
from pathlib import Path

import forebay
from forebay.queues.interop.names import OtherName, add

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

project = "forebay"
author = "the authors of forebay"
version = release = forebay.__version__.partition("+")[0]

extensions = ["hip_functions", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
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
html_title = "forebay"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_copyright = False
html_theme_options = {
    "source_repository": "https://github.com/forebay/forebay/",
    "source_branch": "main",
    "source_directory": "docs/",
}

VIEW = ROOT / "build" / "view"


def signature_in_stub(kind):
    """What a compiled class is called with, by its stub."""
    stub = VIEW.joinpath(*kind.__module__.split(".")).with_suffix(".pyi")
    for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for method in node.body:
                if getattr(method, "name", "") == "__init__":
                    names = {}
                    method.args.args = method.args.args[1:]
                    exec(f"from __future__ import annotations\ndef made({ast.unparse(method.args)}): ...", names)
                    return inspect.signature(names["made"])
    return inspect.Signature()


def give_signatures():
    """Give compiled classes a signature, and classes with two names the public one."""
    for name in forebay.__all__:
        kind = getattr(forebay, name)
        if isinstance(kind, type) and not sys.modules[kind.__module__].__file__.endswith(".py"):
            signature = signature_in_stub(kind)
            if kind.__name__ != name:
                kind = type(name, (kind,), {"__doc__": kind.__doc__, "__module__": "forebay"})
                setattr(forebay, name, kind)
            add(kind, "__signature__", signature)


MADE_BY_CALLING = {"Device", "by_value", "local", "trace", "Argument", "MaxOver", "MinOver", "SumOver"}


def hide_signature(app, what, name, thing, options, signature, returns):
    """Show no signature of classes that are made by their owner."""
    if what == "class" and name.startswith("forebay.") and name.count(".") == 1:
        return ("", None) if name.partition(".")[2] not in MADE_BY_CALLING else None
    return None


def skip(app, what, name, thing, skip, options):
    """Leave out names that exist only to say what forebay calls the thing."""
    return True if isinstance(thing, OtherName) else None


def keep_whole(app, what, name, thing, options, lines):
    """Keep Napoleon from taking what is before a colon in a property's docstring for its type."""
    if what in ("attribute", "property") and lines and lines[0]:
        lines.insert(0, "")


def setup(app):
    """Connect the functions above."""
    app.connect("autodoc-process-docstring", keep_whole, priority=400)  # before Napoleon's 500
    give_signatures()
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("autodoc-skip-member", skip)
