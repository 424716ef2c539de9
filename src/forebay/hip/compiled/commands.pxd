"""Events as `forebay.hip` has them."""

from libc.stdint cimport uint32_t, uint64_t

from forebay.events.event cimport Event


cdef class EventHandle:
    cdef public uint64_t address
    cdef public Event event
    cdef public uint32_t flags
    cdef public int device
    cdef object __weakref__
