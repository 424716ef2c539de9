"""The sizes of scratch in graphs.

A node remembers what the sizes of its scratch are read from. A launch of the graph uses sizes that were read before for
as long as nothing may have been written there, which costs it one integer comparison for each buffer. The graph itself
must not write there, or the size would be that of another moment.
"""

from typing import TYPE_CHECKING

from libc.stdint cimport uintptr_t

from forebay.core.uses cimport Seen, generation_of
from forebay.queues.graphs.work cimport KernelWork, ListWork, Work
from forebay.queues.launch.scratch cimport known_of, reductions_of, sizes_of
from forebay.queues.memory.buffer cimport Buffer

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


cdef inline object id_of(Buffer buffer):
    return <uintptr_t> buffer.allocation.uses


cdef list works_with_scratch(object works):
    """Return the launches with scratch, also those in lists."""
    cdef list found = []
    for work in works:
        if type(work) is ListWork:
            found += works_with_scratch((<ListWork> work).works)
        elif type(work) is KernelWork and (<KernelWork> work).scratch:
            found.append(work)
    return found


cdef Sizes read_sizes(object queue, QueueState* state, tuple works, bint have_scratch):
    """Read the sizes, if some work has scratch. What is not known must be measured on `queue`, which blocks; for None
    it stays unknown.
    """
    cdef Sizes sizes = Sizes.__new__(Sizes)
    cdef KernelWork work
    cdef Buffer buffer
    cdef dict seen = {}
    sizes.works = works
    sizes.by_work = {}
    sizes.lasting = True
    sizes.moment.unseen_writes = state.device.unseen_writes.load()
    launches = works_with_scratch(works) if have_scratch else []
    buffers = [buffer for work in launches for buffer in work.measured.values()]
    for buffer in buffers:  # first, so that a write from now on is noticed
        sizes.lasting = sizes.lasting and buffer.allocation.exposed == 0
        if id_of(buffer) not in seen:
            seen[id_of(buffer)] = True
            sizes.moment.seen.push_back(Seen(buffer.allocation.uses, generation_of(buffer.allocation.uses)))
    reduced = reductions_of(queue, state, buffers)
    if reduced is None:
        sizes.lasting = False
        return sizes
    left = iter(reduced)
    for work in launches:
        mine = [next(left) for _ in work.measured]
        sizes.by_work[work] = sizes_of(work.kernel, work.scratch, known_of(work.scalars, work.measured, mine))
    return sizes


cdef bint overlap(tuple one, tuple other):
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


cdef class Accesses:
    """What the works of a graph write to, and what sizes of their scratch are read from."""

    cdef list unsorted  # works, added while no size was read from anything
    cdef dict written  # the Work by allocation and (start, nbytes)
    cdef dict read  # (KernelWork, leaf, Buffer) by allocation and (start, nbytes)
    cdef Work follows  # one that follows pointers, so it may write anywhere; or None

    def __cinit__(self) -> None:
        self.unsorted, self.written, self.read = [], {}, {}

    def add(self, works: Sequence[Work]) -> None:
        """Add works.

        Raises
        ------
        InvalidArgumentError
            When one may write to what the size of another's scratch is read from, or its own. Nothing is added then.
        """
        cdef Work work, follows = self.follows
        cdef KernelWork launch
        cdef Buffer buffer
        cdef dict read = {}, written = {}
        cdef bint any_measures = bool(self.read)
        for work in works:
            any_measures = any_measures or work.measures
        if not any_measures:
            self.unsorted.extend(works)
            return
        works = [*self.unsorted, *works]
        for work in works:
            if work.follows:
                follows = work
            for buffer in work.writes:
                written.setdefault(id_of(buffer), {})[buffer.start, buffer.nbytes] = work
        for launch in works_with_scratch(works):
            for leaf, buffer in launch.measured.items():
                read.setdefault(id_of(buffer), {})[buffer.start, buffer.nbytes] = launch, leaf, buffer
        if follows is not None:
            for entry in (*self.read.values(), *read.values()):
                refuse(next(iter(entry.values())), follows)
        for of, among in ((read, self.written), (read, written), (self.read, written)):
            for allocation in of.keys() & among.keys():
                for part, entry in of[allocation].items():
                    for other, writer in among[allocation].items():
                        if overlap(part, other):
                            refuse(entry, writer)
        self.unsorted, self.follows = [], follows
        for into, new in ((self.written, written), (self.read, read)):
            for allocation, parts in new.items():
                into.setdefault(allocation, {}).update(parts)


cdef object refuse(tuple entry, Work writer):
    cdef KernelWork launch = entry[0]
    leaf, buffer = entry[1:]
    names = [launch.kernel.parameters[index].name for index, size in launch.scratch if leaf in size.leaves()]
    why = "follows pointers, so it may write there" if writer.follows and buffer not in writer.writes else (
        "may write there")
    raise InvalidArgumentError(
        f"kernel {launch.kernel.name!r}: the size of its scratch {names[0]!r} is read from {buffer!r} ({leaf!r}) "
        f"before the graph runs, and {writer!r} of the same graph {why}")
