"""Changing what a graph launches without recording it anew."""

from forebay.queues.graphs.replay cimport Replay
from forebay.queues.graphs.sizes cimport Sizes


cdef Replay change_one(list replays, Sizes sizes)
