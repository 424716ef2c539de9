"""Checks the order of commands. Who submits one on a queue with BY_CHECK says here what it does; see `checker.pyx`."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t

from forebay.core.state cimport STILL_ALLOWED, BY_CHECK, BY_STEP, BY_WATCH, DeviceState, QueueState
from forebay.core.usage cimport Usage

cdef enum:
    WRITES = 1  # the use may write
    NOT_CONST = 2  # which is known of nothing but a pointer that is not const
    DOUBTFUL = 4  # whether there is such a use is unknown
    DECLARED = 8  # by `Kernel.reads` or `Kernel.writes`
    ATOMIC = 16  # by atomic operations only
    GIVEN = 32  # of memory that a launch was given, beside one that may use any


cdef class Use:
    """What a command does with a piece of memory."""

    cdef uintptr_t memory  # the address of its `Usage`, by which it is known
    cdef uint64_t lo, hi  # bytes: the first, and behind the last
    cdef uint64_t pitch, width  # bytes between rows, and of a row; 0: all of it
    cdef uint64_t choice  # which part the kernel may have chosen by its arguments; 0: none
    cdef readonly tuple what  # (kind of command, name of the kernel, argument); a node of a graph also has its place
    cdef readonly uint8_t flags
    # set when the command is checked
    cdef readonly tuple line  # of the program
    cdef readonly uint64_t queue
    cdef uint64_t epoch, command
    cdef dict past


cdef class Announcement:
    """The uses of a command, noted before it is submitted, and the order of its queue before.

    If it is dropped while it is open, its command was not submitted: it takes back its uses, and restores the order.
    """

    cdef bint open
    cdef list uses, replaced  # replaced: those that its own stand for
    cdef uint64_t queue, command
    cdef dict past, past_after, told, told_after
    cdef uint64_t null_seen, commands_after  # the count itself stays: others may have seen it
    cdef list unlisted  # queues that it took off the null queue's list


cdef inline bint is_checked(const QueueState* queue) noexcept nogil:
    """Return whether a command is to be told to the checker: the queue is checked, and not captured."""
    return queue.slow_path & ~<uint32_t> (BY_STEP | BY_WATCH) == BY_CHECK


cdef inline bint is_observed(const QueueState* queue) noexcept nogil:
    """Return whether `announce` must know what memory a command uses: the queue is checked or watched, and not
    captured.
    """
    return queue.slow_path & (BY_CHECK | BY_WATCH) != 0 and queue.slow_path & ~<uint32_t> STILL_ALLOWED == 0


cdef Use use_of(Usage* uses, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what)
cdef Use end_use(Usage* uses, uint64_t start, uint64_t nbytes, bint writes, str kind)  # of a copy or a fill
# `dependencies` are those that each node comes after, by their places in `nodes`.
cdef int check_nodes(DeviceState* device, list uses_of_nodes, tuple nodes, list dependencies) except -1

# Before a command is submitted. Raises RaceError where the Device wants that; else the race is told, and noted is all.
# It may run Python code: what the command uses is checked again after it.
cdef Announcement announce(object queue, QueueState* state, list uses, Announcement announced=*)
# Call before joins that are made for one command only, such as `come_after_past`, so that they are withdrawn with it
cdef Announcement begin_announcement(object queue, QueueState* state)
cdef int on_host(DeviceState* device, list uses) except -1  # what the host does at once
cdef int note_created(object queue, QueueState* state, Usage* uses) except -1  # each use comes after what there was
cdef uint32_t made(DeviceState* device, Usage* uses, uint64_t nbytes) except? 0  # returns the line

# Order
# A record; `kept` is given back by `drop_point`
cdef int note_point(object queue, QueueState* state, void** kept) except -1
cdef void drop_point(void** kept) noexcept
cdef int come_after_point(object queue, QueueState* state, const void* kept) except -1
cdef int come_after_queue(
    object queue, QueueState* state, object producer, QueueState* producer_state
) except -1
cdef int reached(const void* kept) except -1  # the host knows it
cdef int other_command(object queue, QueueState* state) except -1  # which uses no memory
cdef int come_after_unseen(object queue, QueueState* state) except -1
cdef int finished(object queue, QueueState* state) except -1
cdef int known_done(object queue, QueueState* state) except -1  # of this queue alone
cdef int finished_device(DeviceState* device, bint blocking_only=*) except -1
# What the uses of memory, or the writes among them, come after, with these themselves. Take it before looking for the
# uses to wait for, and join it when the wait was made: other threads may submit more meanwhile.
cdef dict past_of_uses(Usage* uses, bint writers_only)
cdef int waited_for_past(dict past) except -1
cdef int come_after_past(object queue, QueueState* state, dict past) except -1
# Returns what calls the function; `announce` need not be called for it
cdef object host_function(object queue, QueueState* state, object function, Announcement announced)
cdef int begin_check(object device, DeviceState* state, bint raises) except -1
cdef int end_check(DeviceState* state, bint raises) except -1
