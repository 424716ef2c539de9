"""Memory of the host that objects of other packages own, and why it cannot be used as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.shapes import type_problem

if TYPE_CHECKING:
    from forebay.core.driver import DriverDevice

ON_THE_HOST = 1  # DLPack's kDLCPU


def is_foreign(value: object, driver: DriverDevice) -> bool:
    """Whether a pointer may get it as an argument because `Device.as_buffer` takes such things."""
    kind = type(value)
    if kind.__module__.startswith(("forebay.", "numpy")):
        return hasattr(kind, "__forebay_buffer__")
    return hasattr(kind, "__dlpack__") or driver.can_adopt(value)


def name_of(value: object) -> str:
    """Return the name of the value's type, with its package unless it is Python's own."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"


def why_unfit(array: np.ndarray[Any, Any], owner: object = None) -> str:
    """Return why the bytes of an array cannot be used as they stand in memory, and what to do; empty if they can.

    `owner` is what was given for it: a tensor, which has its own way to make a copy.
    """
    problem = type_problem(array.dtype)
    if problem:
        return problem
    if not array.flags.c_contiguous:
        copier = "its .contiguous()" if hasattr(owner, "contiguous") else "np.ascontiguousarray(array)"
        layout = f"shape {array.shape}, strides {array.strides} bytes"
        return f"it is not C-contiguous ({layout}): pass {copier}, which copies it"
    return ""


def read_only_array(thing: object, driver: DriverDevice) -> np.ndarray[Any, Any] | None:
    """Return an array on memory of the host that nothing may write to: a launch that only reads it copies it, as it
    does NumPy's. None for everything else, which `Device.as_buffer` takes.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        As `host_array`.
    """
    if not driver.takes_host or driver.can_adopt(thing) or hasattr(type(thing), "__forebay_buffer__"):
        return None
    array = host_array(thing, writable=False)
    return array if array is not None and not array.flags.writeable else None


def host_array(thing: object, call: str = "as_buffer", *, writable: bool = True) -> np.ndarray[Any, Any] | None:
    """Return an array on the memory of `thing`, which it keeps alive; None when `thing` shows no memory of the host.

    It is read from ``__dlpack__``, ``__array_interface__`` or the buffer protocol. DLPack's producers have finished
    what they do with memory of the host before they hand it out. `call` is what was asked for, for messages. Memory
    that is only read need not be `writable`: NumPy shows all of DLPack 0.x as read-only.

    Raises
    ------
    ArgumentTypeError
        When the memory cannot be read as an array: it is on another device, or of a type that NumPy does not know.
    InvalidArgumentError
        When it is read-only and has to be writable, or cannot be used as it is: see `why_unfit`.
    """
    try:
        if isinstance(thing, np.ndarray):
            array = thing
        elif hasattr(type(thing), "__dlpack__"):
            device: Any = getattr(thing, "__dlpack_device__", None)
            if device is not None and device()[0] != ON_THE_HOST:
                raise ArgumentTypeError(f"{call}: the memory of this {name_of(thing)} is on another device")
            array = np.from_dlpack(thing)  # type: ignore[arg-type]
        elif hasattr(thing, "__array_interface__"):
            array = np.asarray(thing)
        else:
            array = np.asarray(memoryview(thing))  # type: ignore[arg-type]
    except ArgumentTypeError:
        raise
    except (TypeError, ValueError, BufferError, RuntimeError, AttributeError) as error:
        if not hasattr(type(thing), "__dlpack__") and not hasattr(thing, "__array_interface__"):
            return None
        kind = getattr(thing, "dtype", "unknown type")
        views = "dtype" in str(error) and hasattr(thing, "view")  # NumPy lacks bfloat16, and some of the newest
        raise ArgumentTypeError(
            f"{call}: this {name_of(thing)} of {kind} cannot be read as an array ({error})"
            + (": pass .view(torch.uint8), which shows its bytes" if views else "")
        ) from None
    problem = why_unfit(array, thing)
    if writable and not problem and not array.flags.writeable:
        problem = "it is read-only: Device.array copies it"
    if problem:
        raise InvalidArgumentError(f"{call}: this {name_of(thing)}: {problem}")
    return array
