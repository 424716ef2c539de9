"""Packs Python arguments into the bytes that the driver gets."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport Status, Waits
from forebay.core.plan cimport Plan
from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel
from forebay.sync.ordering cimport Order

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


# Spilled arguments are bytes by value for pointer parameters. They are uploaded when they have changed, or the kernel
# may have written to them.

# Copies of the bytes by value, as (index of the parameter, bytes)
cdef list spilled_bytes(Kernel kernel, const char* packed)
cdef void use_spills(Plan* plan, char* packed) noexcept nogil
cdef Status upload_spills(
    QueueState* state, Plan* plan, const char* packed, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil
cdef void apply_uploads(QueueState* state, Order* order, uint64_t uploads) noexcept nogil
cdef Status end_uploads(QueueState* state, Order* order, uint64_t uploads, Status status) noexcept nogil  # unlocks
cdef bint needs_uploads(Plan* plan) noexcept nogil
cdef Status upload_again(
    QueueState* state, Plan* plan, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil
cdef int make_room(object queue, QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed) except -1
