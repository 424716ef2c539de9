"""Guards behind the buffers of a debugging device."""

from cpython.object cimport PyObject

from forebay.core.driver cimport Geometry
from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel


cdef enum:
    GUARD = 4096  # bytes behind memory that a debugging device checks after each launch
    GUARD_BYTE = 0xC5


cdef int warn_of_grid(Kernel kernel, const Geometry* geometry, PyObject* const* arguments) except -1
# The guards of the buffers that a launch may write to, filled on the queue; and the check after the launch, which waits
cdef list guard_buffers(object queue, QueueState* state, Kernel kernel, PyObject* const* arguments)
cdef int check_buffers(object queue, Kernel kernel, list guards) except -1
