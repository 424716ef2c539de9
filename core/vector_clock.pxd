"""Epochs and vector clocks: see the header."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

# Cython has no type that reads as a pointer, so it takes these references for pointers. Assigning a plain pointer adds
# a reference, and NULL releases it. No member of a Python class can be one. Where one is assigned, cast it to the plain
# pointer: otherwise Cython makes a copy first, for two counts more.

cdef extern from "core/vector_clock.hpp" namespace "forebay" nogil:
    cdef cppclass Epochs:
        uint64_t queue_id
        atomic[uint64_t] submitted
        atomic[uint64_t] completed

    ctypedef Epochs* EpochsRef "forebay::Ref<forebay::Epochs>"
    EpochsRef new_epochs(uint64_t queue_id) noexcept
    uint64_t submitted_epoch(const Epochs* epochs) noexcept
    uint64_t completed_epoch(const Epochs* epochs) noexcept
    bint is_empty(const Epochs* epochs) noexcept
    void advance_submitted(Epochs* epochs) noexcept
    void advance_submitted(Epochs* epochs, uint64_t count) noexcept

    cdef cppclass ClockEntry:  # a point of a queue
        ClockEntry() noexcept
        ClockEntry(Epochs* queue, uint64_t epoch) noexcept
        EpochsRef queue
        uint64_t epoch

    cdef cppclass Clock:
        pass

    ctypedef Clock* ClockRef "forebay::Ref<forebay::Clock>"
    void swap_clocks "std::swap"(ClockRef& first, ClockRef& second) noexcept
    uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept
    bint covers(const Clock* clock, const Clock* other) noexcept
    bint clock_is_done(const Clock* clock) noexcept
    void merge_clock(ClockRef& clock, const Clock* other) noexcept
    void raise_clock(ClockRef& clock, Epochs* queue, uint64_t epoch) noexcept

    cdef cppclass OnceClock:
        void clear() noexcept
        Clock* raised(const ClockRef& clock, Epochs* queue, uint64_t epoch) noexcept

    void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept
    void list_entries(const Clock* clock, vector[ClockEntry]& into) noexcept
