"""HIP's runtime interface, in the calling convention of AMD's hip-python package.

``from penstock import hip`` in place of ``from hip import hip``: every function returns a tuple whose first element is
a `hipError_t`, outputs follow. Arguments of the wrong Python type raise TypeError; everything else is a code, and
`last_exception` has the message behind the last one. ``penstock hip`` on the command line prints what there is.

The devices are those of the driver that has penstock's default device, in penstock's order. Streams are
queues (`penstock.Queue`), stream 0 the null queue; pointers are addresses, and memory that was not allocated here is
memory of the host.
"""

from __future__ import annotations

import importlib
from typing import Any

from penstock.hip import (
    callbacks,
    capture,
    copies,
    devices,
    enums,
    errors,
    events,
    graph_memory,
    graph_node_params,
    graph_nodes,
    graph_params,
    graphs,
    memory,
    memsets,
    modules,
    pointers,
    pools,
    properties,
    streams,
    values,
)
from penstock.hip.callbacks import *  # noqa: F403
from penstock.hip.capture import *  # noqa: F403
from penstock.hip.copies import *  # noqa: F403
from penstock.hip.devices import *  # noqa: F403
from penstock.hip.enums import *  # noqa: F403
from penstock.hip.errors import *  # noqa: F403
from penstock.hip.events import *  # noqa: F403
from penstock.hip.graph_memory import *  # noqa: F403
from penstock.hip.graph_node_params import *  # noqa: F403
from penstock.hip.graph_nodes import *  # noqa: F403
from penstock.hip.graph_params import *  # noqa: F403
from penstock.hip.graphs import *  # noqa: F403
from penstock.hip.memory import *  # noqa: F403
from penstock.hip.memsets import *  # noqa: F403
from penstock.hip.modules import *  # noqa: F403
from penstock.hip.pointers import *  # noqa: F403
from penstock.hip.pools import *  # noqa: F403
from penstock.hip.properties import *  # noqa: F403
from penstock.hip.streams import *  # noqa: F403
from penstock.hip.table import chapter_of
from penstock.hip.values import *  # noqa: F403
from penstock.queues.errors import NotSupportedError

_PARTS = (
    callbacks, capture, copies, devices, errors, events, graph_memory, graph_node_params, graph_nodes, graph_params,
    graphs, memory, memsets, modules, pointers, pools, properties, streams, values,
)  # fmt: skip
__all__ = sorted(
    {name for part in _PARTS for name in part.__all__}
    | {name for name in vars(enums) if name.startswith(("hip", "HIP"))}
)


class NotThereError(NotSupportedError, AttributeError):
    """A function of HIP's that this package does not have."""


def __getattr__(name: str) -> Any:
    if name.startswith("hiprtc"):  # hip-python's examples call some of hiprtc's functions by this module's name
        return getattr(importlib.import_module("penstock.hiprtc"), name)
    chapter = chapter_of(name)
    if chapter is not None:
        raise NotThereError(f"penstock.hip has no {name} ({chapter}); `penstock hip` prints what there is")
    if name.startswith(("hip", "HIP")):
        raise NotThereError(f"penstock.hip has no {name}: no driver that penstock uses could do it, or HIP has none")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
