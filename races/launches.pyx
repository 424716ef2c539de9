"""What launches read and write: the bytes of their buffers, by what is known of the kernel.

A pointer that is not const counts as written, as everywhere in forebay, unless `Kernel.reads` says otherwise or the
compiled code shows that nothing writes through it. All bytes of a buffer count as used. But a kernel that has fewer
work-items than elements, or has as many only because its grid is rounded up, may choose a part by an integer that it is
given, and then another launch may choose another part.
"""

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from forebay.core.driver cimport Geometry
from forebay.core.plan cimport POINTER, VALUE, Parameter
from forebay.core.usage cimport Usage, new_usage
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.allocation cimport add_host_use
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport (
    ATOMIC, DECLARED, DOUBTFUL, GIVEN, NOT_CONST, WRITES, Use, end_use, use_of
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from forebay.queues.memory.shapes import StridedView

cdef uint64_t EVERYWHERE = <uint64_t> -1
cdef dict whats = {}  # what a use of a kernel's argument is called, by the kernel's id and the argument
cdef str ATOMIC_TYPE = "atomic_"  # of OpenCL C 2.0: what such a type has may be changed by atomic operations only


cdef inline uint64_t mix(uint64_t found, uint64_t value) noexcept nogil:
    return (found ^ value) * <uint64_t> 0x9E3779B97F4A7C15 + (found >> 29)


cdef inline int64_t integer_at(const Parameter* parameter, const char* packed) noexcept nogil:
    cdef uint64_t value = 0
    cdef int unused = 64 - 8 * parameter.size
    memcpy(&value, packed + parameter.offset, parameter.size)
    return <int64_t> (value << unused) >> unused if parameter.code >= c"a" else <int64_t> value


cdef uint64_t choice_of(
    Kernel kernel, const char* packed, const Geometry* geometry, uint64_t elements
) noexcept nogil:
    """Return a number for the part of this many elements that a launch may have chosen; 0 when it uses all of them.

    It may choose if its work-items, those that do something, may be fewer than the elements. Where there are more than
    elements, the last group of each dimension may have one work-item that does something: a program that cuts a part
    into groups rounds up.
    """
    cdef const Parameter* parameter
    cdef uint64_t items = 1
    cdef uint64_t least = 1
    cdef uint64_t found
    cdef bint chooses = False
    cdef int64_t value
    cdef Py_ssize_t i
    cdef uint32_t byte
    for i in range(geometry.dimensions):
        items *= <uint64_t> geometry.groups[i] * geometry.block[i]
        least *= <uint64_t> (geometry.groups[i] - 1) * geometry.block[i] + 1
    if items == elements or (items > elements and least >= elements):
        return 0
    found = mix(kernel.id, items)
    for i in range(kernel.count):
        parameter = &kernel.layout[i]
        if parameter.kind != VALUE:
            continue
        if parameter.code in (c"b", c"B", c"h", c"H", c"i", c"I", c"q", c"Q"):
            value = integer_at(parameter, packed)
            if value != <int64_t> elements:  # which says how much there is, rather than where
                chooses = True
                found = mix(found, <uint64_t> value)
        elif parameter.code == c"V":
            chooses = True
            for byte in range(parameter.size):
                found = mix(found, <uint8_t> packed[parameter.offset + byte])
    return found | 1 if chooses else 0


cdef int64_t evaluated(object size, Kernel kernel, const char* packed, int64_t otherwise) except? -1:
    if size is None:
        return otherwise
    known = {}
    for leaf in size.leaves():
        known[leaf] = integer_at(&kernel.layout[<Py_ssize_t> kernel._index_of(leaf.name)], packed)
    return size.evaluate(known)


cdef tuple what_of(Kernel kernel, Py_ssize_t i):
    cdef uint64_t key = kernel.id << 12 | i
    what = whats.get(key)
    if what is None:
        parameter = kernel.parameters[i]
        what = whats[key] = ("launch", kernel.name, f"{parameter.type_name} {parameter.name}")
    return what


cdef int add_declared(
    Kernel kernel, Py_ssize_t i, tuple declared, Buffer buffer, uint64_t itemsize, const char* packed, list uses
) except -1:
    """Add what `Kernel.reads` and `Kernel.writes` said of a parameter."""
    cdef uint8_t flags = DECLARED | (WRITES if declared[0] else 0)
    cdef int64_t elements = buffer.nbytes // itemsize
    cdef int64_t first = evaluated(declared[1], kernel, packed, 0)
    cdef int64_t end = evaluated(declared[2], kernel, packed, elements)
    first, end = max(first, 0), min(end, elements)
    if first < end:
        uses.append(use_of(
            buffer.allocation.usage, buffer.start + first * itemsize, (end - first) * itemsize, flags,
            what_of(kernel, i)))
    return 0


cdef bytes seen_in_code(Kernel kernel):
    """Return flags for each parameter: what is known of a pointer that is not const."""
    cdef list flags = []
    shown = kernel.accesses(kernel.name)
    for i in range(kernel.count):
        access = shown[i] if len(shown) == kernel.count else ""
        if access == "reads":
            flags.append(0)
        elif access == "atomics" or (not access and ATOMIC_TYPE in kernel.parameters[i].type_name):
            flags.append(WRITES | NOT_CONST | ATOMIC)
        else:
            flags.append(WRITES | (0 if access else NOT_CONST))
    kernel.seen = bytes(flags)
    return kernel.seen


cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, list uses
) except -1:
    cdef Buffer buffer
    cdef uint64_t itemsize
    cdef uint8_t flags
    cdef Py_ssize_t i
    cdef Use use
    cdef bytes seen = kernel.seen if kernel.seen is not None else seen_in_code(kernel)
    if take_announced(kernel, uses):
        return 0
    for i in range(kernel.count):
        if kernel.layout[i].kind != POINTER or type(<object> arguments[i]) is not Buffer:
            continue
        buffer = <Buffer> <object> arguments[i]
        if buffer.nbytes == 0:
            continue
        itemsize = kernel.layout[i].element >> 1
        if itemsize == 0 or buffer.nbytes % itemsize != 0:
            itemsize = buffer.dtype.itemsize
        if kernel.parts is not None and i in kernel.parts:
            add_declared(kernel, i, kernel.parts[i], buffer, itemsize, packed, uses)
            continue
        flags = <uint8_t> seen[i] if kernel.layout[i].writes else 0
        use = use_of(
            buffer.allocation.usage, buffer.start, buffer.nbytes, flags, what_of(kernel, i))
        use.choice = choice_of(kernel, packed, geometry, buffer.nbytes // itemsize)
        uses.append(use)
    add_followed(kernel, uses)
    return 0


cdef int add_by_value(Kernel kernel, PyObject* const* arguments, list read) except -1:
    """Add the memory of the host from which a launch takes bytes by value, at once."""
    cdef Py_ssize_t i
    for i in range(kernel.count):
        value = getattr(<object> arguments[i], "value", None)  # of a ByValue
        if isinstance(value, np.ndarray):
            add_host_use(value, value.ctypes.data, value.nbytes, False, "launch", read)
    return 0


# -- kernels that follow pointers


# By the null queue's id, which no other has: the address of a `Usage` that stays for good. It stands for all memory of
# a context, once a kernel may follow pointers.
cdef dict everything = {}


cdef int add_followed(Kernel kernel, list uses) except -1:
    """Add that a launch may have used any memory, or that it used some that such a launch may use too."""
    cdef Use use
    cdef bint writes = kernel.follows
    if not everything and not kernel.follows:
        return 0
    key = kernel.state.null_queue.epochs.queue_id if kernel.state.null_queue != NULL else 0
    if key not in everything:
        if not kernel.follows:
            return 0
        everything[key] = <uintptr_t> new_usage().take()
    for use in uses:
        writes = writes or use.flags & WRITES
    use = use_of(
        <Usage*> <uintptr_t> everything[key], 0, EVERYWHERE, DOUBTFUL | (WRITES if writes else 0),
        ("launch", "", f"{kernel.name}, {'what it finds by pointers' if kernel.follows else 'its arguments'}"))
    if not kernel.follows:
        use.flags |= GIVEN  # two that follow nothing cannot meet there
    uses.append(use)
    return 0


# -- launches that forebay makes to copy strided memory


cdef Use use_of_view(object view, bint writes):
    """Return what a copy does with the rows of a strided view."""
    cdef Buffer memory = view.memory
    cdef Use use
    axes = sorted([(abs(stride), extent, stride) for extent, stride in zip(view.shape, view.strides) if extent > 1])
    width, pitch, doubtful = view.dtype.itemsize, 0, False
    low = memory.start + view.start + sum([stride * (extent - 1) for _, extent, stride in axes if stride < 0])
    span = view.dtype.itemsize + sum([step * (extent - 1) for step, extent, _ in axes])
    for step, extent, _ in axes:
        if pitch == 0 and step <= width:
            width = step * (extent - 1) + width
        elif pitch == 0:
            pitch, count = step, extent
        elif step == pitch * count:
            count *= extent
        else:
            doubtful = True
    use = end_use(memory.allocation.usage, low, span, writes, "copy")
    use.flags |= DOUBTFUL if doubtful else 0
    use.pitch, use.width = 0 if doubtful else pitch, width
    return use


class Moves(threading.local):
    """The strided copy whose launch a thread is about to make."""

    innermost = None  # (kernel, uses) until the launch has taken them


moves = Moves()


@contextmanager
def announced_move(Kernel kernel not None, to: StridedView, source: StridedView) -> Iterator[None]:
    """Declare the bytes that the launch of one strided copy uses, in a `with` block around it.

    A launch that other code makes in the block, such as a destructor, takes no other launch's declaration.
    """
    uses = [use_of_view(to, True)]
    if any(source.strides) or source.size == 1:  # else it repeats one element of forebay's own
        uses.append(use_of_view(source, False))
    outer, moves.innermost = moves.innermost, (kernel, uses)
    try:
        yield
    finally:
        moves.innermost = outer


cdef bint take_announced(Kernel kernel, list uses) except -1:
    move = moves.innermost
    if move is None or move[0] is not kernel:
        return False
    moves.innermost = None
    uses.extend(move[1])
    return True
