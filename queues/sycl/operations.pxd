from libc.stdint cimport uint32_t
from libcpp.atomic cimport atomic
from libcpp.deque cimport deque
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from forebay.core.driver cimport Geometry, Memory, Status, Waits, Wake


cdef struct Argument:
    char* value  # owned; NULL for pointers and local memory
    size_t size
    void* object  # owned: dpctl's object for a structure or for local memory of this size; NULL for others


cdef cppclass SyclKernel:
    void* kernel  # owned
    vector[Argument] arguments
    vector[void*] values  # in the form that a submission takes
    vector[int] types


# SYCL has no event that the host sets, and dpctl's C interface has no host task. So forebay holds queues itself:
# commands behind a gate stay in a list, and opening the gate gives them to SYCL in order. A queue that waits for a
# command in such a list is held until SYCL has that command. While no queue is held, a launch only reads one flag for
# this.

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


cdef cppclass SyclContext:
    void* context  # owned
    void* device  # borrowed from a dpctl.SyclDevice
    void* queue  # owned; used to allocate memory, gets no commands
    void* joining  # owned; runs out of order


cdef class ContextHandle:
    cdef SyclContext native
