"""What precedes what, and what uses which memory: see the header."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.unordered_map cimport unordered_map
from libcpp.utility cimport pair
from libcpp.vector cimport vector

cdef extern from "races/engine.hpp" namespace "races" nogil:
    cdef enum:
        WRITES  # the use may write
        NOT_CONST  # which is known of nothing but a pointer that is not const
        DOUBTFUL  # nobody knows whether there is such a use
        DECLARED  # by `Kernel.reads` or `Kernel.writes`
        ATOMIC  # by atomic operations only
        GIVEN  # of memory that a launch was given, beside one that may use any

    cdef enum Overlap:
        APART
        MAYBE
        SHARED

    cdef cppclass Past:
        pass

    cdef cppclass Moment:
        Past past
        uint64_t queue
        uint64_t epoch
        uint32_t line

    cdef cppclass Use:
        void* memory
        uint64_t lo
        uint64_t hi
        uint64_t pitch
        uint64_t width
        uint64_t choice
        uint32_t what
        uint8_t flags
        uint32_t line
        uint64_t queue
        uint64_t epoch
        Past past

    Overlap overlap(const Use& one, const Use& other)
    cbool may_miss(const Use& first, const Use& second)
    cbool is_certain(const Use& first, const Use& second)

    cdef cppclass Before:
        pass

    cdef cppclass Announcement(vector[Use]):
        Before before

    cdef cppclass Conflict:
        Use first
        Use second
        cbool certain
        cbool told
        cbool foreign
        Moment early
        uint32_t made
        uint64_t kept

    cdef cppclass Memory:
        uint64_t nbytes
        uint32_t made
        vector[Use] uses
        Past forgotten

    cdef cppclass Queue:
        uint64_t id
        uint64_t epoch
        cbool null
        cbool blocking
        cbool adopted
        cbool observed
        cbool listed
        void* context
        void* thing
        uint64_t null_seen
        uint64_t commands
        Past past

    cdef cppclass Context:
        Queue* null
        vector[Queue*] listed
        size_t checking
        size_t raising

    cdef cppclass Engine:
        unordered_map[uint64_t, Queue] queues
        unordered_map[void*, Context] contexts
        unordered_map[void*, Memory] memories
        Past told
        const Moment* running
        cbool (*is_gone)(void* memory) noexcept
        void (*retain)(void* memory) noexcept
        void (*release)(void* memory) noexcept
        cbool (*is_queue_gone)(void* thing) noexcept
        void (*drop_thing)(void* thing) noexcept
        size_t sweep_queues
        uint64_t forgotten
        uint64_t waited_for(uint64_t queue)
        Past joined(const Past& past, const Past& other)
        Past joined(const Past& past, const Moment& moment)
        Moment moment_of(Queue& queue, uint32_t line)
        void come_after(Queue& queue, const Moment& moment)
        void come_after(Queue& queue, Past past)
        void come_after_all(Queue& queue)
        void save(const Queue& queue, Before& before)
        void saved(const Queue& queue, Before& before)
        void begin(Queue& queue)
        void begin(Queue& queue, Before* before)
        void wait(Queue& queue, const Moment& moment)
        void wait_on_host(const Moment& moment)
        void wait_on_host(const Past& past)
        void finish(Queue& queue)
        void finish_context(void* context)
        void leave(void* context)
        void find_conflicts(Queue* queue, vector[Use]& uses, vector[Conflict]& found)
        void note(Queue& queue, vector[Use]& uses, uint32_t line)
        void withdraw(const Announcement& uses)
        Memory& memory_of(void* key)
        Past past_of(void* key, cbool writers_only)
        void forget_waited()
