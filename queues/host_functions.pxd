"""Host functions: Python called when a queue gets there."""

from cpython.object cimport PyObject

from forebay.core.driver cimport Driver, Status, Waits
from forebay.core.state cimport DeviceState, QueueState


cdef cppclass Call:
    PyObject* function  # owned
    PyObject* queue  # owned
    void* gate
    const Driver* driver
    DeviceState* device  # retained


cdef class Gate:
    cdef void* handle
    cdef const Driver* driver
    cdef DeviceState* device  # retained
    cdef readonly bint opened
    cdef object __weakref__


cdef int submit_host_function(object queue, QueueState* state, object function) except -1
# The three parts of that, for more than one call under one lock: each call that was made is settled in the end.
cdef Call* new_call(object queue, QueueState* state, object function) except NULL
# The queue is locked; `handle` is the driver's, of it or of a lane of it.
cdef Status submit_call(QueueState* state, void* handle, Call* call, Waits waits) noexcept nogil
cdef int settle_call(object queue, object function, Call* call, bint submitted_it) except -1
cdef Gate submit_gate(object queue, QueueState* state)
# Block until the gates that are open count as such: what they held may have been seen to be done a little before.
cdef void wait_for_openings() noexcept nogil
