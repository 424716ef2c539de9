"""Kernels with their arguments. SYCL takes the arguments with each submission, so forebay keeps their values."""

from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Memory, Status


cdef struct Argument:
    char* value  # owned; NULL for pointers and local memory
    size_t size
    void* object  # owned: dpctl's object for a structure or for local memory of this size; NULL for others


cdef cppclass SyclKernel:
    void* kernel  # owned
    vector[Argument] arguments
    vector[void*] values  # in the form that a submission takes
    vector[int] types


cdef SyclKernel* new_kernel(void* kernel, const vector[int]& types) noexcept nogil  # takes the kernel over
cdef SyclKernel* copy_kernel(SyclKernel* kernel) noexcept nogil
cdef void delete_kernel(SyclKernel* kernel) noexcept nogil
cdef void set_address(SyclKernel* kernel, uint32_t index, const Memory* memory) noexcept nogil
cdef Status set_bytes(SyclKernel* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
