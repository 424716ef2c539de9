"""Clocks: for a queue, the epochs of other queues that it is already ordered after.

A clock is an immutable snapshot, shared by reference count until it changes. NULL is the empty clock. Its entries lie
in chunks, which clocks share too: a wait beside a thousand busy queues copies one chunk and references to the others.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.epochs cimport Epochs


cdef struct ClockEntry:
    Epochs* queue  # retained by the chunk
    uint64_t epoch


cdef cppclass Chunk:
    atomic[int32_t] references
    uint64_t number  # of the queue ids divided by the chunk's size, so that all clocks cut at the same places
    vector[ClockEntry] entries  # by ascending queue id, at most one a queue


cdef cppclass Clock:
    atomic[int32_t] references
    vector[Chunk*] chunks  # by ascending number; none is empty
    size_t next_look  # the chunk that the next change looks at, to drop it if all of it is done


cdef Clock* retain_clock(Clock* clock) noexcept nogil
cdef void release_clock(Clock* clock) noexcept nogil
cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil
cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil
cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil
cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil
# The only way to raise ``completed``. The clock is the queue's at that epoch, or NULL for nothing but the queue itself.
cdef void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept nogil
cdef bint clock_is_done(const Clock* clock) noexcept nogil
