"""The sizes of scratch in graphs."""

from forebay.core.state cimport DeviceState, QueueState
from forebay.core.uses cimport Basis, still_holds


cdef inline bint is_still(const Basis* moment, const DeviceState* device) noexcept nogil:
    """Return whether nothing may have been written since to what the sizes were read from."""
    return moment.seen.empty() or still_holds(moment, device.unseen_writes.load())


cdef class Sizes:
    cdef tuple works  # the graph's, all of them
    cdef dict by_work  # bytes of each scratch of a KernelWork
    cdef Basis moment  # the writes to what they were read from, whose buffers the works keep
    cdef bint lasting  # False when not all sizes are known, or others write without forebay's knowledge


cdef Sizes read_sizes(object queue, QueueState* state, tuple works, bint have_scratch)
cdef list works_with_scratch(object works)
