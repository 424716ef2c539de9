"""Nodes that record events, and nodes that wait for them."""

from __future__ import annotations

from typing import Any

from forebay.core.errors import InvalidArgumentError
from forebay.hip.errors import HipError, api
from forebay.hip.events import event_of, ihipEvent_t
from forebay.hip.facts import hipError_t
from forebay.hip.graph_nodes import begin_node
from forebay.hip.graphs import executable_of, hipGraphNode, node_of
from forebay.hip.graphs_parts import (
    Mark,
    PartedGraph,
    event_work,
    mark_of,
)
from forebay.hip.graphs_works import invalid
from forebay.queues.graphs.executable import Work


def _work(kind: str, event: Any, device: Any) -> Work:
    try:
        handle = event_of(event)
    except HipError as error:
        raise invalid(str(error)) from error
    if handle.event is None:
        raise HipError(hipError_t.hipErrorInvalidHandle, "an event that processes share is in no graph")
    if handle.event.device._context is not device._context:
        raise invalid("the event and the graph are of two devices")
    return event_work(kind, handle)


def _add(kind: str, graph: Any, dependencies: Any, count: Any, event: Any) -> hipGraphNode:
    known, made, after = begin_node(graph, dependencies, count)
    return known.handle_of(made._insert(_work(kind, event, made.device), after))


def _known(node: Any, kind: str) -> tuple[hipGraphNode, Mark]:
    known = node_of(node)
    assert known.node is not None
    mark = mark_of(known.node.work)
    if mark is None or mark.kind != kind:
        raise invalid(f"this node does not {kind} an event")
    return known, mark


def _set(node: Any, kind: str, event: Any) -> None:
    known, _ = _known(node, kind)
    assert known.node is not None
    graph = known.node.graph
    assert graph is not None
    graph._replace({known.node: _work(kind, event, graph.device)})


def _set_in(executable: Any, node: Any, kind: str, event: Any) -> None:
    made, (known, _) = executable_of(executable), _known(node, kind)
    assert known.node is not None
    mark = mark_of(_work(kind, event, made.device))
    assert mark is not None
    if not isinstance(made, PartedGraph):
        raise HipError(hipError_t.hipErrorInvalidValue, "this executable graph has no nodes for events")
    try:
        made.set_event(known.node, mark)
    except InvalidArgumentError as error:
        raise invalid(str(error)) from error


@api(outputs=1)
def hipGraphAddEventRecordNode(graph: Any, pDependencies: Any, numDependencies: int, event: Any) -> hipGraphNode:
    """Add a node that records an event each time the graph runs; ``(hipError_t, node)``.

    `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`.

    The graph is cut there: what comes later in the order of its nodes comes after what is before. See
    `hipGraphAddKernelNode` for dependencies. hipErrorInvalidValue without an event, or for another device's. A graph
    with such nodes has no nodes for memory, and cannot be launched in a capture or become a child
    (hipErrorNotSupported).
    """
    return _add("record", graph, pDependencies, numDependencies, event)


@api(outputs=1)
def hipGraphAddEventWaitNode(graph: Any, pDependencies: Any, numDependencies: int, event: Any) -> hipGraphNode:
    """Add a node that waits for an event as it was last recorded when the graph is launched; ``(hipError_t, node)``.

    `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`, `event` as there.

    See `hipGraphAddEventRecordNode`.
    """
    return _add("wait", graph, pDependencies, numDependencies, event)


@api(outputs=1)
def hipGraphEventRecordNodeGetEvent(node: Any) -> ihipEvent_t:
    """Return ``(hipError_t, event)`` of a node; hipErrorInvalidValue when it does not record one."""
    return _known(node, "record")[1].handle


@api(outputs=1)
def hipGraphEventWaitNodeGetEvent(node: Any) -> ihipEvent_t:
    """Return ``(hipError_t, event)`` of a node; hipErrorInvalidValue when it does not wait for one."""
    return _known(node, "wait")[1].handle


@api()
def hipGraphEventRecordNodeSetEvent(node: Any, event: Any) -> None:
    """Let a node record another event in what is instantiated from now on; ``(hipError_t,)``.

    hipErrorInvalidValue for another node, without an event, and for another device's.
    """
    _set(node, "record", event)


@api()
def hipGraphEventWaitNodeSetEvent(node: Any, event: Any) -> None:
    """Let a node wait for another event in what is instantiated from now on; ``(hipError_t,)``.

    Errors as for `hipGraphEventRecordNodeSetEvent`.
    """
    _set(node, "wait", event)


@api()
def hipGraphExecEventRecordNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    """Let a node record another event from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `hNode` a node of the graph it was made from, and `event` the other event.

    hipErrorInvalidValue when it is no such node of the graph that this was instantiated from, and as for
    `hipGraphEventRecordNodeSetEvent`.
    """
    _set_in(hGraphExec, hNode, "record", event)


@api()
def hipGraphExecEventWaitNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    """Let a node wait for another event from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec`, `hNode` and `event` as there.

    Errors as for `hipGraphExecEventRecordNodeSetEvent`.
    """
    _set_in(hGraphExec, hNode, "wait", event)
