"""Packs Python arguments into the bytes that the driver gets."""

from cpython.object cimport PyObject

from forebay.queues.kernels.kernel cimport Kernel


cdef enum:
    MOST_VIEWS = 16


cdef enum:
    # what is unusual about the arguments of a launch
    RAN_PYTHON = 1  # an argument was converted by Python code, which may have closed a Buffer that was packed before
    HAS_BYTES = 2  # bytes by value
    HAS_ARRAYS = 4  # arrays of the host and memory of other packages, for which nothing is packed
    HAS_MUCH = 8  # large by value: compared and copied without the GIL


cdef struct Views:
    int unusual  # some of these, or 0
    int count  # how many of `views` are held; `release_views` releases them
    Py_buffer views[MOST_VIEWS]


cdef PyObject* the_null  # fb.NULL


# After success the caller must call `release_views` if anything is unusual.
cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1
cdef void release_views(Views* views)
cdef int refuse_count(Kernel kernel, PyObject* const* arguments, Py_ssize_t count) except -1
cdef object argument_error(Kernel kernel, Py_ssize_t index, str problem, object kind)
cdef int check_elements(Kernel kernel, const char* packed) except -1
