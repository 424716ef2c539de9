"""Bound launches."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Geometry
from forebay.core.plan cimport Plan
from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.vectorcall cimport vectorcallfunc


cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments)


cdef class BoundLaunch:
    cdef vectorcallfunc vectorcall
    cdef QueueState* state  # retained
    cdef Plan* plan
    cdef Geometry geometry
    cdef bint follows  # the kernel did when it was bound
    cdef uint64_t closings  # the device's count when the arguments were last seen open
    cdef readonly object queue
    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef list by_value  # copies of bytes by value, for graphs
    cdef object plan_owner
    cdef int check_arguments(self) except -1
