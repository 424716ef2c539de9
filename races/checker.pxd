"""Checks the order of commands: see `checker.pyx`. What submits one on a queue with BY_CHECK announces it here."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.ownership cimport Ref
from forebay.core.state cimport (
    STILL_ALLOWED, BY_CHECK, BY_STEP, BY_WATCH, AnyQueue, DeviceState, QueueState
)
from forebay.core.usage cimport Usage
from forebay.core.vector_clock cimport Clock

cdef extern from "races/state.hpp" namespace "forebay::races" nogil:
    cdef enum:
        WRITES, NOT_CONST, DOUBTFUL, ATOMIC, GIVEN

    cdef cppclass Counted:
        pass

    cdef cppclass RecordedPoint "forebay::races::Point":
        Ref[Clock] past

    cdef cppclass Order:
        size_t checking, raising
        void come_after(const Clock* past)
        void wait(const RecordedPoint* point)
        Ref[Clock] moment()

    cdef cppclass Use:
        Counted* memory
        uint64_t begin, end, pitch, width, choice
        uint32_t what, line
        uint8_t flags

    cdef cppclass Command:
        vector[Use] uses
        Order* queue  # NULL: it was not announced
        Ref[Clock] past  # what precedes it

    bint join(Ref[Clock]& past, const Clock* other)
    void reach(const Clock* past)  # the host knows all of it as done
    void reach(const RecordedPoint* point)


cdef class Announcement:
    """A command, and what it uses. Dropped before it is settled, it was refused, and leaves nothing."""

    cdef Command command
    cdef object place  # of a node of a graph: the line that made it
    cdef Use* add(self, Usage* usage, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what) except NULL
    # What a command other than a launch does with memory
    cdef int add_end(self, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind) except -1


cdef inline bint is_checked(const QueueState* queue) noexcept nogil:
    """Return whether the checker must know of a command: the queue is checked, and not captured."""
    return queue.slow_path & ~<uint32_t> (BY_STEP | BY_WATCH) == BY_CHECK


cdef inline bint is_observed(const QueueState* queue) noexcept nogil:
    """Return whether `announce` must know what memory a command uses: the queue is checked or watched, and not
    captured.
    """
    return queue.slow_path & (BY_CHECK | BY_WATCH) != 0 and queue.slow_path & ~<uint32_t> STILL_ALLOWED == 0


# Call `announce` before a command is submitted. It raises RaceError where a Device wants that; else races are only
# reported. It may run Python code: what the command uses is checked again after it. Call `settle` when it was submitted.
cdef Announcement announce(AnyQueue queue, Announcement announced)
cdef Announcement announce_use(
    AnyQueue queue, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind)
cdef Announcement begin_command(AnyQueue queue)  # before that, to join its past with what only this command comes after
cdef int settle(Announcement announced) except -1  # None: nothing was announced
cdef int on_host(DeviceState* device, Announcement announced) except -1  # what the host does at once
cdef object host_function(object function, Announcement announced)  # returns what calls the function
# `dependencies` are those that each node comes after, by their places in `nodes`.
cdef int check_nodes(DeviceState* device, list announced, tuple nodes, list dependencies) except -1
cdef uint32_t made(DeviceState* device, Usage* usage, uint64_t nbytes) except? 0  # returns the line
cdef int note_created(AnyQueue queue, Usage* usage) except -1  # each use comes after what there was

cdef Order* order_of(AnyQueue queue) except NULL
cdef Ref[RecordedPoint] record_point(AnyQueue queue) except *  # NULL where the queue is not checked
cdef int wait_for_unseen(AnyQueue queue) except -1
# What all uses of memory, or the writes among them, precede. Take it before looking for the uses to wait for, and join it
# when the wait was made: other threads may submit more meanwhile.
cdef Ref[Clock] past_of_uses(Usage* usage, bint writers_only) noexcept
cdef int finished(QueueState* queue, bint alone=*) except -1
cdef int finished_device(DeviceState* device) except -1
cdef int begin_check(AnyQueue null_queue, bint raises) except -1
cdef int end_check(DeviceState* device, bint raises) except -1
