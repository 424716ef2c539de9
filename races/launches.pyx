"""What launches read and write: the bytes of their buffers, by what is known of the kernel.

A pointer that is not const counts as written, as everywhere in forebay, unless `Kernel.reads` says otherwise or the
compiled code shows that nothing writes through it. All bytes of a buffer count as used. But if a kernel has fewer
work-items than elements, or as many only because its grid is rounded up, an integer argument may choose the part that
it uses. Another launch may then choose another part.
"""

import numpy as np

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from forebay.core.driver cimport Geometry
from forebay.core.plan cimport POINTER, VALUE, Parameter
from forebay.core.state cimport AnyQueue
from forebay.core.usage cimport Usage, new_usage
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.allocation cimport add_host_use
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport ATOMIC, DOUBTFUL, GIVEN, NOT_CONST, WRITES, Announcement, Use, announce, on_host

cdef uint64_t EVERYWHERE = <uint64_t> -1
cdef str ATOMIC_TYPE = "atomic_"  # of OpenCL C 2.0: only atomic operations can change what has such a type
cdef int UNIT = -1  # key in `parts` of forebay's kernels that copy strided memory: the bytes that each copies at once
# By the null queue's id, which is unique: the address of a permanent `Usage` that stands for all memory of a context,
# once a kernel may use indirect access.
cdef dict everything = {}


cdef inline int64_t integer_at(const Parameter* parameter, const char* packed) noexcept nogil:
    cdef uint64_t value = 0
    cdef int unused = 64 - 8 * parameter.size
    memcpy(&value, packed + parameter.offset, parameter.size)
    return <int64_t> (value << unused) >> unused if parameter.code >= c"a" else <int64_t> value


cdef uint64_t choice_of(Kernel kernel, const char* packed, const Geometry* geometry, int64_t elements) except? 0:
    """Return a number for the part of this many elements that a launch may have chosen; 0 if it uses all. It may choose
    if its active work-items may be fewer than the elements. If there are more work-items than elements, the last group
    of each dimension may have a single active one, because programs round a part up to whole groups.
    """
    cdef const Parameter* parameter
    cdef int64_t items = 1, least = 1
    for i in range(geometry.dimensions):
        items *= <int64_t> geometry.groups[i] * geometry.block[i]
        least *= <int64_t> (geometry.groups[i] - 1) * geometry.block[i] + 1
    if items == elements or (items > elements and least >= elements):
        return 0
    chosen = []
    for i in range(kernel.count):
        parameter = &kernel.layout[i]
        if parameter.kind == VALUE and parameter.code in b"bBhHiIqQV":
            if parameter.code == c"V" or integer_at(parameter, packed) != elements:  # which gives the size
                chosen.append(packed[parameter.offset:parameter.offset + parameter.size])
    return <uint64_t> <int64_t> hash((kernel.id, items, *chosen)) | 1 if chosen else 0


cdef int64_t evaluated(object size, Kernel kernel, const char* packed, int64_t otherwise) except? -1:
    if size is None:
        return otherwise
    return size.evaluate({
        leaf: integer_at(&kernel.layout[<Py_ssize_t> kernel._index_of(leaf.name)], packed) for leaf in size.leaves()})


cdef list seen_in_code(Kernel kernel):
    """Return, for each parameter, the flags for a pointer that is not const, and the words of its use."""
    cdef list seen
    with cython.critical_section(kernel):
        if kernel.seen is not None:
            return kernel.seen
    seen, shown = [], kernel.accesses(kernel.name)
    for i, parameter in enumerate(kernel.parameters):
        access = shown[i] if len(shown) == kernel.count else ""
        if access == "reads":
            flags = 0
        elif access == "atomics" or (not access and ATOMIC_TYPE in parameter.type_name):
            flags = WRITES | NOT_CONST | ATOMIC
        else:
            flags = WRITES | (0 if access else NOT_CONST)
        seen.append((flags, ("launch", kernel.name, f"{parameter.type_name} {parameter.name}")))
    with cython.critical_section(kernel):
        if kernel.seen is None:
            kernel.seen = seen
        return kernel.seen


cdef Announcement announce_launch(
    AnyQueue queue, Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry
):
    cdef Announcement uses = Announcement(), at_once = Announcement()
    add_launch(kernel, arguments, packed, geometry, uses, at_once)
    on_host(queue.state.device, at_once)
    return announce(queue, uses)


cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, Announcement uses,
    Announcement at_once=None
) except -1:
    cdef Buffer buffer
    cdef int64_t elements, first, end, itemsize
    cdef uint8_t flags
    cdef Py_ssize_t i
    cdef list seen = seen_in_code(kernel)
    cdef dict parts
    with cython.critical_section(kernel):
        parts = kernel.parts
    if parts is not None and UNIT in parts:
        return add_move(kernel, arguments, packed, parts[UNIT], uses)
    for i in range(kernel.count):
        if kernel.layout[i].kind != POINTER:
            continue
        if type(<object> arguments[i]) is not Buffer:
            value = None if at_once is None else getattr(<object> arguments[i], "value", None)  # of a ByValue
            if isinstance(value, np.ndarray):
                add_host_use(value, False, "launch", kernel.state, at_once, at_once)
            continue
        buffer = <Buffer> <object> arguments[i]
        if buffer.nbytes == 0:
            continue
        shown, what = seen[i]
        itemsize = kernel.layout[i].element >> 1
        if itemsize == 0 or buffer.nbytes % itemsize != 0:
            itemsize = buffer.dtype.itemsize
        elements = buffer.nbytes // itemsize
        if parts is not None and i in parts:
            writes, start, stop = parts[i]
            first = max(evaluated(start, kernel, packed, 0), 0)
            end = min(evaluated(stop, kernel, packed, elements), elements)
            if first < end:
                uses.add(
                    buffer.allocation.usage, buffer.start + first * itemsize, (end - first) * itemsize,
                    WRITES if writes else 0, what)
            continue
        flags = shown if kernel.layout[i].writes else 0
        uses.add(
            buffer.allocation.usage, buffer.start, buffer.nbytes, flags, what
        ).choice = choice_of(kernel, packed, geometry, elements)
    return add_followed(kernel, uses) if everything or kernel.follows else 0


cdef int add_followed(Kernel kernel, Announcement uses) except -1:
    """Add that a launch may have used any memory, or that it used some that such a launch may use too."""
    cdef uint8_t flags = DOUBTFUL | (WRITES if kernel.follows else GIVEN)  # two with GIVEN cannot meet there
    cdef uint64_t context = kernel.state.null_queue.epochs.queue_id if kernel.state.null_queue != NULL else 0
    if kernel.follows and context not in everything:
        everything.setdefault(context, <uintptr_t> new_usage().take())
    if context in everything:
        for use in uses.command.uses:
            flags |= use.flags & WRITES
        what = f"{kernel.name}, {'what it finds by pointers' if kernel.follows else 'its arguments'}"
        uses.add(<Usage*> <uintptr_t> everything[context], 0, EVERYWHERE, flags, ("launch", "", what))
    return 0


# -- forebay's launches that copy strided memory


def declare_move(Kernel kernel not None, unit: int) -> None:
    """Declare that a kernel of `queues.memory.shapes` copies strided memory, this many bytes at a time."""
    kernel.parts = {UNIT: unit}


cdef int add_move(
    Kernel kernel, PyObject* const* arguments, const char* packed, int64_t unit, Announcement uses
) except -1:
    """Add a strided copy of these arguments: to, start, from, start, rows, (count, to, from) of x, y, z, and of w."""
    cdef list numbers = [
        integer_at(&kernel.layout[i], packed) if kernel.layout[i].kind == VALUE else 0 for i in range(kernel.count)]
    counts = [*numbers[5:14:3], numbers[4] // (numbers[8] * numbers[11])]
    for end in range(2):
        steps = [step * unit for step in (*numbers[6 + end:14:3], numbers[14 + end])]
        if end == 0 or any(steps) or max(counts) == 1:  # else it repeats one element of forebay's own
            memory, start = <object> arguments[2 * end], numbers[2 * end + 1] * unit
            add_rows(memory, start, unit, counts, steps, end == 0, uses)
    return 0


cdef int add_rows(
    Buffer memory, int64_t start, int64_t unit, list counts, list steps, bint writes, Announcement uses
) except -1:
    cdef Use* use
    axes = sorted([(abs(step), count, step) for step, count in zip(steps, counts) if count > 1])
    width, pitch, doubtful = unit, 0, False
    low = memory.start + start + sum([step * (count - 1) for _, count, step in axes if step < 0])
    span = unit + sum([step * (count - 1) for step, count, _ in axes])
    for step, extent, _ in axes:
        if pitch == 0 and step <= width:
            width += step * (extent - 1)
        elif pitch == 0:
            pitch, rows = step, extent
        elif step == pitch * rows:
            rows *= extent
        else:
            doubtful = True
    use = uses.add(
        memory.allocation.usage, low, span, (WRITES if writes else 0) | (DOUBTFUL if doubtful else 0),
        ("copy", "", "to" if writes else "from"))
    use.pitch, use.width = 0 if doubtful else pitch, width
    return 0
