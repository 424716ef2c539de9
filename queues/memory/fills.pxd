"""Fills."""

from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport is_told


cdef int prefetch(object queue, QueueState* state, Buffer buffer, bint to_host) except -1
cdef int fill(object queue, QueueState* state, object buf, object value) except -1
# Fill with a pattern that the device repeats, see `fill_pattern`.
cdef int fill_unchecked(
    object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size
) except -1
cdef int fill_checked(
    object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size
) except -1
cdef inline int fill_bytes(
    object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size
) except -1:
    if is_told(state):
        return fill_checked(queue, state, buffer, first, size)
    return fill_unchecked(queue, state, buffer, first, size)
cdef bytes fill_pattern(Buffer buf, object value)
