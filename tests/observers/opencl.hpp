// What only OpenCL's calls need.
//
// Launches are checked for lists of memory that was freed, which kernels follow pointers to. User events are checked,
// too: one that is released and was never set lets NVIDIA's driver hang when the context is released. So does a list
// that is given to a kernel object with a launch from behind a closed gate.

#pragma once

#include <unordered_set>

#include "queues/opencl/operations.hpp"
#include "tests/observers/recorder.hpp"

namespace forebay_observer::opencl {

using namespace forebay_cl;

struct OpenCL : Record {
    typedef cl_int Status;
    static constexpr int64_t NOTHING_MADE = -5;

    FOREBAY_RECORDED(OpenCL, FOREBAY_CL)

    std::unordered_set<int64_t> not_set;
    std::unordered_set<int64_t> freed;  // from the moment in which the driver is about to free it
    std::unordered_map<uintptr_t, std::vector<int64_t>> lists;  // by kernel object
    // Gates that were closed then: by queue, those that it waits for; by kernel object, those that a launch was behind.
    std::unordered_map<uintptr_t, std::unordered_set<int64_t>> held, gates;

    void check_list(uintptr_t kernel) {
        auto found = lists.find(kernel);
        if (found == lists.end()) return;
        for (int64_t address : found->second)
            if (freed.count(address)) return violate("a launch follows pointers to memory that was freed");
    }

    void clear() override {
        Record::clear();
        not_set.clear();
        freed.clear();
        lists.clear();
        gates.clear();
        held.clear();
    }

    template <class F, class All, class Result> bool before(All&, Call& seen, bool, Guard&, Result&) {
        // What has lost its waits may come while others still use memory that its end says is free.
        if (drop_one_in && (F::function == CALL_SVMFree || F::function == CALL_ReleaseMemObject)) return true;
        if constexpr (F::function == CALL_SVMFree) freed.insert(seen.detail);
        if constexpr (F::function == CALL_EnqueueNDRangeKernel) check_list(seen.kernel);
        if constexpr (F::function == CALL_SetKernelExecInfo)
            for (int64_t gate : gates[seen.object])
                if (not_set.count(gate)) violate("a list of memory for a kernel object with a launch behind a gate");
        return false;
    }

    template <class F, class All, class Result>
    void after(All& all, Call& seen, bool, Guard&, Result& result) {
        if constexpr (F::function == CALL_EnqueueNDRangeKernel) check_list(seen.kernel);
        if constexpr (F::function == CALL_GetEventInfo)
            if (seen.injected && seen.status > 0) {  // no error of the call: the answer is that the command has failed
                *(int32_t *) std::get<3>(all) = -(int32_t) seen.status;
                seen.status = result = 0;
            }
        if (seen.status == 0) follow<F>(all, seen, result);
        log.push_back(std::move(seen));
    }

    template <class F, class All, class Result> void follow(All& all, Call& seen, Result& result) {
        if constexpr (F::queue >= 0 && F::at("event") >= 0)
            if (void **made = std::get<F::at("event")>(all)) seen.event = make(word(*made));
        if constexpr (F::queue >= 0)
            for (int64_t event : seen.waits)
                if (not_set.count(event)) held[seen.object].insert(event);
        switch (F::function) {
        case CALL_SVMAlloc:
            freed.erase(seen.detail = (int64_t) word(result));
            break;
        case CALL_ReleaseKernel:
            lists.erase(seen.object);
            gates.erase(seen.object);
            break;
        case CALL_EnqueueNDRangeKernel:
            gates[seen.kernel].insert(held[seen.object].begin(), held[seen.object].end());
            break;
        case CALL_CreateUserEvent:
            not_set.insert(seen.event = make(word(result)));
            break;
        case CALL_SetUserEventStatus:
            not_set.erase(seen.event);
            break;
        case CALL_RetainEvent:
            count(seen.event, 1);
            break;
        case CALL_ReleaseEvent:
            count(seen.event, -1);
            if (not_set.count(seen.event) && references[seen.event] == 0)
                violate("a user event was released that was never set");
        }
        if constexpr (F::function == CALL_SetKernelExecInfo) {
            auto addresses = (const int64_t *) std::get<3>(all);
            lists[seen.object] = seen.waits = {addresses, addresses + std::get<2>(all) / sizeof(int64_t)};
        }
        // The status that was found; of clSetUserEventStatus it is the one that was set, and of others an index.
        if constexpr (F::function == CALL_GetEventInfo) seen.detail = *(int32_t *) std::get<3>(all);
    }
};

}
