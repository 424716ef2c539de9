"""Epochs and vector clocks: see the header."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

cdef extern from "core/vector_clock.hpp" namespace "forebay" nogil:
    cdef cppclass Epochs:
        uint64_t queue_id
        atomic[uint64_t] submitted
        atomic[uint64_t] completed

    Epochs* new_epochs(uint64_t queue_id) noexcept
    Epochs* retain_epochs(Epochs* epochs) noexcept
    void release_epochs(Epochs* epochs) noexcept
    uint64_t submitted_epoch(const Epochs* epochs) noexcept
    uint64_t completed_epoch(const Epochs* epochs) noexcept
    bint is_empty(const Epochs* epochs) noexcept
    void advance_submitted(Epochs* epochs) noexcept
    void advance_submitted(Epochs* epochs, uint64_t count) noexcept

    cdef cppclass ClockEntry:  # a point of a queue
        ClockEntry() noexcept
        ClockEntry(Epochs* queue, uint64_t epoch) noexcept
        Epochs* queue  # retained
        uint64_t epoch

    cdef cppclass Clock:
        pass

    Clock* retain_clock(Clock* clock) noexcept
    void release_clock(Clock* clock) noexcept
    uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept
    bint covers(const Clock* clock, const Clock* other) noexcept
    bint clock_is_done(const Clock* clock) noexcept
    Clock* merged(const Clock* first, const Clock* second) noexcept
    Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept
    void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept
    void list_entries(const Clock* clock, vector[ClockEntry]& into) noexcept
