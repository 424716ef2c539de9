"""Races of the nodes of a graph with each other: those that use the same memory and do not depend on each other."""

from typing import TYPE_CHECKING

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.state cimport QueueState
from forebay.races.checker cimport tell_of_nodes
from forebay.races.engine cimport APART, WRITES, Use, overlap

from forebay.races.reports import Names

if TYPE_CHECKING:
    from forebay.queues.graphs.graph import Node

cdef enum:
    MOST_USES = 1000  # of one piece of memory in one graph, which are compared with each other


cdef list ancestors_of(list dependencies):
    """Return the nodes that each comes after, as bits. None when they are one chain."""
    before = []
    chain = True
    for i, earlier in enumerate(dependencies):
        mask = 0
        for other in earlier:
            mask |= before[other] | 1 << other
        before.append(mask)
        chain = chain and mask == (1 << i) - 1
    return None if chain else before


cdef int check_nodes(
    object queue, QueueState* state, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1:
    cdef size_t i, j
    before = ancestors_of(dependencies)
    if before is None:
        return 0
    by_memory: dict[int, list[int]] = {}
    for i in range(uses.size()):
        by_memory.setdefault(<uint64_t> uses[i].memory, []).append(i)
    for together in by_memory.values():
        for at, first in enumerate(together[:MOST_USES]):
            i = first
            for second in together[at + 1:MOST_USES]:
                j = second
                if (
                    owners[i] != owners[j] and (uses[i].flags | uses[j].flags) & WRITES
                    and not before[owners[j]] >> owners[i] & 1 and not before[owners[i]] >> owners[j] & 1
                    and overlap(uses[i], uses[j]) != APART
                ):
                    tell_of_nodes(
                        queue, state, uses[i], uses[j], missing_edge(nodes[owners[i]], nodes[owners[j]]))
    return 0


def missing_edge(first: Node, second: Node) -> tuple[str, str]:
    """Return the line of Python that orders two nodes, and where it belongs."""
    earlier, later = first._captured_on(), second._captured_on()
    if earlier is not None and later is not None:
        names = Names(earlier, later)
        line = names.wait(names.of(later, f"queue_{later.id}"), names.of(earlier, f"queue_{earlier.id}"))
        return line, f"in the capture, before {second._place}"
    names = Names(first.graph, first, second)
    return (
        f"{names.of(first.graph, 'graph')}.add_dependency({names.of(first, 'first')}, {names.of(second, 'second')})",
        "before the graph is launched")
