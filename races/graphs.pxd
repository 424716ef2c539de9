"""Races of the nodes of a graph with each other."""

from libcpp.vector cimport vector

from forebay.core.state cimport QueueState
from forebay.races.engine cimport Use


# `owners` are the nodes of the uses, and `dependencies` those that each node comes after, by their places in `nodes`.
cdef int check_nodes(
    object queue, QueueState* state, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1
