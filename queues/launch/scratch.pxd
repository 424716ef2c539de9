"""Launches of kernels with scratch."""

from cpython.object cimport PyObject

from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel

cdef enum:
    GUARD = 4096  # bytes behind memory that a debugging device checks after each launch
    LARGE = 64 << 10  # bytes of scratch; less than that is never too much


# For kernels that are not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int check_count(Kernel kernel, Py_ssize_t count) except -1
cdef tuple read_leaves(Kernel kernel, tuple declared, PyObject* const* arguments)
cdef list reductions_of(object queue, QueueState* state, list buffers)
