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
import inspect
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

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
from forebay.hip import allocations, facts
from forebay.hip.allocations import Place, write
from forebay.hip.compiled.calls import note_returned
from forebay.hip.compiled.launch import kernel_arguments
from forebay.hip.copies import FROM, TO, Box, CopyOnHost, check_symbol_kind, parts_of, within
from forebay.hip.devices import Handles, current_device, device_number, device_of, infos, number_of
from forebay.hip.errors import (
    HipError,
    HipFunction,
    Result,
    alias,
    api,
    check_params,
    code_of,
    define,
    enumerator,
    invalid,
    listed,
    made,
    raised_as,
    record,
    size_of,
)
from forebay.hip.facts import (
    Record,
    hipError_t,
    hipGraphExecUpdateResult,
    hipGraphNodeType,
    hipHostNodeParams,
    hipKernelNodeParams,
    hipMemAllocNodeParams,
    hipMemcpy3DParms,
    hipMemcpyKind,
    hipMemsetParams,
    hipStreamCaptureMode,
    hipStreamCaptureStatus,
    words,
)
from forebay.hip.memory import hand_out
from forebay.hip.modules import extents_of, function_of
from forebay.hip.pointers import DeviceArray, Number, address_of, handle_number
from forebay.hip.streams import Mark, event_of, event_work, host_call, ihipEvent_t, mark_of, queue_of
from forebay.queues.capture_rules import captures_that_bar_null, exchange_thread_mode, thread_mode
from forebay.queues.device import Device
from forebay.queues.graphs.executable import (
    ExecutableGraph,
    Work,
    figures_of,
    make_copy,
    make_fill,
    make_host,
    make_kernel,
    make_list,
    shape_of,
)
from forebay.queues.graphs.graph import Graph, Node
from forebay.queues.graphs.shape import serial_order
from forebay.queues.memory.shapes import whole_number
from forebay.queues.queue import Queue


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

    Raises InvalidArgumentError when the dependencies form a circle, and NotSupportedError when the graph also allocates
    or frees memory.
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

        Raises NotSupportedError when the queue is captured.
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

        Raises InvalidArgumentError when it is no such node of the graph that this was made from.
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


# -- handles


FIRST_GRAPH, FIRST_NODE, FIRST_EXECUTABLE = 9 << 60, 10 << 60, 11 << 60
VALUE = hipError_t.hipErrorInvalidValue
Flags = facts.hipGraphInstantiateFlags
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
        super().__init__(address)
        self.node: Any = None  # a Node, until its graph is destroyed
        self.graph: Any = None
        self.params: Any = None
        self.child: ihipGraph | None = None


class ihipGraph(Number):
    """A graph; compares, hashes and converts like its number. `graph` is the `forebay.Graph`."""

    def __init__(self, address: Any = 0) -> None:
        super().__init__(address)
        self.graph: Any = None  # a Graph
        self.device: int = -1
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
        """Release what nodes use, although a program may keep their handles: they know their graph."""
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
        super().__init__(address)
        self.executable: ExecutableGraph | PartedGraph | None = None
        self.flags: int = 0
        self.device: int = -1


hipGraph_t: TypeAlias = ihipGraph
hipGraphNode_t: TypeAlias = hipGraphNode
hipGraphExec_t: TypeAlias = hipGraphExec

_graphs: Handles[ihipGraph] = Handles("a graph", VALUE, ihipGraph.forget_nodes)
_nodes: weakref.WeakValueDictionary[int, hipGraphNode] = weakref.WeakValueDictionary()  # their graphs keep them
_executables: Handles[hipGraphExec] = Handles("an executable graph", VALUE)


def handle_of_graph(graph: Graph) -> ihipGraph:
    """Return the object for a graph, and make it known by its number."""
    address = FIRST_GRAPH + 16 * graph.id
    handle = _graphs.get(address)
    if handle is None:
        handle = ihipGraph(address)
        handle.graph, handle.device = graph, number_of(graph.device)
        _graphs[address] = handle
    return handle


def graph_of(thing: Any) -> ihipGraph:
    """Return the graph of this object or number.

    hipErrorInvalidValue if it never was a graph, or is destroyed.
    """
    if isinstance(thing, Graph):
        return handle_of_graph(thing)
    known = _graphs.find(thing)
    if known.graph.closed:
        raise invalid("a capture that failed has destroyed this graph")
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
    known = _executables.find(thing)
    assert known.executable is not None
    return known.executable


def invalid_values() -> contextlib.AbstractContextManager[None]:
    """Turn closed objects and wrong arguments of a kernel into hipErrorInvalidValue."""
    return raised_as(VALUE, ClosedError, ArgumentTypeError)


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
        auto_free, made = bool(flags & Flags.hipGraphInstantiateFlagAutoFreeOnLaunch), known.graph
        handle.executable = PartedGraph(made) if has_marks(made) else made.instantiate(auto_free)
    handle.flags, handle.device = flags, known.device
    _executables[handle.address] = handle
    return handle


