"""Memory that graphs allocate: nodes that hand it out, and nodes that take it back (CUDA, graph memory nodes).

Its address is fixed when the node is made, so the memory is there from then on, for as long as a node, an executable
graph or a Buffer uses it. What begins and ends is only the time in which it may be used: a launch of the graph hands it
out; a free node, or a free after the launch, takes it back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from forebay.queues.device import Device
    from forebay.queues.graphs.graph import Node
    from forebay.queues.graphs.work import Work

_lock = threading.RLock()  # the collector may run someone's `free` while this thread is inside
_figures: WeakKeyDictionary[Device, Figures] = WeakKeyDictionary()


class Figures:
    """What the graphs of a device have of its memory, in bytes.

    Attributes
    ----------
    used_high, reserved_high : int
        The most that `used` was, with what graphs free themselves, and the most that `reserved` was.
    """

    def __init__(self) -> None:
        self._used = self._reserved = self.used_high = self.reserved_high = 0
        self._gone: deque[tuple[int, int]] = deque()  # of both, what destructors gave back

    def _settle(self) -> None:
        while self._gone:
            used, reserved = self._gone.popleft()
            self._used -= used
            self._reserved -= reserved

    @property
    def used(self) -> int:
        """What launches have handed out and nobody has freed."""
        with _lock:
            self._settle()
            return self._used

    @property
    def reserved(self) -> int:
        """What was allocated from the driver and not given back."""
        with _lock:
            self._settle()
            return self._reserved

    def reserve(self, nbytes: int) -> None:
        """Count what the driver has allocated."""
        with _lock:
            self._settle()
            self._reserved += nbytes
            self.reserved_high = max(self.reserved_high, self._reserved)

    def reset(self, name: str) -> None:
        """Begin a peak anew, "used_high" or "reserved_high"."""
        setattr(self, name, getattr(self, name.removesuffix("_high")))


def figures_of(device: Device) -> Figures:
    """Return what the graphs of a device have of its memory."""
    return _figures.setdefault(device, Figures())


class Reserved:
    """The driver's memory object, and its share of the figures."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self.native = device._allocate(nbytes, "device")
        self.nbytes = nbytes
        self.figures = figures_of(device)
        self.figures.reserve(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "figures"):
            self.figures._gone.append((0, self.nbytes))  # from the collector, perhaps: a list, and nothing else


class GraphMemory:
    """What a Buffer of an allocation node has in place of the driver's memory object.

    Attributes
    ----------
    inner : bool
        Whether its graph frees it, so that nobody else can.
    live : bool
        Whether a launch has handed it out and it was not freed since; never of inner memory.
    freed_at : tuple of int
        The queue, by its id, and the epoch at which it was freed last: what uses it next comes after that.
    work : weakref
        Of the allocation node.
    """

    usm_type = "device"

    def __init__(self, reserved: Reserved, nbytes: int) -> None:
        self.reserved = reserved
        self.handle, self.address = reserved.native.handle, reserved.native.address
        self.nbytes = nbytes
        self.inner = self.live = False
        self.freed_at = (0, 0)
        self.work: Callable[[], Work | None] = lambda: None

    def __del__(self) -> None:
        if self.live:
            self.reserved.figures._gone.append((self.nbytes, 0))

    def set_live(self, live: bool) -> None:
        """Hand it out, or take it back."""
        self.reserved.figures._used += self.nbytes * (live - self.live)
        self.live = live

    def check_live(self) -> None:
        """Raise when there is nothing to free: before the first launch, or after a free."""
        if self.inner:
            raise InvalidArgumentError("free: the graph that allocates this memory frees it, and nobody else can")
        if not self.live:
            raise InvalidArgumentError("free: this memory was freed before, or no launch of its graph has allocated it")

    def free(self, queue: int, epoch: int) -> None:
        """Take it back, at this point of a queue."""
        with _lock:
            self.check_live()
            self.set_live(False)
            self.freed_at = (queue, epoch)


class Lifetimes:
    """What a launch of a graph does to memory.

    Parameters
    ----------
    nodes, works
        In the order in which they run.
    auto_free : bool
        Whether a launch takes back what the one before has handed out.

    Raises
    ------
    InvalidArgumentError
        When a node uses memory that is not there yet, or not any more.
    """

    def __init__(self, nodes: Sequence[Node], works: Sequence[Work], auto_free: bool) -> None:
        from forebay.queues.graphs.work import graph_memory_of

        self.auto_free = auto_free
        self.made = list(_memories(works, "alloc"))
        self.handed_out = [memory for memory in self.made if not memory.inner]
        self.taken = [memory for memory in _memories(works, "free") if memory not in self.made]
        self.peak = used = 0
        ours = {*self.made, *self.taken}
        there = set(self.taken)
        for node, work in zip(nodes, works, strict=True):
            for memory in {graph_memory_of(buffer) for buffer in work.buffers}:
                if memory is None or memory not in ours:
                    continue
                if work.kind == "alloc":
                    there.add(memory)
                    used += memory.nbytes
                elif memory not in there:
                    raise InvalidArgumentError(
                        f"{node!r} uses memory before the graph allocates it, or after it frees it"
                    )
                elif work.kind == "free":
                    there.remove(memory)
                    used -= memory.nbytes
            self.peak = max(self.peak, used)

    @property
    def freed_at(self) -> list[tuple[int, int]]:
        """What a launch comes after, as queues by their ids and epochs."""
        return list({memory.freed_at for memory in self.made} - {(0, 0)})

    def begin(self) -> list[tuple[GraphMemory, bool]]:
        """Hand out and take back, and return what `undo` needs.

        Raises
        ------
        InvalidArgumentError
            When what it hands out was not freed since the last launch, or what it frees is not there.
        """
        with _lock:
            for memory in self.handed_out:
                if memory.live and not self.auto_free:
                    raise InvalidArgumentError(
                        "the graph was launched before, and memory that it allocates was not freed since: free it, or "
                        "instantiate the graph with auto_free"
                    )
            for memory in self.taken:
                memory.check_live()
            before = [(memory, memory.live) for memory in (*self.handed_out, *self.taken)]
            for memory in self.handed_out:
                memory.set_live(False)
            if self.made:
                figures = self.made[0].reserved.figures
                figures.used_high = max(figures.used_high, figures.used + self.peak)
            for memory in self.handed_out:
                memory.set_live(True)
            for memory in self.taken:
                memory.set_live(False)
        return before

    def undo(self, before: list[tuple[GraphMemory, bool]]) -> None:
        """Nothing was launched."""
        with _lock:
            for memory, live in before:
                memory.set_live(live)

    def end(self, queue: int, epoch: int) -> None:
        """It was launched, up to this point of a queue."""
        for memory in self.taken:
            memory.freed_at = (queue, epoch)


def _memories(works: Sequence[Work], kind: str) -> Iterator[GraphMemory]:
    for work in works:
        if work.kind == kind:
            yield work.memory  # type: ignore[attr-defined]


def ancestors(nodes: Sequence[Node]) -> set[Node]:
    """Return these nodes, and all they come after."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.dependencies)
    return found
