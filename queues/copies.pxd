"""Copies between buffers, and between buffers and host memory."""

from penstock.queues.buffer cimport Buffer
from penstock.queues.state cimport QueueState


cdef int copy(object queue, QueueState* state, object dst, object src) except -1
cdef object copy_to_staging(object queue, QueueState* state, object staged, Buffer src)
