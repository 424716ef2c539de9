"""Device memory as Python sees it."""

from forebay.core.driver cimport Memory
from forebay.core.state cimport DeviceState
from forebay.queues.memory.allocation cimport Allocation
from forebay.races.checker cimport Announcement


cdef class Buffer:
    cdef Allocation allocation
    cdef Memory memory
    cdef size_t start  # byte of the allocation at which this view begins
    cdef object part  # the driver's object for this view, if it needs one
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly size_t nbytes


# For the race checker: how a copy or fill uses it
cdef int add_use(
    object end, bint writes, str kind, DeviceState* device, Announcement uses, Announcement at_once
) except -1
cdef Buffer new_buffer(Allocation allocation, size_t offset, tuple shape, object dtype)
