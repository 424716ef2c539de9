"""How a function becomes one of HIP's: the code that it returns first, what is remembered of it, and other names."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import operator
import re
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from forebay.c_string import CString
from forebay.core import errors
from forebay.core.process import is_ending
from forebay.hip.compiled import calls
from forebay.hip.compiled.calls import is_null, last_returned, note_returned
from forebay.hip.facts import FACTS, Record, hipError_t

Result = tuple[Any, ...]
HipFunction: TypeAlias = Callable[..., Result]
Kind = TypeVar("Kind", bound=enum.IntEnum)
OK = hipError_t.hipSuccess  # looked up once: an attribute of an enum costs as much as the rest of `api`
SUCCESS: Result = (OK,)

# The exceptions of forebay, most special first.
CODES = [(getattr(errors, kind), hipError_t[code]) for kind, code in FACTS["codes of errors"].items()]

# AMD's words, which programs print and compare; what they do not name is an unknown error.
TEXTS = {hipError_t[name]: "".join(text) for name, text in FACTS["errors"].items()}
UNKNOWN = "unknown error"
PARAMETERS: dict[str, str] = FACTS["parameters"]  # what those are that many functions have


class HipError(Exception):
    """Ends a call with this code."""

    def __init__(self, code: hipError_t, message: str = "") -> None:
        super().__init__(message or TEXTS.get(code, code.name))
        self.code = code


def invalid(message: str) -> HipError:
    """Return what ends a call with hipErrorInvalidValue."""
    return HipError(hipError_t.hipErrorInvalidValue, message)


def enumerator(kind: type[Kind], given: Any, what: str, code: hipError_t = hipError_t.hipErrorInvalidValue) -> Kind:
    """Return what a number means among these; hipErrorInvalidValue, or another code, with `what` is not there."""
    try:
        return kind(given)
    except ValueError:
        raise HipError(code, f"{what} {given!r}") from None


def size_of(size: Any) -> int:
    """Check a number of bytes."""
    try:
        nbytes = operator.index(size)
    except TypeError:
        raise errors.ArgumentTypeError(f"a size is an int, not {type(size).__name__}") from None
    if nbytes < 0:
        raise invalid(f"a size of {nbytes} bytes")
    return nbytes


@contextlib.contextmanager
def raised_as(code: hipError_t, *kinds: type[Exception]) -> Iterator[None]:
    """Give errors of these kinds this code."""
    try:
        yield
    except kinds as error:
        raise HipError(code, str(error)) from error


class RaisedInCallback(Exception):
    """Carries what a callback raised to the next synchronize, where it is raised in place of this."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(str(original))
        self.original = original


class _State(threading.local):
    """Of each thread: the last error, and why it came. What the last call returned, compiled calls note, too."""

    def __init__(self) -> None:
        self.error = hipError_t.hipSuccess
        self.exception: Exception | None = None


_state = _State()


def code_of(error: Exception) -> hipError_t:
    """Return the code for an exception of this package or of forebay.

    Raises any other one: a program's own, raised in a callback or while it computed an argument.
    """
    if isinstance(error, HipError):
        return error.code
    if isinstance(error, RaisedInCallback):
        raise error.original
    own_name = getattr(error, "hip_name", "")  # errors of capture know HIP's name for themselves
    if own_name:
        return hipError_t[own_name]
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    raise error


def record(code: hipError_t, error: Exception) -> None:
    """Remember what a call returned. hipErrorNotReady does not stick (HIP 7)."""
    note_returned(code)
    if code != hipError_t.hipErrorNotReady:
        _state.error = code
        _state.exception = error


ENDS = re.compile("Close|Destroy|Free|Release|Reset|Synchronize|Unload|Unregister")


def failed(error: Exception, outputs: int, name: str = "") -> Result:
    """Return what a call of this name returns that has this many outputs and ended with this; remember it.

    Raises the error when it stands for no code. While the interpreter ends, a function that ends something succeeds:
    all devices are closed before destructors of globals run. AMD's runtime outlives the interpreter, so there programs
    see no error either.
    """
    if isinstance(error, errors.ArgumentTypeError):
        raise error
    if is_ending() and outputs == 0 and ENDS.search(name):
        return SUCCESS
    code = code_of(error)
    record(code, error)
    return (code, *[None] * outputs)


def _ordinary_failed(error: Exception, definition: Any) -> Result:
    outputs: int = definition.outputs
    return failed(error, outputs, definition.__name__)


calls.connect(SUCCESS, (hipError_t.hipErrorNotReady,), _ordinary_failed)


def _completed(text: str, parameters: tuple[str, ...]) -> str:
    """Return a docstring that also says what well-known parameters are that it does not name."""
    there = [*re.findall(r"`(\w+)`", text), *re.findall(r"\w+", " ".join(re.findall(r"^ *([\w, ]+) :", text, re.M)))]
    missing = [name for name in parameters if name in PARAMETERS and name not in there]
    if not missing:
        return text
    first, *others = re.split(r"\n\n\s*", text.strip())
    said = " ".join(f"`{name}` is {PARAMETERS[name]}." for name in missing)
    if others and re.match("`[^`]", others[0]):  # of other parameters
        said += f" {others.pop(0)}"
    lines = textwrap.fill(re.sub(r"\s+", " ", said), 116).replace("\n", "\n    ")
    return "\n\n    ".join((first, lines, *others)) + "\n    "


