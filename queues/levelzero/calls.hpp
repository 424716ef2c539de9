// The Level Zero functions forebay calls, and the structures they take. The list generates the table, the numbers in a
// `Status` and the names in errors. All functions return a ze_result_t.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/driver.hpp"

namespace forebay_ze {

typedef uint32_t Result;

// Layouts of the Level Zero specification, version 1.17; docs/levelzero-notes.md has them in a table.
struct DriverProperties { uint32_t stype = 0x1; void *next = nullptr; uint8_t uuid[16] = {}; uint32_t version = 0; };
struct ExtensionProperties { char name[256] = {}; uint32_t version = 0; };
struct DeviceProperties {
    uint32_t stype = 0x3; void *next = nullptr;
    uint32_t type = 0, vendor_id = 0, device_id = 0, flags = 0, subdevice_id = 0, core_clock_rate = 0;
    uint64_t max_allocation = 0;
    uint32_t max_hardware_contexts = 0, max_priority = 0, threads_per_eu = 0, simd_width = 0, eus_per_subslice = 0;
    uint32_t subslices_per_slice = 0, slices = 0;
    uint64_t timer_resolution = 0;
    uint32_t timestamp_bits = 0, kernel_timestamp_bits = 0;
    uint8_t uuid[16] = {}; char name[256] = {};
};
struct IpVersion { uint32_t stype = 0x1000F; void *next = nullptr; uint32_t version = 0; };
struct ComputeProperties {
    uint32_t stype = 0x4; void *next = nullptr;
    uint32_t max_group_items = 0, max_group_size[3] = {}, max_group_count[3] = {}, max_local_bytes = 0;
    uint32_t subgroup_size_count = 0, subgroup_sizes[8] = {};
};
struct ModuleProperties {
    uint32_t stype = 0x5; void *next = nullptr;
    uint32_t spirv_version = 0, flags = 0, float_flags[3] = {}, max_argument_bytes = 0, printf_buffer_size = 0;
    uint8_t native_uuid[16] = {};
};
struct QueueGroupProperties {
    uint32_t stype = 0x6; void *next = nullptr; uint32_t flags = 0; size_t max_fill_pattern = 0; uint32_t queues = 0;
};
struct MemoryProperties {
    uint32_t stype = 0x7; void *next = nullptr; uint32_t flags = 0, max_clock_rate = 0, max_bus_width = 0;
    uint64_t total_size = 0; char name[256] = {};
};
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
// of the extension ZE_experimental_mutable_command_list
struct MutableListDesc { uint32_t stype = 0x20016; const void *next = nullptr; uint32_t flags = 0; };
struct CommandIdDesc { uint32_t stype = 0x20017; const void *next = nullptr; uint32_t flags = 0; };
struct ChangesDesc { uint32_t stype = 0x20018; const void *next = nullptr; uint32_t flags = 0; };
struct ArgumentChange {
    uint32_t stype = 0x20019; const void *next = nullptr; uint64_t command = 0; uint32_t index = 0; size_t size = 0;
    const void *value = nullptr;
};
struct GroupsChange {
    uint32_t stype = 0x2001A; const void *next = nullptr; uint64_t command = 0; const uint32_t *groups = nullptr;
};
struct Timestamps { uint64_t start, end; };
struct KernelTimestamps { Timestamps global, context; };

#define FOREBAY_ZE(X) \
    X(Result, Init, (uint32_t flags)) \
    X(Result, DriverGet, (uint32_t *count, void **drivers)) \
    X(Result, DriverGetApiVersion, (void *driver, uint32_t *version)) \
    X(Result, DriverGetProperties, (void *driver, DriverProperties *properties)) \
    X(Result, DriverGetExtensionProperties, (void *driver, uint32_t *count, ExtensionProperties *properties)) \
    X(Result, DriverGetExtensionFunctionAddress, (void *driver, const char *name, void **function)) \
    X(Result, DeviceGet, (void *driver, uint32_t *count, void **devices)) \
    X(Result, DeviceGetProperties, (void *device, DeviceProperties *properties)) \
    X(Result, DeviceGetMemoryProperties, (void *device, uint32_t *count, MemoryProperties *properties)) \
    X(Result, DeviceGetComputeProperties, (void *device, ComputeProperties *properties)) \
    X(Result, DeviceGetModuleProperties, (void *device, ModuleProperties *properties)) \
    X(Result, DeviceGetCommandQueueGroupProperties, (void *device, uint32_t *count, \
        QueueGroupProperties *properties)) \
    X(Result, CommandListAppendLaunchKernel, (void *list, void *kernel, const uint32_t *groups, void *signal, \
        uint32_t count, void **waits)) \
    X(Result, CommandListAppendMemoryCopy, (void *list, void *to, const void *source, size_t nbytes, void *signal, \
        uint32_t count, void **waits)) \
    X(Result, CommandListAppendMemoryFill, (void *list, void *to, const void *pattern, size_t pattern_size, \
        size_t nbytes, void *signal, uint32_t count, void **waits)) \
    X(Result, CommandListAppendSignalEvent, (void *list, void *event)) \
    X(Result, CommandListAppendWaitOnEvents, (void *list, uint32_t count, void **waits)) \
    X(Result, CommandListAppendHostFunction, (void *list, void (*function)(void *), void *data, const void *next, \
        void *signal, uint32_t count, void **waits)) \
    X(Result, CommandListHostSynchronize, (void *list, uint64_t timeout)) \
    X(Result, CommandListCreateImmediate, (void *context, void *device, const QueueDesc *desc, void **list)) \
    X(Result, CommandListImmediateGetFlags, (void *list, uint32_t *flags)) \
    X(Result, CommandListCreate, (void *context, void *device, const ListDesc *desc, void **list)) \
    X(Result, CommandListClose, (void *list)) \
    X(Result, CommandListImmediateAppendCommandListsExp, (void *list, uint32_t n_lists, void **lists, void *signal, \
        uint32_t count, void **waits)) \
    X(Result, CommandListDestroy, (void *list)) \
    X(Result, CommandListGetNextCommandIdExp, (void *list, const CommandIdDesc *desc, uint64_t *id)) \
    X(Result, CommandListUpdateMutableCommandsExp, (void *list, const ChangesDesc *desc)) \
    X(Result, KernelSetArgumentValue, (void *kernel, uint32_t index, size_t size, const void *value)) \
    X(Result, KernelSetGroupSize, (void *kernel, uint32_t x, uint32_t y, uint32_t z)) \
    X(Result, KernelCreate, (void *module, const KernelDesc *desc, void **kernel)) \
    X(Result, KernelSetIndirectAccess, (void *kernel, uint32_t flags)) \
    X(Result, KernelDestroy, (void *kernel)) \
    X(Result, KernelGetProperties, (void *kernel, KernelProperties *properties)) \
    X(Result, KernelSuggestMaxCooperativeGroupCount, (void *kernel, uint32_t *count)) \
    X(Result, EventCounterBasedCreate, (void *context, void *device, const CounterDesc *desc, void **event)) \
    X(Result, EventPoolCreate, (void *context, const EventPoolDesc *desc, uint32_t count, void **devices, \
        void **pool)) \
    X(Result, EventPoolDestroy, (void *pool)) \
    X(Result, EventCreate, (void *pool, const EventDesc *desc, void **event)) \
    X(Result, EventDestroy, (void *event)) \
    X(Result, EventHostSynchronize, (void *event, uint64_t timeout)) \
    X(Result, EventQueryStatus, (void *event)) \
    X(Result, EventHostSignal, (void *event)) \
    X(Result, EventHostReset, (void *event)) \
    X(Result, EventQueryKernelTimestamp, (void *event, KernelTimestamps *times)) \
    X(Result, MemAllocDevice, (void *context, const DeviceAllocDesc *desc, size_t nbytes, size_t alignment, \
        void *device, void **address)) \
    X(Result, MemAllocHost, (void *context, const HostAllocDesc *desc, size_t nbytes, size_t alignment, \
        void **address)) \
    X(Result, MemAllocShared, (void *context, const DeviceAllocDesc *desc, const HostAllocDesc *host, size_t nbytes, \
        size_t alignment, void *device, void **address)) \
    X(Result, MemFree, (void *context, void *address)) \
    X(Result, ModuleCreate, (void *context, void *device, const ModuleDesc *desc, void **module, void **log)) \
    X(Result, ModuleDestroy, (void *module)) \
    X(Result, ModuleBuildLogGetString, (void *log, size_t *size, char *text)) \
    X(Result, ModuleBuildLogDestroy, (void *log)) \
    X(Result, ModuleGetNativeBinary, (void *module, size_t *size, uint8_t *binary)) \
    X(Result, ModuleGetGlobalPointer, (void *module, const char *name, size_t *size, void **address)) \
    X(Result, ContextCreate, (void *driver, const ContextDesc *desc, void **context)) \
    X(Result, ContextDestroy, (void *context))

FOREBAY_TABLE(FOREBAY_ZE)

// All that a function of the form …Get(owner, &count, array) has; some have no owner.
template <class T, class Get, class... Owner> int64_t all_of(Get get, std::vector<T> &found, Owner... owner) {
    uint32_t count = 0;
    int64_t status = get(owner..., &count, nullptr);
    if (status || !count) return status;
    found.resize(count);
    status = get(owner..., &count, found.data());
    found.resize(count);
    return status;
}

}
