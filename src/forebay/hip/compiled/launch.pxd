"""The objects that stand for pointers and streams in `forebay.hip`."""

from libc.stdint cimport uint64_t

from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue


cdef class Address:
    cdef public uint64_t address
    cdef public Buffer buffer
    cdef object __weakref__


cdef class Handle(Address):
    cdef public object queue


cdef Queue null_queue  # of stream 0 while it is the same for all threads, else None
