"""Launches of kernels with scratch."""

from cpython.object cimport PyObject

from forebay.queues.kernels.kernel cimport Kernel
from forebay.core.state cimport QueueState
from forebay.queues.graphs.work cimport KernelWork


# The kernel is not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1


cdef KernelWork launch_work(object queue, QueueState* state, Kernel kernel, object grid, object block, list given)
