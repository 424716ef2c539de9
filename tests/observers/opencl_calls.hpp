// The wrappers around OpenCL's calls.

#pragma once

#include <tuple>

#include "queues/opencl/calls.hpp"
#include "tests/observers/record.hpp"

namespace forebay_observer {

using namespace forebay_cl;

static EventRecord& state() {
    static EventRecord& only = *new EventRecord();  // never destroyed: threads may still call while the process ends
    return only;
}

static Record& record() { return state(); }

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr std::string_view name = call_names[function];
    static constexpr bool makes_object = function == CALL_CreateUserEvent || function == CALL_CreateBuffer;
    static constexpr bool is_command = begins(name, "Enqueue");
    static constexpr bool is_of_event = begins(name, "GetEvent") || begins(name, "SetEvent")
        || begins(name, "SetUserEvent") || function == CALL_RetainEvent || function == CALL_ReleaseEvent;

    static int64_t made(EventRecord& s, uintptr_t event) {
        s.references[++s.newest_serial] = 1;
        return s.serials[event] = s.newest_serial;
    }

    static R call(A... args) {
        EventRecord& s = state();
        auto all = std::make_tuple(args...);
        Call seen = {};
        int64_t code = 0;
        seen.function = function;
        seen.object = word(std::get<0>(all));
        if constexpr (n > 1) seen.detail = (int64_t) word(std::get<1>(all));
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
        }
        R result = R();
        if (!seen.injected) result = original(args...);
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
        if (code == 0) {
            if constexpr (is_command)
                if (std::get<n - 1>(all)) seen.event = made(s, word(*std::get<n - 1>(all)));
            if constexpr (function == CALL_CreateUserEvent) seen.event = made(s, word(result));
            // The status that was found; of clSetUserEventStatus it is the one that was set, and of others an index.
            if constexpr (function == CALL_GetEventInfo) seen.detail = *(int32_t *) std::get<3>(all);
            if constexpr (function == CALL_RetainEvent) s.count(seen.event, 1);
            if constexpr (function == CALL_ReleaseEvent) s.count(seen.event, -1);
        }
        s.log.push_back(std::move(seen));
        return result;
    }
};

template <int function, class... A> struct Wrapper<function, void, A...> {
    static inline void (*original)(A...) = nullptr;

    static void call(A... args) {
        Call seen = {};
        seen.function = function;
        seen.object = word(std::get<0>(std::make_tuple(args...)));
        original(args...);
        std::lock_guard<std::mutex> guard(state().lock);
        state().log.push_back(std::move(seen));
    }
};

static void begin_calls(Calls& table) {
    state().begin();
    FOREBAY_CL(FOREBAY_WRAP)
}

static void end_calls(Calls& table) { FOREBAY_CL(FOREBAY_UNWRAP) }

}
