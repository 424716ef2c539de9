"""What launches read and write."""

from cpython.object cimport PyObject

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel

# Adds the uses of a launch. `packed` are its arguments as `pack_arguments` lays them out.
cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, list uses
) except -1
cdef int add_by_value(Kernel kernel, PyObject* const* arguments, list read) except -1
