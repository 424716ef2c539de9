"""HIP's runtime interface, in the calling convention of AMD's hip-python package.

``from forebay import hip`` in place of ``from hip import hip``: every function returns a tuple whose first element is
a `hipError_t`, outputs follow. Arguments of the wrong Python type raise TypeError; everything else is a code, and
`last_exception` has the message behind the last one. ``forebay hip`` on the command line prints what there is.

The devices are those of the driver that has forebay's default device, in forebay's order. Streams are
queues (`forebay.Queue`), stream 0 the null queue; pointers are addresses, and memory that was not allocated here is
memory of the host.

What each function does is written in HIP 7.2's runtime API reference under the same name; where HIP's own tests are
more exact, they count. The docstring says what is particular here, and which codes there are. These hold for all:

- A function blocks only if its docstring says so.
- A handle is the object that a function returned, its number, or anything with ``as_c_void_p()``. For what is none,
  or was destroyed, the code is hipErrorContextIsDestroyed (streams), hipErrorInvalidHandle (events and arrays, and
  hipErrorContextIsDestroyed when they were destroyed; functions), hipErrorInvalidHandle for None and else
  hipErrorNotFound (modules, libraries), hipErrorInvalidValue (graphs, nodes, executable graphs, textures, pools).
- A stream may be a `forebay.Queue`, too. None and 0 are the null stream of the current device.
- A pointer is a pointer object, an address, or anything with the buffer protocol, ``__dlpack__`` or one of the array
  interfaces. Sizes, widths and pitches are in bytes, unless the docstring says elements. A size below 0 is
  hipErrorInvalidValue.
- The number of a device that is not there is hipErrorInvalidDevice; without any device, hipErrorNoDevice.
- A structure is HIP's, by that name in this module; None in its place is hipErrorInvalidValue.
"""

from __future__ import annotations

import importlib
from typing import Any

import forebay.face  # noqa: F401 - it has Devices take HIP C++
from forebay.core.errors import NotSupportedError
from forebay.hip import copies, devices, errors, facts, graphs, memory, modules, pointers, streams, textures
from forebay.hip.generated import per_thread, unavailable

_PARTS = (facts, errors, pointers, devices, streams, memory, textures, copies, modules, graphs)
_OTHERS = {"DeviceArray", "NDBuffer", "Pointer", "current_device", "dim3", "last_exception", "textureReference"}


def _is_public(name: str, value: object) -> bool:
    is_vector = isinstance(value, type) and issubclass(value, facts.Vector) and value is not facts.Vector
    return name.startswith(("hip", "ihip", "HIP")) or name in _OTHERS or is_vector


_public = {name: value for part in _PARTS for name, value in vars(part).items() if _is_public(name, value)}
_unavailable = unavailable()
_public |= per_thread(_public) | _unavailable
globals().update(_public)
__all__ = sorted(_public.keys() | facts.NAMES | {"has_symbol"})


def has_symbol(name: str | bytes) -> bool:
    """Return whether a function of this name is there, and does something on some device."""
    text = name if isinstance(name, str) else bytes(name).decode(errors="replace")
    there = globals().get(text) if text in __all__ and text not in _unavailable else None
    return callable(there) and not isinstance(there, type)


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))


class NotThereError(NotSupportedError, AttributeError):
    """A name of HIP that this package does not have."""


def __getattr__(name: str) -> Any:
    if name.startswith("hiprtc"):  # hip-python's examples call some of hiprtc's functions by this module's name
        return getattr(importlib.import_module("forebay.hiprtc"), name)
    if name in facts.NAMES:
        found = globals()[name] = getattr(facts, name)
        return found
    if name.startswith(("hip", "HIP")):
        for kind, known in (facts.FACTS["IntEnum"] | facts.FACTS["IntFlag"]).items():
            if name in known["members"]:
                raise NotThereError(f"forebay.hip has no {name} outside of its enumeration: hip.{kind}.{name}")
        if name == "hipLaunchKernelGGL":
            raise NotThereError(f"forebay.hip has no {name}, a macro of C++: hipModuleLaunchKernel launches")
        raise NotThereError(f"forebay.hip has no {name}, and neither has HIP 7.2; `forebay hip` prints what there is")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
