"""The Python objects around the structures of handles.pxd."""

from forebay.queues.drivers.cuda.handles cimport CuContext


cdef class ContextHandle:
    cdef CuContext* context
