// The wrappers around OpenCL's calls.

#pragma once

#include <tuple>
#include <unordered_set>

#include "queues/opencl/calls.hpp"
#include "tests/observers/record.hpp"

namespace forebay_observer {

using namespace forebay_cl;

// Launches are checked for lists of memory that was freed, which kernels follow pointers to. User events are checked,
// too: one that is released and was never set lets NVIDIA's driver hang when the context is released.
struct State : Record {
    std::unordered_set<int64_t> not_set;
    std::unordered_set<int64_t> freed;  // from the moment in which the driver is about to free it
    std::unordered_map<uintptr_t, std::vector<int64_t>> lists;  // by kernel object

    void check_list(uintptr_t kernel) {
        auto found = lists.find(kernel);
        if (found == lists.end()) return;
        for (int64_t address : found->second)
            if (freed.count(address)) return violate("a launch follows pointers to memory that was freed");
    }

    void released(int64_t event) {
        count(event, -1);
        if (not_set.count(event) && references[event] == 0) violate("a user event was released that was never set");
    }

    void clear() override {
        Record::clear();
        not_set.clear();
        freed.clear();
        lists.clear();
    }
};

static State& state() { return only<State>(); }

static Record& record() { return state(); }

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr std::string_view name = call_names[function];
    static constexpr bool makes_object = function == CALL_CreateUserEvent || function == CALL_CreateBuffer
        || function == CALL_CreateKernel || function == CALL_CreateSubBuffer;
    static constexpr bool is_command = begins(name, "Enqueue");
    static constexpr bool is_of_event = begins(name, "GetEvent") || begins(name, "SetEvent")
        || begins(name, "SetUserEvent") || function == CALL_RetainEvent || function == CALL_ReleaseEvent;

    static R call(A... args) {
        State& s = state();
        std::tuple<A...> all(args...);
        Call seen = {function, word(std::get<0>(all))};
        int64_t code = 0;
        if constexpr (n > 1) seen.detail = (int64_t) word(std::get<1>(all));
        if constexpr (std::is_void_v<R>) {  // clSVMFree
            s.locked([&] { s.freed.insert(seen.detail); });
            original(args...);
            return s.locked([&] { s.log.push_back(std::move(seen)); });
        } else {
            return recorded(all, seen, code);
        }
    }

    static R recorded(std::tuple<A...>& all, Call& seen, int64_t code) {
        State& s = state();
        if constexpr (function == CALL_EnqueueNDRangeKernel) seen.kernel = word(std::get<1>(all));
        {
            std::lock_guard<std::mutex> guard(s.lock);
            if constexpr (is_command || function == CALL_WaitForEvents) {
                constexpr int at = is_command ? n - 3 : 0;
                for (size_t i = 0; i < std::get<at>(all); i++)
                    seen.waits.push_back(s.serial_of(word(std::get<at + 1>(all)[i])));
            }
            if constexpr (is_of_event) seen.event = s.serial_of(seen.object);
            seen.injected = s.fails(function, code);
            if (function == CALL_EnqueueNDRangeKernel) s.check_list(seen.kernel);
            if constexpr (is_command)
                if (!seen.waits.empty() && s.drops_waits(function)) {
                    std::get<n - 3>(all) = 0;
                    std::get<n - 2>(all) = nullptr;
                }
        }
        R result = R();
        if (!seen.injected) result = std::apply(original, all);
        if constexpr (makes_object) {
            if (seen.injected) *std::get<n - 1>(all) = (int32_t) code;
            code = *std::get<n - 1>(all);
        } else if constexpr (function == CALL_SVMAlloc) {
            code = result ? 0 : -5;
        } else {
            if (seen.injected) result = (R) code;
            code = (int64_t) result;
        }
        seen.status = code;
        s.pause_at(function);
        std::lock_guard<std::mutex> guard(s.lock);
        if (function == CALL_EnqueueNDRangeKernel) s.check_list(seen.kernel);
        if (code == 0) {
            if constexpr (function == CALL_SVMAlloc) {
                seen.detail = (int64_t) word(result);
                s.freed.erase(seen.detail);
            }
            if constexpr (function == CALL_SetKernelExecInfo) {
                auto addresses = (const int64_t *) std::get<3>(all);
                seen.waits.assign(addresses, addresses + std::get<2>(all) / sizeof(int64_t));
                s.lists[seen.object] = seen.waits;
            }
            if constexpr (function == CALL_ReleaseKernel) s.lists.erase(seen.object);
            if constexpr (is_command)
                if (std::get<n - 1>(all)) seen.event = s.make(word(*std::get<n - 1>(all)));
            if constexpr (function == CALL_CreateUserEvent) s.not_set.insert(seen.event = s.make(word(result)));
            if constexpr (function == CALL_SetUserEventStatus) s.not_set.erase(seen.event);
            // The status that was found; of clSetUserEventStatus it is the one that was set, and of others an index.
            if constexpr (function == CALL_GetEventInfo) seen.detail = *(int32_t *) std::get<3>(all);
            if constexpr (function == CALL_RetainEvent) s.count(seen.event, 1);
            if constexpr (function == CALL_ReleaseEvent) s.released(seen.event);
        }
        s.log.push_back(std::move(seen));
        return result;
    }
};

static void wrap_calls(Calls& table) { FOREBAY_CL(FOREBAY_WRAP) }
static void unwrap_calls(Calls& table) { FOREBAY_CL(FOREBAY_UNWRAP) }

}
