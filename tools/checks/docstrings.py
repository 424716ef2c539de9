"""Every public name has a docstring, which names the parameters, the exceptions, and says whether the call blocks.

Functions of `forebay.hip` and `forebay.hiprtc` name the codes that they return instead, or a function that names them.
"""

import inspect
import re

import forebay as fb
from docs.extensions.made_by_calling import MADE_BY_CALLING
from forebay import cupy_style, hip, hiprtc
from forebay.core import errors
from tools.checks import ROOT

OURS = {"forebay": fb, "forebay.cupy_style": cupy_style}
OF_HIP = {"forebay.hiprtc": hiprtc, "forebay.hip": hip}
WAITS = re.compile(r"\b_?(?:finish|finish_queue|wait|wait_for_(?:all|markers|uses)|wait_on_host|synchronize)\(")
SAYS_IT_WAITS = re.compile(r"\b(?:[Bb]locks?|[Ww]aits?)\b")
SAYS_WHAT_IS_RETURNED = re.compile(r"Return|hip\w*Error|HIPRTC_|`hip\w+`")


def own_members(kind):
    """Public attributes of a class, as they stand in it and in the private classes that it derives from."""
    public = [base for base in kind.__mro__[1:] if base.__name__ in fb.__all__]
    for base in kind.__mro__:
        if base.__module__.startswith("forebay.") and base not in public:  # not what has only names of other packages
            yield from ((name, value) for name, value in vars(base).items() if not name.startswith("_"))


def lists_attribute(kind, name):
    """Whether the docstring of the class, or of one that it derives from, has the attribute among its Attributes."""
    listed = re.compile(rf"^(?:\w+, )*{name}(?:, \w+)* :", re.MULTILINE)
    return any(listed.search(inspect.cleandoc(base.__doc__ or "")) for base in kind.__mro__)


def undocumented():
    """Yield the public names without a docstring. Numbers and the members of enumerations have none."""
    for module_name, module in (OURS | OF_HIP).items():
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, (int, str)):
                continue
            if not (thing.__doc__ or "").strip():
                yield f"{module_name}.{name}"
            if module_name in OURS and inspect.isclass(thing):
                for member, value in own_members(thing):
                    own = getattr(value, "__doc__", None) if not isinstance(value, (int, str)) else None
                    if not own and not lists_attribute(thing, member):
                        yield f"{module_name}.{name}.{member}"


def own_functions():
    """Yield (name, function) of forebay's functions, methods and properties."""
    for module in OURS.values():
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                yield name, thing
            elif not issubclass(thing, BaseException):
                for member, value in own_members(thing):
                    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                    yield f"{name}.{member}", value
    yield "Queue.launch", fb.Queue.launch


def hip_functions():
    """Return HIP's functions by name, and those of them with the Python function that a compiled one wraps."""
    functions = {
        name: function
        for module in OF_HIP.values()
        for name in module.__all__
        if inspect.isroutine(function := getattr(module, name))
    }
    inner = {
        name: inspect.unwrap(getattr(getattr(function, "__self__", None), "definition", function))
        for name, function in functions.items()
    }
    defined = {name: each for name, each in inner.items() if inspect.isfunction(each) and each.__name__ == name}
    return functions, defined


def body(function):
    """Return the source of a function below its docstring, of a compiled one too."""
    code = function.__code__
    lines = (ROOT / code.co_filename).read_text(encoding="utf-8").splitlines()[code.co_firstlineno - 1 :]
    while not re.match(r" *(?:async )?def ", lines[0]):
        del lines[0]
    indent = re.match(" *", lines[0]).end()
    outside = re.compile(rf" {{0,{indent}}}[^ )]")
    end = next((at for at, line in enumerate(lines) if at and outside.match(line)), len(lines))
    return re.sub(r'"""(?:.|\n)*?"""', "", "\n".join(lines[:end]), count=1)


def unnamed_parameters(function):
    """Return the parameters that the docstring does not name."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return []  # a slot of a compiled type
    text = function.__doc__ or ""
    if "Takes any arguments" in text:
        return []
    return [each for each in parameters if each != "self" and not re.search(rf"\b{each}\b", text)]


def findings_of_ours(functions):
    """Check what forebay's own functions raise, and whether they wait."""
    for name, function in functions.items():
        text, source = function.__doc__ or "", body(function)
        raised = {getattr(errors, each, None) for each in re.findall(r"\braise (\w+)", source)} - {None}
        for error in raised:
            if not any(re.search(rf"\b{base.__name__}\b", text) for base in error.__mro__[:-4]):
                yield f"{name} does not name {error.__name__}, which it raises"
        if WAITS.search(source) and not SAYS_IT_WAITS.search(text):
            yield f"{name} does not say that it waits"
    for name in sorted(MADE_BY_CALLING):
        kind = getattr(fb, name, None) or getattr(cupy_style, name)
        if not re.search(r"Parameters\n *-----|`name`|\(nbytes\)", kind.__doc__):
            yield f"{name} does not say what it is called with"


def findings_of_hip(functions, defined):
    """Check what HIP's functions return, and whether they wait."""

    def documented(name, seen):
        """The docstring of a function, and those of the functions that it names."""
        text = functions[name].__doc__ or ""
        seen.add(name)
        named = re.findall(r"`(hip\w+)`", text)
        return text + "".join(documented(each, seen) for each in named if each in functions.keys() - seen)

    def bodies(function, seen):
        """The source of a function, and of the functions below HIP's that it calls by their names."""
        source = body(function)
        yield source
        for name in set(re.findall(r"\b(\w+)\(", source)) - seen - functions.keys():
            called = inspect.unwrap(function.__globals__.get(name, len))
            if inspect.isfunction(called) and called.__module__.startswith("forebay.hip."):
                seen.add(name)
                yield from bodies(called, seen)

    for name, function in functions.items():
        if not SAYS_WHAT_IS_RETURNED.search(function.__doc__ or ""):
            yield f"{name} does not say what it returns"
    for name, function in defined.items():
        text, source = documented(name, set()), body(function)
        codes = re.findall(r"\braise HipError\((?:\n *)?hipError_t\.(\w+)", source)
        codes += ["hipErrorInvalidValue"] * len(re.findall(r"\braise invalid\(", source))
        codes += re.findall(r"\breturn.*hiprtcResult\.(HIPRTC_ERROR_\w+)", source)
        yield from (f"{name} does not name {code}, which it returns" for code in codes if code not in text)
        if any(map(WAITS.search, bodies(function, set()))) and not SAYS_IT_WAITS.search(functions[name].__doc__ or ""):
            yield f"{name} does not say that it waits"


def findings():
    """Yield what docstrings lack."""
    ours = {name: function for name, function in own_functions() if callable(function)}
    with_code = {name: function for name, function in ours.items() if hasattr(function, "__code__")}
    functions, defined = hip_functions()
    if len(with_code) <= 90 or len(functions) <= 500 or len(defined) <= 300:
        yield f"functions are not found: {len(with_code)} of forebay, {len(functions)} of HIP, {len(defined)} with code"
    yield from (f"{name} has no docstring" for name in undocumented())
    for name, function in (ours | functions).items():
        if unnamed := unnamed_parameters(function):
            yield f"{name} does not name its parameters {', '.join(unnamed)}"
    yield from findings_of_ours(with_code)
    yield from findings_of_hip(functions, defined)
