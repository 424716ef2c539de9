"""Memory that is known by its addresses."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from forebay.hip.compiled.calls cimport Address


cdef class Located(Address):
    cdef public object _owner  # what keeps it, where something has to
    cdef public object _shape
    cdef public object _typestr
    cdef public size_t _itemsize
    cdef public bint _read_only
    cdef public object _stream


cdef class Part:
    cdef object memory
    cdef uint64_t offset
    cdef size_t nbytes


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
    cdef public int opened  # how often memory of another process was
    cdef public object ipc_handle  # bytes, of memory that processes share
    cdef public size_t nbytes
    cdef public uint64_t base
    cdef Part last_part  # what `part_of` made last
    cdef object __weakref__
    cdef object part_of(self, uint64_t offset, size_t nbytes)


cdef Known known_with(uint64_t address)  # None for memory that is not from here
cdef object malloc_front(PyObject* const* words)
cdef object free_front(PyObject* const* words)
