"""What graphs and steps share: recorded commands, their changes, and copies of a recording that take turns.

A command's version rises whenever an argument or the number of work-groups changes. A copy of a recording stores the
version of each command that it contains, so only later changes are written to it.
"""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Change, Driver, RecordedCommand, Status, Waits
from forebay.core.ownership cimport Ref, relaxed_uint64
from forebay.core.plan cimport Plan, set_changed_arguments
from forebay.core.state cimport DeviceState, Marker
from forebay.core.vector_clock cimport EpochsRef
from forebay.queues.launch.launch cimport is_same_block


cdef cppclass Recorded:
    """A command in its current form."""
    RecordedCommand command
    Plan* plan  # with the kernel of a launch; NULL for a copy or fill
    vector[char] values  # the packed arguments of a launch
    vector[uint64_t] changed_at  # by parameter, then for the groups: the version with which it changed last


cdef inline Status set_arguments(Recorded* launch, uint32_t* failed_at) noexcept nogil:
    """Set the changed arguments of a kernel object: no other thread has it, or a step's queue is under lock."""
    cdef relaxed_uint64 bytes_set = 0, bytes_skipped = 0
    if launch.plan == NULL or launch.plan.all_known and is_same_block(
        launch.plan.values.data(), launch.values.data(), launch.values.size()
    ):
        return 0
    return set_changed_arguments(launch.plan, launch.values.data(), NULL, &bytes_set, &bytes_skipped, failed_at)


cdef Status submit_one(
    const Driver* driver, void* handle, Recorded* recorded, Waits waits, uint32_t* failed_at
) noexcept nogil


cdef cppclass Copy:
    """A recording of a run. Unless the driver has `changes_spare_running`, it is changed only while it does not run."""
    void* recording  # owned
    vector[uint64_t] versions  # of its commands
    EpochsRef queue  # of its last replay; NULL: none, or the step's queue
    uint64_t epoch
    Ref[Marker] marker  # of a step: after that replay; NULL until another copy takes its turn


cdef cppclass Run:
    """Commands that are submitted together, and the copies of their recording."""
    size_t first, end
    vector[Copy*] copies
    size_t current  # the one that was replayed last
    bint changeable  # they are recorded so that they can be changed


cdef enum:
    MOST_COPIES = 3


cdef cppclass Recorder:
    """What runs are recorded from."""
    const Driver* driver
    void* queue  # one of the driver's
    Recorded** commands
    const uint64_t* versions  # by command
    const vector[uint32_t]* after  # by command: those that it comes after; NULL: each follows the last
    bint (*may_run)(void* owner, Copy* copy) noexcept nogil  # asked of the current copy first
    void* owner
    vector[Change] changes


# Choose a copy that has the current version of each command. NOT_NOW: all copies may still run, or the driver cannot
# record now. Any other status: the driver cannot record these commands.
cdef Status choose_copy(Recorder& recorder, Run* run, size_t most, Copy** chosen) noexcept nogil


cdef class Kept:
    """Resources of a graph, or discarded by a step, that the device may still use."""
    cdef Ref[DeviceState] state
    cdef vector[Copy*] copies  # owned
    cdef vector[Plan*] plans  # owned
    cdef list things


cdef void take_copies(vector[Copy*]& copies, Run* run) noexcept nogil
cdef Kept new_kept(DeviceState* state)
