"""Stream-ordered memory as Python sees it."""

from libc.stdint cimport uint64_t, uintptr_t

from forebay.core.state cimport DeviceState, QueueState
from forebay.queues.memory.slabs cimport Block, Heap


cdef extern from *:
    """
    static const size_t forebay_no_more_than = (size_t) 1 << 62;
    """
    # Bytes; no device has so many. Compare a size with it before it becomes C's: more than C holds is as any other size
    # that is too large, and a little may be added to what is less.
    const size_t NO_MORE_THAN "forebay_no_more_than"


cdef class MemoryPool:
    cdef DeviceState* state  # retained
    cdef Heap* heap  # owned
    cdef object part_of  # `DriverDevice.part_of`, or None
    cdef uint64_t threshold
    cdef uint64_t limit
    cdef public bint reuse_follow_event_dependencies
    cdef public bint reuse_allow_opportunistic
    cdef public bint reuse_allow_internal_dependencies
    cdef object alloc(self, object device, object queue, QueueState* state, object shape, object dtype)
    # What `find` and `grow` do for `state` NULL is for use on any queue
    cdef Lease lease(self, object device, object queue, QueueState* state, size_t nbytes)
    cdef Block* take(self, object device, object queue, QueueState* state, size_t nbytes) except NULL
    cdef Block* find(self, QueueState* state, size_t nbytes) noexcept nogil
    cdef Block* grow(self, object device, object queue, QueueState* state, size_t nbytes) except NULL
    cdef Block* wait_for_free(self, object queue, QueueState* state, size_t nbytes) except? NULL
    cdef int ask_for_idle(self) except -1
    cdef int trim_after_wait(self) except -1
    cdef bint give_up(self, uint64_t keep, bint only_done)
    cdef uintptr_t handle_of(self, Block* block) except? 0
    cdef int release_gone(self) except -1


cdef class Lease:
    cdef MemoryPool pool
    cdef Block* block
    cdef bint freed  # by a queue; else the block goes back as it was
    cdef readonly uintptr_t handle
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef int free_on(self, QueueState* state) except -1


cdef MemoryPool new_pool(DeviceState* state, object driver, object limit)
# `Queue.free`, for memory of any pool of the device or of a graph
cdef int free(object queue, QueueState* state, object buf) except -1
