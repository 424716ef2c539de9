"""Every public name has a docstring; it names the parameters, the exceptions, and says whether the call blocks.

Functions of `forebay.hip` and `forebay.hiprtc` name the codes that they return instead, or a function that names them.
"""

import inspect
import pydoc
import re

import pytest

import forebay as fb
from docs.extensions.made_by_calling import MADE_BY_CALLING
from forebay import cupy_style, hip, hiprtc
from forebay.core import errors
from tests.helpers.processes import ROOT

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

FACES = {"forebay": fb, "forebay.cupy_style": cupy_style, "forebay.hiprtc": hiprtc, "forebay.hip": hip}
OURS = ("forebay", "forebay.cupy_style")
WAITS = re.compile(r"\b_?(?:finish|finish_within|finish_queue|wait|wait_for_all|wait_on_host|synchronize)\(")
SAYS = re.compile(r"Return|hip\w*Error|HIPRTC_|`hip\w+`")  # what is returned, or which function says it


def own_members(kind):
    """Public attributes of a class, as they stand in it and in the private classes that it derives from."""
    public = [base for base in kind.__mro__[1:] if base.__name__ in fb.__all__]
    for base in kind.__mro__:
        if base.__module__.startswith("forebay.") and base not in public:  # not what has only names of other packages
            for name, value in vars(base).items():
                if not name.startswith("_"):
                    yield name, value


def described(kind, name):
    """Whether the class's docstring, or that of a class it derives from, has the attribute among its Attributes."""
    listed = re.compile(rf"^(?:\w+, )*{name}(?:, \w+)* :", re.MULTILINE)
    return any(listed.search(inspect.cleandoc(base.__doc__ or "")) for base in kind.__mro__)


def undocumented(face):
    """The names of a face without a docstring. Numbers have none, and neither have the members of enumerations."""
    module = FACES[face]
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, (int, str)):
            continue
        if not (thing.__doc__ or "").strip():
            yield name
        if face in OURS and inspect.isclass(thing):
            for member, value in own_members(thing):
                own = getattr(value, "__doc__", None) if not isinstance(value, (int, str)) else None
                if not own and not described(thing, member):
                    yield f"{name}.{member}"


def functions():
    """(name, function) of forebay's own functions and methods, and of what makes a class by calling it."""
    for face in OURS:
        for name in FACES[face].__all__:
            thing = getattr(FACES[face], name)
            if not inspect.isclass(thing):
                yield name, thing
            elif not issubclass(thing, BaseException):
                for member, value in own_members(thing):
                    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                    yield f"{name}.{member}", value
    yield "Queue.launch", fb.Queue.launch


FUNCTIONS = {name: function for name, function in functions() if callable(function)}
HIP = {
    name: function
    for module in (hip, hiprtc)
    for name in module.__all__
    if inspect.isroutine(function := getattr(module, name))
}
# A compiled function of HIP has its definition in Python behind it.
HIP_WITH_CODE = {
    name: inner
    for name, function in HIP.items()
    if inspect.isfunction(inner := inspect.unwrap(getattr(getattr(function, "__self__", None), "definition", function)))
    and inner.__name__ == name
}
WITH_CODE = {name: function for name, function in FUNCTIONS.items() if hasattr(function, "__code__")}


def body(function):
    """The source of a function below its docstring, of a compiled one too."""
    code = function.__code__
    lines = (ROOT / code.co_filename).read_text(encoding="utf-8").splitlines()[code.co_firstlineno - 1 :]
    while not re.match(r" *(?:async )?def ", lines[0]):
        del lines[0]
    indent = re.match(" *", lines[0]).end()
    end = next(
        (at for at, line in enumerate(lines) if at and re.match(rf" {{0,{indent}}}[^ )]", line)),
        len(lines),
    )
    return re.sub(r'"""(?:.|\n)*?"""', "", "\n".join(lines[:end]), count=1)


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_has_a_docstring(face):
    assert list(undocumented(face)) == []


def inner_bodies(function, seen):
    """The source of a function of HIP, and of the functions below HIP's that it calls by their names."""
    source = body(function)
    yield source
    for name in set(re.findall(r"\b(\w+)\(", source)) - seen - HIP.keys():
        called = inspect.unwrap(function.__globals__.get(name, len))
        if inspect.isfunction(called) and called.__module__.startswith("forebay.hip."):
            seen.add(name)
            yield from inner_bodies(called, seen)


def documented(name, seen):
    """The docstring of a function of HIP, and those of the functions that it names."""
    text = HIP[name].__doc__
    seen.add(name)
    return text + "".join(
        documented(each, seen) for each in re.findall(r"`(hip\w+)`", text) if each in HIP.keys() - seen
    )


