"""Locks and their guard: see the header."""

cdef extern from "core/locks.hpp" namespace "forebay" nogil:
    cdef cppclass Lock:
        void lock() noexcept
        bint try_lock() noexcept
        void unlock() noexcept
        bint is_wanted() noexcept  # another thread waits for it
        void reset() noexcept  # in a forked child, which has none of the threads that held it or waited

    cdef cppclass Guard:
        Guard() noexcept
        void take(Lock& lock) noexcept
        bint try_take(Lock& lock) noexcept
        void leave() noexcept
