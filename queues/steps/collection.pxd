"""Collecting the launches of an open step."""

from forebay.core.driver cimport Status
from forebay.core.state cimport QueueState
from forebay.queues.steps.lane cimport Lane

cdef enum:
    IN_STEP = -101  # the queue is in an open step already


cdef class LaneOwner:
    """Owns what a step knows of one queue. It is given back when the queue is done with it."""
    cdef Lane* lane
    cdef QueueState* state  # of the queue; retained
    cdef readonly object queue
    cdef readonly dict names  # of the kernels in the record, by id; for errors


cdef bint can_collect(QueueState* queue) noexcept nogil
cdef LaneOwner new_lane(object queue, QueueState* state)
cdef Status open_lane(LaneOwner owner)
cdef void leave_lane(LaneOwner owner, bint failed) noexcept
cdef void retire_lane(LaneOwner owner)
cdef void count_left(QueueState* queue) noexcept nogil
