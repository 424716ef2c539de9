"""What is behind the handles of this driver: the driver's own, and what has to be remembered with them."""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.state cimport Lock
from forebay.queues.levelzero.calls cimport Call, ze_result_t


cdef enum EventKind:
    # as the core's MarkerUse
    DEVICE_EVENT  # waited for by lists of the device
    HOST_EVENT  # by the host too, and by other devices
    TIMED_EVENT
    GATE_EVENT  # signalled by the host
    EVENT_KINDS


cdef enum EventMode:
    COUNTER_BASED  # zeEventCounterBasedCreate
    COUNTER_BASED_POOL  # the event-pool extension of older drivers
    RESET  # neither: plain events, which must be reset, and not before all that waits for them has


cdef cppclass ZeContext:
    atomic[int32_t] references
    void* handle
    void* driver


cdef cppclass ZeDevice:
    atomic[int32_t] references  # its owner's, and one for each queue and each event that is not idle
    ZeContext* context  # shared by the devices of one driver; retained
    void* handle
    EventMode mode
    double nanoseconds_per_tick
    uint64_t timestamp_mask
    Lock lock  # guards all below
    vector[ZeEvent*] idle[EVENT_KINDS]  # events to be used again
    vector[ZeEvent*] closing_gates  # opened, but their queue may not have passed them yet
    vector[void*] pools
    void* newest_pool[EVENT_KINDS]
    uint32_t pool_used[EVENT_KINDS]
    ZeQueue* join  # a list of its own, on which the host waits for many queues at once; NULL until then
    Lock join_lock  # guards what is appended to that


cdef cppclass ZeEvent:
    atomic[int32_t] references
    void* handle
    ZeDevice* device  # retained while it is not idle
    ZeQueue* queue  # that signals it; retained, because a counter-based event refers to its list's counter
    ZeEvent* passed  # of a gate: signalled once the queue is past it; NULL until then, and when that is not known
    EventKind kind


cdef cppclass Held:
    ZeEvent* passed  # once this is signalled
    vector[ZeEvent*] events  # the queue neither signals nor waits for these any more


cdef cppclass ZeQueue:
    atomic[int32_t] references
    void* list
    uint32_t ordinal
    ZeDevice* device  # retained
    vector[ZeEvent*] held  # RESET mode only: events that commands of this queue signal or wait for
    vector[Held*] batches


cdef cppclass ZeRecording:
    void* list  # closed
    ZeDevice* device  # retained


cdef cppclass ZeModule:
    atomic[int32_t] references  # its owner's, and one for each kernel
    void* handle
    ZeDevice* device  # retained


cdef cppclass ZeKernel:
    void* handle
    ZeModule* module  # retained: the driver does not keep it for its kernels
    size_t group[3]


cdef inline Status outcome(Call call, ze_result_t error) noexcept nogil:
    if error == 0:
        return 0
    return (<Status> call << 32) | error


cdef ZeDevice* new_device(void* driver, void* handle, EventMode mode, Status* status) noexcept nogil
cdef void close_device(ZeDevice* device) noexcept nogil
cdef void release_device(ZeDevice* device) noexcept nogil
cdef ZeQueue* new_queue(
    ZeDevice* device, uint32_t ordinal, uint32_t index, uint32_t priority, Status* status
) noexcept nogil
cdef ZeQueue* retain_queue(ZeQueue* queue) noexcept nogil
cdef void end_queue(ZeQueue* queue) noexcept nogil
cdef void release_queue(ZeQueue* queue) noexcept nogil
cdef ZeEvent* take_event(ZeDevice* device, EventKind kind, Status* status) noexcept nogil
cdef ZeEvent* retain_event(ZeEvent* event) noexcept nogil
cdef void release_event(ZeEvent* event) noexcept nogil
cdef void set_queue(ZeEvent* event, ZeQueue* queue) noexcept nogil
cdef void set_passed(ZeEvent* gate, ZeEvent* passed) noexcept nogil
cdef void retire_gate(ZeEvent* gate) noexcept nogil
cdef void recycle_gates(ZeDevice* device, bint all_done) noexcept nogil
cdef Status hold_events(ZeQueue* queue) noexcept nogil
cdef ZeRecording* new_recording(ZeDevice* device, uint32_t ordinal, Status* status) noexcept nogil
cdef void release_recording(ZeRecording* recording) noexcept nogil
cdef ZeModule* new_module(ZeDevice* device, void* handle) noexcept nogil
cdef ZeModule* retain_module(ZeModule* module) noexcept nogil
cdef void release_module(ZeModule* module) noexcept nogil
cdef void release_kernel(ZeKernel* kernel) noexcept nogil
