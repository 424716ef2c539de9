"""Waits for what uses a piece of memory, on whichever queue."""

from forebay.core.state cimport QueueState
from forebay.queues.memory.allocation cimport Allocation


# The host waits: for all uses, or for writes that a command of the reader would not come after anyway
cdef int wait_for_uses(Allocation allocation) except -1
cdef int wait_for_writers(Allocation allocation, QueueState* reader) except -1
# The queue waits, and the host does not
cdef int order_after_writers(object queue, QueueState* state, Allocation allocation) except -1
cdef int order_after_uses(object queue, QueueState* state, Allocation allocation) except -1
