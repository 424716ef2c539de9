"""Held queues, and the lists of their commands that SYCL does not have yet.

SYCL has no event that the host sets, and dpctl's C interface has no host task. So forebay holds queues itself: commands
behind a gate stay in a list, and opening the gate gives them to SYCL in order. A queue that waits for a command in such
a list is held until SYCL has that command. While no queue is held, a launch only reads one flag for this.
"""

from libcpp.atomic cimport atomic
from libcpp.deque cimport deque
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry, Status, Waits, Wake
from forebay.queues.sycl.kernels cimport SyclKernel


cdef enum EventState:
    PENDING  # SYCL does not have it yet, or it is a closed gate
    SUBMITTED  # SYCL's event tells whether it is done; without one it is done
    ENDED_BADLY  # SYCL never got what it was for


# Shared with the markers that come after a failure, which may outlive the queue.
ctypedef shared_ptr[atomic[bint]] Untold


cdef cppclass SyclEvent:
    atomic[int] references
    atomic[int] state
    void* event  # SYCL's event, owned; NULL while pending, and always for gates and what was refused
    Untold failure  # of a marker: the queue's, if a command had failed before and nobody had been told
    vector[SyclQueue*] waiters  # queues that this event holds; guarded by the lock of all held queues


cdef enum CommandKind:
    LAUNCH
    COPY
    FILL
    BARRIER
    ARRIVAL
    GATE


cdef cppclass SyclCommand:
    CommandKind kind
    SyclKernel* kernel  # owned once the command is deferred
    Geometry geometry
    void* to
    const void* source
    size_t nbytes
    unsigned char pattern[128]
    size_t pattern_size
    Wake wake
    void* data
    vector[SyclEvent*] waits  # each owned
    SyclEvent* event  # owned; the event that the caller asked for. For a GATE, the gate itself


cdef cppclass SyclQueue:
    void* queue  # owned
    bint adopted
    atomic[bint] held  # set only under the lock of forebay's queue
    deque[SyclCommand*] deferred  # the lock of all held queues guards this and all below
    bint failing  # the queue is behind a gate that failed
    Untold failed  # set when a command was not submitted after all, until the host was told


cdef SyclEvent* new_event(int state, void* event) noexcept nogil
cdef void retain_event(SyclEvent* event) noexcept nogil
cdef void drop_event(SyclEvent* event) noexcept nogil
cdef SyclQueue* new_queue(void* queue, bint adopted) noexcept nogil
# Let a queue whose work is done tell no failure of before. Markers that were made go on telling theirs.
cdef void forget_failure(SyclQueue* queue) noexcept nogil
cdef void delete_queue(SyclQueue* queue) noexcept nogil
# Does SYCL have everything in the wait list? If so, replaces the entries by SYCL's events; the list may get shorter.
cdef bint read_waits(Waits* waits) noexcept nogil
cdef Status give(SyclQueue* queue, SyclCommand* command, Waits waits, void** event) noexcept nogil
cdef Status hold_queue(SyclQueue* queue, Waits waits, Wake wake, void* data, SyclEvent** gate) noexcept nogil
cdef void open_event(SyclEvent* gate, bint failed) noexcept nogil
# Whether what the event is for was refused, or is behind a gate that failed, and no wait has told so.
cdef bint has_failed(SyclEvent* event) noexcept nogil
# Whether a wait for the event is to tell a failure, its own or an earlier one of its queue. It is told once.
cdef bint tell_failure_of(SyclEvent* event) noexcept nogil
cdef int await_submitted(SyclEvent* event) noexcept nogil
