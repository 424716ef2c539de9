"""The race checker: see `checker.pyx`. Commands of a queue with BY_CHECK are announced here when they are submitted."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.ownership cimport Ref
from forebay.core.state cimport STILL_ALLOWED, BY_CHECK, BY_STEP, BY_WATCH, AnyQueue, DeviceState, QueueState
from forebay.core.usage cimport Usage
from forebay.core.vector_clock cimport Clock


cdef extern from "races/state.hpp" namespace "forebay::races" nogil:
    cdef enum:
        WRITES, NOT_CONST, DOUBTFUL, ATOMIC, GIVEN

    cdef enum Others:
        ALONE, BLOCKING, ALL

    bint join(Ref[Clock]& past, const Clock* other)
    void reach(const Clock* past)  # the host knows all of it to be done

    cdef cppclass Order:
        void come_after(const Clock* past)
        Ref[Clock] moment()

    cdef cppclass Use:
        void* memory
        uint64_t begin, end, pitch, width, choice
        uint32_t what
        uint8_t flags

    cdef cppclass Command:
        vector[Use] uses
        Ref[Clock] past  # what precedes it, once it has begun

    cdef struct Side:
        uint64_t queue
        uint32_t what, line
        uint8_t flags

    cdef struct Conflict:
        Side first, second
        uint64_t context, begin, end, nbytes
        uint32_t made, early
        bint chosen, host_between, foreign, certain

    cdef cppclass State:
        Order* find(uint64_t id)
        Order* add_queue(uint64_t id, Order* null, bint blocking, bint adopted, PyObject* reference)
        PyObject* reference_of(uint64_t id)
        void note_made(Usage* usage, uint32_t made, uint64_t nbytes)
        void copy_made(State& whole, Usage* usage)
        void note_created(Usage* usage, Order* queue)
        bint change_checking(Order* null, int by, bint raising)
        bint raises(uint64_t null)
        void begin(Command& command, Order* queue, bint on_host_thread)
        vector[Conflict] judge(Command& command, uint32_t line)
        vector[Conflict] announce(Command& command, Order* queue, bint on_host_thread, uint32_t line)
        void settle(Command& command, bint submitted)
        Ref[Clock] tell(Command& command)
        void run_function(const Ref[Clock]& past)
        Ref[Clock] record(Order* queue, bint on_host_thread, uint32_t line)
        Ref[Clock] past_of_uses(Usage* usage, bint writers_only)
        void wait_for_unseen(Order* queue)
        Ref[Clock] past_of(uint64_t queue, Others others)
        void reach_all(uint64_t null_queue, const Clock* past)
        vector[size_t] counts()


cdef State* races


cdef class Announcement:
    """A command and its uses of memory. If it is dropped before `settle`, it was refused, and leaves nothing."""

    cdef Command command
    cdef object place  # of a node of a graph: the line that made it
    cdef Use* add(self, Usage* usage, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what) except NULL
    # What a command other than a launch does with memory
    cdef int add_end(self, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind) except -1


cdef inline bint is_checked(const QueueState* queue) noexcept nogil:
    """Return whether the checker must see the queue's commands: it is checked, and not captured."""
    return queue.slow_path & ~<uint32_t> (BY_STEP | BY_WATCH) == BY_CHECK


cdef inline bint is_observed(const QueueState* queue) noexcept nogil:
    """Return whether `announce` needs the uses of a command: the queue is checked or watched, and not captured."""
    return queue.slow_path & (BY_CHECK | BY_WATCH) != 0 and queue.slow_path & ~<uint32_t> STILL_ALLOWED == 0


# Call before a command is submitted. Reports races, or raises RaceError where a Device wants that. It may run Python
# code: check again what the command uses.
cdef Announcement announce(AnyQueue queue, Announcement announced)
cdef Announcement announce_use(AnyQueue queue, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind)
# Call before `announce`, to `join` the command's past with what it alone comes after.
cdef Announcement begin_command(AnyQueue queue)


cdef inline int settle(Announcement announced) noexcept:
    """Call after a command was submitted. None: nothing was announced."""
    if announced is not None:
        races.settle(announced.command, True)
    return 0


cdef int on_host(DeviceState* device, Announcement announced) except -1  # what the host does at once
cdef object host_function(object function, Announcement announced)  # returns the wrapped function
# `dependencies`: for each node, the places in `nodes` of those that it comes after
cdef int check_nodes(DeviceState* device, list announced, tuple nodes, list dependencies) except -1
cdef uint32_t made(DeviceState* device, Usage* usage, uint64_t nbytes) except? 0  # returns the line
cdef Order* order_of(AnyQueue queue) except NULL
cdef Ref[Clock] record_point(AnyQueue queue) except *  # NULL where the queue is not checked
cdef int change_checking(AnyQueue null_queue, int by, bint raises) except -1
