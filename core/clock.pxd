"""Clocks: for a queue, the epochs of other queues that it is already ordered after.

A clock is an immutable snapshot, shared by reference count until it changes. NULL is the empty clock. Because all
queues that wait for one marker share one clock, the cost of a wait does not grow with the number of queues.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.epochs cimport Epochs


cdef struct ClockEntry:
    Epochs* queue  # retained by the clock
    uint64_t epoch


cdef cppclass Clock:
    atomic[int32_t] references
    vector[ClockEntry] entries  # by ascending queue id, at most one a queue


cdef Clock* retain_clock(Clock* clock) noexcept nogil
cdef void release_clock(Clock* clock) noexcept nogil
cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil
cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil
cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil
cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil
cdef void complete_clock(const Clock* clock) noexcept nogil
cdef bint clock_is_done(const Clock* clock) noexcept nogil
cdef Clock* clock_of_entries(const vector[ClockEntry]& entries) noexcept nogil
