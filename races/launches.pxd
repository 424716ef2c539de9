"""What launches read and write: see `launches.pyx`."""

from cpython.object cimport PyObject

from forebay.core.driver cimport Geometry
from forebay.core.state cimport AnyQueue
from forebay.queues.kernels.kernel cimport Kernel
from forebay.races.checker cimport Announcement

# `packed`: the arguments as `pack_arguments` lays them out
cdef Announcement announce_launch(
    AnyQueue queue, Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry)
# Without `at_once`, the bytes by value were read before
cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, Announcement uses,
    Announcement at_once=*
) except -1
