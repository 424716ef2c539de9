"""Fills."""

from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer


cdef int prefetch(object queue, QueueState* state, Buffer buffer, bint to_host) except -1
cdef int fill(object queue, QueueState* state, object buf, object value) except -1
# Fill with a pattern that the device repeats, see `fill_pattern`.
cdef int fill_bytes(object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size) except -1
cdef bytes fill_pattern(Buffer buf, object value)
