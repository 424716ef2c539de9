"""The Level Zero functions forebay calls, found at run time in the loader.

Each is named once, in the list below: the table, the numbers in a `Status`, the names in errors and the observer's
wrappers follow from it. All of them return a ze_result_t.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

ctypedef uint32_t ze_result_t
ctypedef void (*HostFunction)(void* data) noexcept nogil


cdef extern from *:
    """
    #ifndef FOREBAY_LEVELZERO_CALLS
    #define FOREBAY_LEVELZERO_CALLS
    #include <cstddef>
    #include <cstdint>

    namespace forebay_ze {

    typedef uint32_t Result;

    /* Layouts of the Level Zero specification; docs/levelzero-notes.md has them in a table. */
    struct ContextDesc { uint32_t stype = 0x0D; const void *next = nullptr; uint32_t flags = 0; };
    struct QueueDesc {
        uint32_t stype = 0x0E; const void *next = nullptr;
        uint32_t ordinal = 0, index = 0, flags = 0, mode = 0, priority = 0;
    };
    struct ListDesc { uint32_t stype = 0x0F; const void *next = nullptr; uint32_t ordinal = 0, flags = 0; };
    struct EventPoolDesc { uint32_t stype = 0x10; const void *next = nullptr; uint32_t flags = 0, count = 0; };
    struct EventDesc { uint32_t stype = 0x11; const void *next = nullptr; uint32_t index = 0, signal = 0, wait = 0; };
    struct DeviceAllocDesc { uint32_t stype = 0x15; const void *next = nullptr; uint32_t flags = 0, ordinal = 0; };
    struct HostAllocDesc { uint32_t stype = 0x16; const void *next = nullptr; uint32_t flags = 0; };
    struct AllocProperties {
        uint32_t stype = 0x17; void *next = nullptr; uint32_t type = 0; uint64_t id = 0, page_size = 0;
    };
    struct ModuleDesc {
        uint32_t stype = 0x1B; const void *next = nullptr; uint32_t format = 0; size_t size = 0;
        const uint8_t *input = nullptr; const char *options = nullptr; const void *constants = nullptr;
    };
    struct KernelDesc {
        uint32_t stype = 0x1D; const void *next = nullptr; uint32_t flags = 0; const char *name = nullptr;
    };
    struct KernelProperties {
        uint32_t stype = 0x1E; void *next = nullptr;
        uint32_t arguments = 0, required_group[3] = {}, required_subgroups = 0, required_subgroup_size = 0;
        uint32_t largest_subgroup_size = 0, largest_subgroups = 0, local_bytes = 0, private_bytes = 0, spill_bytes = 0;
        uint8_t uuid[32] = {};
    };
    struct GroupLimits { uint32_t stype = 0x10013; void *next = nullptr; uint32_t items = 0; };
    struct CounterPoolDesc { uint32_t stype = 0x20014; const void *next = nullptr; uint32_t flags = 0; };
    struct CounterDesc {
        uint32_t stype = 0x2003A; const void *next = nullptr; uint32_t flags = 0, signal = 0, wait = 0;
    };
    struct Timestamps { uint64_t start, end; };
    struct KernelTimestamps { Timestamps global, context; };

    #define FOREBAY_ZE(X) \\
        X(CommandListAppendLaunchKernel, (void *list, void *kernel, const uint32_t *groups, void *signal, \\
            uint32_t count, void **waits)) \\
        X(CommandListAppendMemoryCopy, (void *list, void *to, const void *source, size_t nbytes, void *signal, \\
            uint32_t count, void **waits)) \\
        X(CommandListAppendMemoryFill, (void *list, void *to, const void *pattern, size_t pattern_size, \\
            size_t nbytes, void *signal, uint32_t count, void **waits)) \\
        X(CommandListAppendSignalEvent, (void *list, void *event)) \\
        X(CommandListAppendWaitOnEvents, (void *list, uint32_t count, void **waits)) \\
        X(CommandListAppendHostFunction, (void *list, void (*function)(void *), void *data, const void *next, \\
            void *signal, uint32_t count, void **waits)) \\
        X(CommandListHostSynchronize, (void *list, uint64_t timeout)) \\
        X(CommandListCreateImmediate, (void *context, void *device, const QueueDesc *desc, void **list)) \\
        X(CommandListCreate, (void *context, void *device, const ListDesc *desc, void **list)) \\
        X(CommandListClose, (void *list)) \\
        X(CommandListImmediateAppendCommandListsExp, (void *list, uint32_t n_lists, void **lists, void *signal, \\
            uint32_t count, void **waits)) \\
        X(CommandListDestroy, (void *list)) \\
        X(KernelSetArgumentValue, (void *kernel, uint32_t index, size_t size, const void *value)) \\
        X(KernelSetGroupSize, (void *kernel, uint32_t x, uint32_t y, uint32_t z)) \\
        X(KernelCreate, (void *module, const KernelDesc *desc, void **kernel)) \\
        X(KernelSetIndirectAccess, (void *kernel, uint32_t flags)) \\
        X(KernelDestroy, (void *kernel)) \\
        X(KernelGetProperties, (void *kernel, KernelProperties *properties)) \\
        X(EventCounterBasedCreate, (void *context, void *device, const CounterDesc *desc, void **event)) \\
        X(EventPoolCreate, (void *context, const EventPoolDesc *desc, uint32_t count, void **devices, void **pool)) \\
        X(EventPoolDestroy, (void *pool)) \\
        X(EventCreate, (void *pool, const EventDesc *desc, void **event)) \\
        X(EventDestroy, (void *event)) \\
        X(EventHostSynchronize, (void *event, uint64_t timeout)) \\
        X(EventQueryStatus, (void *event)) \\
        X(EventHostSignal, (void *event)) \\
        X(EventHostReset, (void *event)) \\
        X(EventQueryKernelTimestamp, (void *event, KernelTimestamps *times)) \\
        X(MemAllocDevice, (void *context, const DeviceAllocDesc *desc, size_t nbytes, size_t alignment, void *device, \\
            void **address)) \\
        X(MemAllocHost, (void *context, const HostAllocDesc *desc, size_t nbytes, size_t alignment, void **address)) \\
        X(MemAllocShared, (void *context, const DeviceAllocDesc *desc, const HostAllocDesc *host, size_t nbytes, \\
            size_t alignment, void *device, void **address)) \\
        X(MemFree, (void *context, void *address)) \\
        X(MemGetAllocProperties, (void *context, const void *address, AllocProperties *properties, void **device)) \\
        X(ModuleCreate, (void *context, void *device, const ModuleDesc *desc, void **module, void **log)) \\
        X(ModuleDestroy, (void *module)) \\
        X(ModuleBuildLogGetString, (void *log, size_t *size, char *text)) \\
        X(ModuleBuildLogDestroy, (void *log)) \\
        X(ModuleGetNativeBinary, (void *module, size_t *size, uint8_t *binary)) \\
        X(ModuleGetGlobalPointer, (void *module, const char *name, size_t *size, void **address)) \\
        X(ContextCreate, (void *driver, const ContextDesc *desc, void **context)) \\
        X(ContextDestroy, (void *context))

    struct Calls {
    #define X(name, parameters) Result (*name) parameters;
        FOREBAY_ZE(X)
    #undef X
    };

    enum Call {
    #define X(name, parameters) CALL_##name,
        FOREBAY_ZE(X)
    #undef X
        CALLS
    };

    static const char *const call_names[] = {
    #define X(name, parameters) "ze" #name,
        FOREBAY_ZE(X)
    #undef X
    };

    }
    #endif
    """
    cdef struct ContextDesc "forebay_ze::ContextDesc":
        uint32_t flags
    cdef struct QueueDesc "forebay_ze::QueueDesc":
        uint32_t ordinal, index, flags, mode, priority
    cdef struct ListDesc "forebay_ze::ListDesc":
        uint32_t ordinal, flags
    cdef struct EventPoolDesc "forebay_ze::EventPoolDesc":
        uint32_t flags, count
        const void* next
    cdef struct EventDesc "forebay_ze::EventDesc":
        uint32_t index, signal, wait
    cdef struct CounterDesc "forebay_ze::CounterDesc":
        uint32_t flags, signal, wait
    cdef struct CounterPoolDesc "forebay_ze::CounterPoolDesc":
        uint32_t flags
    cdef struct DeviceAllocDesc "forebay_ze::DeviceAllocDesc":
        uint32_t flags, ordinal
    cdef struct HostAllocDesc "forebay_ze::HostAllocDesc":
        uint32_t flags
    cdef struct ModuleDesc "forebay_ze::ModuleDesc":
        uint32_t format
        size_t size
        const uint8_t* input
        const char* options
    cdef struct KernelDesc "forebay_ze::KernelDesc":
        const char* name
    cdef struct KernelProperties "forebay_ze::KernelProperties":
        uint32_t arguments
        void* next
        uint32_t* required_group
    cdef struct GroupLimits "forebay_ze::GroupLimits":
        uint32_t items
    cdef struct AllocProperties "forebay_ze::AllocProperties":
        uint32_t type
        uint64_t id
    cdef struct Timestamps "forebay_ze::Timestamps":
        uint64_t start, end
    cdef struct KernelTimestamps "forebay_ze::KernelTimestamps":
        Timestamps all "global"

    cdef enum Call "forebay_ze::Call":
        CALL_CommandListAppendLaunchKernel "forebay_ze::CALL_CommandListAppendLaunchKernel"
        CALL_CommandListAppendMemoryCopy "forebay_ze::CALL_CommandListAppendMemoryCopy"
        CALL_CommandListAppendMemoryFill "forebay_ze::CALL_CommandListAppendMemoryFill"
        CALL_CommandListAppendSignalEvent "forebay_ze::CALL_CommandListAppendSignalEvent"
        CALL_CommandListAppendWaitOnEvents "forebay_ze::CALL_CommandListAppendWaitOnEvents"
        CALL_CommandListAppendHostFunction "forebay_ze::CALL_CommandListAppendHostFunction"
        CALL_CommandListHostSynchronize "forebay_ze::CALL_CommandListHostSynchronize"
        CALL_CommandListCreateImmediate "forebay_ze::CALL_CommandListCreateImmediate"
        CALL_CommandListCreate "forebay_ze::CALL_CommandListCreate"
        CALL_CommandListClose "forebay_ze::CALL_CommandListClose"
        CALL_CommandListImmediateAppendCommandListsExp "forebay_ze::CALL_CommandListImmediateAppendCommandListsExp"
        CALL_KernelSetArgumentValue "forebay_ze::CALL_KernelSetArgumentValue"
        CALL_KernelSetGroupSize "forebay_ze::CALL_KernelSetGroupSize"
        CALL_KernelCreate "forebay_ze::CALL_KernelCreate"
        CALL_KernelSetIndirectAccess "forebay_ze::CALL_KernelSetIndirectAccess"
        CALL_KernelGetProperties "forebay_ze::CALL_KernelGetProperties"
        CALL_EventCounterBasedCreate "forebay_ze::CALL_EventCounterBasedCreate"
        CALL_EventPoolCreate "forebay_ze::CALL_EventPoolCreate"
        CALL_EventCreate "forebay_ze::CALL_EventCreate"
        CALL_EventHostSynchronize "forebay_ze::CALL_EventHostSynchronize"
        CALL_EventHostSignal "forebay_ze::CALL_EventHostSignal"
        CALL_EventHostReset "forebay_ze::CALL_EventHostReset"
        CALL_EventQueryKernelTimestamp "forebay_ze::CALL_EventQueryKernelTimestamp"
        CALL_MemAllocDevice "forebay_ze::CALL_MemAllocDevice"
        CALL_MemAllocHost "forebay_ze::CALL_MemAllocHost"
        CALL_MemAllocShared "forebay_ze::CALL_MemAllocShared"
        CALL_ModuleCreate "forebay_ze::CALL_ModuleCreate"
        CALL_ModuleGetNativeBinary "forebay_ze::CALL_ModuleGetNativeBinary"
        CALL_ModuleGetGlobalPointer "forebay_ze::CALL_ModuleGetGlobalPointer"
        CALL_ContextCreate "forebay_ze::CALL_ContextCreate"
    cdef int n_calls "forebay_ze::CALLS"
    cdef const char* const* call_names "forebay_ze::call_names"

    cdef struct Calls "forebay_ze::Calls":
        ze_result_t (*CommandListAppendLaunchKernel)(
            void* list, void* kernel, const uint32_t* groups, void* signal, uint32_t count, void** waits
        ) noexcept nogil
        ze_result_t (*CommandListAppendMemoryCopy)(
            void* list, void* to, const void* source, size_t nbytes, void* signal, uint32_t count, void** waits
        ) noexcept nogil
        ze_result_t (*CommandListAppendMemoryFill)(
            void* list, void* to, const void* pattern, size_t pattern_size, size_t nbytes, void* signal, uint32_t count,
            void** waits
        ) noexcept nogil
        ze_result_t (*CommandListAppendSignalEvent)(void* list, void* event) noexcept nogil
        ze_result_t (*CommandListAppendWaitOnEvents)(void* list, uint32_t count, void** waits) noexcept nogil
        ze_result_t (*CommandListAppendHostFunction)(
            void* list, HostFunction function, void* data, const void* next, void* signal, uint32_t count, void** waits
        ) noexcept nogil
        ze_result_t (*CommandListHostSynchronize)(void* list, uint64_t timeout) noexcept nogil
        ze_result_t (*CommandListCreateImmediate)(
            void* context, void* device, const QueueDesc* desc, void** list
        ) noexcept nogil
        ze_result_t (*CommandListCreate)(void* context, void* device, const ListDesc* desc, void** list) noexcept nogil
        ze_result_t (*CommandListClose)(void* list) noexcept nogil
        ze_result_t (*CommandListImmediateAppendCommandListsExp)(
            void* list, uint32_t n_lists, void** lists, void* signal, uint32_t count, void** waits
        ) noexcept nogil
        ze_result_t (*CommandListDestroy)(void* list) noexcept nogil
        ze_result_t (*KernelSetArgumentValue)(
            void* kernel, uint32_t index, size_t size, const void* value
        ) noexcept nogil
        ze_result_t (*KernelSetGroupSize)(void* kernel, uint32_t x, uint32_t y, uint32_t z) noexcept nogil
        ze_result_t (*KernelCreate)(void* module, const KernelDesc* desc, void** kernel) noexcept nogil
        ze_result_t (*KernelSetIndirectAccess)(void* kernel, uint32_t flags) noexcept nogil
        ze_result_t (*KernelDestroy)(void* kernel) noexcept nogil
        ze_result_t (*KernelGetProperties)(void* kernel, KernelProperties* properties) noexcept nogil
        ze_result_t (*EventCounterBasedCreate)(
            void* context, void* device, const CounterDesc* desc, void** event
        ) noexcept nogil
        ze_result_t (*EventPoolCreate)(
            void* context, const EventPoolDesc* desc, uint32_t count, void** devices, void** pool
        ) noexcept nogil
        ze_result_t (*EventPoolDestroy)(void* pool) noexcept nogil
        ze_result_t (*EventCreate)(void* pool, const EventDesc* desc, void** event) noexcept nogil
        ze_result_t (*EventDestroy)(void* event) noexcept nogil
        ze_result_t (*EventHostSynchronize)(void* event, uint64_t timeout) noexcept nogil
        ze_result_t (*EventQueryStatus)(void* event) noexcept nogil
        ze_result_t (*EventHostSignal)(void* event) noexcept nogil
        ze_result_t (*EventHostReset)(void* event) noexcept nogil
        ze_result_t (*EventQueryKernelTimestamp)(void* event, KernelTimestamps* times) noexcept nogil
        ze_result_t (*MemAllocDevice)(
            void* context, const DeviceAllocDesc* desc, size_t nbytes, size_t alignment, void* device, void** address
        ) noexcept nogil
        ze_result_t (*MemAllocHost)(
            void* context, const HostAllocDesc* desc, size_t nbytes, size_t alignment, void** address
        ) noexcept nogil
        ze_result_t (*MemAllocShared)(
            void* context, const DeviceAllocDesc* desc, const HostAllocDesc* host, size_t nbytes, size_t alignment,
            void* device, void** address
        ) noexcept nogil
        ze_result_t (*MemFree)(void* context, void* address) noexcept nogil
        ze_result_t (*ModuleCreate)(
            void* context, void* device, const ModuleDesc* desc, void** module, void** log
        ) noexcept nogil
        ze_result_t (*ModuleDestroy)(void* module) noexcept nogil
        ze_result_t (*ModuleBuildLogGetString)(void* log, size_t* size, char* text) noexcept nogil
        ze_result_t (*ModuleBuildLogDestroy)(void* log) noexcept nogil
        ze_result_t (*ModuleGetNativeBinary)(void* module, size_t* size, uint8_t* binary) noexcept nogil
        ze_result_t (*ModuleGetGlobalPointer)(
            void* module, const char* name, size_t* size, void** address
        ) noexcept nogil
        ze_result_t (*ContextCreate)(void* driver, const ContextDesc* desc, void** context) noexcept nogil
        ze_result_t (*ContextDestroy)(void* context) noexcept nogil


cdef Calls ze
