"""Markers and points. In all of these the queue is locked."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.vector_clock cimport Clock
from forebay.core.driver cimport Status, Waits
from forebay.core.state cimport Marker, QueueState


cdef bint is_idle(QueueState* queue) noexcept nogil
cdef Status take_marker(QueueState* queue, int use, Marker** marker) noexcept nogil
cdef void keep_copied(QueueState* queue, void* event) noexcept nogil
cdef void keep_marker(QueueState* queue, void* event, int use) noexcept nogil
cdef Status take_point(QueueState* queue, uint64_t epoch, int use, Marker** marker) noexcept nogil
cdef Status mark_before(QueueState* queue, uint64_t epoch, Clock* clock, Marker** marker) noexcept nogil
cdef Status mark_alone(QueueState* queue, Marker** marker) noexcept nogil
cdef Status mark_before_hold(QueueState* queue) noexcept nogil
cdef Status mark_the_way(QueueState* queue) noexcept nogil
cdef void forget_done_marks(QueueState* queue) noexcept nogil
cdef Status ask_queue(QueueState* queue, bint* done) noexcept nogil
cdef Status note_hold(QueueState* queue) noexcept nogil  # before a gate or host function
cdef void forget_hold(QueueState* queue) noexcept nogil  # of one that was refused
cdef uint64_t first_hold(QueueState* queue) noexcept nogil
cdef uint64_t marked_before(QueueState* queue, uint64_t held) noexcept nogil
cdef void add_pending(QueueState* queue, Marker* marker) noexcept nogil
cdef Status carry_pending(QueueState* queue) noexcept nogil
cdef Waits waits_of_pending(QueueState* queue, vector[void*]& events) noexcept nogil
cdef void drop_pending(QueueState* queue) noexcept nogil
