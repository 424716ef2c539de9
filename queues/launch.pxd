"""The launch path."""

from cpython.object cimport PyObject

from penstock.queues.kernel cimport Kernel
from penstock.queues.state cimport QueueState


cdef int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
