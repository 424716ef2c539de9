"""Device memory as Python sees it."""

from libc.stdint cimport uint64_t

from libcpp.vector cimport vector

from forebay.core.driver cimport Memory
from forebay.core.epochs cimport submitted_epoch
from forebay.core.plan cimport PackedPointer
from forebay.core.state cimport DeviceState, QueueState


cdef struct Writer:
    uint64_t queue  # its id; 0 for nobody
    uint64_t epoch


cdef class Allocation:
    cdef DeviceState* state  # retained
    cdef object native  # the driver's memory object, freed with its last reference
    cdef readonly object device
    cdef readonly uint64_t id
    cdef readonly bint closed
    # All below is only touched with the GIL.
    cdef uint64_t generation  # how often something may have written to it
    cdef Writer writer  # the last
    cdef vector[Writer] others  # the last of each other queue: writing to slices does not order two queues
    cdef int exposed  # how many holders may write to it without forebay's knowledge
    cdef dict reductions  # known (generation, …) of the data by (start, nbytes, dtype); None before the first
    cdef void change_writer(self, uint64_t queue) noexcept
    cdef close(self)


cdef class Buffer:
    cdef Allocation allocation
    cdef Memory memory
    cdef size_t start  # byte of the allocation at which this view begins
    cdef object part  # the driver's object for this view, where a view needs one
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly size_t nbytes


# Call it with the GIL, after the command was submitted: a generation noted meanwhile is then out of date.
# (Through the Buffer each time, because a variable for its allocation would be counted as a reference.)
cdef inline void note_write(Buffer buffer, QueueState* queue) noexcept:
    buffer.allocation.generation += 1
    if buffer.allocation.writer.queue != queue.epochs.queue_id:
        buffer.allocation.change_writer(queue.epochs.queue_id)
    buffer.allocation.writer.epoch = submitted_epoch(queue.epochs)


cdef Allocation new_allocation(object device, DeviceState* state, object native)
cdef Buffer new_buffer(Allocation allocation, size_t offset, tuple shape, object dtype)
cdef void expose(Allocation allocation) noexcept
# An argument that points to the driver's memory `native`, with an allocation id of its own
cdef PackedPointer new_pointer(object native)
