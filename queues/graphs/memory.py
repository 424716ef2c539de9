"""Memory that graphs allocate: nodes that hand it out, and nodes that take it back (CUDA, graph memory nodes).

Its address is fixed when the node is made. The memory therefore exists from then on, for as long as a node, an
executable graph or a Buffer uses it. Launches and frees only limit the time in which it may be used: a launch of the
graph hands it out; a free node, or a free after the launch, takes it back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from forebay.core.errors import InvalidArgumentError
from forebay.queues.memory.pool import Unpooled

if TYPE_CHECKING:
    from forebay.queues.device import Device
    from forebay.queues.graphs.graph import Node
    from forebay.queues.graphs.work import Work
    from forebay.queues.memory.allocation import OwnedMemory

lock: AbstractContextManager[bool] = (
    threading.RLock()
)  # reentrant: the garbage collector may run a `free` while this thread holds it
_figures: WeakKeyDictionary[Device, Figures] = WeakKeyDictionary()


class Figures:
    """The device memory that the graphs of a device use, in bytes.

    Attributes
    ----------
    used_high, reserved_high : int
        The peaks of `used` and `reserved`. `used_high` includes memory that graphs free themselves.
    """

    def __init__(self) -> None:
        self._used = self._reserved = 0
        self.used_high: int = 0
        self.reserved_high: int = 0
        self._gone: deque[tuple[int, int]] = deque()  # (used, reserved) that destructors gave back

    def _settle(self) -> None:
        while self._gone:
            used, reserved = self._gone.popleft()
            self._used -= used
            self._reserved -= reserved

    @property
    def used(self) -> int:
        """Bytes that launches have handed out and nobody has freed."""
        with lock:
            self._settle()
            return self._used

    @property
    def reserved(self) -> int:
        """Bytes that were allocated from the driver and not given back."""
        with lock:
            self._settle()
            return self._reserved

    def reserve(self, nbytes: int) -> None:
        """Count bytes that the driver has allocated."""
        with lock:
            self._settle()
            self._reserved += nbytes
            self.reserved_high = max(self.reserved_high, self._reserved)

    def reset(self, name: str) -> None:
        """Reset a peak, "used_high" or "reserved_high", to the current figure."""
        setattr(self, name, getattr(self, name.removesuffix("_high")))


def figures_of(device: Device) -> Figures:
    """Return the memory figures of a device's graphs."""
    return _figures.setdefault(device, Figures())


class Reserved:
    """The driver's memory object, and its share of the figures."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self.memory: OwnedMemory = device._allocate(nbytes, "device")
        self.nbytes = nbytes
        self.figures: Figures = figures_of(device)
        self.figures.reserve(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "figures"):
            self.figures._gone.append((0, self.nbytes))  # the collector may run this: only append to a deque


class GraphMemory(Unpooled):
    """Stands for the driver's memory object in a Buffer of an allocation node.

    Attributes
    ----------
    inner : bool
        Whether its graph frees it, so that nobody else can.
    live : bool
        Whether a launch has handed it out and nobody has freed it since. Always False for inner memory.
    freed_at : tuple of int
        Id of the queue, and epoch, at which it was last freed. Its next use comes after that point.
    work : weakref
        The work of the allocation node.
    """

    def __init__(self, reserved: Reserved, nbytes: int) -> None:
        self.reserved = reserved
        self.handle: int = reserved.memory.native.handle
        self.address: int = reserved.memory.native.address
        self.nbytes = nbytes
        self.inner: bool = False
        self.live: bool = False
        self.freed_at: tuple[int, int] = (0, 0)
        self.work: Callable[[], Work | None] = lambda: None

    def __del__(self) -> None:
        if self.live:
            self.reserved.figures._gone.append((self.nbytes, 0))

    def set_live(self, live: bool) -> None:
        """Hand the memory out, or take it back."""
        self.reserved.figures._used += self.nbytes * (live - self.live)
        self.live = live

    def check_live(self) -> None:
        """Raise InvalidArgumentError when there is nothing to free: before the first launch, or after a free."""
        if self.inner:
            raise InvalidArgumentError("free: the graph that allocates this memory frees it, and nobody else can")
        if not self.live:
            raise InvalidArgumentError("free: this memory was freed before, or no launch of its graph has allocated it")

    def free(self, queue: int, epoch: int) -> None:
        """Take the memory back at this epoch of this queue."""
        with lock:
            self.check_live()
            self.set_live(False)
            self.freed_at = (queue, epoch)


def ancestors(nodes: Sequence[Node]) -> set[Node]:
    """Return these nodes and all the nodes that they depend on, directly or through others."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.dependencies)
    return found
