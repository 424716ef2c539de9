"""From Python arguments to the bytes the driver gets."""

from cpython.object cimport PyObject

from forebay.queues.kernels.kernel cimport Kernel


cdef enum:
    MOST_VIEWS = 16


cdef struct Views:
    int spilled  # how many arguments are bytes by value, or arrays of the host
    bint arrays  # there are arrays of the host: nothing is packed for them
    int count  # how many of these are held only while they are looked at
    Py_buffer views[MOST_VIEWS]


# After success, when something has spilled, the caller calls `release_views`.
cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1
cdef void release_views(Views* views)
