from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Command, Driver, Memory, Status
from forebay.core.plan cimport PackedPointer, Plan
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.uses cimport Basis, Uses, still_holds
from forebay.core.vector_clock cimport Epochs
from forebay.queues.graphs.work cimport KernelWork, Work
from forebay.queues.host_functions cimport Call
from forebay.queues.memory.allocation cimport OwnedMemory


cdef inline bint is_still(const Basis* moment, const DeviceState* device) noexcept nogil:
    """Return whether nothing may have been written since to what the sizes were read from."""
    return moment.seen.empty() or still_holds(moment, device.resident.unseen_writes.load())


cdef class Sizes:
    cdef tuple works  # the graph's, all of them
    cdef dict by_work  # bytes of each scratch of a KernelWork
    cdef Basis moment  # the writes to what they were read from, whose buffers the works keep
    cdef bint lasting  # False when not all sizes are known, or others write without forebay's knowledge


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
    uint32_t lane  # see `forebay.queues.graphs.shape`
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


cdef class Prepared:
    cdef DeviceState* state  # retained
    cdef const Driver* driver
    cdef Submission* submission  # owned
    cdef uint32_t lane  # the lane of the steps added next
    cdef bint cut  # the next command begins a new step
    cdef vector[Plan*] plans  # owned
    cdef vector[uint32_t] sharers  # by plan: how many launches it is for
    cdef dict by_arguments  # index of a plan by lane, kernel id and packed arguments
    cdef dict scratch  # Scratch by lane, kernel and index of the parameter; empty on a debugging device
    cdef dict room  # bytes of each scratch of a KernelWork, on the lane where it has the least
    cdef bint changeable  # its recordings can be changed
    cdef bint not_now  # something is not recorded that could be at another time
    cdef vector[size_t] command_of  # by node: the index of its launch, NO_LAUNCH for other nodes
    cdef vector[size_t] step_of
    cdef vector[size_t] plan_of
    cdef vector[vector[uint32_t]] after  # by command: those that it comes after; empty where each follows the last
    cdef list guards  # of a debugging device
    cdef list functions
    cdef list kept  # objects that must live as long as this one, the works first
    cdef int add(self, Command command, Plan* following=*) except -1
    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1
    cdef int add_host(self, object function) except -1
    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1


cdef class Scratch:
    cdef PackedPointer pointer
    cdef OwnedMemory memory
    cdef size_t nbytes


cdef class Replay:
    cdef Prepared prepared
    cdef Submission* submission  # owned by `prepared`
    cdef tuple works  # None while it is changed, and when that has failed
    cdef int users  # how many threads launch it or change it; only touched with the GIL
    cdef Sizes sizes  # of the scratch when they were last read; there is room for them
    cdef tuple buffers  # all that the works use
    cdef tuple written  # those that they may write to
    cdef bint alone  # all is in one recording
    cdef bint one_by_one  # without recordings, though the driver has them
    cdef int repeats  # launches of such a one in turn with nothing changed
    cdef int wasted  # how many sizes in turn needed far less scratch than there is
    cdef object lifetimes  # Lifetimes of the memory that they allocate and free, or None; set by who made it
    cdef uint64_t closings  # the device's count when all buffers were last seen open


cdef enum:
    NO_LAUNCH = 0xFFFFFFFF


cdef inline bint is_one_call(Replay replay):
    """Return whether a launch is one call of the driver, replaying a recording, and nothing else."""
    return replay.alone and replay.lifetimes is None and replay.sizes.lasting and not replay.submission.follows
