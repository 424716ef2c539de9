"""What a launch of a graph submits."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Command, Status
from forebay.core.epochs cimport Epochs
from forebay.core.plan cimport Plan
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Basis, Uses
from forebay.queues.host_functions cimport Call


cdef enum StepKind:
    COMMANDS  # submitted one by one
    RECORDED  # submitted by one call of the driver
    HOST_CALL
    JOIN  # does nothing but wait


cdef struct Step:
    StepKind kind
    size_t first  # index of the first command, or of the host function
    size_t count
    void* recording  # owned
    uint32_t lane  # see `forebay.queues.graphs.lanes`
    bint from_start  # it begins a lane and waits for no other step, only for the start of the launch
    bint awaited  # another lane waits for it
    uint64_t room  # that it takes in its queue beside a command's, as drivers say (`room_of_recorded_copy`)
    size_t first_wait
    size_t wait_count


cdef struct UseOf:
    Uses* uses  # retained
    bint writes


cdef cppclass Submission:
    """The steps, commands and lanes that a launch submits."""
    vector[UseOf] uses  # of the allocations that it uses
    bint follows  # it follows pointers in memory, so it may use all
    Epochs* last_queue  # of the last launch; retained; NULL before the first
    uint64_t last_epoch
    vector[Step] steps
    vector[Command] commands
    vector[Plan*] following  # by command: the plan, owned by the replay, if its kernel follows pointers; else NULL
    vector[size_t] waits  # indices of steps of other lanes
    vector[void*] lanes  # the driver's queues; the first is NULL and stands for the launch queue
    bint needs_start  # some step has `from_start`
    uint64_t room  # of all steps


cdef enum:
    OUT_OF_DATE = -100  # not submitted: a buffer was written to or closed after the launch looked at it


cdef Status replay_one(QueueState* queue, Submission* submission) noexcept nogil
cdef Status submit_replay(
    QueueState* queue, Submission* submission, const Basis* moment, uint64_t closings, vector[Call*]& calls,
    size_t* called, bint* began
) noexcept nogil
cdef uint64_t room_of_launch(const QueueState* queue, const Submission* submission, size_t functions) noexcept nogil
