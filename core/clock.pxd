"""Clocks: for a queue, the epochs of other queues that it is already ordered after.

A clock is an immutable snapshot, shared by reference count until it changes. NULL is the empty clock. What has changed
lately stands in the clock itself; the rest lies in chunks, which clocks share. So a wait beside a thousand busy queues
copies a few entries, and now and then references to the chunks.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.epochs cimport Epochs

cdef enum:
    RECENT = 8


cdef struct ClockEntry:
    Epochs* queue  # retained by who has the entry
    uint64_t epoch


cdef cppclass Chunk:
    atomic[int32_t] references
    uint64_t number  # of the queue ids divided by the chunk's size, so that all clocks cut at the same places
    vector[ClockEntry] entries  # by ascending queue id, at most one a queue


cdef cppclass Chunks:
    atomic[int32_t] references
    vector[Chunk*] each  # by ascending number; none is empty
    size_t next_look  # the chunk that the next change of this list looks at, to drop it if all of it is done


cdef cppclass Clock:
    atomic[int32_t] references
    Chunks* chunks  # retained; NULL for none
    size_t next_look  # the chunk that the next change looks at, to see whether all of it is done
    size_t found_done  # how many were, since the first
    size_t count
    ClockEntry recent[RECENT]  # in no order, at most one a queue; later than what the chunks say of that queue


cdef Clock* retain_clock(Clock* clock) noexcept nogil
cdef void release_clock(Clock* clock) noexcept nogil
cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil
cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil
cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil
cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil
# The only way to raise ``completed``. The clock is the queue's at that epoch, or NULL for nothing but the queue itself.
cdef void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept nogil
cdef bint clock_is_done(const Clock* clock) noexcept nogil
# Append all entries; of those of one queue the highest counts. They are there as long as the clock is.
cdef void list_entries(const Clock* clock, vector[ClockEntry]& into) noexcept nogil
