"""Host functions, which run in Python when a queue reaches them, and gates. Both hold their queue."""

from cpython.object cimport PyObject

from forebay.core.driver cimport Driver, Status, Waits
from forebay.core.ownership cimport Ref, relaxed_bint
from forebay.core.state cimport DeviceState, QueueState


cdef cppclass Call:
    """A call of a host function, or a Gate, which calls none. Either holds a queue by a gate."""
    PyObject* function  # owned; NULL for a Gate
    PyObject* queue  # owned, likewise
    void* gate
    const Driver* driver
    Ref[DeviceState] device
    # Guarded by the module's lock. Whichever comes second deletes the call.
    bint held  # it is submitted, and has its gate
    bint ended  # the gate is being opened


cdef class Gate:
    cdef Call* call  # NULL: it is open
    cdef object __weakref__


cdef class HostErrors:
    cdef object kept  # (queue, error, name of the function), the oldest first
    cdef relaxed_bint closed


cdef int submit_host_function(object queue, QueueState* state, object function) except -1
# The parts of `submit_host_function`, for several calls under one lock. Settle each call that is made.
cdef Call* new_call(object queue, QueueState* state, object function) except NULL  # None for a Gate
# The queue is locked. `handle`: the driver's, of the queue or of a lane of it
cdef Status submit_call(QueueState* state, void* handle, Call* call, Waits waits) noexcept nogil
cdef int settle_call(object queue, object function, Call* call, bint submitted_it) except -1
cdef Gate submit_gate(object queue, QueueState* state)
# Block until no open gate counts in `gates.closed`: the host may see held work done before the count falls
cdef void wait_for_openings() noexcept nogil
