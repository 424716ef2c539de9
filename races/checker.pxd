"""Checks the order of commands. Who submits one on a queue with BY_CHECK says here what it does; see `checker.pyx`."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.state cimport ALLOWING, BY_CHECK, BY_STEP, BY_WATCH, DeviceState, QueueState
from forebay.core.uses cimport Uses

cdef extern from "races/engine.hpp" namespace "races" nogil:
    cdef enum:
        WRITES  # the use may write
        NOT_CONST  # which is known of nothing but a pointer that is not const
        DOUBTFUL  # whether there is such a use is unknown
        DECLARED  # by `Kernel.reads` or `Kernel.writes`
        ATOMIC  # by atomic operations only
        GIVEN  # of memory that a launch was given, beside one that may use any

    cdef cppclass Past:
        pass

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

    cdef cppclass Announcement(vector[Use]):
        void (*withdraw)(const Announcement& announced) noexcept
        void submitted()  # else its end withdraws what it announced


cdef inline bint is_checked(const QueueState* queue) noexcept nogil:
    """Return whether a command is to be told to the checker: the queue is checked, and not captured."""
    return queue.barred & ~<uint32_t> (BY_STEP | BY_WATCH) == BY_CHECK


cdef inline bint is_observed(const QueueState* queue) noexcept nogil:
    """Return whether `command` must know what memory a command uses: the queue is checked or watched, and not
    captured.
    """
    return queue.barred & (BY_CHECK | BY_WATCH) != 0 and queue.barred & ~<uint32_t> ALLOWING == 0


cdef Use use_of(Uses* uses, uint64_t start, uint64_t nbytes, uint8_t flags, uint32_t what) noexcept

# What a command is: (kind, name of the kernel, argument, line that made the node), once for each
cdef uint32_t what_of(uint64_t kernel_id, uint32_t index, object kernel) except 0
cdef uint32_t named(str kind, str argument, str kernel=*) except 0
cdef uint32_t what_of_node(uint32_t what, str place) except 0

# `owners` are the nodes of the uses, and `dependencies` those that each node comes after, by their places in `nodes`.
cdef int check_nodes(
    DeviceState* device, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1

# Before a command is submitted. Raises RaceError where the Device wants that; else the race is told, and noted is all.
# It may run Python code: what the command uses is checked again after it.
cdef int command(object queue, QueueState* state, Announcement& uses) except -1
# Call before joins that are made for one command only, such as `come_after_past`, so that they are withdrawn with it
cdef int begin_announcement(object queue, QueueState* state, Announcement& uses) except -1
cdef int on_host(DeviceState* device, vector[Use]& uses) except -1  # what the host does at once
cdef uint32_t made(DeviceState* device, Uses* uses, uint64_t nbytes) except? 0  # returns the line

# Order
# A record; `kept` is given back by `drop_point`
cdef int note_point(object queue, QueueState* state, void** kept) except -1
cdef void drop_point(void** kept) noexcept
cdef int come_after_point(object queue, QueueState* state, const void* kept) except -1
cdef int come_after_queue(
    object queue, QueueState* state, object producer, QueueState* producer_state
) except -1
cdef void reached(const void* kept) noexcept  # the host knows it
cdef int other_command(object queue, QueueState* state) except -1  # which uses no memory
cdef int come_after_unseen(object queue, QueueState* state) except -1
cdef int finished(object queue, QueueState* state) except -1
cdef int known_done(object queue, QueueState* state) except -1  # of this queue alone
cdef int finished_device(DeviceState* device) except -1
# What the uses of memory, or the writes among them, come after, with these themselves. Take it before looking for the
# uses to wait for, and join it when the wait was made: other threads may submit more meanwhile.
cdef Past past_of_uses(Uses* uses, bint writers_only) noexcept
cdef void waited_for_past(const Past& past) noexcept
cdef int come_after_past(object queue, QueueState* state, const Past& past) except -1
# Returns what calls the function; `command` need not be called for it
cdef object host_function(object queue, QueueState* state, object function, Announcement& announced)
cdef int begin_check(object device, DeviceState* state, bint raises) except -1
cdef void end_check(DeviceState* state, bint raises) noexcept
