from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic

from forebay.core.ownership cimport Ref, relaxed_uint64
from forebay.core.state cimport DeviceState, QueueState

# Raised before a thread's own queue may become another one; never 0. Code that notes it before it
# asks for the queue may use the queue as a borrowed reference while this is unchanged.
cdef atomic[uint64_t] changes


cdef class Context:
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state
    cdef QueueState* null_queue  # with its owner's reference; NULL before it is made
    cdef readonly object driver  # the `DriverDevice`
    cdef readonly object entered  # the queues that threads have entered by ``with``
    cdef public object listed  # memory that keeps the resident set from being empty, or None
    cdef readonly object lost  # what failed first, as text, when the device was lost; else None
    cdef relaxed_uint64 open_devices
    cdef uint64_t number_device(self)
    cdef leave(self)
    cdef lose(self, str message)
