"""The launch path."""

from cpython.object cimport PyObject

from penstock.queues.kernel cimport Kernel
from penstock.queues.packing cimport Views
from penstock.queues.state cimport QueueState


cdef list list_of(PyObject* const* arguments, Py_ssize_t count)
cdef int launch_packed(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views
) except -1
# The kernel is `plain`.
cdef int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
