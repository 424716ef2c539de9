// The functions of dpctl's C interface to SYCL that forebay calls, and what ends the objects behind forebay's handles.
// The list generates the table, the numbers in a `Status` and the names in errors.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/driver.hpp"
#include "core/ownership.hpp"

namespace forebay_sycl {

using forebay::Made;
enum Code : int {};  // no error code

#define FOREBAY_SYCL(X) \
    X(Made *, Queue_SubmitNDRange, (void *kernel, void *queue, void **arguments, const int *types, \
        size_t n_arguments, const size_t *global_size, const size_t *local_size, size_t dimensions, \
        void *const *waits, size_t n_waits)) \
    X(Made *, Queue_Memcpy, (void *queue, void *to, const void *source, size_t nbytes)) \
    X(Made *, Queue_MemcpyWithEvents, (void *queue, void *to, const void *source, size_t nbytes, \
        void *const *waits, size_t n_waits)) \
    X(Made *, Queue_Memset, (void *queue, void *to, uint8_t value, size_t count)) \
    X(Made *, Queue_Fill16, (void *queue, void *to, uint16_t value, size_t count)) \
    X(Made *, Queue_Fill32, (void *queue, void *to, uint32_t value, size_t count)) \
    X(Made *, Queue_Fill64, (void *queue, void *to, uint64_t value, size_t count)) \
    X(Made *, Queue_Fill128, (void *queue, void *to, uint64_t *value, size_t count)) \
    X(Made *, Queue_SubmitBarrier, (void *queue)) \
    X(Made *, Queue_SubmitBarrierForEvents, (void *queue, void *const *waits, size_t n_waits)) \
    X(void *, Queue_Copy, (void *queue)) \
    X(void, Queue_Delete, (void *queue)) \
    X(void, Event_Wait, (void *event)) \
    X(Code, Event_GetCommandExecutionStatus, (void *event)) \
    X(uint64_t, Event_GetProfilingInfoEnd, (void *event)) \
    X(void *, Event_Copy, (void *event)) \
    X(void, Event_Delete, (void *event)) \
    X(Made *, RawKernelArg_Create, (void *value, size_t nbytes)) \
    X(void, RawKernelArg_Delete, (void *argument)) \
    X(bool, RawKernelArg_Available, ()) \
    X(Made *, WorkGroupMemory_Create, (size_t nbytes)) \
    X(void, WorkGroupMemory_Delete, (void *memory)) \
    X(bool, WorkGroupMemory_Available, ()) \
    X(void *, malloc_device, (size_t nbytes, void *queue)) \
    X(void *, malloc_shared, (size_t nbytes, void *queue)) \
    X(void *, malloc_host, (size_t nbytes, void *queue)) \
    X(void, free_with_context, (void *memory, void *context)) \
    X(Code, USM_GetPointerType, (void *memory, void *context)) \
    X(void *, Context_Copy, (void *context)) \
    X(void, Context_Delete, (void *context)) \
    X(void *, KernelBundle_CreateFromOCLSource, (void *context, void *device, const char *source, \
        const char *options)) \
    X(void *, KernelBundle_CreateFromSpirv, (void *context, void *device, const void *module, size_t nbytes, \
        const char *options)) \
    X(void *, KernelBundle_GetKernel, (void *bundle, const char *name)) \
    X(void, KernelBundle_Delete, (void *bundle)) \
    X(void *, Kernel_Copy, (void *kernel)) \
    X(void, Kernel_Delete, (void *kernel)) \
    X(size_t, Kernel_GetWorkGroupSize, (void *kernel))

FOREBAY_TABLE(FOREBAY_SYCL)

// Forebay's own reasons for a failure, beyond the calls.
enum Reason { OUT_OF_MEMORY = N_CALLS, HOLDS_ADOPTED, WAITS_FOR_HELD, GATE_FAILED };

// -- kernels with their arguments, and events

extern Calls sycl;  // operations.pyx has it

enum { WORK_GROUP_MEMORY = 12, RAW_ARGUMENT = 13 };  // DPCTLKernelArgType

struct Argument {
    char *value = nullptr;  // NULL for pointers and local memory
    size_t size = 0;
    void *object = nullptr;  // dpctl's, for a structure or for local memory of this size
};

struct SyclKernel {
    void *const kernel;
    const std::vector<int> types;
    std::vector<void *> values;  // in the form that a submission takes
    std::vector<Argument> arguments;

    SyclKernel(void *kernel, std::vector<int> types)
        : kernel(kernel), types(std::move(types)), values(this->types.size()), arguments(this->types.size()) {}
    SyclKernel(const SyclKernel &) = delete;
    ~SyclKernel() {
        for (size_t i = 0; i < types.size(); i++) {
            set_object(i, nullptr);
            std::free(arguments[i].value);
        }
        if (kernel) sycl.Kernel_Delete(kernel);
    }

    void set_object(size_t index, void *object) {
        void *before = std::exchange(arguments[index].object, object);
        values[index] = object;
        if (before && types[index] == WORK_GROUP_MEMORY) sycl.WorkGroupMemory_Delete(before);
        if (before && types[index] == RAW_ARGUMENT) sycl.RawKernelArg_Delete(before);
    }
};

enum EventState {
    PENDING,     // SYCL does not have it yet, or it is a closed gate
    SUBMITTED,   // SYCL's event tells whether it is done; without one it is done
    ENDED_BADLY  // SYCL never got what it was for
};

// Shared with the markers that come after a failure, which may outlive the queue.
typedef std::shared_ptr<std::atomic<int>> Untold;

struct SyclEvent : forebay::Counted<SyclEvent> {
    std::atomic<int> state;
    void *event;     // SYCL's; NULL while pending, and always for gates and what was refused
    Untold failure;  // of a marker: the queue's, if a command had failed before and no call had reported it
    std::vector<void *> waiters;  // the SyclQueues that this event holds; guarded by the lock of all held queues

    SyclEvent(int state, void *event) : state(state), event(event) {}
    ~SyclEvent() {
        if (event) sycl.Event_Delete(event);
    }
};

}
