"""What AMD's bindings name that forebay does not have: the page docs/reference/hip-names.md.

``python -m tools.hip_names WHEEL …`` prints it from the type stubs in AMD's wheels (rocm-bindings-hip and
rocm-bindings-core, as ``pip download --no-deps`` gets them). A nightly test compares.
"""

import ast
import sys
import textwrap
import zipfile

from forebay import hip, hiprtc
from forebay.hip import types

MODULES = {"hip": hip, "hiprtc": hiprtc, "util/types": types}
INSIDE = ("_union_", "_struct_")  # other structures, whose types no program names
NOT_FOR_PROGRAMS = ("_", "hipReserved", "reserved", "DeviceArray", "NUMPY_CHAR_CODES")
INSTEAD = {
    "allocate": "a structure is made by its name, and several are a list",
    "as_c_void_p": "structures are objects of Python, without memory that C could read",
}

HEAD = """# What hip-python names that is not there

`python -m tools.hip_names` has made this page from the type stubs of rocm-bindings-hip {version}. Every function is
there. The types and constants are those of functions that [no device can do](../hip.md#what-no-device-can-do).
"""


def stubs_of(wheels):
    """Return the syntax tree of each module's stub, and the version of AMD's bindings."""
    trees, version = {}, ""
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                module = name.removeprefix("rocm/bindings/").removesuffix(".pyi")
                if name.endswith(".pyi") and module in MODULES:
                    trees[module] = ast.parse(wheel.read(name))
                    version = version or path.name.split("-")[1]
    return trees, version


def named_in(body):
    """Yield the names that a module or a class of a stub binds, and what binds each."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets)


def members_of(kind):
    """Return the names of attributes that objects of a class have."""
    try:
        own = vars(kind())
    except Exception:  # it takes arguments, or has no attributes of its own
        own = kind.PROPERTIES() if hasattr(kind, "PROPERTIES") else ()
    return {*dir(kind), *own, *getattr(kind, "__members__", ())}


def page(wheels):
    """Return the page."""
    trees, version = stubs_of(wheels)
    sections, members = [], {}
    for module, tree in trees.items():
        ours = MODULES[module]
        missing = {"functions": [], "types": [], "constants and other names": []}
        for name, node in named_in(tree.body):
            if name.startswith("_") or any(word in name for word in INSIDE):
                continue
            kind = {ast.FunctionDef: "functions", ast.ClassDef: "types"}.get(type(node), "constants and other names")
            there = getattr(ours, name, None) if name in dir(ours) else None
            if there is None:
                missing[kind].append(name)
            elif isinstance(node, ast.ClassDef):
                has = members_of(there)
                for member, _ in named_in(node.body):
                    if not member.startswith(NOT_FOR_PROGRAMS) and member not in has:
                        members.setdefault(member, []).append(name)
        for kind, names in missing.items():
            if names:
                sections.append(f"## {kind.capitalize()} of `{module.replace('/', '.')}`\n\n" + wrapped(names))
    rows = ["## Members of types that are there", "", "| member | types | instead |", "|---|---|---|"]
    for member, names in sorted(members.items(), key=lambda item: -len(item[1])):
        few = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        rows.append(f"| `{member}` | {few} | {INSTEAD.get(member, '')} |")
    return "\n\n".join([HEAD.format(version=version).rstrip(), *sections, "\n".join(rows)]) + "\n"


def wrapped(names):
    """Return names as lines of Markdown."""
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 120, break_on_hyphens=False)


if __name__ == "__main__":
    from pathlib import Path

    sys.stdout.write(page([Path(path) for path in sys.argv[1:]]))
