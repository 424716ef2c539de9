"""Executable graphs with nodes that record events or wait for them.

For forebay such a node does nothing. What is instantiated is cut there: its parts are executable graphs, and a launch
submits them one after the other, with the records and the waits between them. So a node that comes later in the order
of the graph also waits for the part before, whether it depends on it or not.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forebay.core.errors import ClosedError, GraphUpdateError, InvalidArgumentError, NotSupportedError
from forebay.events.event import Event
from forebay.hip import events
from forebay.hip.events import ihipEvent_t
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph, Work, make_list, shape_of
from forebay.queues.graphs.graph import Graph, Node
from forebay.queues.graphs.shape import serial_order
from forebay.queues.queue import Queue


@dataclass(frozen=True)
class Mark:
    """What a node does with an event: `kind` is "record" or "wait"."""

    kind: str
    handle: ihipEvent_t
    event: Event

    def submit(self, queue: Queue) -> None:
        """Record the event on a queue, or let it wait for the event as it was last recorded."""
        if self.kind == "record":
            queue.record(self.event)
        else:
            queue.wait(self.event)


_marks: weakref.WeakKeyDictionary[Work, Mark] = weakref.WeakKeyDictionary()


def event_work(kind: str, handle: ihipEvent_t) -> Work:
    """Return the work of a node that records an event or waits for it."""
    assert handle.event is not None
    work = make_list("empty", ())
    _marks[work] = Mark(kind, handle, handle.event)
    return work


events.connect(event_work)


def mark_of(work: Work) -> Mark | None:
    """Return what the work of a node does with an event; None of all others."""
    return _marks.get(work) if work.kind == "empty" else None


def has_marks(graph: Graph) -> bool:
    """Whether any node records an event or waits for one."""
    return any(mark_of(node.work) is not None for node in graph.nodes)


class _Cut:
    """The parts of a graph, and where each node is."""

    def __init__(self, graph: Graph) -> None:
        self.ordered = serial_order(graph.nodes)
        self.items: list[ExecutableGraph | Mark] = []
        self.places: list[tuple[int, Node | None]] = []  # by node: its item, and its node of a part
        run: list[Node] = []
        for node in self.ordered:
            mark = mark_of(node.work)
            if mark is None:
                run.append(node)
                continue
            self._end(graph, run)
            self.places.append((len(self.items), None))
            self.items.append(mark)
        self._end(graph, run)

    def _end(self, graph: Graph, run: list[Node]) -> None:
        if not run:
            return
        part: Graph = graph.device.graph()
        copies: dict[Node, Node] = {}
        for node in run:
            after = tuple(copies[each] for each in node.dependencies if each in copies)
            copies[node] = part._append(node.work, after)
            self.places.append((len(self.items), copies[node]))
        self.items.append(part.instantiate())
        part.close()
        run.clear()

    @property
    def shape(self) -> list[Any]:
        """What two graphs must share for one to replace the other."""
        kinds = [mark and mark.kind for mark in (mark_of(node.work) for node in self.ordered)]
        return [*zip(shape_of(self.ordered), kinds, strict=True)]

    def close(self) -> None:
        for item in self.items:
            if isinstance(item, ExecutableGraph):
                item.close()


class PartedGraph:
    """An `ExecutableGraph` of parts, with what `forebay.hip` needs of that.

    Raises
    ------
    InvalidArgumentError
        When the dependencies form a circle.
    NotSupportedError
        When the graph also allocates or frees memory.
    """

    def __init__(self, graph: Graph) -> None:
        if graph._has_memory_nodes:
            raise NotSupportedError("a graph with nodes for events cannot also allocate or free memory")
        self.device: Device = graph.device
        self.closed: bool = False
        self._cut = _Cut(graph)
        self._nodes = {node: at for at, node in enumerate(self._cut.ordered)}  # those that it was made from
        self._lock = threading.RLock()  # launches of one executable come one after the other
        self._done: Event | None = None  # the last launch

    def launch(self, queue: Queue) -> None:
        """Run the parts in order on a queue, after the last launch; errors as for `ExecutableGraph.launch`.

        Raises
        ------
        NotSupportedError
            When the queue is captured.
        """
        if self.closed:
            raise ClosedError("this executable graph is closed")
        if queue.capturing:
            raise NotSupportedError("a graph with nodes for events cannot be part of another one")
        if queue.device._context is not self.device._context:
            raise InvalidArgumentError(f"the graph belongs to {self.device.name}, {queue!r} does not")
        with self._lock:
            if self._done is not None:
                queue.wait(self._done)
            for item in self._cut.items:
                if isinstance(item, Mark):
                    item.submit(queue)
                else:
                    item.launch(queue)
            self._done = queue.record(self._done)

    def update(self, graph: Graph) -> None:
        """As `ExecutableGraph.update`; a node for an event stays one of its kind."""
        if graph.device._context is not self.device._context:
            raise GraphUpdateError(f"the other graph belongs to {graph.device.name}", "device")
        cut = _Cut(graph)
        if cut.shape != self._cut.shape:
            cut.close()
            raise GraphUpdateError("the graphs differ in more than the work of their nodes", "nodes")
        self._replace(cut)

    def _replace(self, cut: _Cut) -> None:
        with self._lock:
            before, self._cut = self._cut, cut
        before.close()

    def _set(self, node: Node, kind: str, make: Callable[[], Work]) -> None:
        item, own = self._place(node)
        part = self._cut.items[item]
        if own is None or not isinstance(part, ExecutableGraph):
            raise InvalidArgumentError(f"{node!r} is for an event")
        part._set(own, kind, make)

    def set_graph(self, node: Node, graph: Graph) -> None:
        """As `ExecutableGraph.set_graph`."""
        self._set(node, "graph", lambda: graph._as_work(self.device))

    def set_event(self, node: Node, mark: Mark) -> None:
        """Let a node for an event use another one, from the next launch on.

        Raises
        ------
        InvalidArgumentError
            When it is no such node of the graph that this was made from.
        """
        item, _ = self._place(node)
        with self._lock:
            before = self._cut.items[item]
            if not isinstance(before, Mark) or before.kind != mark.kind:
                raise InvalidArgumentError(f"{node!r} does not {mark.kind} an event")
            self._cut.items[item] = mark

    def _place(self, node: Node) -> tuple[int, Node | None]:
        if node not in self._nodes:
            raise InvalidArgumentError("this is no node of the graph that this was made from")
        return self._cut.places[self._nodes[node]]

    def close(self) -> None:
        """End it; launches complete. Closing twice is fine."""
        self.closed = True
        self._cut.close()


def instantiate(graph: Graph, auto_free: bool) -> ExecutableGraph | PartedGraph:
    """Return what runs a graph."""
    return PartedGraph(graph) if has_marks(graph) else graph.instantiate(auto_free)