@api(outputs=3)
def hipGraphInstantiate(graph: Any, bufferSize: int = 0) -> tuple[hipGraphExec, None, bytes]:
    """Make an executable graph; ``(hipError_t, executable, None, b"")``, the last two for an error's node and log.

    `bufferSize`, that of C's log, is not looked at; `last_exception` has the log. hipErrorInvalidValue for nodes that
    depend on each other in a circle, hipErrorNotSupported for a graph with memory nodes that has an executable graph.
    See `forebay.Graph.instantiate`.
    """
    return _instantiate(graph, 0), None, b""


@api(outputs=1)
def hipGraphInstantiateWithFlags(graph: Any, flags: int = 0) -> hipGraphExec:
    """Do what `hipGraphInstantiate` does, returning ``(hipError_t, executable)``.

    `flags` are hipGraphInstantiateFlag…: with AutoFreeOnLaunch a launch frees what the launch before has allocated,
    Upload and UseNodePriority make no difference; hipErrorInvalidValue for others.
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

    If an earlier launch of it still runs, on any stream, this one comes after it. In a capture its nodes become nodes
    of the captured graph. hipErrorInvalidValue when it was destroyed, when something it uses was freed, or when
    memory it has allocated was not freed; hipErrorNotSupported for memory nodes in a capture.
    """
    executable = executable_of(graphExec)
    queue = queue_of(stream)
    with raised_as(VALUE, ClosedError):
        executable.launch(queue)


@api()
def hipGraphUpload(graphExec: Any, stream: Any = None) -> None:
    """Check its arguments; does not block; ``(hipError_t,)``. Instantiating has done what is to do before a launch."""
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
    with raised_as(hipError_t.hipErrorOperatingSystem, OSError, ValueError):  # the latter for a name that none can have
        Path(os.fsdecode(path)).write_text(known.graph.debug_dot(), encoding="utf-8")