class _Forms:
    """How hip-python 6 and 7 call a function where 10 calls it otherwise."""

    LISTS = frozenset({"pDependencies", "dependencies", "from_", "to", "options"})  # there: outputs, null pointers

    def __init__(self, function: Callable[..., Any]) -> None:
        code, signature = function.__code__, getattr(function, "__signature__", None)  # of what is `made`
        self.function = function
        self.names = tuple(signature.parameters) if signature else code.co_varnames[: code.co_argcount]
        has_any = signature is None and code.co_flags & inspect.CO_VARARGS
        self.most = sys.maxsize if has_any else len(self.names)
        self.lists = [name for name in self.names if name in self.LISTS]
        self.without_lists = self.most - len(self.lists) if self.lists else -1

    def call_without_lists(self, call: Callable[..., Result], args: Result, kwargs: dict[str, Any]) -> Result:
        """Call it without its lists, and return None for each."""
        places = [self.names.index(name) for name in self.lists]
        if any(isinstance(args[place], (list, tuple)) for place in places if place < len(args)):
            self.function(*args, **kwargs)  # raises TypeError: the length of this one is missing
        given = list(args)
        for place in places:
            if place <= len(given):
                given.insert(place, None)
            else:
                kwargs = {**kwargs, self.names[place]: None}
        return (*call(*given, **kwargs), *[None] * len(places))

    def call_filling(self, call: Callable[..., Result], args: Result, kwargs: dict[str, Any]) -> Result:
        """Call it with what it returns among the arguments: structures before or after them, which it fills in."""
        named = {name: value for name, value in kwargs.items() if name in self.names}
        if "bufferSize" in self.names and len(args) + len(kwargs) == self.most + 1:  # a log's, which is the last output
            at = self.names.index("bufferSize")
            return call(*args[:at], *args[at + 1 :], **named)[:-1]
        to_fill = [value for name, value in kwargs.items() if name not in self.names]
        extra = len(args) + len(named) - self.most
        rest = args
        if extra > 0:
            leading = all(hasattr(type(each), "PROPERTIES") for each in args[:extra])
            to_fill += args[:extra] if leading else args[-extra:]
            rest = args[extra:] if leading else args[:-extra]
        if not all(hasattr(type(each), "PROPERTIES") for each in to_fill):
            self.function(*args, **kwargs)  # raises TypeError: these are too many
        code, *returned = call(*rest, **named)
        for structure in to_fill:
            same = [i for i, made in enumerate(returned) if code or type(made) is type(structure)]
            if not same:
                raise errors.ArgumentTypeError(f"{self.function.__name__} fills in no {type(structure).__name__}")
            made = returned.pop(same[0])
            for name in made.PROPERTIES() if made is not None else ():
                setattr(structure, name, getattr(made, name))
        return (code, *returned)


def api(outputs: int = 0) -> Callable[[Callable[..., Any]], HipFunction]:
    """Make a function that returns its outputs, or raises, one that returns a tuple with the code first.

    A failed call returns None for each output. A Python exception that stands for no code is raised. The function gets
    None for every null pointer, see `NullsAsNone`, and can be called as in older versions, see `_Forms`.
    """

    def decorate(function: Callable[..., Any]) -> HipFunction:
        forms = _Forms(function)
        function.__doc__ = _completed(function.__doc__ or "", forms.names)
        definition = calls.NullsAsNone(function)
        most = forms.most

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Result:
            if kwargs or len(args) != most:
                given = len(args) + len(kwargs)
                if given == forms.without_lists:
                    return forms.call_without_lists(call, args, kwargs)
                if given > most and outputs:
                    return forms.call_filling(call, args, kwargs)
            try:
                result = definition(*args, **kwargs)
            except Exception as error:
                return failed(error, outputs, call.__name__)
            note_returned(0)
            if outputs == 0:
                return SUCCESS
            return (OK, *result) if outputs > 1 else (OK, result)

        call.__annotations__ = {}
        call.outputs = outputs  # type: ignore[attr-defined]
        return call

    return decorate


def check_params(params: Any, kind: type[Record]) -> None:
    """Raise ArgumentTypeError for anything but a structure of this kind; hipErrorInvalidValue for None."""
    if params is None:
        raise invalid(f"there is no {kind.__name__}: None")
    if not isinstance(params, kind):
        raise errors.ArgumentTypeError(f"this takes a {kind.__name__}, not {type(params).__name__}")


def listed(names: Iterable[str]) -> str:
    """Return names of parameters as a docstring has them."""
    return " and ".join(", ".join(f"`{name}`" for name in names).rsplit(", ", 1))


