"""Host functions: Python called when a queue gets there."""

from penstock.queues.driver cimport Driver
from penstock.queues.state cimport DeviceState, QueueState


cdef class Gate:
    cdef void* handle
    cdef const Driver* driver
    cdef DeviceState* device  # retained
    cdef readonly bint opened
    cdef object __weakref__


cdef int submit_host_function(object queue, QueueState* state, object function) except -1
cdef Gate submit_gate(object queue, QueueState* state)
