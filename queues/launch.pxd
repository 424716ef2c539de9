"""The launch path."""

from libc.stdint cimport uint32_t, uint64_t

from penstock.queues.driver cimport Status
from penstock.queues.kernel cimport Geometry, Kernel
from penstock.queues.plan cimport Plan
from penstock.queues.state cimport QueueState


cdef int launch(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments) except -1
cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments)


cdef class BoundLaunch:
    cdef QueueState* state  # retained
    cdef Plan* plan
    cdef Geometry geometry
    cdef uint64_t closings  # the device's count when the arguments were last seen open
    cdef readonly object queue
    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef object plan_owner