def named(function: Any, name: str, doc: str, **renamed: str) -> Any:
    """Return a function of the same code that has this name and docstring, and parameters of other names."""
    code = function.__code__
    names = {
        kind: tuple(renamed.get(each, each) for each in getattr(code, kind)) for kind in ("co_varnames", "co_cellvars")
    }
    code = code.replace(co_name=name, **names)
    made = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__annotations__ = {renamed.get(each, each): kind for each, kind in function.__annotations__.items()}
    made.__doc__, made.__qualname__ = doc, name
    return made


def define(name: str, function: Any, doc: str, outputs: int = 0, **renamed: str) -> HipFunction:
    """Return one of HIP's functions: what a function does, under this name and with this docstring; see `named`."""
    return api(outputs)(named(function, name, doc, **renamed))


def alias(function: Any, name: str, note: str = "", **renamed: str) -> HipFunction:
    """Return one of HIP's functions under another name: `note` goes on after what the docstring says of that."""
    given = listed(renamed.get(each, each) for each in inspect.signature(function).parameters)
    blocks = (
        " Blocks as that does." if re.search(r"\bblocks?\b", re.sub("not block", "", function.__doc__), re.I) else ""
    )
    doc = f"Do what `{function.__name__}` does{note}.{blocks}" + (f"\n\n{given} as there." if given else "")
    return define(name, function.__wrapped__, doc, function.outputs, **renamed)


def made(
    name: str,
    parameters: Iterable[inspect.Parameter],
    doc: str,
    function: Any,
    outputs: int = 0,
    returns: str = "None",
    like: Any = None,
) -> HipFunction:
    """Return one of HIP's functions, which passes what it gets for these parameters on by position.

    The source of the function `like` says what is done.
    """
    signature = inspect.Signature(list(parameters), return_annotation=returns)
    pointers = [each.annotation == "Any" for each in signature.parameters.values()]

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(pointers):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            bound.apply_defaults()
            args = bound.args
        return function(*[None if at and is_null(value) else value for at, value in zip(pointers, args, strict=True)])

    if like is not None:
        functools.update_wrapper(call, like)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return api(outputs)(call)


asserting: dict[object, tuple[object, Callable[[], bool]]] = {}
"""By module that has assertions: its device, and what tells whether one of them has failed."""


def check_assertions(device: object) -> None:
    """Look at the modules in `asserting` after waiting for their device, if there are any.

    hipErrorAssert each time, until the module is unloaded or the device reset.
    """
    for owner, has_failed in list(asserting.values()):
        if owner is device and has_failed():
            raise HipError(hipError_t.hipErrorAssert, "an assertion in a kernel failed; standard output says which")


def hipGetLastError() -> Result:
    """Return the last error of this thread's calls, and forget it; ``(code,)``.

    A success does not clear it, and hipErrorNotReady does not count as an error (HIP 7).
    """
    code, _state.error, _state.exception = _state.error, hipError_t.hipSuccess, None
    return (code,)


def hipPeekAtLastError() -> Result:
    """Return the last error of this thread's calls without forgetting it; ``(code,)``."""
    return (_state.error,)


def hipExtGetLastError() -> Result:
    """Return what this thread's last call returned; ``(code,)``."""
    return (hipError_t(last_returned()),)


def last_exception() -> Exception | None:
    """Return the exception behind `hipPeekAtLastError`: its message says what was wrong. Not part of HIP."""
    return _state.exception


def outputs_of(result: Result) -> Result:
    """Return what follows the code that one of HIP's functions returned, or raise that code."""
    code, *outputs = result
    if code != OK:
        raise HipError(code, str(_state.exception)) from _state.exception
    return tuple(outputs)


def _code(code: Any) -> hipError_t | None:
    try:
        return hipError_t(code)
    except ValueError:
        return None


def hipGetErrorName(hip_error: int) -> Result:
    """Return ``(hipSuccess, name)``, a `CString`, for `hip_error`, a code or its number; else hipErrorUnknown."""
    code = _code(hip_error)
    return (hipError_t.hipSuccess, CString(b"hipErrorUnknown" if code is None else code.name.encode()))


def hipGetErrorString(hipError: int) -> Result:
    """Return ``(hipSuccess, text)``, a `CString`, for `hipError`, a code or its number; `last_exception` says more."""
    code = _code(hipError)
    text = UNKNOWN if code is None else TEXTS.get(code, UNKNOWN)
    return (hipError_t.hipSuccess, CString(text.encode()))


def hipDrvGetErrorName(hipError: int) -> Result:
    """Return ``(hipError_t, name)``; hipErrorInvalidValue and None when `hipError` is neither a code nor its number."""
    return hipGetErrorName(hipError) if _code(hipError) is not None else (hipError_t.hipErrorInvalidValue, None)


def hipDrvGetErrorString(hipError: int) -> Result:
    """Return ``(hipError_t, text)``; hipErrorInvalidValue and None when `hipError` is neither a code nor its number."""
    return hipGetErrorString(hipError) if _code(hipError) is not None else (hipError_t.hipErrorInvalidValue, None)
