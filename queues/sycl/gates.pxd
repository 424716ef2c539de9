"""Queues that are held, and what waits in them to be given to SYCL.

SYCL has no event that the host sets, and dpctl's C interface no host task. So a queue is held by forebay: what is
submitted behind a gate stays in a list, and is given to SYCL in order when the gate is opened. A queue that waits for
something still in such a list is held until that has been given to SYCL. While no queue is held this costs a launch
the reading of one flag.
"""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic
from libcpp.deque cimport deque
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry, Status, Waits, Wake
from forebay.queues.sycl.kernels cimport SyclKernel


cdef enum EventState:
    PENDING  # not yet given to SYCL, or a gate that is closed
    SUBMITTED  # ask SYCL's event for the rest; without one it is done
    ENDED_BADLY  # it never will be given to SYCL


cdef cppclass SyclEvent:
    atomic[int] references
    atomic[int] state
    void* event  # SYCL's, owned; NULL while pending, and of gates
    vector[SyclQueue*] waiters  # held because of this; guarded by the lock of all held queues


cdef enum CommandKind:
    LAUNCH
    COPY
    FILL
    BARRIER
    ARRIVAL
    GATE


cdef cppclass SyclCommand:
    CommandKind kind
    SyclKernel* kernel  # owned once it is deferred
    Geometry geometry
    void* to
    const void* source
    size_t nbytes
    unsigned char pattern[128]
    size_t pattern_size
    Wake wake
    void* data
    vector[SyclEvent*] waits  # owned, each
    SyclEvent* event  # owned: who asked for one waits for it. Of a gate: the gate


cdef cppclass SyclQueue:
    void* queue  # owned
    bint adopted
    atomic[bint] held  # set only under the lock of forebay's queue
    deque[SyclCommand*] deferred  # this and all below are guarded by the lock of all held queues
    uint64_t deferrals
    uint64_t given  # of those: to SYCL, or dropped
    bint failing  # behind a gate that failed
    atomic[bint] failed


cdef SyclEvent* new_event(int state, void* event) noexcept nogil
cdef void retain_event(SyclEvent* event) noexcept nogil
cdef void drop_event(SyclEvent* event) noexcept nogil
cdef SyclQueue* new_queue(void* queue, bint adopted) noexcept nogil
cdef void delete_queue(SyclQueue* queue) noexcept nogil
# Is everything that is waited for in SYCL's hands? Then the list becomes one of SYCL's events, and may be shorter.
cdef bint read_waits(Waits* waits) noexcept nogil
cdef Status give(SyclQueue* queue, SyclCommand* command, Waits waits, void** event) noexcept nogil
cdef Status hold_queue(SyclQueue* queue, Waits waits, Wake wake, void* data, SyclEvent** gate) noexcept nogil
cdef void open_event(SyclEvent* gate, bint failed) noexcept nogil
cdef void await_given(SyclQueue* queue) noexcept nogil
cdef int await_submitted(SyclEvent* event) noexcept nogil
