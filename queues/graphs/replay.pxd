"""Graphs made ready to run."""

from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Command, Driver, Memory, Status
from forebay.core.plan cimport Plan
from forebay.core.state cimport DeviceState, QueueState
from forebay.queues.graphs.work cimport Work
from forebay.queues.host_functions cimport Call


cdef enum StepKind:
    COMMANDS  # submitted one by one
    RECORDED  # by one call of the driver
    HOST_CALL
    JOIN  # nothing but what it waits for


cdef struct Step:
    StepKind kind
    size_t first  # of the commands, or which of the host functions
    size_t count
    void* recording  # owned
    uint32_t lane  # see `forebay.queues.graphs.lanes`
    bint from_start  # of the launch: it is the first of a lane, and waits for no other step
    bint awaited  # by another lane
    size_t first_wait
    size_t wait_count


cdef cppclass Submission:
    """What a launch submits."""
    vector[Step] steps
    vector[Command] commands
    vector[size_t] waits  # steps of other lanes
    vector[void*] lanes  # the driver's queues; in place of the first comes the launch's
    bint needs_start  # some lane waits for nothing but what comes before the launch


cdef class Prepared:
    cdef DeviceState* state  # retained
    cdef const Driver* driver
    cdef Submission* submission  # owned
    cdef uint32_t lane  # of the steps that are added
    cdef bint cut  # the next command begins a step
    cdef vector[Plan*] plans  # owned
    cdef dict by_arguments  # index of a plan by kernel id and packed arguments
    cdef list functions
    cdef list kept  # all that has to live as long as this
    cdef int add(self, Command command) except -1
    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1
    cdef int add_host(self, object function) except -1
    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1


cdef class Replay:
    cdef Prepared prepared
    cdef Submission* submission  # its


cdef bint is_acting(Work work)
cdef Replay new_replay(object device, QueueState* queue, list works, list segments, list lanes)
cdef Status submit_replay(
    QueueState* queue, Submission* submission, vector[Call*]& calls, size_t* called, bint* began
) noexcept nogil
