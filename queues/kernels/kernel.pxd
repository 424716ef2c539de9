"""Kernels: their parameters, and the layout of their arguments."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry, Reshape
from forebay.core.plan cimport Parameter
from forebay.core.ownership cimport Ref, relaxed_bint, relaxed_uint64
from forebay.core.state cimport DeviceState


cdef enum:
    MOST_PACKED = 1024  # bytes of packed arguments that the common launch can hold


cdef class LastGeometry:
    # Grid and block of a launch, compared by identity, and what they mean for the kernel
    cdef object grid
    cdef object block
    cdef uint64_t kernel_id
    cdef Geometry geometry


cdef class Closing:
    pass


cdef class Kernel(Closing):
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state
    cdef readonly object device
    cdef readonly str name
    cdef readonly tuple parameters
    cdef readonly uint32_t content_id
    cdef object native  # the `DriverKernel`, which makes the plans' kernel objects
    cdef object identities  # of the program
    cdef Parameter* layout
    cdef Py_ssize_t count
    cdef size_t packed_size  # a whole number of pairs of words, so that they are compared in pairs
    cdef relaxed_uint64 id
    cdef relaxed_bint closed
    cdef relaxed_bint plain  # open, no scratch, no indirect access, and at most MOST_PACKED bytes of arguments
    cdef relaxed_bint follows  # indirect access: it may write anywhere
    cdef bint has_local  # some parameter is local memory
    cdef vector[Py_ssize_t] written  # the parameters through which a launch may write
    cdef dict parts  # what `reads` and `writes` declared, by index of the parameter; None: nothing
    cdef tuple scratch_sizes  # (index of the parameter, Size) of each that is declared
    cdef tuple earlier_sizes  # kept, because launches by other threads may read them still
    cdef vector[char] left_out  # by parameter: whether it is scratch, so that launches leave its argument out
    cdef size_t max_block  # the most work-items of a group
    cdef size_t max_block_axis[3]
    cdef size_t required_block[3]  # 0: none
    cdef Reshape reshape  # NULL for most
    cdef size_t local_bytes  # the most local memory of a group
    cdef LastGeometry last  # of the previous launch, on any queue, where the GIL guards it: see `last_geometry`
    cdef object accesses  # that of `BuiltProgram`
    cdef uint64_t warned_of  # work-items, of a debugging device
    cdef list seen  # flags of races/checker.pxd and words by parameter, from `accesses`; None: not asked yet
    cpdef int _check_open(self) except -1
    cdef object native_if_open(self)


cdef Kernel new_kernel(object device, DeviceState* state, object native, object identities, object accesses)

# Makes ``kernel[grid, block]``. Set by the module of queues, which is on a higher layer.
ctypedef object (*Configure)(Kernel kernel, tuple given)
cdef Configure configure
