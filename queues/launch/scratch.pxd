"""Launches of kernels with scratch."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.plan cimport PackedPointer
from forebay.core.state cimport DeviceState, QueueState
from forebay.queues.kernels.kernel cimport Kernel


cdef struct KnownBuffer:
    Py_ssize_t index  # of the argument
    uint64_t generation  # 0, which no allocation has, when others may write there without forebay's knowledge
    uint64_t allocation
    size_t start
    size_t nbytes
    PyObject* dtype  # borrowed from the snapshot's `dtypes`


cdef class Snapshot:
    """The scratch of a plan, and the values from which its sizes were computed."""

    cdef DeviceState* state  # retained
    cdef tuple declared  # the kernel's scratch declarations at that time
    cdef vector[KnownBuffer] buffers  # each once
    cdef vector[Py_ssize_t] scalars  # indices of scalar arguments
    cdef vector[char] packed
    cdef uint64_t unseen_writes
    cdef vector[PackedPointer] scratch  # by position in `declared`
    cdef vector[size_t] sizes
    cdef list natives  # the driver's memory, which does not keep the Device
    cdef list dtypes


# For kernels that are not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int check_count(Kernel kernel, Py_ssize_t count) except -1
# Compute the sizes, and allocate the scratch that `last` does not have.
cdef Snapshot take_snapshot(
    object queue, QueueState* state, Kernel kernel, PyObject* const* arguments, const char* packed, Snapshot last
)
# Put the snapshot's scratch into its slots of the packed arguments.
cdef void use_scratch(Snapshot snapshot, Kernel kernel, char* packed)
