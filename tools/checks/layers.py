"""The layers of docs/architecture.md: a module imports only what lies below it, never in a circle.

Also how much a folder holds, and what no module may have. All is read from the sources.
"""

import ast
import functools
import graphlib
import re

from tools.checks import DRIVERS, ROOT

# The longest prefix that fits decides.
LAYERS = {
    "compiler": 0,  # it could be a package of its own
    "core": 1,
    "sync": 2,
    "sync.finish": 4,
    "lifetimes": 3,
    "events": 4,
    "races": 2,  # of queues, because what is judged there are these; events and memory tell it what they do
    "races.launches": 5,
    "queues.kernels": 5,
    "queues.memory": 5,
    "queues.capture_rules": 2,
    "queues.launch": 6,
    "queues.opencl": 6,  # the drivers know core and kernels
    "queues.cuda": 6,
    "queues.levelzero": 6,
    "queues.sycl": 6,
    "queues.host_functions": 7,
    "queues.queue": 7,
    "queues.graphs": 8,
    "queues.selection": 8,
    "queues.device": 9,
    "queues.interop": 10,
    "c_string": 10,
    "tracing": 10,
    "expressions": 10,
    "": 11,  # the face
    "hiprtc": 11,
    "cupy_style": 12,
    "hip": 12,
    "selftest": 12,
    "__main__": 13,
}
FOLDERS = ("core", "sync", "lifetimes", "events", "races", "queues", "src/forebay")
SOURCES = (".py", ".pyx", ".pxd")
# A reader sees 20 at one look. `queues` has the four drivers; `core` is to lose its smallest files.
ENTRIES = {"queues": 23, "core": 22}
KNOW_DRIVERS = ("queues.selection", "queues.interop")
TYPED_VIEW = re.compile(r"^ *(?:cdef|ctypedef|cpdef)[^#\n]*\[ *:[:1, ]*\]|^(?:from|import).*cython\.view", re.M)
CIMPORT = re.compile(r"^[ \t]*from (forebay[\w.]*) c?import (\([^)]*\)|[^\n#]*)|^[ \t]*c?import (forebay[\w.]*)", re.M)


def name_of(path):
    """Return a source file's module, without ``forebay.``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by_cython(source):
    """Yield (module, name) of each import; the name is empty when the module itself is imported.

    Those for types alone do not count.
    """
    source = re.sub(r"^if TYPE_CHECKING:\n(    .*\n|\n)+", "", source, flags=re.M)
    for module, names, alone in CIMPORT.findall(source):
        for name in re.sub(r"#.*", "", names).strip("() \n").split(","):
            yield module or alone, name.split()[0] if name.strip() else ""


def imported_by_python(source):
    """Yield the same of a module in Python. Imports inside functions count."""
    left = [ast.parse(source)]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from ((part.value, "") for part in ast.walk(node) if isinstance(getattr(part, "value", None), str))
        left.extend(ast.iter_child_nodes(node))


@functools.cache
def read_imports():
    """Return for each module the others that it imports when it runs, without ``forebay.`` before their names."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.p[yx]*") if path.suffix in SOURCES]
    found = {name_of(path): set() for path in paths}
    for path in paths:
        read = imported_by_python if path.suffix == ".py" else imported_by_cython
        for module, name in read(path.read_text(encoding="utf-8")):
            for imported in (f"{module}.{name}", module):
                if imported.startswith("forebay.") and imported[8:] in found:
                    found[name_of(path)].add(imported[8:])
                    break
        found[name_of(path)].discard(name_of(path))
    return found


def layer_of(module):
    """Return the number of a module's layer."""
    return LAYERS[package_of(module)]


def package_of(module):
    """Return the package that a module is in: the longest name among the layers that fits."""
    packages = [name for name in LAYERS if name and (module == name or module.startswith(f"{name}."))]
    return max(packages, key=len, default="")


def read_packages():
    """Return for each package the others that its modules import when they run."""
    imports = read_imports()
    packages = {package_of(module): set() for module in imports}
    for module, others in imports.items():
        packages[package_of(module)] |= {package_of(other) for other in others} - {package_of(module)}
    return packages


def findings():
    """Yield imports from above and in circles, imports of drivers, large folders and typed memoryviews."""
    imports = read_imports()
    if sum(map(len, imports.values())) <= 500:
        yield "imports are not found"
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        yield f"a circle: {' imports '.join(error.args[1])}"
    for module, other in ((module, other) for module, others in imports.items() for other in others):
        if layer_of(other) > layer_of(module):
            yield f"{module} imports {other}, of a higher layer"
        driver = re.match(r"queues\.\w+", other)
        if driver and driver[0].replace(".", "/") in DRIVERS and not module.startswith((driver[0], *KNOW_DRIVERS)):
            yield f"{module} imports {other}; only the list of drivers knows a driver"
    for top in (*FOLDERS, "microbench"):
        for folder in {path.parent for path in (ROOT / top).rglob("*.p[yx]*") if path.suffix in SOURCES}:
            names = {path.name for path in folder.iterdir() if path.suffix not in (".so", ".pyd", ".pyi")}
            names = {name for name in names if (folder / name).is_file() or any((folder / name).rglob("*.py"))}
            if len(names) > ENTRIES.get(folder.relative_to(ROOT).as_posix(), 20):
                yield f"{folder.relative_to(ROOT)} has more entries than a reader sees at one look: {len(names)}"
    for path in (path for top in FOLDERS for path in (ROOT / top).rglob("*.p[yx][xd]")):
        if TYPED_VIEW.search(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)} has a typed memoryview, which costs its module 15,000 lines of C++"
