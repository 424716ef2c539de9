"""What is a Device, Queue, Buffer or Graph, for modules below those: they check what they are given by `isinstance`.

The classes themselves are compiled and cannot be imported from below; each registers itself here.
"""

from abc import ABCMeta
from typing import TYPE_CHECKING, Any

__all__ = ["AnyBuffer", "AnyDevice", "AnyGraph", "AnyQueue", "be"]

if TYPE_CHECKING:  # for a type checker each is the class itself
    from forebay.queues.device import Device as AnyDevice
    from forebay.queues.graphs.graph import Graph as AnyGraph
    from forebay.queues.memory.buffer import Buffer as AnyBuffer
    from forebay.queues.queue import Queue as AnyQueue
else:
    AnyDevice, AnyQueue, AnyBuffer, AnyGraph = (
        ABCMeta(name, (), {}) for name in ("Device", "Queue", "Buffer", "Graph")
    )


def be(kind: Any, made: type) -> None:
    """Say that a class is what this kind stands for."""
    kind.register(made)
