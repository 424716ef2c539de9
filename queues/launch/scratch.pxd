"""Launches of kernels with scratch."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.plan cimport PackedPointer
from forebay.core.state cimport DeviceState, QueueState
from forebay.queues.kernels.kernel cimport Kernel


cdef struct KnownBuffer:
    Py_ssize_t index  # of the argument
    uint64_t generation  # 0, which no allocation has, when something may write there unseen
    uint64_t allocation
    size_t start
    size_t nbytes
    PyObject* dtype  # borrowed: the snapshot's list of them has it


cdef class Snapshot:
    """What scratch a plan has, and what its size followed from."""

    cdef DeviceState* state  # retained
    cdef tuple declared  # the kernel's scratch, as it was
    cdef vector[KnownBuffer] buffers  # each once
    cdef vector[Py_ssize_t] scalars  # arguments
    cdef vector[char] packed
    cdef uint64_t unseen_writes
    cdef vector[PackedPointer] scratch  # by position in `declared`
    cdef vector[size_t] sizes
    cdef list natives  # the driver's memory, which does not keep the Device
    cdef list dtypes


# The kernel is not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int check_count(Kernel kernel, Py_ssize_t count) except -1
# Works the sizes out, and allocates what `last` has not.
cdef Snapshot take_snapshot(
    object queue, QueueState* state, Kernel kernel, PyObject* const* arguments, const char* packed, Snapshot last
)
# Put its scratch where the packed arguments have room for it.
cdef void use_scratch(Snapshot snapshot, Kernel kernel, char* packed)
