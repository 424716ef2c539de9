"""Stream-ordered memory as Python sees it."""

from libc.stdint cimport uint64_t

from forebay.core.epochs cimport Epochs
from forebay.core.state cimport DeviceState, QueueState


cdef class Block:
    cdef object native  # the driver's OwnedMemory
    cdef size_t nbytes
    cdef bint freed  # by a queue, since it was handed out last
    cdef Epochs* freed_on  # the queue that freed it last, retained; NULL when none has
    cdef uint64_t freed_at
    cdef bint freed_on_null
    cdef bint freed_on_blocking


cdef class MemoryPool:
    cdef DeviceState* state  # retained
    cdef object lock
    cdef object returned  # blocks that destructors gave back
    cdef dict idle  # by size, then by the id of the queue that freed them: deques of blocks, the last freed at the end
    cdef list sizes  # the keys of `idle`, ascending
    cdef object threshold
    cdef object limit
    cdef readonly object reserved
    cdef object used_now
    cdef object reserved_peak
    cdef object used_peak
    cdef public bint reuse_follow_event_dependencies
    cdef public bint reuse_allow_opportunistic
    cdef public bint reuse_allow_internal_dependencies
    cdef settle(self)
    cdef put_back(self, Block block)
    cdef release(self, Block block)
    cdef object alloc(self, object queue, QueueState* state, object shape, object dtype)
    cdef Block grow(self, object queue, object nbytes)
    cdef list fitting(self, object nbytes)
    cdef Block find(self, QueueState* state, object nbytes)
    cdef Block wait_for_free(self, object queue, QueueState* state, object nbytes)


cdef MemoryPool new_pool(DeviceState* state, object limit)
# `Queue.free`, for memory of any pool of the device or of a graph
cdef int free(object queue, QueueState* state, object buf) except -1
