"""The nodes of graphs: adding them, and asking for them. Dependencies are given as a list and its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebay.hip.copies import CopyOnHost
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t, hipGraphNodeType
from forebay.hip.graphs import (
    copy_of,
    graph_of,
    hipGraphNode,
    ihipGraph,
    node_of,
    nodes_in,
)
from forebay.hip.graphs_parts import has_marks, mark_of
from forebay.hip.graphs_works import (
    copy_params,
    copy_work,
    host_work,
    invalid,
    kernel_work,
    memset_work,
)
from forebay.queues.graphs.executable import Work
from forebay.queues.graphs.graph import Graph, Node

TYPES = {
    "kernel": hipGraphNodeType.hipGraphNodeTypeKernel,
    "copy": hipGraphNodeType.hipGraphNodeTypeMemcpy,
    "fill": hipGraphNodeType.hipGraphNodeTypeMemset,
    "host": hipGraphNodeType.hipGraphNodeTypeHost,
    "empty": hipGraphNodeType.hipGraphNodeTypeEmpty,
    "alloc": hipGraphNodeType.hipGraphNodeTypeMemAlloc,
    "free": hipGraphNodeType.hipGraphNodeTypeMemFree,
    "graph": hipGraphNodeType.hipGraphNodeTypeGraph,
    "record": hipGraphNodeType.hipGraphNodeTypeEventRecord,
    "wait": hipGraphNodeType.hipGraphNodeTypeWaitEvent,
}


def begin_node(graph: Any, dependencies: Any, count: Any) -> tuple[ihipGraph, Graph, tuple[Node, ...]]:
    """Return the graph, and what a new node of it comes after."""
    known = graph_of(graph)
    assert known.graph is not None
    after: list[Node] = []
    for each in nodes_in(dependencies, count, "dependencies"):
        assert each.node is not None
        if each.node in after:
            raise invalid("a dependency is given twice")
        after.append(each.node)
    return known, known.graph, tuple(after)


# -- adding


def add_node(graph: Any, dependencies: Any, count: Any, params: Any, make: Callable[[Any, Any], Work]) -> hipGraphNode:
    """Add what `make` makes for a device from this structure, of which the node keeps a copy."""
    known, made, after = begin_node(graph, dependencies, count)
    work = make(made.device, params)
    handle = known.handle_of(made._insert(work, after))
    handle.params = params.copy()
    return handle


@api(outputs=1)
def hipGraphAddKernelNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a launch; ``(hipError_t, node)``. The arguments' values are those of now.

    `graph` is what `hipGraphCreate` or a capture returned; hipErrorInvalidValue for one that was destroyed.

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
    return add_node(graph, pDependencies, numDependencies, pNodeParams, kernel_work)


@api(outputs=1)
def hipGraphAddMemcpyNode1D(
    graph: Any, pDependencies: Any, numDependencies: int, dst: Any, src: Any, count: int, kind: int
) -> hipGraphNode:
    """Add a copy; ``(hipError_t, node)``. Memory of the host is read, or written, each time the graph runs.

    `count` bytes from `src` to `dst`, of this `kind`; `pDependencies` and `numDependencies` as for
    `hipGraphAddKernelNode`.

    See `hipMemcpyAsync` for what is copied and `hipGraphAddKernelNode` for dependencies. hipErrorInvalidValue for 0
    bytes.
    """
    return add_node(graph, pDependencies, numDependencies, copy_params(dst, src, count, kind), copy_work)


@api(outputs=1)
def hipGraphAddMemcpyNode(graph: Any, pDependencies: Any, numDependencies: int, pCopyParams: Any) -> hipGraphNode:
    """Add a copy of rows and planes; ``(hipError_t, node)``.

    `graph`, `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`.

    Parameters
    ----------
    pCopyParams : hipMemcpy3DParms

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for an empty extent and
    for rows that are not all in an array; hipErrorInvalidPitchValue for a pitch below the width.
    """
    return add_node(graph, pDependencies, numDependencies, pCopyParams, copy_work)


@api(outputs=1)
def hipGraphAddMemsetNode(graph: Any, pDependencies: Any, numDependencies: int, pMemsetParams: Any) -> hipGraphNode:
    """Add what sets memory of the device to a value; ``(hipError_t, node)``.

    `graph`, `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`.

    Parameters
    ----------
    pMemsetParams : hipMemsetParams

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for memory that is not from
    here or too small, an empty extent, elements of other than 1, 2 or 4 bytes, and a pitch below the width.
    """
    return add_node(graph, pDependencies, numDependencies, pMemsetParams, memset_work)


@api(outputs=1)
def hipGraphAddHostNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a host function; ``(hipError_t, node)``.

    `graph`, `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`.

    Parameters
    ----------
    pNodeParams : hipHostNodeParams

    See `hipLaunchHostFunc`. hipErrorInvalidValue without a function.
    """
    return add_node(graph, pDependencies, numDependencies, pNodeParams, lambda _, params: host_work(params))


@api(outputs=1)
def hipGraphAddEmptyNode(graph: Any, pDependencies: Any, numDependencies: int) -> hipGraphNode:
    """Add a node that does nothing, for others to depend on; ``(hipError_t, node)``.

    `graph`, `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`, where the errors are.
    """
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    return known.handle_of(made.add_empty(after=after))


