"""The shape of a graph: the order of its nodes, and what two graphs must share for one to replace the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay.core.errors import GraphUpdateError, InvalidArgumentError
from forebay.queues.graphs.work import ListWork
from forebay.queues.memory.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.queues.graphs.graph import Node


def serial_order(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, each after all its dependencies, otherwise in the order in which they were added.

    Raises
    ------
    InvalidArgumentError
        When the dependencies form a circle.
    """
    from graphlib import CycleError, TopologicalSorter
    from heapq import heappop, heappush

    at = {node: i for i, node in enumerate(nodes)}
    sorter = TopologicalSorter({i: [at[other] for other in node.dependencies] for node, i in at.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1]
        raise InvalidArgumentError(f"{nodes[circle[0]]!r} depends on itself, through others") from None
    ready: list[int] = []
    ordered = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, i)
        ordered.append(nodes[heappop(ready)])
        sorter.done(at[ordered[-1]])
    return ordered


def shape_of(ordered: Sequence[Node]) -> list[tuple[Any, ...]]:
    """Return what two graphs must share for one to replace the other (the rule of CUDA and HIP).

    That is each node's kind, its dependencies, and the kinds of memory between which it copies.
    """
    at = {node: i for i, node in enumerate(ordered)}
    return [
        (node.kind, sorted([at[other] for other in node.dependencies]), direction_of(node.work)) for node in ordered
    ]


def direction_of(work: Any) -> Any:
    """Return between which kinds of memory a work copies; for a graph that of each work, None for all others."""
    if work.kind == "graph":
        return [(each.kind, direction_of(each)) for each in work.works]
    if work.kind != "copy":
        return None
    if type(work) is ListWork:
        return direction_of(work.works[0])
    return " to ".join(["device" if isinstance(end, Buffer) else "host" for end in (work.src, work.dst)])


def check_same_shape(ordered: Sequence[Node], expected: Sequence[tuple[Any, ...]]) -> None:
    """Check that nodes, in their serial order, have the shape of an executable.

    Raises
    ------
    GraphUpdateError
        When they do not; it says in what they differ.
    """
    shape = shape_of(ordered)
    if len(shape) != len(expected):
        raise GraphUpdateError(f"the other graph has {len(shape)} nodes, this one {len(expected)}", "nodes")
    for i, (there, here) in enumerate(zip(shape, expected, strict=True)):
        if there[0] != here[0]:
            raise GraphUpdateError(
                f"node {i} of the other graph is of kind {there[0]!r}, here {here[0]!r}", "kind", ordered[i]
            )
        if there[1] != here[1]:
            raise GraphUpdateError(
                f"node {i} of the other graph depends on nodes {there[1]}, here on {here[1]}",
                "dependencies",
                ordered[i],
            )
        if there[2] != here[2]:
            does, reason = ("copies", "direction") if there[0] == "copy" else ("does", "nodes")
            raise GraphUpdateError(f"node {i} of the other graph {does} {there[2]}, here {here[2]}", reason, ordered[i])