def nodes_in(given: Any, count: Any, what: str) -> tuple[hipGraphNode, ...]:
    """Return this many nodes of a list, or of an array of their numbers.

    hipErrorInvalidValue when there are fewer, or one is not a node; raises ArgumentTypeError for a count that is no
    int.
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


# -- the nodes of graphs: adding them, asking what they do, and changing it. Dependencies are a list and its length

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
ELEMENTS = {1: "u1", 2: "u2", 4: "u4"}


def kernel_work(device: Any, params: Any) -> Work:
    """Return the launch that a hipKernelNodeParams describes."""
    check_params(params, hipKernelNodeParams)
    if params.func is None:
        raise invalid("the function is None")
    with raised_as(hipError_t.hipErrorInvalidDeviceFunction, HipError):
        function = function_of(params.func)
    with invalid_values():
        arguments = kernel_arguments(function, params.sharedMemBytes, params.kernelParams, params.extra)
        return make_kernel(
            device, function.kernel, extents_of(params.gridDim), extents_of(params.blockDim), tuple(arguments)
        )


def host_work(_: Any, params: Any) -> Work:
    """Return the call that a hipHostNodeParams describes."""
    check_params(params, hipHostNodeParams)
    return make_host(host_call(params.fn, params.userData))


def copy_params(dst: Any, src: Any, count: Any, kind: Any) -> hipMemcpy3DParms:
    """Return the structure for this many bytes in one row.

    hipErrorInvalidValue for 0 bytes.
    """
    nbytes = size_of(count)
    if nbytes == 0:
        raise invalid("a copy of 0 bytes")
    dst_ptr, src_ptr = (facts.hipPitchedPtr(ptr, nbytes, nbytes, 1) for ptr in (dst, src))
    return hipMemcpy3DParms(dstPtr=dst_ptr, srcPtr=src_ptr, extent=facts.hipExtent(nbytes, 1, 1), kind=kind)


def has_rows(params: Any) -> bool:
    """Whether a structure is about more than one row."""
    if isinstance(params, hipMemsetParams):
        return params.height > 1
    return bool(params.extent.height > 1 or params.extent.depth > 1)


def copy_work(device: Any, params: Any) -> Work:
    """Return the copy that a hipMemcpy3DParms describes: row by row, or in one piece if there are no gaps."""
    check_params(params, hipMemcpy3DParms)
    box = Box(params)
    if box.is_empty:
        raise invalid(f"a copy of {box}")
    to, source = box.places()
    with invalid_values():
        if to.buffer is None and source.buffer is None:
            return make_host(CopyOnHost(to, source, box.spans))
        rows = [make_copy(device, at, of) for at, of in parts_of(to, source, box.spans)]
    return rows[0] if len(rows) == 1 else make_list("copy", rows)


def memset_work(device: Any, params: Any) -> Work:
    """Return the fill that a hipMemsetParams describes: row by row, or in one piece if there are no gaps."""
    check_params(params, hipMemsetParams)
    if params.elementSize not in ELEMENTS:
        raise invalid(f"elements of {params.elementSize} bytes")
    element = np.dtype(ELEMENTS[params.elementSize])
    height, row = size_of(params.height), size_of(params.width) * element.itemsize
    pitch = size_of(params.pitch) if height > 1 else row
    if row == 0 or height == 0 or pitch < row:
        raise invalid(f"{height} rows of {row} bytes, {pitch} apart")
    buffer = Place(params.dst, pitch * height if height > 1 else row, "dst").for_device()
    value = whole_number(params.value) & ((1 << 8 * element.itemsize) - 1)
    parts = [(0, row * height)] if pitch == row else [(i * pitch, i * pitch + row) for i in range(height)]
    with invalid_values():
        rows = [make_fill(device, buffer[at:end].view(element), value) for at, end in parts]
    return rows[0] if len(rows) == 1 else make_list("fill", rows)


TYPES = words(hipGraphNodeType)


def begin_node(graph: Any, dependencies: Any, count: Any) -> tuple[ihipGraph, Graph, tuple[Node, ...]]:
    """Return the graph, and what a new node of it comes after."""
    known = graph_of(graph)
    after: list[Node] = []
    for each in nodes_in(dependencies, count, "dependencies"):
        if each.node in after:
            raise invalid("a dependency is given twice")
        after.append(each.node)
    return known, known.graph, tuple(after)


def add_node(graph: Any, dependencies: Any, count: Any, kind: str, given: Any) -> hipGraphNode:
    """Add a node of this kind that does what a structure says, of which it keeps a copy, or uses this event."""
    known, to, after = begin_node(graph, dependencies, count)
    work = KINDS[kind].make(to.device, given)
    handle = known.handle_of(to._insert(work, after))
    handle.params = given.copy() if isinstance(given, Record) else None
    return handle


@api(outputs=1)
def hipGraphAddKernelNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a launch; ``(hipError_t, node)``. The arguments' values are those of now.

    Parameters
    ----------
    pDependencies : list of hipGraphNode, or pointer to their numbers
        The nodes that it comes after; None for no dependencies.
    numDependencies : int
        How many of them count.
    pNodeParams : hipKernelNodeParams

    hipErrorInvalidValue for nodes of other graphs, a dependency given twice, and what
    `hipModuleLaunchKernel` would refuse; hipErrorInvalidDeviceFunction for anything but a function.
    """
    return add_node(graph, pDependencies, numDependencies, "kernel", pNodeParams)


@api(outputs=1)
def hipGraphAddMemcpyNode(graph: Any, pDependencies: Any, numDependencies: int, pCopyParams: Any) -> hipGraphNode:
    """Add a copy of rows and planes; ``(hipError_t, node)``.

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for an empty extent and
    for rows that are not all in an array; hipErrorInvalidPitchValue for a pitch below the width.
    """
    return add_node(graph, pDependencies, numDependencies, "copy", pCopyParams)


@api(outputs=1)
def hipGraphAddMemsetNode(graph: Any, pDependencies: Any, numDependencies: int, pMemsetParams: Any) -> hipGraphNode:
    """Add what sets memory of the device to a value; ``(hipError_t, node)``.

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for memory that is not from
    here or too small, an empty extent, elements of other than 1, 2 or 4 bytes, and a pitch below the width.
    """
    return add_node(graph, pDependencies, numDependencies, "fill", pMemsetParams)


