"""Graphs: each is a `forebay.Graph`, and what `hipGraphInstantiate` makes of it a `forebay.ExecutableGraph`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from forebay.core.errors import ArgumentTypeError, ClosedError, GraphUpdateError
from forebay.core.process import Numbers
from forebay.hip.compiled.calls import note_returned
from forebay.hip.devices import _on_reset, current_device, number_of
from forebay.hip.errors import HipError, Result, api, code_of, record
from forebay.hip.facts import hipError_t, hipGraphExecUpdateResult, hipGraphInstantiateFlags
from forebay.hip.graphs_parts import PartedGraph, has_marks, instantiate
from forebay.hip.pointers import Number, address_of, handle_number
from forebay.hip.streams import queue_of
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.graphs.graph import Graph, Node

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
        self.node: Node | None = None
        self.graph: ihipGraph | None = None
        self.params: Any = None
        self.child: ihipGraph | None = None


class ihipGraph(Number):
    """A graph; compares, hashes and converts like its number. `graph` is the `forebay.Graph`."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
        self.graph: Graph | None = None
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
        assert self.graph is not None
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


def _forget(number: int) -> None:
    for graph in list(_graphs.values()):
        if graph.graph is None or number_of(graph.graph.device) == number:
            _graphs.pop(graph.address, None)
            graph.forget_nodes()  # they know their graph, so nothing would go before the collector comes
    for executable in list(_executables.values()):
        if executable.executable is None or number_of(executable.executable.device) == number:
            _executables.pop(executable.address, None)


_on_reset.append(_forget)


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

    Raises
    ------
    HipError
        hipErrorInvalidValue if it never was a graph, or is destroyed.
    """
    if isinstance(thing, Graph):
        return handle_of_graph(thing)
    known = _graphs.get(handle_number(thing, "a graph"))
    if known is None or known.graph is None or known.graph.closed:  # by a capture that failed
        raise HipError(hipError_t.hipErrorInvalidValue, "this graph is destroyed, or never was one")
    return known


def node_of(thing: Any) -> hipGraphNode:
    """Return the node of this object or number; hipErrorInvalidValue as for `graph_of`."""
    known = _nodes.get(handle_number(thing, "a node of a graph"))
    if known is None or known.graph is None or _graphs.get(known.graph.address) is not known.graph:
        raise HipError(hipError_t.hipErrorInvalidValue, "this node's graph is destroyed, or it never was a node")
    return known


def executable_of(thing: Any) -> ExecutableGraph | PartedGraph:
    """Return the executable graph of this object or number; hipErrorInvalidValue as for `graph_of`."""
    if type(thing) is hipGraphExec and thing.executable is not None and not thing.executable.closed:
        return thing.executable  # closed when it is destroyed
    if isinstance(thing, ExecutableGraph):
        return thing
    known = _executables.get(handle_number(thing, "an executable graph"))
    if known is None or known.executable is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "this executable graph is destroyed, or never was one")
    return known.executable


@contextlib.contextmanager
def invalid_values() -> Iterator[None]:
    """Turn closed objects and wrong arguments of a kernel into hipErrorInvalidValue."""
    try:
        yield
    except (ClosedError, ArgumentTypeError) as error:
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error


@api(outputs=1)
def hipGraphCreate(flags: int = 0) -> ihipGraph:
    """Make a graph without nodes on the current device; ``(hipError_t, graph)``.

    hipErrorInvalidValue for `flags` other than 0.
    """
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipGraphCreate: flags have to be 0, not {flags}")
    return handle_of_graph(current_device().graph())


@api()
def hipGraphDestroy(graph: Any) -> None:
    """Destroy a graph and its nodes; executable graphs made from it stay; ``(hipError_t,)``. Does not block.

    hipErrorInvalidValue for None, for one that was destroyed before, and for one that a stream still captures into.
    """
    known = graph_of(graph)
    assert known.graph is not None
    if known.graph._captured:
        raise HipError(hipError_t.hipErrorInvalidValue, "this graph is still being captured")
    if _graphs.pop(known.address, None) is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "another thread has just destroyed it")
    known.graph.close()
    known.forget_nodes()


def copy_of(original: ihipGraph) -> ihipGraph:
    """Return a graph with nodes of its own that do the same."""
    assert original.graph is not None
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
        assert known.node is not None
        copied_handle = handle.handle_of(copies[known.node])
        copied_handle.params, copied_handle.child = known.params, known.child
    return handle


@api(outputs=1)
def hipGraphClone(originalGraph: Any) -> ihipGraph:
    """Make a graph with nodes of its own that do the same; ``(hipError_t, graph)``.

    `originalGraph` is any graph; hipErrorInvalidValue for one that was destroyed.

    hipErrorNotSupported for a graph with nodes that allocate or free memory.
    """
    return copy_of(graph_of(originalGraph))


def _instantiate(graph: Any, flags: int) -> hipGraphExec:
    known = graph_of(graph)
    if flags & ~ANY_FLAGS:
        raise HipError(hipError_t.hipErrorInvalidValue, f"instantiating a graph: flags {flags!r}")
    assert known.graph is not None
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
    """Return ``(hipError_t, flags)`` that it was instantiated with; hipErrorInvalidValue when it was destroyed.

    `graphExec` is what `hipGraphInstantiate` returned.
    """
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
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error


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

    `graphExec` is what `hipGraphInstantiate` returned.

    hipErrorInvalidValue for None and for one that was destroyed before.
    """
    executable = executable_of(graphExec)
    _executables.pop(handle_number(graphExec, "an executable graph"), None)
    executable.close()


