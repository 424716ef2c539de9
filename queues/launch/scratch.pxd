"""Launches of kernels with scratch."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry
from forebay.core.plan cimport PackedPointer
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.uses cimport Basis
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.allocation cimport OwnedMemory

cdef enum:
    GUARD = 4096  # bytes behind memory that a debugging device checks after each launch
    GUARD_BYTE = 0xC5


cdef enum:
    LARGE = 64 << 10  # bytes of scratch; less than that is never too much


cdef struct KnownBuffer:
    Py_ssize_t index  # of the argument
    bint exposed  # others may write there without forebay's knowledge, so it must be measured in each launch
    size_t start
    size_t nbytes
    PyObject* dtype  # borrowed from the snapshot's `dtypes`


cdef class Snapshot:
    """The scratch of a plan, and the values from which its sizes were computed."""

    cdef DeviceState* state  # retained
    cdef tuple declared  # the kernel's scratch declarations at that time
    cdef vector[KnownBuffer] buffers  # each once
    cdef Basis basis  # the writes to these buffers, in their order
    cdef vector[Py_ssize_t] scalars  # indices of scalar arguments
    cdef vector[char] packed
    cdef vector[PackedPointer] scratch  # by position in `declared`
    cdef vector[size_t] sizes
    cdef list memory  # OwnedMemory of each, which does not keep the Device
    cdef list dtypes


cdef class Guard:
    cdef Kernel kernel
    cdef tuple declared
    cdef object buffer
    cdef size_t nbytes  # of the scratch


# For kernels that are not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int check_count(Kernel kernel, Py_ssize_t count) except -1
# The sizes of scratch, in three steps
cdef tuple read_leaves(Kernel kernel, tuple declared, PyObject* const* arguments)
cdef list reductions_of(object queue, QueueState* state, list buffers)
cdef dict known_of(dict scalars, dict buffers, list reduced)
cdef list sizes_of(Kernel kernel, tuple declared, dict known)
# Debugging devices
cdef Guard new_guard(object device, Kernel kernel, OwnedMemory memory, tuple declared, size_t nbytes)
cdef int fill_guards(object queue, list guards) except -1
cdef int check_guards(object queue, list guards) except -1
