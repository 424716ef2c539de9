"""Copies between buffers, and between buffers and host memory."""

from forebay.core.driver cimport Memory
from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer


cdef int copy(object queue, QueueState* state, object dst, object src) except -1
cdef int copy_checked(object queue, QueueState* state, object dst, object src) except -1
cdef int check_size(object dst, size_t to, object src, size_t source) except -1
cdef int check_overlap(Buffer dst, Buffer src) except -1
cdef int open_view(object host, Py_buffer* view, bint writable, bint bytes_alone=*) except -1
cdef object pin_view(object host)
cdef object shown(object host)
cdef Memory host_memory(const void* address) noexcept
cdef Memory host_memory_of(object staged)
cdef object copy_to_staging(object queue, QueueState* state, object staged, Buffer src)
