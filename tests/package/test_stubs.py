"""The stubs of compiled modules say what is there: the same names, and the same parameters and defaults."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import forebay as ps

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("src", "core", "sync", "events", "queues")
STUBS = sorted(stub for room in ROOMS for stub in (ROOT / room).rglob("*.pyi"))
FACE = (ps.Device, ps.Queue, ps.Buffer, ps.Kernel, ps.BoundLaunch, ps.Event, ps.local)
ONLY_IN_STUBS = {"Grid"}  # a type


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "src" else ("forebay", *parts))


def module_of(stub):
    return importlib.import_module(name_of(stub))


def functions_of(body):
    """Functions by name; properties are the names mapped to None."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            names = {getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in node.decorator_list}
            is_property = bool(names & {"property", "setter"})
            found[node.name] = None if is_property else node
    return found


def declared(function):
    """(name, kind, default) of each parameter in a stub, as `inspect` would tell it."""
    arguments, kinds = function.args, inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    told = []
    for argument, default in zip(positional, defaults, strict=True):
        by_position = argument in arguments.posonlyargs
        told.append((argument.arg, kinds.POSITIONAL_ONLY if by_position else kinds.POSITIONAL_OR_KEYWORD, default))
    if arguments.vararg:
        told.append((arguments.vararg.arg, kinds.VAR_POSITIONAL, None))
    told += [
        (argument.arg, kinds.KEYWORD_ONLY, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        told.append((arguments.kwarg.arg, kinds.VAR_KEYWORD, None))
    return told


def compare(where, function, there):
    if function.name.startswith("__"):
        return  # those of compiled classes have no signature
    parameters = inspect.signature(there).parameters.values()
    actual = [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]
    told = declared(function)
    assert [parameter[:2] for parameter in told] == [parameter[:2] for parameter in actual], where
    for (name, _, default), (_, _, real) in zip(told, actual, strict=True):
        if default is None:
            assert real is inspect.Parameter.empty, f"{where}: {name}"
        else:
            assert ast.literal_eval(default) == real, f"{where}: {name}"


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.relative_to(ROOT).as_posix())
def test_what_a_stub_says_is_there(stub):
    module = module_of(stub)
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    for name, function in functions_of(tree.body).items():
        compare(f"{module.__name__}.{name}", function, getattr(module, name))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            there = getattr(module, node.name)
            for name, function in functions_of(node.body).items():
                where = f"{module.__name__}.{node.name}.{name}"
                attribute = inspect.getattr_static(there, name)
                if function is None:
                    assert not callable(attribute), where
                else:
                    assert callable(attribute), where
                    compare(where, function, getattr(there, name))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            assert target.id in ONLY_IN_STUBS or hasattr(module, target.id), target.id


@pytest.mark.parametrize("kind", FACE, ids=lambda kind: kind.__name__)
def test_what_is_there_is_in_the_stub(kind):
    (stub,) = (stub for stub in STUBS if module_of(stub).__name__ == kind.__module__)
    (node,) = (
        node
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    told = set(functions_of(node.body))
    there = {name for name in vars(kind) if not name.startswith("_")}
    special = {"__call__", "__getitem__", "__len__", "__enter__", "__exit__", "__sub__"} & set(vars(kind))
    assert there | special <= told


def test_every_module_that_python_imports_has_one():
    sources = [source for room in ROOMS for source in (ROOT / room).rglob("*.py")]
    compiled = {name_of(source) for room in ROOMS for source in (ROOT / room).rglob("*.pyx")}
    imported = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    assert imported & compiled
    assert imported & compiled <= {module_of(stub).__name__ for stub in STUBS}
