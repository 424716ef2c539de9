"""Queues as Python sees them."""

from penstock.queues.state cimport DeviceState, QueueState, Statistics


cdef class Queue:
    cdef QueueState* state  # retained
    cdef readonly object device
    cdef readonly object priority
    cdef readonly object native  # the driver's own queue object, for those who need it
    cdef object __weakref__


cdef Queue new_queue(
    object device, DeviceState* state, object native, size_t handle, bint is_null, bint blocking, bint timing,
    bint adopted, object priority
)
cdef object stats_of(const Statistics& counts, object allocations=*)
