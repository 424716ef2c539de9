"""Memory that is known by its addresses."""

from libc.stdint cimport uint64_t

from forebay.hip.compiled.launch cimport Address


cdef class Located(Address):
    cdef public object _owner  # what keeps it, where something has to
    cdef public object _shape


cdef class Known:
    cdef public object memory
    cdef public object kind
    cdef public object graph_memory
    cdef public object hints
    cdef public object _parts
    cdef public object _node
    cdef public int device
    cdef public object flags
    cdef public bint pooled
    cdef public bint variable
    cdef public bint registered
    cdef public size_t nbytes
    cdef public uint64_t base
    cdef object __weakref__
