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
from forebay.hip import (
    addresses,
    callbacks,
    capture,
    devices,
    enums,
    errors,
    events,
    functions,
    graphs,
    hardware,
    memory,
    modules,
    pointers,
    streams,
    textures,
    transfers,
    values,
)  # fmt: skip
from forebay.hip.addresses import *  # noqa: F403
from forebay.hip.callbacks import *  # noqa: F403
from forebay.hip.capture import *  # noqa: F403
from forebay.hip.devices import *  # noqa: F403
from forebay.hip.enums import *  # noqa: F403
from forebay.hip.errors import *  # noqa: F403
from forebay.hip.events import *  # noqa: F403
from forebay.hip.functions import *  # noqa: F403
from forebay.hip.graphs import *  # noqa: F403
from forebay.hip.hardware import *  # noqa: F403
from forebay.hip.memory import *  # noqa: F403
from forebay.hip.modules import *  # noqa: F403
from forebay.hip.pointers import *  # noqa: F403
from forebay.hip.streams import *  # noqa: F403
from forebay.hip.textures import *  # noqa: F403
from forebay.hip.transfers import *  # noqa: F403
from forebay.hip.values import *  # noqa: F403

_PARTS = (
    addresses, callbacks, capture, devices, errors, events, functions, graphs, hardware, memory,
    modules, pointers, streams, textures, transfers, values,
)  # fmt: skip
__all__ = sorted(
    {name for part in _PARTS for name in part.__all__}
    | {name for name in vars(enums) if name.startswith(("hip", "HIP"))}
)


class NotThereError(NotSupportedError, AttributeError):
    """A name of HIP that this package does not have."""


def __getattr__(name: str) -> Any:
    if name.startswith("hiprtc"):  # hip-python's examples call some of hiprtc's functions by this module's name
        return getattr(importlib.import_module("forebay.hiprtc"), name)
    if name.startswith(("hip", "HIP")):
        for kind, members in vars(enums).items():
            if isinstance(members, type) and name in getattr(members, "__members__", ()):
                raise NotThereError(f"forebay.hip has no {name} outside of its enumeration: hip.{kind}.{name}")
        if name == "hipLaunchKernelGGL":
            raise NotThereError(f"forebay.hip has no {name}, a macro of C++: hipModuleLaunchKernel launches")
        raise NotThereError(f"forebay.hip has no {name}, and neither has HIP 7.2; `forebay hip` prints what there is")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
