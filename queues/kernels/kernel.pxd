"""Kernels: what their parameters are, and how their arguments are laid out."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry
from forebay.core.plan cimport Parameter
from forebay.core.state cimport DeviceState


cdef enum:
    MOST_PACKED = 1024  # bytes of packed arguments that the common launch has room for


cdef class Kernel:
    cdef DeviceState* state  # retained
    cdef readonly object device
    cdef readonly str name
    cdef readonly tuple parameters
    cdef readonly uint32_t content_id
    cdef object native  # the `DriverKernel`, from which plans get theirs
    cdef object identities  # of the program
    cdef Parameter* layout
    cdef Py_ssize_t count
    cdef size_t packed_size  # a whole number of pairs of words, so that they are compared in pairs
    cdef uint64_t id
    cdef bint closed
    cdef bint plain  # open, without scratch, follows no pointers, and has no more than MOST_PACKED bytes of arguments
    cdef bint follows  # pointers that it finds in memory, so that it may write anywhere
    cdef object followed  # which memory there was when it was last looked at
    cdef vector[Py_ssize_t] written  # the parameters through which a launch may write
    cdef tuple scratch_sizes  # (index of the parameter, Size) of each that is declared
    cdef dict scratch_ids  # by name of the parameter
    cdef vector[char] left_out  # of each parameter: is it scratch, so that no argument is given for it?
    cdef size_t max_block  # work-items of a group
    cdef size_t max_block_axis[3]
    cdef size_t required_block[3]  # 0: none
    cdef size_t local_bytes  # a group's at most
    cdef object last_grid  # of the launch before, on whichever queue; None when they cannot be compared by identity
    cdef object last_block
    cdef Geometry geometry  # what they came to
    cdef void _forget_plans(self) noexcept


cdef Kernel new_kernel(object device, DeviceState* state, object native, object identities)
