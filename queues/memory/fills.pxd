"""Fills."""

from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer


cdef int fill(object queue, QueueState* state, object buf, object value) except -1
cdef bytes fill_pattern(Buffer buf, object value)
