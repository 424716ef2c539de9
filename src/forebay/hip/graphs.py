"""Graphs: each is a `forebay.Graph`, and what `hipGraphInstantiate` makes of it a `forebay.ExecutableGraph`.

For forebay a node that records an event or waits for one does nothing. What is instantiated is cut there: its parts are
executable graphs, and a launch submits them one after the other, with the records and the waits between them. So a node
that comes later in the order of the graph also waits for the part before, whether it depends on it or not.

Capture: what streams are given becomes a graph instead of running, see `forebay.Queue.capture`. During a capture
hipMemcpyAsync, hipMemsetAsync, hipLaunchHostFunc, hipModuleLaunchKernel, hipGraphLaunch and their like become nodes,
hipEventRecord and hipStreamWaitEvent dependencies. What would wait for a captured stream is refused, and invalidates
the capture.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from forebay.core.errors import (
    ArgumentTypeError,
    ClosedError,
    GraphUpdateError,
    InvalidArgumentError,
    NotSupportedError,
)
from forebay.core.process import Numbers
from forebay.events.event import Event
from forebay.hip import events
from forebay.hip.compiled.calls import note_returned
from forebay.hip.devices import current_device, number_of, on_reset
from forebay.hip.errors import HipError, Result, api, code_of, enumerator, invalid, record
from forebay.hip.events import ihipEvent_t
from forebay.hip.facts import (
    hipError_t,
    hipGraphExecUpdateResult,
    hipGraphInstantiateFlags,
    hipStreamCaptureMode,
    hipStreamCaptureStatus,
    words,
)
from forebay.hip.pointers import Number, address_of, handle_number
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import captures_that_bar_null, exchange_thread_mode, thread_mode
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


# -- handles


FIRST_GRAPH, FIRST_NODE, FIRST_EXECUTABLE = 9 << 60, 10 << 60, 11 << 60
Flags = hipGraphInstantiateFlags
ANY_FLAGS = int(  # as an enum its complement would be without bits that have no name
    Flags.hipGraphInstantiateFlagAutoFreeOnLaunch
    | Flags.hipGraphInstantiateFlagUpload
    | Flags.hipGraphInstantiateFlagUseNodePriority
)

_numbers = Numbers()


class hipGraphNode(Number):
    """A node; compares, hashes and converts like its number.

    Attributes
    ----------
    params : hipKernelNodeParams, hipMemcpy3DParms, hipMemsetParams, hipHostNodeParams or None
        A copy of what it was made from or set to; None of a captured node.
    child : ihipGraph or None
        A copy of the graph that it was made from.
    """

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
        self.node: Any = None  # a Node, until its graph is destroyed
        self.graph: Any = None
        self.params: Any = None
        self.child: ihipGraph | None = None


class ihipGraph(Number):
    """A graph; compares, hashes and converts like its number. `graph` is the `forebay.Graph`."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
        self.graph: Any = None  # a Graph
        self._by_node: dict[Node, hipGraphNode] = {}
        self.copies: dict[Node, Node] = {}  # by the nodes of the graph that it was cloned from

    def handle_of(self, node: Node) -> hipGraphNode:
        """Return the object for a node."""
        handle = self._by_node.get(node)
        if handle is None:
            handle = hipGraphNode(FIRST_NODE + 16 * next(_numbers))
            handle.node, handle.graph = node, self
            _nodes[handle.address] = handle
            self._by_node[node] = handle
        return handle

    def forget_nodes(self) -> None:
        """Make the handles let go of what nodes use, although a program may keep the handles."""
        for handle in self._by_node.values():
            handle.node = handle.params = handle.child = None
        self._by_node.clear()
        self.copies.clear()

    @property
    def nodes(self) -> list[hipGraphNode]:
        """In the order they were added in."""
        return [self.handle_of(node) for node in self.graph.nodes]


