"""Copies between buffers, and between buffers and host memory."""

from libc.string cimport memcpy

from forebay.core.driver cimport Memory
from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer

cdef enum:
    # Bytes from which a copy is large. The host copies as many without the GIL, as memcpy takes microseconds. Checking
    # a queue's progress can take a marker, which costs about as much as a smaller copy.
    LARGE = 64 << 10

cdef inline void copy_bytes(void* to, const void* source, size_t nbytes) noexcept:
    """Copy host memory, without the GIL if it is large.

    The caller must hold both ends, so that they are neither freed nor moved, and check everything else again
    afterwards.
    """
    if nbytes < LARGE:
        memcpy(to, source, nbytes)
    else:
        with nogil:
            memcpy(to, source, nbytes)


cdef int copy(object queue, QueueState* state, object dst, object src) except -1
cdef void* structure_bytes(object structure, Py_ssize_t* nbytes) except? NULL
cdef str view_bytes(object host, Py_buffer* view, int flags)
cdef object open_end(object host, bint writes, Buffer buffer, Py_buffer* view)
cdef Memory host_memory(const void* address) noexcept
cdef Memory host_memory_of(object staged)
cdef int fill(object queue, QueueState* state, object buf, object value) except -1
# `first` is a pattern that the device repeats, see `fill_pattern`
cdef int fill_bytes(object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size) except -1
