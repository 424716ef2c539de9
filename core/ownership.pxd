"""Counted references, locks with their guard, and words that are read without a lock: see the header."""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "core/ownership.hpp" namespace "forebay" nogil:
    const bint FREE_THREADED
    T* retain[T](T* object) noexcept
    void release[T](T* object) noexcept

    cdef cppclass Ref[T]:
        Ref() noexcept

        @staticmethod
        Ref[T] adopt(T* owned) noexcept

        @staticmethod
        Ref[T] share(T* borrowed) noexcept
        T* get() noexcept
        T* take() noexcept
        void clear() noexcept

    cdef cppclass Refs[T]:
        cppclass iterator:
            iterator() noexcept
            T* operator*() noexcept
            iterator operator++() noexcept
            iterator operator+(size_t) noexcept
            bint operator!=(iterator) noexcept
        Refs() noexcept
        iterator begin() noexcept
        iterator end() noexcept
        T* operator[](size_t index) noexcept
        T* back() noexcept
        size_t size() noexcept
        bint empty() noexcept
        void reserve(size_t count) noexcept
        void adopt(T* owned) noexcept
        void share(T* borrowed) noexcept
        void push_back(Ref[T] reference) noexcept
        void pop_back() noexcept
        void erase(iterator place) noexcept
        void clear() noexcept
        void swap(Refs[T]& other) noexcept

    # Cython takes them for the plain types
    ctypedef bint relaxed_bint "forebay::Relaxed<int>"
    ctypedef void* relaxed_pointer "forebay::Relaxed<void *>"
    ctypedef uint32_t relaxed_uint32 "forebay::Relaxed<uint32_t>"
    ctypedef uint64_t relaxed_uint64 "forebay::Relaxed<uint64_t>"

    cdef cppclass Lock:
        void lock() noexcept
        bint try_lock() noexcept
        void unlock() noexcept
        bint is_wanted() noexcept  # another thread waits for it
        void reset() noexcept  # in a forked child, which lacks the threads that held it or waited

    cdef cppclass Guard:
        Guard() noexcept
        void take(Lock& lock) noexcept
        bint try_take(Lock& lock) noexcept
        void leave() noexcept