class hipGraphExec(Number):
    """An executable graph; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
        self.executable: ExecutableGraph | PartedGraph | None = None
        self.flags = 0


hipGraph_t: TypeAlias = ihipGraph
hipGraphNode_t: TypeAlias = hipGraphNode
hipGraphExec_t: TypeAlias = hipGraphExec

_graphs: dict[int, ihipGraph] = {}
_nodes: weakref.WeakValueDictionary[int, hipGraphNode] = weakref.WeakValueDictionary()  # their graphs keep them
_executables: dict[int, hipGraphExec] = {}


@on_reset
def _forget(number: int) -> None:
    for graph in list(_graphs.values()):
        if graph.graph is None or number_of(graph.graph.device) == number:
            _graphs.pop(graph.address, None)
            graph.forget_nodes()  # they know their graph, so nothing would go before the collector comes
    for executable in list(_executables.values()):
        if executable.executable is None or number_of(executable.executable.device) == number:
            _executables.pop(executable.address, None)


def handle_of_graph(graph: Graph) -> ihipGraph:
    """Return the object for a graph, and make it known by its number."""
    address = FIRST_GRAPH + 16 * graph.id
    handle = _graphs.get(address)
    if handle is None:
        handle = ihipGraph(address)
        handle.graph = graph
        _graphs[address] = handle
    return handle


def graph_of(thing: Any) -> ihipGraph:
    """Return the graph of this object or number.

    hipErrorInvalidValue if it never was a graph, or is destroyed.
    """
    if isinstance(thing, Graph):
        return handle_of_graph(thing)
    known = _graphs.get(handle_number(thing, "a graph"))
    if known is None or known.graph is None or known.graph.closed:  # by a capture that failed
        raise invalid("this graph is destroyed, or never was one")
    return known


def node_of(thing: Any) -> hipGraphNode:
    """Return the node of this object or number; hipErrorInvalidValue as for `graph_of`."""
    known = _nodes.get(handle_number(thing, "a node of a graph"))
    if known is None or known.graph is None or _graphs.get(known.graph.address) is not known.graph:
        raise invalid("this node's graph is destroyed, or it never was a node")
    return known


def executable_of(thing: Any) -> ExecutableGraph | PartedGraph:
    """Return the executable graph of this object or number; hipErrorInvalidValue as for `graph_of`."""
    if type(thing) is hipGraphExec and thing.executable is not None and not thing.executable.closed:
        return thing.executable  # closed when it is destroyed
    if isinstance(thing, ExecutableGraph):
        return thing
    known = _executables.get(handle_number(thing, "an executable graph"))
    if known is None or known.executable is None:
        raise invalid("this executable graph is destroyed, or never was one")
    return known.executable


@contextlib.contextmanager
def invalid_values() -> Iterator[None]:
    """Turn closed objects and wrong arguments of a kernel into hipErrorInvalidValue."""
    try:
        yield
    except (ClosedError, ArgumentTypeError) as error:
        raise invalid(str(error)) from error


@api(outputs=1)
def hipGraphCreate(flags: int = 0) -> ihipGraph:
    """Make a graph without nodes on the current device; ``(hipError_t, graph)``.

    hipErrorInvalidValue for `flags` other than 0.
    """
    if flags:
        raise invalid(f"hipGraphCreate: flags have to be 0, not {flags}")
    return handle_of_graph(current_device().graph())


@api()
def hipGraphDestroy(graph: Any) -> None:
    """Destroy a graph and its nodes; executable graphs made from it stay; ``(hipError_t,)``. Does not block.

    hipErrorInvalidValue for None, for one that was destroyed before, and for one that a stream still captures into.
    """
    known = graph_of(graph)
    if known.graph._captured:
        raise invalid("this graph is still being captured")
    if _graphs.pop(known.address, None) is None:
        raise invalid("another thread has just destroyed it")
    known.graph.close()
    known.forget_nodes()


def copy_of(original: ihipGraph) -> ihipGraph:
    """Return a graph with nodes of its own that do the same."""
    if original.graph._has_memory_nodes:
        raise HipError(hipError_t.hipErrorNotSupported, "a graph with nodes that allocate or free memory has no copies")
    copy = original.graph.device.graph()
    handle = handle_of_graph(copy)
    copies = handle.copies
    for node in original.graph.nodes:  # a dependency may have been added to a node that is older than what it is on
        copies[node] = copy._append(node.work, ())
    for node, copied in copies.items():
        copied.dependencies = tuple(copies[each] for each in node.dependencies)
    for known in original._by_node.values():
        copied_handle = handle.handle_of(copies[known.node])
        copied_handle.params, copied_handle.child = known.params, known.child
    return handle


@api(outputs=1)
def hipGraphClone(originalGraph: Any) -> ihipGraph:
    """Make a graph with nodes of its own that do the same; ``(hipError_t, graph)``.

    hipErrorNotSupported for a graph with nodes that allocate or free memory.
    """
    return copy_of(graph_of(originalGraph))


def _instantiate(graph: Any, flags: int) -> hipGraphExec:
    known = graph_of(graph)
    if flags & ~ANY_FLAGS:
        raise invalid(f"instantiating a graph: flags {flags!r}")
    handle = hipGraphExec(FIRST_EXECUTABLE + 16 * next(_numbers))
    with invalid_values():
        handle.executable = instantiate(known.graph, bool(flags & Flags.hipGraphInstantiateFlagAutoFreeOnLaunch))
    handle.flags = flags
    _executables[handle.address] = handle
    return handle


@api(outputs=3)
def hipGraphInstantiate(graph: Any, bufferSize: int = 0) -> tuple[hipGraphExec, None, bytes]:
    """Make an executable graph; ``(hipError_t, executable, None, b"")``, the last two for an error's node and log.

    `graph` is what `hipGraphCreate` or a capture returned; `bufferSize`, that of C's log, is not looked at.

    `last_exception` has the log. hipErrorInvalidValue for nodes that depend on each other in a circle,
    hipErrorNotSupported for a graph with memory nodes that has an executable graph. See `forebay.Graph.instantiate`.
    """
    return _instantiate(graph, 0), None, b""


@api(outputs=1)
def hipGraphInstantiateWithFlags(graph: Any, flags: int = 0) -> hipGraphExec:
    """Do what `hipGraphInstantiate` does, returning ``(hipError_t, executable)``.

    `graph` as there; `flags` are hipGraphInstantiateFlag….

    With AutoFreeOnLaunch a launch frees what the launch before has allocated. The flags Upload and UseNodePriority make
    no difference; hipErrorInvalidValue for others.
    """
    return _instantiate(graph, flags)


@api(outputs=1)
def hipGraphExecGetFlags(graphExec: Any) -> int:
    """Return ``(hipError_t, flags)`` that it was instantiated with; hipErrorInvalidValue when it was destroyed."""
    executable = executable_of(graphExec)
    return next((each.flags for each in list(_executables.values()) if each.executable is executable), 0)


@api()
def hipGraphLaunch(graphExec: Any, stream: Any = None) -> None:
    """Run an executable graph in the order of the stream; ``(hipError_t,)``. Does not block.

    `graphExec` is what `hipGraphInstantiate` returned; `stream` is a stream, None or 0.

    If an earlier launch of it still runs, on any stream, this one comes after it. In a capture its nodes become nodes
    of the captured graph. hipErrorInvalidValue when it was destroyed, when something it uses was freed, or when
    memory it has allocated was not freed; hipErrorNotSupported for memory nodes in a capture.
    """
    executable = executable_of(graphExec)
    queue = queue_of(stream)
    try:
        executable.launch(queue)
    except ClosedError as error:
        raise invalid(str(error)) from error


@api()
def hipGraphUpload(graphExec: Any, stream: Any = None) -> None:
    """Check its arguments; ``(hipError_t,)``. Instantiating has done what there is to do before a launch.

    `graphExec` is what `hipGraphInstantiate` returned, and `stream` a stream, None or 0. Does not block.
    """
    executable_of(graphExec)
    queue_of(stream)


@api()
def hipGraphExecDestroy(graphExec: Any) -> None:
    """End an executable graph; launches of it complete; ``(hipError_t,)``. Does not block.

    hipErrorInvalidValue for None and for one that was destroyed before.
    """
    executable = executable_of(graphExec)
    _executables.pop(handle_number(graphExec, "an executable graph"), None)
    executable.close()


UPDATE_RESULTS = words(hipGraphExecUpdateResult)


def _put_node(out: Any, node: hipGraphNode | None) -> None:
    """Write a node to where the program asked for it."""
    number = 0 if node is None else node.address
    if isinstance(out, hipGraphNode):
        out.address = number
        out.node, out.graph = (None, None) if node is None else (node.node, node.graph)
    elif isinstance(out, list):
        out[:] = [] if node is None else [node]
    else:
        address, _ = address_of(out)
        if address == 0:
            raise invalid("hErrorNode_out is a null pointer")
        ctypes.c_uint64.from_address(address).value = number


_LEFT_OUT = object()


def hipGraphExecUpdate(hGraphExec: Any, hGraph: Any, hErrorNode_out: object = _LEFT_OUT) -> Result:
    """Let an executable graph do what the nodes of a graph do; ``(hipError_t, hipGraphExecUpdateResult)``.

    `hGraphExec` is the executable graph, and `hGraph` the graph. As in hip-python 6 and 7, `hErrorNode_out` may be left
    out: then the node, or None, comes before the result.

    Parameters
    ----------
    hErrorNode_out : hipGraphNode, list or pointer
        Gets the first node that does not fit. hipErrorInvalidValue for None.

    hipErrorGraphExecUpdateFailure when the graph differs in more than what nodes do, or in which way they copy; nothing
    has changed then, and the result says why. Launches under way are not changed.
    """
    if hErrorNode_out is _LEFT_OUT:
        node = hipGraphNode()
        code, why = hipGraphExecUpdate(hGraphExec, hGraph, node)
        return code, node or None, why
    try:
        executable, known = executable_of(hGraphExec), graph_of(hGraph)
        _put_node(hErrorNode_out, None)
        with invalid_values():
            if has_marks(known.graph) != isinstance(executable, PartedGraph):
                raise GraphUpdateError("only one of the two graphs has nodes for events", "kind", None)
            executable.update(known.graph)
    except Exception as error:
        if isinstance(error, ArgumentTypeError):
            raise
        code = code_of(error)
        record(code, error)
        if not isinstance(error, GraphUpdateError):
            return code, hipGraphExecUpdateResult.hipGraphExecUpdateError
        if error.node is not None:
            _put_node(hErrorNode_out, known.handle_of(error.node))
        return code, UPDATE_RESULTS[error.reason]
    note_returned(hipError_t.hipSuccess)
    return hipError_t.hipSuccess, hipGraphExecUpdateResult.hipGraphExecUpdateSuccess


@api()
def hipGraphDebugDotPrint(graph: Any, path: Any, flags: int = 0) -> None:
    """Write a graph to a file in Graphviz' language; ``(hipError_t,)``. The flags make no difference.

    hipErrorInvalidValue without a path, hipErrorOperatingSystem when it cannot be written to.
    """
    known = graph_of(graph)
    if not path:
        raise invalid("the path is empty")
    try:
        with open(os.fsdecode(path), "w", encoding="utf-8") as file:
            file.write(known.graph.debug_dot())
    except (OSError, ValueError) as error:  # the latter for a name that none can have
        raise HipError(hipError_t.hipErrorOperatingSystem, str(error)) from error


def nodes_in(given: Any, count: Any, what: str) -> tuple[hipGraphNode, ...]:
    """Return this many nodes of a list, or of an array of their numbers.

    Raises
    ------
    HipError
        hipErrorInvalidValue when there are fewer, or one is not a node.
    ArgumentTypeError
    """
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool):
        raise ArgumentTypeError(f"the number of {what} is an int, not {type(count).__name__}")
    if count == 0:
        return ()
    if given is None or count < 0:
        raise invalid(f"{count} {what}, given as {given!r}")
    if isinstance(given, hipGraphNode):
        given = [given]
    if not isinstance(given, (list, tuple, ctypes.Array, np.ndarray)):
        address, _ = address_of(given)
        given = (ctypes.c_void_p * int(count)).from_address(address)
    if len(given) < count:
        raise invalid(f"{count} {what}: there are {len(given)}")
    return tuple(node_of(each) for each in given[: int(count)])


# -- capture


MODE_CODES = words(hipStreamCaptureMode)
MODES = {code: mode for mode, code in MODE_CODES.items()}
KEEP = object()
STATUS = words(hipStreamCaptureStatus)


def _mode(mode: Any) -> str:
    return MODES[enumerator(hipStreamCaptureMode, mode, "no mode of capture")]


@api()
def hipStreamBeginCapture(stream: Any, mode: int = hipStreamCaptureMode.hipStreamCaptureModeGlobal) -> None:
    """Let what the stream is given become a graph, until `hipStreamEndCapture`; ``(hipError_t,)``.

    Parameters
    ----------
    mode : hipStreamCaptureMode
        Whether what might wait for a captured stream (hipMalloc, hipFree, synchronizing and querying other streams) is
        an error in every thread, in this one, or in none.

    hipErrorStreamCaptureUnsupported for the null stream, hipErrorIllegalState when it is captured already,
    hipErrorInvalidValue for another mode.
    """
    name = _mode(mode)
    queue_of(stream).begin_capture(name)


@api(outputs=1)
def hipStreamEndCapture(stream: Any) -> ihipGraph:
    """End a capture; ``(hipError_t, graph)``.

    hipErrorIllegalState when the stream is not captured, hipErrorStreamCaptureUnmatched when it is but the capture
    began on another, hipErrorStreamCaptureWrongThread in another thread than it began in, unless its mode is relaxed:
    after these the capture goes on. After hipErrorStreamCaptureInvalidated, when something was refused in it, and
    hipErrorStreamCaptureUnjoined, when it forked and does not come after all of that, it has ended without a graph.
    """
    return handle_of_graph(queue_of(stream).end_capture())


def _observed(stream: Any) -> Queue:
    """Return the stream to ask about. The null stream has no capture; asking it is an error while one concerns it."""
    queue = queue_of(stream)
    if queue.is_null and captures_that_bar_null(queue.device):
        raise HipError(hipError_t.hipErrorStreamCaptureImplicit, "a blocking stream is captured")
    return queue


@api(outputs=1)
def hipStreamIsCapturing(stream: Any) -> hipStreamCaptureStatus:
    """Return ``(hipError_t, hipStreamCaptureStatus)``.

    hipErrorStreamCaptureImplicit for the null stream while a blocking stream is captured, which goes on.
    """
    capture = _observed(stream)._capture
    return STATUS["none" if capture is None else capture.status]


@api(outputs=2)
def hipStreamGetCaptureInfo(stream: Any) -> tuple[hipStreamCaptureStatus, int]:
    """Return ``(hipError_t, hipStreamCaptureStatus, id)``; the id is 0 when the stream is not captured.

    Errors as for `hipStreamIsCapturing`.
    """
    capture = _observed(stream)._capture
    return (STATUS["none"], 0) if capture is None else (STATUS[capture.status], capture.id)


@api(outputs=4)
def hipStreamGetCaptureInfo_v2(
    stream: Any, dependencies_out: Any = None
) -> tuple[hipStreamCaptureStatus, int, ihipGraph | None, int]:
    """Return ``(hipError_t, hipStreamCaptureStatus, id, graph, count)``.

    Parameters
    ----------
    dependencies_out : list, optional
        Gets the nodes that the next command of the stream will come after; `count` is how many these are.

    The graph is None when the stream is not captured. Errors as for `hipStreamIsCapturing`.
    """
    if dependencies_out is not None and not isinstance(dependencies_out, list):
        raise ArgumentTypeError(f"dependencies_out is a list, not {type(dependencies_out).__name__}")
    queue = _observed(stream)
    capture = queue._capture
    if capture is None:
        return STATUS["none"], 0, None, 0
    graph = handle_of_graph(capture.graph)
    nodes = [graph.handle_of(node) for node in capture.dependencies(queue)]
    if dependencies_out is not None:
        dependencies_out[:] = nodes
    return STATUS[capture.status], capture.id, graph, len(nodes)


@api(outputs=1)
def hipThreadExchangeStreamCaptureMode(mode: object = KEEP) -> hipStreamCaptureMode:
    """Set how careful this thread has to be while streams are captured; ``(hipError_t, mode)`` before.

    Parameters
    ----------
    mode : hipStreamCaptureMode, or ctypes integer
        Global, at first: what might wait for a captured stream is an error while any thread has a global capture under
        way. Thread-local: only while this thread has one that is not relaxed. Relaxed: never. A ctypes integer gets the
        mode of before, as in HIP. hip-python's own function takes none; then nothing changes.

    hipErrorInvalidValue for another mode, and for None.
    """
    if mode is KEEP:
        return MODE_CODES[thread_mode()]
    given = mode.value if isinstance(mode, ctypes._SimpleCData) else mode
    before = MODE_CODES[exchange_thread_mode(_mode(given))]
    if isinstance(mode, ctypes._SimpleCData):
        mode.value = int(before)
    return before
