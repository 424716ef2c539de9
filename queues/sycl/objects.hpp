// What ends SYCL's objects behind forebay's handles: kernels with their arguments, and events.

#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/driver.hpp"
#include "core/ownership.hpp"
#include "queues/sycl/calls.hpp"

namespace forebay_sycl {

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

}  // namespace forebay_sycl
