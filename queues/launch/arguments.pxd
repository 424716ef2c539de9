"""Packs Python arguments into the bytes that the driver gets."""

from cpython.object cimport PyObject

from forebay.queues.kernels.kernel cimport Kernel


cdef enum:
    MOST_VIEWS = 16


cdef struct Views:
    int spilled  # how many arguments are bytes by value, or arrays of the host
    bint arrays  # whether there are host arrays, for which nothing is packed
    int count  # how many of `views` are held; `release_views` releases them
    Py_buffer views[MOST_VIEWS]


# After success the caller must call `release_views` if anything has spilled.
cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1
cdef void release_views(Views* views)