def test_every_function_of_hip_says_what_it_returns():
    assert [name for name, function in HIP.items() if not SAYS.search(function.__doc__)] == []


def test_there_are_functions_to_look_at():
    assert len(FUNCTIONS) > 100
    assert len(WITH_CODE) > 90
    assert "graph" in inspect.signature(FUNCTIONS["ExecutableGraph.update"]).parameters
    assert "raise InvalidArgumentError" in body(FUNCTIONS["Buffer.view"])
    assert len(HIP) > 500
    assert len(HIP_WITH_CODE) > 300
    assert "hipMemcpyAsync" in HIP_WITH_CODE
    assert WAITS.search("".join(inner_bodies(HIP_WITH_CODE["hipFree"], set())))
    assert "hipErrorInvalidMemcpyDirection" in documented("hipMemcpyAsync", set())


@pytest.mark.parametrize("name", FUNCTIONS | HIP)
def test_the_parameters_are_named(name):
    function = (FUNCTIONS | HIP)[name]
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        parameters = ()  # a slot of a compiled type
    text = function.__doc__
    if "Takes any arguments" in text:
        parameters = ()
    assert [each for each in parameters if each != "self" and not re.search(rf"\b{each}\b", text)] == []


@pytest.mark.parametrize("name", WITH_CODE)
def test_what_is_raised_is_named(name):
    text = WITH_CODE[name].__doc__
    raised = {getattr(errors, each, None) for each in re.findall(r"\braise (\w+)", body(WITH_CODE[name]))} - {None}
    unnamed = [each.__name__ for each in raised if not any(base.__name__ in text for base in each.__mro__[:-4])]
    assert unnamed == []


@pytest.mark.parametrize("name", [name for name in WITH_CODE if WAITS.search(body(WITH_CODE[name]))])
def test_what_waits_says_so(name):
    assert re.search(r"\b(?:[Bb]locks?|[Ww]aits?)\b", WITH_CODE[name].__doc__)


@pytest.mark.parametrize("name", sorted(MADE_BY_CALLING))
def test_what_is_made_by_calling_it_names_its_parameters(name):
    kind = getattr(fb, name, None) or getattr(cupy_style, name)
    assert re.search(r"Parameters\n *-----|`name`|\(nbytes\)", kind.__doc__)


@pytest.mark.parametrize("name", HIP_WITH_CODE)
def test_the_codes_of_hip_are_named(name):
    text = documented(name, set())
    codes = re.findall(r"\braise HipError\((?:\n *)?hipError_t\.(\w+)", body(HIP_WITH_CODE[name]))
    codes += re.findall(r"\breturn.*hiprtcResult\.(HIPRTC_ERROR_\w+)", body(HIP_WITH_CODE[name]))
    assert [code for code in codes if code not in text] == []


@pytest.mark.parametrize("name", HIP_WITH_CODE)
def test_a_function_of_hip_that_waits_says_so(name):
    waits = any(WAITS.search(source) for source in inner_bodies(HIP_WITH_CODE[name], set()))
    assert not waits or re.search(r"\b(?:[Bb]locks?|[Ww]aits?)\b", HIP[name].__doc__)


def test_classes_say_what_they_are_called_with():
    """Those that are compiled have it written by hand, which is compared with the source here."""
    for name in MADE_BY_CALLING & set(fb.__all__):
        kind = getattr(fb, name)
        said = inspect.signature(kind).parameters
        source = ROOT.joinpath(*kind.__module__.split(".")[1:]).with_suffix(".pyx") if inspect.isclass(kind) else ROOT
        if source.is_file():
            text = source.read_text(encoding="utf-8").partition(f"cdef class {kind.__name__}:")[2]
            names = {}
            given = re.search(r"def __init__\(\s*self,([\s\S]*?)\) -> None:", text)[1]
            exec(f"from __future__ import annotations\ndef made({given}): ...", names)
            there = inspect.signature(names["made"]).parameters
            assert [(each.name, each.kind, each.default) for each in said.values()] == [
                (each.name, each.kind, each.default) for each in there.values()
            ], name


@pytest.mark.parametrize(
    "kind", [fb.Device, fb.Queue, fb.Buffer, fb.Event, fb.Kernel, fb.Graph], ids=lambda kind: kind.__name__
)
def test_help_and_completion_have_our_names_alone(kind):
    text = pydoc.plaintext.document(kind)
    assert len(text.splitlines()) < 700
    assert "OtherName" not in text
    assert {name for name in dir(kind) if not name.startswith("_")} == {name for name, _ in own_members(kind)}
