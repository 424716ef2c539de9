"""Graphs made ready to run."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Command, Driver, Memory
from forebay.core.plan cimport PackedPointer, Plan
from forebay.core.state cimport DeviceState, QueueState
from forebay.queues.graphs.sizes cimport Sizes
from forebay.queues.graphs.submission cimport StepKind, Submission
from forebay.queues.graphs.work cimport Work
from forebay.queues.memory.allocation cimport OwnedMemory


cdef class Scratch:
    cdef PackedPointer pointer
    cdef OwnedMemory memory
    cdef size_t nbytes


cdef class Prepared:
    cdef DeviceState* state  # retained
    cdef const Driver* driver
    cdef Submission* submission  # owned
    cdef uint32_t lane  # the lane of the steps added next
    cdef bint cut  # the next command begins a new step
    cdef vector[Plan*] plans  # owned
    cdef dict by_arguments  # index of a plan by lane, kernel id and packed arguments
    cdef dict scratch  # Scratch by lane, kernel and index of the parameter; empty on a debugging device
    cdef dict room  # bytes of each scratch of a KernelWork, on the lane where it has the least
    cdef bint changeable  # its recordings can be changed
    cdef vector[size_t] command_of  # by node: the index of its launch, if it is in a recording, else NOT_RECORDED
    cdef vector[size_t] step_of
    cdef vector[vector[uint32_t]] after  # by command: those that it comes after; empty where each follows the last
    cdef list guards  # of a debugging device
    cdef list functions
    cdef list kept  # objects that must live as long as this one, the works first
    cdef int add(self, Command command, Plan* following=*) except -1
    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1
    cdef int add_host(self, object function) except -1
    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1


cdef class Replay:
    cdef Prepared prepared
    cdef Submission* submission  # owned by `prepared`
    cdef tuple works  # None while it is changed, and when that has failed
    cdef int users  # how many threads launch it or change it; only touched with the GIL
    cdef Sizes sizes  # of the scratch when they were last read; there is room for them
    cdef tuple buffers  # all that the works use
    cdef tuple written  # those that they may write to
    cdef int wasted  # how many sizes in turn needed far less scratch than there is
    cdef object lifetimes  # Lifetimes of the memory that they allocate and free, or None; set by who made it
    cdef uint64_t closings  # the device's count when all buffers were last seen open


cdef enum:
    NOT_RECORDED = 0xFFFFFFFF


cdef bint is_acting(Work work)
cdef bint is_one_recording(object device, const Driver* driver, tuple works)
cdef bint has_room(Replay replay, Sizes sizes)
cdef Replay new_replay(
    object device, QueueState* queue, Sizes sizes, list segments, list lanes, Replay last, bint changeable
)
cdef int note_works(Replay replay, Sizes sizes) except -1
