"""Callbacks: plain Python callables with any object, or pointers to C functions.

They run on forebay's host thread, one at a time, and hold their stream until they return. They may launch work, but
not wait for any: HIP forbids its calls in callbacks, and a wait there gets hipErrorNotSupported. What a Python callable
raises is raised by the next synchronize of the stream, of an event recorded on it later, or of the device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.hip.compiled.handles import Address
from forebay.hip.errors import HipError, RaisedInCallback, api
from forebay.hip.facts import hipError_t
from forebay.hip.pointers import address_of
from forebay.hip.streams import handle_of, queue_of

hipStreamCallback_t: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
hipHostFn_t: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
hipStreamCallback_t.__doc__ = "The type of a C function for `hipStreamAddCallback`."
hipHostFn_t.__doc__ = "The type of a C function for `hipLaunchHostFunc`."


def _is_c_function(function: Any) -> bool:
    return isinstance(function, ctypes._CFuncPtr)  # type: ignore[attr-defined]


def _c_function(function: Any, prototype: Any) -> Any:
    """Return something to call for an address, or None for anything but an address."""
    if isinstance(function, (int, np.integer, ctypes.c_void_p, Address)):
        address = address_of(function)[0]
        if address == 0:
            raise HipError(hipError_t.hipErrorInvalidValue, "a callback at address 0")
        return prototype(address)
    return None


def _word(data: Any) -> Any:
    """Return what a C function gets for its user data: an address, or an object that has none as it is."""
    if data is None or isinstance(data, (int, ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object)):
        return data
    try:
        return ctypes.c_void_p(address_of(data)[0])
    except (ArgumentTypeError, InvalidArgumentError):
        return ctypes.py_object(data)


def host_call(function: Any, data: Any, prototype: Any = hipHostFn_t, before: tuple[Any, ...] = ()) -> Any:
    """Return what `Queue.host` is given for a callback and its user data.

    Raises
    ------
    HipError
        hipErrorInvalidValue when there is nothing to call.
    ArgumentTypeError
    """
    if function is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "there is nothing to call: None")
    c_function = function if _is_c_function(function) else _c_function(function, prototype)
    if c_function is not None:
        if not c_function:
            raise HipError(hipError_t.hipErrorInvalidValue, "a callback at address 0")
        word = _word(data)
        arguments = tuple(int(each) for each in before)
        call: Callable[[], Any] = lambda: c_function(*arguments, word)  # noqa: E731
    elif callable(function):
        call = lambda: function(*before, data)  # noqa: E731
    else:
        raise ArgumentTypeError(f"a callback is called; {type(function).__name__} cannot be")

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raise RaisedInCallback(error) from error

    return run


@api()
def hipStreamAddCallback(stream: Any, callback: Any, userData: object = None, flags: int = 0) -> None:
    """Call ``callback(stream, hipSuccess, userData)`` when the stream gets there; ``(hipError_t,)``. Does not block.

    Parameters
    ----------
    callback : callable, ctypes function pointer, or the address of a C function
    userData : object
        A Python callable gets this very object, a C function its address.
    flags : int
        Has to be 0.

    hipErrorInvalidValue without a callback or with flags.
    """
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipStreamAddCallback: flags have to be 0, not {flags}")
    if callback is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "there is nothing to call: None")
    queue = queue_of(stream)
    queue.host(host_call(callback, userData, hipStreamCallback_t, (handle_of(stream), hipError_t.hipSuccess)))


@api()
def hipLaunchHostFunc(stream: Any, fn: Any, userData: object = None) -> None:
    """Call ``fn(userData)`` when the stream gets there; ``(hipError_t,)``. Does not block. See `hipStreamAddCallback`.

    `fn` is a callable, a ctypes function pointer or the address of a C function; `userData` as there.

    hipErrorInvalidValue without a function.
    """
    call = host_call(fn, userData)
    queue_of(stream).host(call)
