"""The work of a graph's nodes."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry, Memory
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport Use


cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject** ob_item


cdef enum:
    FEW_BYTES = 128  # of packed arguments


cdef cppclass PackedBlock:
    """The packed arguments of a launch. Few are in the object itself: a work is made whenever a node is changed."""
    size_t count
    char few[FEW_BYTES]
    vector[char] many


cdef inline char* packed_bytes(PackedBlock* block) noexcept nogil:
    return &block.few[0] if block.count <= FEW_BYTES else block.many.data()


cdef inline char* resize_packed(PackedBlock* block, size_t size) noexcept nogil:
    block.count = size
    if size > FEW_BYTES:
        block.many.resize(size)
    return packed_bytes(block)


cdef class Work:
    cdef readonly str kind
    cdef readonly bint follows  # it follows pointers in memory, so it may write anywhere
    cdef readonly tuple buffers
    cdef readonly tuple writes
    cdef bint has_scratch
    cdef bint measures  # it has scratch whose size is read from buffers
    cdef object __weakref__


cdef class KernelWork(Work):
    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef Geometry geometry
    cdef PackedBlock packed  # as `pack_arguments` lays them out, without scratch
    cdef list by_value  # (index of the parameter, bytes); None without any
    cdef tuple scratch  # (index of the parameter, Size) of each
    cdef dict scalars  # what the sizes are computed from: values of scalar arguments, by leaf; None without scratch
    cdef dict measured  # and Buffers, by leaf


cdef class CopyWork(Work):
    cdef readonly object dst
    cdef readonly object src
    cdef readonly size_t nbytes
    cdef Memory to
    cdef Memory source
    cdef object host  # a view of the host memory, which keeps it where it is; None between buffers
    cdef bint pageable


cdef class FillWork(Work):
    cdef readonly object buffer
    cdef readonly object value
    cdef readonly bytes pattern
    cdef Memory to


cdef class HostWork(Work):
    cdef readonly object function


cdef class MemoryWork(Work):
    cdef readonly Buffer buffer
    cdef readonly object memory


cdef class ListWork(Work):
    cdef readonly tuple works


cdef class EmptyWork(Work):
    pass


cdef KernelWork kernel_work(
    object device, object launched, object grid, object block, tuple given, KernelWork before)
cdef int add_nodes(tuple works, tuple nodes, vector[Use]& uses, vector[size_t]& owners) except -1