UPDATE_RESULTS = {
    "nodes": hipGraphExecUpdateResult.hipGraphExecUpdateErrorTopologyChanged,
    "dependencies": hipGraphExecUpdateResult.hipGraphExecUpdateErrorTopologyChanged,
    "kind": hipGraphExecUpdateResult.hipGraphExecUpdateErrorNodeTypeChanged,
    "direction": hipGraphExecUpdateResult.hipGraphExecUpdateErrorParametersChanged,
    "device": hipGraphExecUpdateResult.hipGraphExecUpdateErrorUnsupportedFunctionChange,
    "memory": hipGraphExecUpdateResult.hipGraphExecUpdateErrorNotSupported,
}


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
            raise HipError(hipError_t.hipErrorInvalidValue, "hErrorNode_out is a null pointer")
        ctypes.c_uint64.from_address(address).value = number


def hipGraphExecUpdate(hGraphExec: Any, hGraph: Any, hErrorNode_out: object) -> Result:
    """Let an executable graph do what the nodes of a graph do; ``(hipError_t, hipGraphExecUpdateResult)``.

    `hGraphExec` is the executable graph, and `hGraph` the graph.

    Parameters
    ----------
    hErrorNode_out : hipGraphNode, list or pointer
        Gets the first node that does not fit. hipErrorInvalidValue for None.

    hipErrorGraphExecUpdateFailure when the graph differs in more than what nodes do, or in which way they copy; nothing
    has changed then, and the result says why. Launches under way are not changed.
    """
    try:
        executable, known = executable_of(hGraphExec), graph_of(hGraph)
        _put_node(hErrorNode_out, None)
        assert known.graph is not None
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
        raise HipError(hipError_t.hipErrorInvalidValue, "the path is empty")
    assert known.graph is not None
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
        raise HipError(hipError_t.hipErrorInvalidValue, f"{count} {what}, given as {given!r}")
    if isinstance(given, hipGraphNode):
        given = [given]
    if not isinstance(given, (list, tuple, ctypes.Array, np.ndarray)):
        address, _ = address_of(given)
        given = (ctypes.c_void_p * int(count)).from_address(address)
    if len(given) < count:
        raise HipError(hipError_t.hipErrorInvalidValue, f"{count} {what}: there are {len(given)}")
    return tuple(node_of(each) for each in given[: int(count)])
