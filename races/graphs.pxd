"""What graphs read and write."""

from forebay.core.state cimport QueueState
from forebay.races.engine cimport Use

from libcpp.vector cimport vector


cdef int add_works(tuple works, tuple nodes, vector[Use]& uses) except -1
cdef int check_nodes(object device, tuple works, tuple nodes, list dependencies) except -1
# A launch of a graph comes after the one before, and after the frees of the memory that it hands out.
cdef int check_launch(
    object queue, QueueState* state, tuple works, tuple nodes, const void* before, vector[Use]& uses
) except -1
