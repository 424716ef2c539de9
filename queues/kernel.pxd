"""Kernels: what their parameters are, and how arguments are packed for them."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from penstock.queues.driver cimport Geometry
from penstock.queues.plan cimport Parameter
from penstock.queues.state cimport DeviceState


cdef class Kernel:
    cdef DeviceState* state  # retained
    cdef readonly object device
    cdef readonly str name
    cdef readonly tuple parameters
    cdef readonly uint32_t content_id
    cdef object native  # the driver's kernel, from which plans get theirs
    cdef Parameter* layout
    cdef Py_ssize_t count
    cdef size_t packed_size
    cdef uint64_t id
    cdef bint closed
    cdef size_t max_block  # work-items of a group
    cdef size_t max_block_axis[3]
    cdef size_t required_block[3]  # 0: none
    cdef size_t local_bytes  # a group's at most
    cdef object last_grid  # of the launch before, on whichever queue; None when they cannot be compared by identity
    cdef object last_block
    cdef Geometry geometry  # what they came to
    cdef void _forget_plans(self) noexcept


cdef enum:
    MOST_VIEWS = 16


cdef struct Views:
    int spilled  # how many arguments are bytes by value
    int count  # how many of these are held only while they are looked at
    Py_buffer views[MOST_VIEWS]


# Both counts are 0 before. After success, when something has spilled, the caller calls `release_views`.
cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1
cdef void release_views(Views* views)
cdef Kernel new_kernel(object device, DeviceState* state, object native)
