"""What launches read and write."""

from cpython.object cimport PyObject
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry
from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel
from forebay.races.engine cimport Use

# `owners` are the nodes of the uses, and `dependencies` those that each node comes after, by their places in `nodes`.
cdef int check_nodes(
    object queue, QueueState* state, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1


# Adds the uses of a launch. `packed` are its arguments as `pack_arguments` lays them out.
cdef int add_launch(
    Kernel kernel, PyObject* const* arguments, const char* packed, const Geometry* geometry, vector[Use]& uses
) except -1
cdef int add_by_value(Kernel kernel, PyObject* const* arguments, vector[Use]& read) except -1
