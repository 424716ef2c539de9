"""The floors of forebay's code, and what imports what: read from the sources."""

import ast
import functools
import re

from tests.helpers.processes import ROOT

# The longest prefix that fits decides.
FLOORS = {
    "core": 1,
    "spirv": 1,
    "sync": 2,
    "lifetimes": 3,
    "events": 4,
    "races": 2,  # of queues, because what is judged there are these; events and memory tell it what they do
    "races.launches": 5,
    "queues.kernels": 5,
    "queues.memory": 5,
    "queues.capture_rules": 5,
    "queues.thread_queues": 5,
    "queues.launch": 6,
    "queues.drivers": 6,  # which know core and kernels
    "queues.drivers.opencl": 6,
    "queues.drivers.cuda": 6,
    "queues.drivers.levelzero": 6,
    "queues.drivers.sycl": 6,
    "queues.host_functions": 7,
    "queues.queue": 7,
    "queues.graphs": 8,
    "queues.steps": 8,
    "queues.drivers.selection": 8,
    "queues.context": 8,
    "queues.launcher": 8,
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
FOLDERS = ("core", "spirv", "sync", "lifetimes", "events", "races", "queues", "src/forebay")
CIMPORT = re.compile(r"^[ \t]*from (forebay[\w.]*) c?import (\([^)]*\)|[^\n#]*)|^[ \t]*c?import (forebay[\w.]*)", re.M)


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by_cython(source):
    """(module, name) of each import; the name is empty when the module itself is what is imported.

    Those for types alone do not count.
    """
    source = re.sub(r"^if TYPE_CHECKING:\n(    .*\n|\n)+", "", source, flags=re.M)
    for module, names, alone in CIMPORT.findall(source):
        for name in re.sub(r"#.*", "", names).strip("() \n").split(","):
            yield module or alone, name.split()[0] if name.strip() else ""


def imported_by_python(source):
    """The same. Imports inside functions count."""
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
    """For each module the others that it imports when it runs; their names are without ``forebay.``."""
    paths = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.p[yx]*")
        if path.suffix in (".py", ".pyx", ".pxd")
    ]
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


def floor_of(module):
    prefixes = [prefix for prefix in FLOORS if module == prefix or module.startswith(f"{prefix}.")]
    return FLOORS[max(prefixes, key=len, default="")]


def room_of(module):
    """The room that a module is in: the longest name among the floors that fits."""
    rooms = [room for room in FLOORS if room and (module == room or module.startswith(f"{room}."))]
    return max(rooms, key=len, default="")


def read_rooms():
    """For each room the others that its modules import when they run."""
    imports = read_imports()
    rooms = {room_of(module): set() for module in imports}
    for module, others in imports.items():
        rooms[room_of(module)] |= {room_of(other) for other in others} - {room_of(module)}
    return rooms
