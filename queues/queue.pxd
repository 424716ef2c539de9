"""Queues as Python sees them."""

from libc.stdint cimport uint64_t

from forebay.core.state cimport DeviceState, QueueState

cdef class Queue:
    cdef QueueState* state  # retained
    cdef readonly object device
    cdef readonly object priority
    cdef readonly object native  # the driver's own queue object, for those who need it
    cdef readonly object _capture  # the Capture that records its commands; None when they run
    cdef public object _step  # the open Step that it takes part in, or None
    cdef object __weakref__
    cdef object reference  # a weak one to itself, which its events share: one of each event's own is dear to make


# What follows after the host has waited for a queue: of the Device, which is not known here
cdef void connect_device(int (*synchronized)(object device, object queue) except -1)
# A Queue over this state. It takes over the owner's reference, except to a null queue, which belongs to the Context.
cdef Queue new_queue(object device, QueueState* state, object native, object priority)
cdef QueueState* new_queue_of(
    DeviceState* device, object native, size_t handle, uint64_t owner, bint is_null, bint blocking, bint timing,
    bint adopted, object priority
)
