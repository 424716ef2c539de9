"""The Level Zero functions forebay calls, found at run time in the loader; and the structures behind this driver's
handles: the driver's own handle, and forebay's data about it.

`calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.vector_clock cimport Lock

ctypedef uint32_t ze_result_t
ctypedef Status (*Function)(...) noexcept nogil  # has the call and its ze_result_t, or 0


cdef extern from "queues/levelzero/calls.hpp" namespace "forebay_ze":
    cdef struct InitDesc:
        uint32_t flags
    cdef struct DriverProperties:
        uint32_t version
    cdef struct ExtensionProperties:
        const char* name
    cdef struct DeviceProperties:
        uint32_t stype
        void* next
        uint32_t type, vendor_id, device_id, eus_per_subslice, subslices_per_slice, slices, kernel_timestamp_bits
        uint64_t max_allocation, timer_resolution
        const char* name
    cdef struct IpVersion:
        uint32_t version
    cdef struct ComputeProperties:
        uint32_t max_group_items, max_local_bytes
        uint32_t* max_group_size
        uint32_t* max_group_count
    cdef struct ModuleProperties:
        uint32_t spirv_version, max_argument_bytes
    cdef struct QueueGroupProperties:
        uint32_t flags, queues
        size_t max_fill_pattern
    cdef struct MemoryProperties:
        uint64_t total_size
    cdef struct ContextDesc:
        uint32_t flags
    cdef struct QueueDesc:
        uint32_t ordinal, index, flags, mode, priority
    cdef struct ListDesc:
        uint32_t ordinal, flags
        const void* next
    cdef struct MutableListDesc:
        uint32_t flags
    cdef struct CommandIdDesc:
        uint32_t flags
    cdef struct ChangesDesc:
        const void* next
    cdef struct ArgumentChange:
        const void* next
        uint64_t command
        uint32_t index
        size_t size
        const void* value
    cdef struct GroupsChange:
        const void* next
        uint64_t command
        const uint32_t* groups
    cdef struct EventPoolDesc:
        uint32_t flags, count
        const void* next
    cdef struct EventDesc:
        uint32_t index, signal, wait
    cdef struct CounterDesc:
        uint32_t flags, signal, wait
    cdef struct CounterPoolDesc:
        uint32_t flags
    cdef struct DeviceAllocDesc:
        uint32_t flags, ordinal
    cdef struct HostAllocDesc:
        uint32_t flags
    cdef struct ModuleDesc:
        uint32_t format
        size_t size
        const uint8_t* input
        const char* options
    cdef struct KernelDesc:
        const char* name
    cdef struct KernelProperties:
        uint32_t arguments, local_bytes
        void* next
        uint32_t* required_group
    cdef struct GroupLimits:
        uint32_t items
    cdef struct Timestamps:
        uint64_t start, end
    cdef struct KernelTimestamps:
        Timestamps all "global"

    cdef enum Call:
        CALL_CommandListAppendWaitOnEvents, CALL_CommandListAppendHostFunction, N_CALLS

    cdef struct Calls:
        Function Init, InitDrivers, DriverGet, DriverGetApiVersion, DriverGetProperties, DriverGetExtensionProperties
        Function DriverGetExtensionFunctionAddress, DeviceGet, DeviceGetProperties, DeviceGetMemoryProperties
        Function DeviceGetComputeProperties, DeviceGetModuleProperties, DeviceGetCommandQueueGroupProperties
        Function CommandListImmediateGetFlags
        Function CommandListAppendLaunchKernel, CommandListAppendMemoryCopy, CommandListAppendMemoryFill
        Function CommandListAppendSignalEvent, CommandListAppendWaitOnEvents, CommandListAppendHostFunction
        Function CommandListHostSynchronize, CommandListCreateImmediate, CommandListCreate, CommandListClose
        Function CommandListImmediateAppendCommandListsExp, CommandListDestroy
        Function CommandListGetNextCommandIdExp, CommandListUpdateMutableCommandsExp
        Function KernelSuggestMaxCooperativeGroupCount
        Function KernelSetArgumentValue, KernelSetGroupSize, KernelCreate, KernelSetIndirectAccess, KernelDestroy
        Function KernelGetProperties
        Function EventCounterBasedCreate, EventPoolCreate, EventPoolDestroy, EventCreate, EventDestroy
        Function EventHostSynchronize, EventQueryStatus, EventHostSignal, EventHostReset, EventQueryKernelTimestamp
        Function MemAllocDevice, MemAllocHost, MemAllocShared, MemFree
        Function ModuleCreate, ModuleDestroy, ModuleBuildLogGetString, ModuleBuildLogDestroy, ModuleGetNativeBinary
        Function ModuleGetGlobalPointer, ContextCreate, ContextDestroy

    const char* const* call_names
    Status all_of[T](Function get, void* owner, vector[T]& found) except +


cdef Calls ze


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


cdef int check(Status status, str what=*) except -1
cdef void end_queue(ZeQueue* queue) noexcept nogil


cdef class DeviceHandle:
    cdef ZeDevice* device
    cdef object __weakref__
