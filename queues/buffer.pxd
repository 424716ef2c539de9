"""Device memory as Python sees it."""

from libc.stdint cimport uint64_t

from penstock.queues.driver cimport Memory
from penstock.queues.state cimport DeviceState


cdef class Allocation:
    cdef DeviceState* state  # retained
    cdef object native  # the driver's memory object, freed with its last reference
    cdef readonly object device
    cdef readonly uint64_t id
    cdef readonly bint closed
    cdef close(self)


cdef class Buffer:
    cdef Allocation allocation
    cdef Memory memory
    cdef size_t start  # byte of the allocation at which this view begins
    cdef object part  # the driver's object for this view, where a view needs one
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly size_t nbytes


cdef Allocation new_allocation(object device, DeviceState* state, object native)
cdef Buffer new_buffer(Allocation allocation, size_t offset, tuple shape, object dtype)
