"""What a step knows of one queue: the record of its launches, and the recordings that stand for runs of them."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Change, Geometry, Status
from forebay.core.plan cimport Plan
from forebay.core.state cimport Marker, OpenStep, QueueState
from forebay.core.uses cimport Uses

cdef enum:
    ANY_FURTHER = 62  # the bit of `Entry.changed` for this parameter and all that follow
    GROUPS = 63  # the bit for the number of work-groups


cdef cppclass Entry:
    """A launch of the record, as it was last collected."""
    Plan* plan  # the lane's
    Geometry geometry
    vector[char] values  # the packed arguments
    vector[Uses*] uses  # by parameter, as in a Plan; retained
    uint64_t epoch
    bint varies  # an argument was another one than the time before
    # A bit for each of what changed since this run's recording took it; only where there is one copy
    uint64_t changed
    const void* taken_by


cdef cppclass Copy:
    """A recording of a run, and what it does now. It is changed only while it does not run."""
    void* recording  # owned
    vector[uint32_t] versions  # of its launches
    vector[char] values  # their packed arguments, one after the other; empty where there is one copy
    vector[Uses*] uses  # by launch and parameter: of the allocations in `values`; retained, NULL for none
    vector[uint32_t] groups  # three for each; empty as the values are
    uint64_t epoch  # of its last replay
    Marker* marker  # after that replay; NULL until another copy takes its turn


cdef cppclass Run:
    """Launches that are submitted together, and the copies that take turns."""
    size_t first, end
    vector[Copy*] copies
    size_t current


cdef cppclass GivenUp:
    """To be given back when the queue is done with it."""
    vector[Copy*] copies
    vector[Plan*] plans


cdef cppclass LaneEpochs:
    """Epochs of a lane's queue."""
    uint64_t began  # when the step was opened
    uint64_t last_seen  # of the last launch that was recorded or collected
    uint64_t before  # before what is collected
    uint64_t last_used  # of the last launch that used anything of this


cdef cppclass Refused:
    """The first collected launch that the driver did not take."""
    Status status
    uint64_t kernel_id
    uint32_t argument


cdef cppclass Lane(OpenStep):
    # Guarded by the queue's lock. What only the step's thread changes it may also read without.
    vector[Entry*] entries
    vector[uint32_t] versions  # by entry: raised whenever it changes
    vector[Run*] runs  # by their first entry; NULL for none
    vector[size_t] ends  # by the entry with which it began: the end of each run, when the step was last open
    vector[size_t] new_ends  # the same, while it is open
    vector[Plan*] plans  # one for each kernel; owned
    PyObject* names  # the owner's
    GivenUp given_up
    vector[Change] changes
    size_t first  # of what is collected
    size_t at  # the entry that the next launch is compared with
    size_t run_first  # of the run that was submitted last, or is being recorded
    LaneEpochs epochs
    bint recording  # what comes is recorded, because it is new or different
    bint plain  # the launches cannot be recorded, or are never the same, so they are submitted as they come
    bint told  # that it is plain
    int recorded  # how many times in a row
    Refused refused


cdef enum:
    IN_STEP = -101  # the queue is in an open step already


cdef class LaneOwner:
    """Owns what a step knows of one queue. It is given back when the queue is done with it."""
    cdef Lane* lane
    cdef QueueState* state  # of the queue; retained
    cdef readonly object queue
    cdef readonly dict names  # of the kernels in the record, by id; for errors
