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
from forebay.hip import addresses as attributes
from forebay.hip import addresses_interprocess as interprocess
from forebay.hip import addresses_managed as managed
from forebay.hip import addresses_pools as pools
from forebay.hip import addresses_registered as registered
from forebay.hip import arrays as arrays
from forebay.hip import callbacks, capture, devices, errors, events, facts, memory, modules, pointers, streams, values
from forebay.hip import copies as copies
from forebay.hip import functions as function_attributes
from forebay.hip import functions_launches as launches
from forebay.hip import functions_libraries as libraries
from forebay.hip import functions_occupancy as occupancy
from forebay.hip import functions_vectors as vectors
from forebay.hip import graph_nodes as nodes
from forebay.hip import graphs as handles
from forebay.hip import graphs_event_nodes as event_nodes
from forebay.hip import graphs_memory as graph_memory
from forebay.hip import graphs_node_params as node_params
from forebay.hip import graphs_symbols as graph_symbols
from forebay.hip import hardware as properties
from forebay.hip import hardware_attributes as device_attributes
from forebay.hip import hardware_contexts as contexts
from forebay.hip import hardware_limits as limits
from forebay.hip import hardware_peers as peers
from forebay.hip import texture_references as references
from forebay.hip import textures as objects
from forebay.hip import textures_driver_objects as driver_objects
from forebay.hip import transfers_array_copies as array_copies
from forebay.hip import transfers_formats as formats
from forebay.hip import transfers_memsets as memsets
from forebay.hip import transfers_symbols as symbols
from forebay.hip import transfers_volumes as volumes
from forebay.hip.functions_per_thread import per_thread
from forebay.hip.generated import unavailable

_PARTS = (
    facts, errors, pointers, vectors, devices, device_attributes, contexts, limits, peers, properties, streams, events,
    callbacks, values, memory, attributes, interprocess, managed, pools, registered, arrays, formats, copies, memsets,
    symbols, volumes, array_copies, driver_objects, objects, references, modules, function_attributes, launches,
    libraries, occupancy, handles, nodes, node_params, event_nodes, graph_memory, graph_symbols, capture,
)  # fmt: skip
_OTHERS = {"DeviceArray", "NDBuffer", "Pointer", "current_device", "dim3", "last_exception", "textureReference"}


def _is_public(name: str, value: object) -> bool:
    is_vector = isinstance(value, type) and issubclass(value, vectors.Vector) and value is not vectors.Vector
    return name.startswith(("hip", "ihip", "HIP")) or name in _OTHERS or is_vector


_public = {name: value for part in _PARTS for name, value in vars(part).items() if _is_public(name, value)}
_public |= per_thread(_public) | unavailable()
globals().update(_public)
__all__ = sorted(_public)


class NotThereError(NotSupportedError, AttributeError):
    """A name of HIP that this package does not have."""


def __getattr__(name: str) -> Any:
    if name.startswith("hiprtc"):  # hip-python's examples call some of hiprtc's functions by this module's name
        return getattr(importlib.import_module("forebay.hiprtc"), name)
    if name.startswith(("hip", "HIP")):
        for kind, members in vars(facts).items():
            if isinstance(members, type) and name in getattr(members, "__members__", ()):
                raise NotThereError(f"forebay.hip has no {name} outside of its enumeration: hip.{kind}.{name}")
        if name == "hipLaunchKernelGGL":
            raise NotThereError(f"forebay.hip has no {name}, a macro of C++: hipModuleLaunchKernel launches")
        raise NotThereError(f"forebay.hip has no {name}, and neither has HIP 7.2; `forebay hip` prints what there is")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
