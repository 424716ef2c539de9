"""Changing what a graph launches without recording it anew."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.queues.graphs.replay cimport Replay
from forebay.queues.graphs.sizes cimport Sizes


cdef list hold_buffers(object works)
cdef bint change_in_place(Replay replay, list latest, vector[size_t] changed) except -1
cdef Replay replay_for(Replay last, list spares, Sizes sizes)
cdef bint is_time_for_one_by_one(uint64_t recorded, list replays)
cdef list spares_of(list replays)
