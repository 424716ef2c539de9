"""What commands read and write."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.engine cimport Use


# Adds the uses of a launch. `packed` are its arguments as `pack_arguments` lays them out.
cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, vector[Use]& uses
) except -1
cdef int add_by_value(Kernel kernel, PyObject* const* arguments, vector[Use]& read) except -1
cdef int add_buffer(Buffer buffer, bint writes, str kind, vector[Use]& uses) except -1
# Memory of the host that an object shows, which is not pinned: nothing is added where it cannot be known again.
cdef int add_host(object host, uint64_t address, uint64_t nbytes, bint writes, str kind, vector[Use]& uses) except -1
