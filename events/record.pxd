"""Recording events and waiting for them."""

from libc.stdint cimport uint64_t

from forebay.core.state cimport QueueState
from forebay.events.event cimport Event


cdef object record(object queue, QueueState* state, object device, object capture, object given, bint timing)
cdef int wait_for_event(object queue, QueueState* state, object capture, Event event) except -1
cdef int wait_for_foreign(object queue, QueueState* state, object thing, uint64_t number) except -1
cdef int wait_for_queue(
    object queue, QueueState* state, object capture, object producer, QueueState* producer_state,
    object producer_capture
) except -1
cdef int finish_within(object queue, QueueState* state, object timeout) except -1
