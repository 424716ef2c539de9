"""What graphs read and write: nodes among each other, when a graph is made, and each launch of one as a command."""

from typing import TYPE_CHECKING

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.state cimport QueueState
from forebay.queues.graphs.work cimport CopyWork, FillWork, KernelWork, ListWork, MemoryWork, PyTupleObject, Work
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue
from forebay.races.checker cimport begin_life, command, tell_of_nodes, wait_for_point, what_of_node
from forebay.races.engine cimport APART, WRITES, Use, overlap
from forebay.races.uses cimport add_buffer, add_host, add_launch

from forebay.races.reports import Names

if TYPE_CHECKING:
    from forebay.queues.graphs.graph import Node

cdef enum:
    MOST_USES = 1000  # of one piece of memory in one graph, which are compared with each other


cdef int add_end(object end, CopyWork work, bint writes, vector[Use]& uses) except -1:
    if isinstance(end, Buffer):
        return add_buffer(end, writes, "copy", uses)
    return add_host(
        end if work.host is None else work.host, work.to.address if writes else work.source.address, work.nbytes,
        writes, "copy", uses)


cdef int add_work(Work work, vector[Use]& uses) except -1:
    cdef KernelWork launched
    if type(work) is KernelWork:
        launched = work
        return add_launch(
            launched.kernel, (<PyTupleObject*> launched.arguments).ob_item, launched.packed.data(),
            &launched.geometry, uses)
    if type(work) is CopyWork:
        add_end((<CopyWork> work).src, work, False, uses)
        return add_end((<CopyWork> work).dst, work, True, uses)
    if type(work) is FillWork:
        return add_buffer((<FillWork> work).buffer, True, "fill", uses)
    if type(work) is MemoryWork:
        return add_buffer((<MemoryWork> work).buffer, True, work.kind, uses)
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            add_work(each, uses)
    return 0


cdef int add_node(Work work, object node, vector[Use]& uses) except -1:
    """Add the uses of a node's work; each says which node it is."""
    cdef size_t i, before = uses.size()
    add_work(work, uses)
    for i in range(before, uses.size()):
        uses[i].what = what_of_node(uses[i].what, node._place)
    return 0


cdef int add_works(tuple works, tuple nodes, vector[Use]& uses) except -1:
    for work, node in zip(works, nodes):
        add_node(work, node, uses)
    return 0


cdef int check_nodes(object device, tuple works, tuple nodes, list dependencies) except -1:
    """Tell the races between nodes that do not depend on each other. `dependencies` are places in `nodes`."""
    cdef vector[Use] uses
    cdef vector[size_t] owners
    cdef size_t i, j
    cdef Queue null_queue
    before = []
    chain = True
    for i in range(len(nodes)):
        mask = 0
        for other in dependencies[i]:
            mask |= before[other] | 1 << other
        before.append(mask)
        chain = chain and mask == (1 << i) - 1
    if chain:
        return 0
    for i in range(len(nodes)):
        add_node(works[i], nodes[i], uses)
        owners.resize(uses.size(), i)
    by_memory: dict[int, list[int]] = {}
    for i in range(uses.size()):
        by_memory.setdefault(<uint64_t> uses[i].memory, []).append(i)
    null_queue = device.null_queue
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
                        null_queue, null_queue.state, uses[i], uses[j],
                        missing_edge(nodes[owners[i]], nodes[owners[j]]))
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


cdef int check_launch(
    object queue, QueueState* state, tuple works, tuple nodes, const void* before, vector[Use]& uses
) except -1:
    wait_for_point(queue, state, before)
    for work in works:
        if type(work) is MemoryWork and (<Work> work).kind == "alloc":
            begin_life(queue, state, (<MemoryWork> work).buffer.allocation.uses)
    add_works(works, nodes, uses)
    return command(queue, state, uses)
