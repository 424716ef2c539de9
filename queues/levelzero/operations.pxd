"""The structures behind this driver's handles: the driver's own handle, and forebay's data about it."""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.vector_clock cimport Lock


cdef enum EventKind:
    # as the core's MarkerUse
    DEVICE_EVENT  # only lists of the device wait for it
    HOST_EVENT  # the host and other devices may wait for it too
    TIMED_EVENT
    GATE_EVENT  # the host signals it
    EVENT_KINDS


cdef enum EventMode:
    COUNTER_BASED  # zeEventCounterBasedCreate
    COUNTER_BASED_POOL  # the event-pool extension of older drivers
    RESET  # neither: plain events, which must be reset, but only after every command that waits for them has run


cdef cppclass ZeContext:
    atomic[int32_t] references
    void* handle
    void* driver


cdef cppclass LeftJoin:
    """A private list of a wait that was interrupted."""
    ZeQueue* list
    ZeEvent* joined  # signalled when it is idle again
    vector[ZeQueue*] awaited  # retained: it still waits for the counters of their lists


cdef cppclass ZeDevice:
    atomic[int32_t] references  # the owner's, and one for each queue and each event that is not idle
    ZeContext* context  # shared by the devices of one driver; retained
    void* handle
    EventMode mode
    double nanoseconds_per_tick
    uint64_t timestamp_mask
    Lock lock  # guards all below
    vector[ZeEvent*] idle[EVENT_KINDS]  # events that can be used again
    vector[ZeEvent*] closing_gates  # open gates that their queue may not have passed yet
    vector[void*] pools
    void* newest_pool[EVENT_KINDS]
    uint32_t pool_used[EVENT_KINDS]
    vector[ZeQueue*] joins  # private lists for host waits on many events, each one wait's at a time; these are idle
    vector[LeftJoin*] left_joins


cdef cppclass ZeEvent:
    atomic[int32_t] references
    void* handle
    ZeDevice* device  # retained while it is not idle
    ZeQueue* queue  # the queue that signals it; retained, because a counter-based event refers to its list's counter
    ZeEvent* passed  # gates only: signalled once the queue is past the gate; NULL before it is set, or if unknown
    EventKind kind


cdef cppclass Held:
    ZeEvent* passed  # once this is signalled, the queue is done with `events`
    vector[ZeEvent*] events  # events that the queue's commands signal or wait for


cdef cppclass ZeQueue:
    atomic[int32_t] references
    void* list
    uint32_t ordinal
    ZeDevice* device  # retained
    vector[ZeEvent*] held  # RESET mode only: events that commands of this queue signal or wait for
    vector[Held*] batches


cdef void end_queue(ZeQueue* queue) noexcept nogil


cdef class DeviceHandle:
    cdef ZeDevice* device
    cdef object __weakref__
