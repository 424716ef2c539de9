"""The Level Zero functions forebay calls, found at run time in the loader; and what is behind this driver's handles.

`calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.ownership cimport Lock, Ref, Refs

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


# Each ends with its last reference. The header says what holds what.
cdef extern from "queues/levelzero/objects.hpp" namespace "forebay_ze" nogil:
    cdef enum EventKind:
        DEVICE_EVENT, HOST_EVENT, TIMED_EVENT, GATE_EVENT, EVENT_KINDS

    cdef enum EventMode:
        COUNTER_BASED, COUNTER_BASED_POOL, RESET

    cdef cppclass ZeContext:
        void* handle

    cdef cppclass ZeEvent:
        void* handle
        Ref[ZeDevice] device
        Ref[ZeQueue] queue
        Ref[ZeEvent] passed
        EventKind kind

    cdef cppclass ZeJoin:
        Ref[ZeQueue] list
        Ref[ZeEvent] joined
        Refs[ZeQueue] awaited

    cdef cppclass ZeDevice:
        shared_ptr[ZeContext] context
        void* handle
        EventMode mode
        double nanoseconds_per_tick
        uint64_t timestamp_mask
        Lock lock
        vector[unique_ptr[ZeEvent]] idle[4]  # by kind

        @staticmethod
        Status open(void* driver, void* handle, EventMode mode, Ref[ZeDevice]& opened) noexcept
        void close() noexcept
        Status take_event(EventKind kind, Ref[ZeEvent]& taken) noexcept
        void retire_gate(Ref[ZeEvent] gate) noexcept
        void recycle_gates(bint all_done) noexcept
        Status take_join(ZeJoin& join) noexcept
        void keep_join(ZeJoin& join) noexcept
        void leave_join(ZeJoin& join) noexcept

    cdef cppclass ZeQueue:
        Ref[ZeDevice] device
        void* list
        uint32_t ordinal
        Refs[ZeEvent] held

        @staticmethod
        Status create(
            ZeDevice* device, uint32_t ordinal, uint32_t index, uint32_t priority, Ref[ZeQueue]& made) noexcept
        void end() noexcept
        Status event_to_signal(EventKind kind, Ref[ZeEvent]& event) noexcept
        Status signal(EventKind kind, Ref[ZeEvent]& event) noexcept

    cdef cppclass ZeRecording:
        ZeRecording(Ref[ZeDevice] device, bint changeable) noexcept
        void* list
        bint changeable
        vector[uint64_t] ids
        vector[ArgumentChange] arguments
        vector[GroupsChange] groups

    cdef cppclass ZeModule:
        ZeModule(Ref[ZeDevice] device, void* handle) noexcept
        void* handle

    cdef cppclass ZeKernel:
        ZeKernel(void* handle, Ref[ZeModule] module) noexcept
        void* handle
        uint32_t group[3]


cdef int check(Status status, str what=*) except -1
