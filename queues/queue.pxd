"""Queues as Python sees them."""

from penstock.events.marker cimport Marker
from penstock.queues.driver cimport Memory, Status
from penstock.queues.state cimport DeviceState, QueueState


cdef class Queue:
    cdef QueueState* state  # retained
    cdef readonly object device
    cdef readonly object priority
    cdef readonly object native  # the driver's own queue object, for those who need it
    cdef object __weakref__
    cdef _submit_copy(self, Memory* dst, Memory* src, size_t nbytes, anchor)
    cdef Status take_speaking_marker(self, Marker** marker) noexcept nogil


cdef Queue new_queue(
    object device, DeviceState* state, object native, size_t handle, bint is_null, bint blocking, bint timing,
    object priority
)
