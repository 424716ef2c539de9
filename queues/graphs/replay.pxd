"""Graphs made ready to run."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Driver
from forebay.core.plan cimport PackedPointer, Plan
from forebay.core.state cimport QueueState
from forebay.queues.graphs.prepared cimport Prepared
from forebay.queues.graphs.sizes cimport Sizes
from forebay.queues.graphs.submission cimport Submission
from forebay.queues.graphs.work cimport KernelWork, Work
from forebay.queues.memory.allocation cimport OwnedMemory


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


cdef bint is_acting(Work work)
cdef bint is_one_recording(object device, const Driver* driver, tuple works)
cdef bint has_room(Replay replay, Sizes sizes)
cdef Plan* add_plan(Prepared prepared, KernelWork work) except NULL
cdef Replay new_replay(
    object device, QueueState* queue, Sizes sizes, list segments, list lanes, Replay last, bint changeable,
    bint one_by_one
)
cdef int note_works(Replay replay, Sizes sizes) except -1