@api(outputs=1)
def hipGraphAddHostNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a host function; ``(hipError_t, node)``.

    `pNodeParams` is a hipHostNodeParams. See `hipLaunchHostFunc`. hipErrorInvalidValue without a function.
    """
    return add_node(graph, pDependencies, numDependencies, "host", pNodeParams)


@api(outputs=1)
def hipGraphAddEmptyNode(graph: Any, pDependencies: Any, numDependencies: int) -> hipGraphNode:
    """Add a node that does nothing, for others to depend on; ``(hipError_t, node)``."""
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    return known.handle_of(made.add_empty(after=after))


@api(outputs=1)
def hipGraphAddChildGraphNode(graph: Any, pDependencies: Any, numDependencies: int, childGraph: Any) -> hipGraphNode:
    """Add all that another graph's nodes do now; ``(hipError_t, node)``. What changes there later does not change it.

    `childGraph` is the other graph: hipErrorNotSupported for one with nodes for memory or events; hipErrorInvalidValue
    for one of another device, or with nodes that depend on each other in a circle, and as for `hipGraphAddKernelNode`.
    """
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    child = graph_of(childGraph)
    if has_marks(child.graph):
        raise HipError(hipError_t.hipErrorNotSupported, "a child graph has no nodes for events")
    copy = copy_of(child)
    handle = known.handle_of(made.add_graph(child.graph, after=after))
    handle.child = copy
    return handle


@api(outputs=1)
def hipGraphChildGraphNodeGetGraph(node: Any) -> ihipGraph:
    """Return ``(hipError_t, graph)``: a copy of what a node was made from, to look at; changing it changes no node.

    hipErrorInvalidValue for a node of another kind.
    """
    known = node_of(node)
    if known.child is None:
        raise invalid("this node was not made from a graph")
    return known.child


@api()
def hipGraphAddDependencies(graph: Any, from_: Any, to: Any, numDependencies: int) -> None:
    """Let each node of `to` come after the one of `from_` at the same place; ``(hipError_t,)``.

    `from_` and `to` are lists of nodes of `graph`, and the first `numDependencies` of each count. Nothing has changed
    after hipErrorInvalidValue: for nodes of another graph, a node that is to come after itself, and a dependency that
    exists already. `hipGraphInstantiate` checks for circles.
    """
    known = graph_of(graph)
    edges = _edges_in(known, from_, to, numDependencies)
    for i, (earlier, later) in enumerate(edges):
        if earlier is later or (earlier, later) in edges[:i] or earlier in later.dependencies:
            raise invalid("a node comes after itself, or after another one already")
    for edge in edges:
        known.graph.add_dependency(*edge)


def _edges_in(known: ihipGraph, from_: Any, to: Any, count: Any) -> list[tuple[Node, Node]]:
    edges = []
    for earlier, later in zip(nodes_in(from_, count, "dependencies"), nodes_in(to, count, "dependencies"), strict=True):
        if earlier.graph is not known or later.graph is not known:
            raise invalid("a node belongs to another graph")
        edges.append((earlier.node, later.node))
    return edges


@api()
def hipGraphRemoveDependencies(graph: Any, from_: Any, to: Any, numDependencies: int) -> None:
    """Let no node of `to` come after the one of `from_` at the same place any more; ``(hipError_t,)``.

    `from_` and `to` are lists of nodes of `graph`, and the first `numDependencies` of each count. Nothing has changed
    after hipErrorInvalidValue: for nodes of another graph, and a dependency that does not exist or is given twice.
    """
    known = graph_of(graph)
    edges = _edges_in(known, from_, to, numDependencies)
    for i, (earlier, later) in enumerate(edges):
        if (earlier, later) in edges[:i] or earlier not in later.dependencies:
            raise invalid("a dependency does not exist")
    for edge in edges:
        known.graph.remove_dependency(*edge)


# -- asking


def _edges(known: ihipGraph) -> list[tuple[hipGraphNode, hipGraphNode]]:
    found = []
    for later in known.nodes:
        found += [(known.handle_of(node), later) for node in later.node.dependencies]
    return found


@api(outputs=2)
def hipGraphGetNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)``: a list, in the order they were added in."""
    nodes = graph_of(graph).nodes
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphGetRootNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of those that come after no other."""
    nodes = [node for node in graph_of(graph).nodes if node.node is not None and not node.node.dependencies]
    return nodes, len(nodes)


@api(outputs=3)
def hipGraphGetEdges(graph: Any) -> tuple[list[hipGraphNode], list[hipGraphNode], int]:
    """Return ``(hipError_t, from, to, count)``: the second list's nodes come after the first's at the same place."""
    edges = _edges(graph_of(graph))
    return [earlier for earlier, _ in edges], [later for _, later in edges], len(edges)


@api(outputs=2)
def hipGraphNodeGetDependencies(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what a node comes after."""
    known = node_of(node)
    nodes = [earlier for earlier, later in _edges(known.graph) if later == known]
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphNodeGetDependentNodes(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what comes after a node."""
    known = node_of(node)
    nodes = [later for earlier, later in _edges(known.graph) if earlier == known]
    return nodes, len(nodes)


@api(outputs=1)
def hipGraphNodeGetType(node: Any) -> hipGraphNodeType:
    """Return ``(hipError_t, hipGraphNodeType)``."""
    return TYPES[kind_of(node_of(node).node)]


@api(outputs=1)
def hipGraphNodeFindInClone(originalNode: Any, clonedGraph: Any) -> hipGraphNode:
    """Return ``(hipError_t, node)`` of a graph that `hipGraphClone` made: the copy of this node.

    `originalNode` is a node of the graph that was cloned, and `clonedGraph` its clone.

    hipErrorInvalidValue when it has none.
    """
    original, clone = node_of(originalNode), graph_of(clonedGraph)
    copied = clone.copies.get(original.node)
    if copied is None:
        raise invalid("this graph has no copy of this node")
    return clone.handle_of(copied)


def kind_of(node: Node) -> str:
    """Return the word for what a node does: for forebay a copy within memory of the host is a function."""
    mark = mark_of(node.work)
    if mark is not None:
        return mark.kind
    return "copy" if isinstance(getattr(node.work, "function", None), CopyOnHost) else node.kind


# -- what nodes do


def _event_work(kind: str) -> Callable[[Any, Any], Work]:
    def make(device: Any, event: Any) -> Work:
        with raised_as(VALUE, HipError):
            handle = event_of(event)
        if handle.event is None:
            raise HipError(hipError_t.hipErrorInvalidHandle, "an event that processes share is in no graph")
        if handle.event.device._context is not device._context:
            raise invalid("the event and the graph are of two devices")
        return event_work(kind, handle)

    return make


class NodeKind(NamedTuple):
    """What nodes of a kind do, what is given for that, and what makes it; how HIP and docstrings name it."""

    does: str
    given: type[Any]
    make: Callable[[Any, Any], Work]
    name: str
    verb: str
    refused: str = ""


_NO_ROWS = " for more than one row, before or now;"
KINDS = {
    "kernel": NodeKind("launches a kernel", hipKernelNodeParams, kernel_work, "Kernel", "launch something else"),
    "copy": NodeKind(
        "copies", hipMemcpy3DParms, copy_work, "Memcpy", "copy something else",
        f"{_NO_ROWS} for another kind than the node was made with, and between other kinds of memory;",
    ),
    "fill": NodeKind("sets memory", hipMemsetParams, memset_work, "Memset", "set something else", _NO_ROWS),
    "host": NodeKind("calls a host function", hipHostNodeParams, host_work, "Host", "call something else"),
    "record": NodeKind(
        "records an event", ihipEvent_t, _event_work("record"), "EventRecord", "record another event"
    ),
    "wait": NodeKind("waits for an event", ihipEvent_t, _event_work("wait"), "EventWait", "wait for another event"),
}  # fmt: skip
MEMORY = {"alloc": "allocates memory", "free": "frees memory"}  # nodes that are not changed


def _node_that(node: Any, kind: str) -> hipGraphNode:
    """The node, which has to do this."""
    known = node_of(node)
    if kind_of(known.node) != kind:
        raise invalid(f"this is not a node that {MEMORY.get(kind) or KINDS[kind].does}")
    return known


def _get(node: Any, kind: str) -> Any:
    known = _node_that(node, kind)
    mark = mark_of(known.node.work)
    if mark is not None:
        return mark.handle
    if known.params is None:
        raise NotSupportedError("this node was captured, so it has no parameters to return")
    return known.params.copy()


def _set(node: Any, kind: str, given: Any) -> None:
    """Let a node of this kind do what a structure says, of which it keeps a copy, or use this event."""
    known = _node_that(node, kind)
    graph = known.node.graph
    graph._replace({known.node: KINDS[kind].make(graph.device, given)})
    known.params = given.copy() if isinstance(given, Record) else None


def _set_in(executable: Any, node: Any, kind: str, given: Any) -> None:
    """Let a node of this kind of an executable graph do what a structure says, or use this event."""
    to, known = executable_of(executable), _node_that(node, kind)
    before = known.params
    if kind in ("copy", "fill"):
        check_params(given, KINDS[kind].given)
        if has_rows(given) or (before is not None and has_rows(before)):
            raise invalid("rows are not changed in an executable graph")
    work = KINDS[kind].make(to.device, given)
    if kind == "copy" and before is not None and facts.hipMemcpyKind(before.kind) != given.kind:
        raise invalid(f"the node copies {hipMemcpyKind(before.kind).name}: that is not changed")
    mark = mark_of(work)
    if mark is not None:
        if not isinstance(to, PartedGraph):
            raise invalid("this executable graph has no nodes for events")
        to.set_event(known.node, mark)
    else:
        with invalid_values():
            to._set(known.node, known.node.kind, lambda: work)


def _accessors(kind: str) -> tuple[HipFunction, HipFunction, HipFunction]:
    """Return HIP's functions that ask what a node of this kind does, and let it do something else."""
    known = KINDS[kind]
    given, end, last, what = known.given.__name__, "Params", "pNodeParams", f"a {known.given.__name__}"
    captured, copied, by_name = ", hipErrorNotSupported for one that was captured", "a copy of ", {"given": last}
    if not issubclass(known.given, Record):
        end, last, what = "Event", "event", "the event"
        captured, copied, by_name = "", "", {"given": last, "node": "hNode"}
    of, errors = f"{known.name}Node", f"and as for `hipGraphAdd{known.name}Node`"

    def get(node: Any) -> Any:
        return _get(node, kind)

    def set_in_graph(node: Any, given: Any) -> None:
        _set(node, kind, given)

    def set_in_executable(hGraphExec: Any, node: Any, given: Any) -> None:
        _set_in(hGraphExec, node, kind, given)

    get.__annotations__["return"] = given
    get_doc = f"""Return ``(hipError_t, {given})``: {copied}what a node was made from, or set to last.

    `node` is one that {known.does}: hipErrorInvalidValue for another{captured}."""
    set_doc = f"""Let a node {known.verb} in what is instantiated from now on; ``(hipError_t,)``.

    `node` is one that {known.does}, and `{last}` {what}. hipErrorInvalidValue when it is another node, {errors}."""
    exec_doc = f"""Let a node {known.verb} from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `{by_name.get("node", "node")}` one that {known.does}, and `{last}` {what}.

    The graph and launches under way are not changed. hipErrorInvalidValue when it is another node than one of the graph
    that this was instantiated from, or was added since;{known.refused} {errors}."""
    return (
        define(f"hipGraph{of}Get{end}", get, get_doc, outputs=1),
        define(f"hipGraph{of}Set{end}", set_in_graph, set_doc, given=last),
        define(f"hipGraphExec{of}Set{end}", set_in_executable, exec_doc, **by_name),  # type: ignore[arg-type]
    )


hipGraphKernelNodeGetParams: HipFunction
hipGraphKernelNodeSetParams: HipFunction
hipGraphExecKernelNodeSetParams: HipFunction
hipGraphMemcpyNodeGetParams: HipFunction
hipGraphMemcpyNodeSetParams: HipFunction
hipGraphExecMemcpyNodeSetParams: HipFunction
hipGraphMemsetNodeGetParams: HipFunction
hipGraphMemsetNodeSetParams: HipFunction
hipGraphExecMemsetNodeSetParams: HipFunction
hipGraphHostNodeGetParams: HipFunction
hipGraphHostNodeSetParams: HipFunction
hipGraphExecHostNodeSetParams: HipFunction
hipGraphEventRecordNodeGetEvent: HipFunction
hipGraphEventRecordNodeSetEvent: HipFunction
hipGraphExecEventRecordNodeSetEvent: HipFunction
hipGraphEventWaitNodeGetEvent: HipFunction
hipGraphEventWaitNodeSetEvent: HipFunction
hipGraphExecEventWaitNodeSetEvent: HipFunction
globals().update({function.__name__: function for kind in KINDS for function in _accessors(kind)})


@api()
def hipGraphExecChildGraphNodeSetParams(hGraphExec: Any, node: Any, childGraph: Any) -> None:
    """Let a node do what a graph does now, from the next launch of an executable graph on; ``(hipError_t,)``.

    `childGraph` is the graph: hipErrorInvalidValue when its nodes are of other kinds, or copy another way, than those
    of the graph that the node was made from; and as for `hipGraphExecKernelNodeSetParams` and
    `hipGraphAddChildGraphNode`.
    """
    executable, known, child = executable_of(hGraphExec), node_of(node), graph_of(childGraph)
    with invalid_values():
        executable.set_graph(known.node, child.graph)


@api(outputs=1)
def hipGraphAddEventRecordNode(graph: Any, pDependencies: Any, numDependencies: int, event: Any) -> hipGraphNode:
    """Add a node that records an event each time the graph runs; ``(hipError_t, node)``.

    The graph is cut there: what comes later in the order of its nodes comes after what is before. See
    `hipGraphAddKernelNode` for dependencies. hipErrorInvalidValue without an event, or for another device's. A graph
    with such nodes has no nodes for memory, and cannot be launched in a capture or become a child
    (hipErrorNotSupported).
    """
    return add_node(graph, pDependencies, numDependencies, "record", event)


@api(outputs=1)
def hipGraphAddEventWaitNode(graph: Any, pDependencies: Any, numDependencies: int, event: Any) -> hipGraphNode:
    """Add a node that waits for an event as it was last recorded when the graph is launched; ``(hipError_t, node)``.

    See `hipGraphAddEventRecordNode`.
    """
    return add_node(graph, pDependencies, numDependencies, "wait", event)


# -- memory


Attr = facts.hipGraphMemAttributeType
ATTRIBUTES = {attribute: name for name, attribute in words(Attr).items()}
PINNED = facts.hipMemAllocationType.hipMemAllocationTypePinned
ON_DEVICE = facts.hipMemLocationType.hipMemLocationTypeDevice


@api(outputs=1)
def hipGraphAddMemAllocNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add what allocates memory; ``(hipError_t, node)``. ``pNodeParams.dptr`` is set to the pointer.

    The address stays the same in every launch. The memory is in use from the launch on until a node of the graph frees
    it, or else until hipFree or hipFreeAsync after the launch, or a node of another graph; before that the graph can be
    launched again only with hipGraphInstantiateFlagAutoFreeOnLaunch. See `forebay.Graph`.

    `pNodeParams` is a hipMemAllocNodeParams: pinned memory of the graph's device.

    hipErrorInvalidValue for other memory, for 0 bytes, and as for `hipGraphAddKernelNode`; hipErrorOutOfMemory;
    hipErrorNotSupported for memory of another device than the graph's.
    """
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    check_params(pNodeParams, hipMemAllocNodeParams)
    params: hipMemAllocNodeParams = pNodeParams
    check_params(params.poolProps, facts.hipMemPoolProps)
    check_params(params.poolProps.location, facts.hipMemLocation)
    where, nbytes = params.poolProps.location, size_of(params.bytesize)
    if params.poolProps.allocType != PINNED or where.type != ON_DEVICE:
        raise invalid("a graph allocates pinned memory of a device only")
    if nbytes == 0:
        raise invalid("an allocation of 0 bytes")
    if not 0 <= where.id < len(infos()) or not 0 <= params.accessDescCount <= len(infos()):
        raise invalid(f"there is no device {where.id}, or there are no {params.accessDescCount}")
    if where.id != number_of(made.device):
        raise HipError(hipError_t.hipErrorNotSupported, f"the graph is of device {number_of(made.device)}")
    node = made.add_alloc(nbytes, "u1", after=after)
    params.dptr = hand_out(DeviceArray, node.work.buffer, facts.hipMemoryType.hipMemoryTypeDevice, pooled=True)  # type: ignore[attr-defined]
    return known.handle_of(node)


@api(outputs=1)
def hipGraphMemAllocNodeGetParams(node: Any) -> hipMemAllocNodeParams:
    """Return ``(hipError_t, hipMemAllocNodeParams)``; hipErrorInvalidValue when the node allocates no memory."""
    work = _node_that(node, "alloc").node.work
    number = number_of(work.buffer.device)
    props = facts.hipMemPoolProps(allocType=PINNED, location=facts.hipMemLocation(type=ON_DEVICE, id=number))
    return hipMemAllocNodeParams(poolProps=props, bytesize=work.buffer.nbytes, dptr=_memory_pointer(work))


def _memory_pointer(work: Any) -> DeviceArray:
    return DeviceArray(allocations.base_of(work.memory), (work.memory.nbytes,))


@api(outputs=1)
def hipGraphAddMemFreeNode(graph: Any, pDependencies: Any, numDependencies: int, dev_ptr: Any) -> hipGraphNode:
    """Add what frees memory that this graph allocates, or a launch of another one before; ``(hipError_t, node)``.

    `dev_ptr` is the memory: what was set as ``dptr`` by `hipGraphAddMemAllocNode`.

    hipErrorInvalidValue for other memory, for what this graph frees already, for what another graph both allocates and
    frees, and as for `hipGraphAddKernelNode`.
    """
    known, to, after = begin_node(graph, pDependencies, numDependencies)
    address, _ = address_of(dev_ptr)
    allocation = allocations.peek(address)
    if allocation is None:
        raise invalid(f"no allocation begins at {address:#x}")
    return known.handle_of(to.add_free(allocation.memory, after=after))


hipDrvGraphAddMemFreeNode: HipFunction = alias(
    hipGraphAddMemFreeNode, "hipDrvGraphAddMemFreeNode", graph="hGraph", pDependencies="dependencies", dev_ptr="dptr"
)


@api()
def hipGraphMemFreeNodeGetParams(node: Any, dev_ptr: Any) -> None:
    """Write the pointer to the memory that a node frees to where `dev_ptr` points; ``(hipError_t,)``.

    hipErrorInvalidValue when the node frees no memory, and for None.
    """
    work = _node_that(node, "free").node.work
    write(dev_ptr, ctypes.c_uint64(_memory_pointer(work).address), "dev_ptr")


# -- figures


def _attribute(attr: Any) -> str:
    return ATTRIBUTES[enumerator(Attr, attr, "memory of graphs has no attribute")]


@api()
def hipDeviceGetGraphMemAttribute(device: int, attr: int, value: Any) -> None:
    """Write a figure of the memory of graphs to where `value` points, 64 bits; ``(hipError_t,)``.

    Parameters
    ----------
    device : int
    attr : hipGraphMemAttributeType
        Used is what launches have handed out and that is not freed, reserved what was allocated from the driver for
        graphs: memory is from the making of its node on. The peak of what was used has what graphs free themselves.
    value : object
        ctypes.c_uint64, an array, a pointer.

    hipErrorInvalidDevice for another device, hipErrorInvalidValue for another attribute and None.
    """
    figures = figures_of(device_of(device_number(device)))
    name = _attribute(attr)
    write(value, ctypes.c_uint64(getattr(figures, name)), "value")


@api()
def hipDeviceSetGraphMemAttribute(device: int, attr: int, value: Any) -> None:
    """Begin a peak anew; ``(hipError_t,)``. See `hipDeviceGetGraphMemAttribute`.

    hipErrorInvalidValue for an `attr` that is no peak, and for a `value` other than 0. That is read from where it
    points.
    """
    figures = figures_of(device_of(device_number(device)))
    name = _attribute(attr)
    if not name.endswith("high") or Place(value, 8, "value").bytes().any():
        raise invalid(f"{Attr(attr).name} cannot be set, or to 0 only")
    figures.reset(name)


@api()
def hipDeviceGraphMemTrim(device: int) -> None:
    """Check the device; ``(hipError_t,)``. Memory of graphs goes back to the driver by itself, with what uses it."""
    device_of(device_number(device))


# -- variables of modules


def _bytes(dst: Any, src: Any, count: int, kind: int) -> hipMemcpy3DParms:
    """`count` bytes from `src` to `dst`, of this `kind`."""
    return copy_params(dst, src, count, kind)


def _to(symbol: Any, src: Any, count: int, offset: int, kind: int) -> hipMemcpy3DParms:
    """`count` bytes from `src`, to `offset` bytes into the variable `symbol`, of this `kind`."""
    check_symbol_kind(kind, TO)
    return copy_params(within(symbol, offset), src, count, kind)


def _from(dst: Any, symbol: Any, count: int, offset: int, kind: int) -> hipMemcpy3DParms:
    """`count` bytes to `dst`, from `offset` bytes into the variable `symbol` on, of this `kind`."""
    check_symbol_kind(kind, FROM)
    return copy_params(dst, within(symbol, offset), count, kind)


# What a copy of bytes is, by the end of the names of HIP's functions: what makes its structure, and where more is said.
_COPIES: dict[str, tuple[Any, str]] = {
    "1D": (_bytes, "hipMemcpyAsync"),
    "ToSymbol": (_to, "hipMemcpyToSymbol"),
    "FromSymbol": (_from, "hipMemcpyFromSymbol"),
}


def _of_bytes(end: str) -> tuple[HipFunction, HipFunction, HipFunction]:
    """Return HIP's functions whose names end so, for copy nodes: they add one, and let one copy other bytes."""
    make, see = _COPIES[end]
    of_copy = list(inspect.signature(make).parameters.values())

    def of(name: str, first: str, does: str, function: Any, returns: str = "None") -> HipFunction:
        kinds = {each: "int" if each.startswith("num") else "Any" for each in first.split()}
        own = [inspect.Parameter(each, POSITIONAL, annotation=kind) for each, kind in kinds.items()]
        doc = f"""{does}.

    {make.__doc__} {listed(kinds)} as for `{name}`.

    See `{see}` for what is copied. hipErrorInvalidValue for 0 bytes.
    """

        def call(*given: Any) -> Any:
            return function(*given[: len(own)], "copy", make(*given[len(own) :]))

        return made(f"{name}{end}", [*own, *of_copy], doc, call, int(returns != "None"), returns)

    added = "Add a copy of bytes; ``(hipError_t, node)``. Memory of the host is read, or written, when the graph runs"
    now = "Let a node copy other bytes in what is instantiated from now on; ``(hipError_t,)``"
    then = "Let a node copy other bytes from the next launch of an executable graph on; ``(hipError_t,)``"
    return (
        of("hipGraphAddMemcpyNode", "graph pDependencies numDependencies", added, add_node, "hipGraphNode"),
        of("hipGraphMemcpyNodeSetParams", "node", now, _set),
        of("hipGraphExecMemcpyNodeSetParams", "hGraphExec node", then, _set_in),
    )


hipGraphAddMemcpyNode1D: HipFunction
hipGraphMemcpyNodeSetParams1D: HipFunction
hipGraphExecMemcpyNodeSetParams1D: HipFunction
hipGraphAddMemcpyNodeToSymbol: HipFunction
hipGraphMemcpyNodeSetParamsToSymbol: HipFunction
hipGraphExecMemcpyNodeSetParamsToSymbol: HipFunction
hipGraphAddMemcpyNodeFromSymbol: HipFunction
hipGraphMemcpyNodeSetParamsFromSymbol: HipFunction
hipGraphExecMemcpyNodeSetParamsFromSymbol: HipFunction
globals().update({function.__name__: function for end in _COPIES for function in _of_bytes(end)})