@api(outputs=1)
def hipGraphAddChildGraphNode(graph: Any, pDependencies: Any, numDependencies: int, childGraph: Any) -> hipGraphNode:
    """Add all that another graph's nodes do now; ``(hipError_t, node)``. What changes there later does not change it.

    `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`. `childGraph` is the other graph.

    hipErrorNotSupported for a graph with nodes for memory or events; hipErrorInvalidValue for one of another device, or
    with nodes that depend on each other in a circle, and as for `hipGraphAddKernelNode`.
    """
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    child = graph_of(childGraph)
    assert child.graph is not None
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

    `from_` and `to` are lists of nodes of `graph`, and the first `numDependencies` of each count.

    Nothing has changed after hipErrorInvalidValue: for nodes of another graph, a node that is to come after itself, and
    a dependency that exists already. `hipGraphInstantiate` checks for circles.
    """
    known = graph_of(graph)
    assert known.graph is not None
    edges = _edges_in(known, from_, to, numDependencies)
    for i, (earlier, later) in enumerate(edges):
        if earlier is later or (earlier, later) in edges[:i] or earlier in later.dependencies:
            raise invalid("a node comes after itself, or after another one already")
    for edge in edges:
        known.graph.add_dependency(*edge)


def _edges_in(known: ihipGraph, from_: Any, to: Any, count: Any) -> list[tuple[Node, Node]]:
    edges = []
    for earlier, later in zip(nodes_in(from_, count, "dependencies"), nodes_in(to, count, "dependencies"), strict=True):
        assert earlier.node is not None
        assert later.node is not None
        if earlier.graph is not known or later.graph is not known:
            raise invalid("a node belongs to another graph")
        edges.append((earlier.node, later.node))
    return edges


@api()
def hipGraphRemoveDependencies(graph: Any, from_: Any, to: Any, numDependencies: int) -> None:
    """Let no node of `to` come after the one of `from_` at the same place any more; ``(hipError_t,)``.

    `from_` and `to` are lists of nodes of `graph`, and the first `numDependencies` of each count.

    Nothing has changed after hipErrorInvalidValue: for nodes of another graph, and a dependency that does not exist or
    is given twice.
    """
    known = graph_of(graph)
    assert known.graph is not None
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
        assert later.node is not None
        found += [(known.handle_of(node), later) for node in later.node.dependencies]
    return found


@api(outputs=2)
def hipGraphGetNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)``: a list, in the order they were added in.

    `graph` is any graph; hipErrorInvalidValue for one that was destroyed.
    """
    nodes = graph_of(graph).nodes
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphGetRootNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of those that come after no other.

    `graph` is any graph; hipErrorInvalidValue for one that was destroyed.
    """
    nodes = [node for node in graph_of(graph).nodes if node.node is not None and not node.node.dependencies]
    return nodes, len(nodes)


@api(outputs=3)
def hipGraphGetEdges(graph: Any) -> tuple[list[hipGraphNode], list[hipGraphNode], int]:
    """Return ``(hipError_t, from, to, count)``: the second list's nodes come after the first's at the same place.

    `graph` is any graph; hipErrorInvalidValue for one that was destroyed.
    """
    edges = _edges(graph_of(graph))
    return [earlier for earlier, _ in edges], [later for _, later in edges], len(edges)


@api(outputs=2)
def hipGraphNodeGetDependencies(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what a node comes after."""
    known = node_of(node)
    assert known.graph is not None
    nodes = [earlier for earlier, later in _edges(known.graph) if later == known]
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphNodeGetDependentNodes(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what comes after a node."""
    known = node_of(node)
    assert known.graph is not None
    nodes = [later for earlier, later in _edges(known.graph) if earlier == known]
    return nodes, len(nodes)


@api(outputs=1)
def hipGraphNodeGetType(node: Any) -> hipGraphNodeType:
    """Return ``(hipError_t, hipGraphNodeType)``.

    `node` is any node; hipErrorInvalidValue when its graph was destroyed.
    """
    known = node_of(node)
    assert known.node is not None
    mark = mark_of(known.node.work)
    if mark is not None:
        return TYPES[mark.kind]
    return TYPES["copy" if copies_on_host(known.node.work) else known.node.kind]


@api(outputs=1)
def hipGraphNodeFindInClone(originalNode: Any, clonedGraph: Any) -> hipGraphNode:
    """Return ``(hipError_t, node)`` of a graph that `hipGraphClone` made: the copy of this node.

    `originalNode` is a node of the graph that was cloned, and `clonedGraph` its clone.

    hipErrorInvalidValue when it has none.
    """
    original, clone = node_of(originalNode), graph_of(clonedGraph)
    assert original.node is not None
    copied = clone.copies.get(original.node)
    if copied is None:
        raise invalid("this graph has no copy of this node")
    return clone.handle_of(copied)


def copies_on_host(work: Work) -> bool:
    """Whether it is a copy within memory of the host, which is a function for forebay."""
    return isinstance(getattr(work, "function", None), CopyOnHost)
