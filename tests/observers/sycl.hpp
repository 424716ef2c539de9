// What the observer of SYCL records: forebay's operations, and calls of dpctl that make, copy and end objects.
//
// Forebay itself keeps back what is behind a gate, so operations are recorded when they are asked for.

#pragma once

#include "queues/sycl/calls.hpp"
#include "tests/observers/operations.hpp"

namespace forebay_observer {

using namespace forebay_sycl;

// Recorded like calls. THROWN_WAIT is none: a wait that has thrown.
enum { MAKES_GATE = N_CALLS, HOLD_QUEUE, OPEN_GATE, THROWN_WAIT };

static Record& record() { return only<Record>(); }

constexpr Rule rule_of(int operation) {
    switch (operation) {
    case OF_launch: return {CALL_Queue_SubmitNDRange};
    case OF_set_pointer: case OF_set_value: return {CALL_RawKernelArg_Create};
    case OF_copy: return {CALL_Queue_Memcpy};
    case OF_fill: return {CALL_Queue_Fill32};
    case OF_marker: return {CALL_Queue_SubmitBarrier};
    case OF_barrier: return {CALL_Queue_SubmitBarrierForEvents};
    case OF_hold: return {HOLD_QUEUE, OUT_OF_MEMORY, false, MAKES_GATE};
    case OF_open_gate: return {OPEN_GATE};
    case OF_wait_events: return {CALL_Event_Wait};
    case OF_event_status: return {CALL_Event_GetCommandExecutionStatus};
    case OF_elapsed: return {CALL_Event_GetProfilingInfoEnd};
    case OF_bridge: case OF_release_event: return {COUNTED};
    default: return {NOT_WRAPPED};
    }
}

static std::atomic<uint64_t> kept_back{0};  // kernels copied inside a launch, which the record leaves out
static thread_local bool has_thrown = false;  // so that SYCL cannot say what became of the event

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr std::string_view name = call_names[function];
    static constexpr bool waits = function == CALL_Queue_SubmitNDRange || function == CALL_Queue_MemcpyWithEvents
        || function == CALL_Queue_SubmitBarrierForEvents;
    static constexpr bool is_of_argument = begins(name, "RawKernelArg_") || begins(name, "WorkGroupMemory_");
    static constexpr bool is_of_operations = begins(name, "Queue_Submit") || begins(name, "Queue_Mem")
        || begins(name, "Queue_Fill") || begins(name, "Event_");
    static constexpr bool keeps_back = function == CALL_Kernel_Copy;  // for a launch behind a gate: no call of its own

    static R call(A... args) {
        Record& s = record();
        auto all = std::make_tuple(args...);
        Call seen = {function};
        int64_t code = 0;
        const bool fails = !is_of_operations && (!is_of_argument || inside == OF_launch);
        const bool recorded = fails && !(keeps_back && inside == OF_launch);
        std::unique_lock<std::mutex> guard(s.lock);
        if constexpr (n > 0) seen.object = word(std::get<0>(all));
        if constexpr (waits)
            if (std::get<n - 1>(all) && s.drops_waits(function)) std::get<n - 1>(all) = 0;
        if constexpr (function == CALL_Event_Wait) has_thrown = has_thrown || s.fails(THROWN_WAIT, code);
        if constexpr (std::is_void_v<R>) {
            if (recorded) s.log.push_back(seen);
            guard.unlock();
            if (function != CALL_Event_Wait || !has_thrown) std::apply(original, all);
        } else {
            seen.injected = fails && s.fails(function, code);
            guard.unlock();
            if (function == CALL_Event_GetCommandExecutionStatus && std::exchange(has_thrown, false)) return R();
            R result = seen.injected ? R() : std::apply(original, all);
            if constexpr (std::is_pointer_v<R>)
                if (!result && !seen.injected) code = -1;
            seen.status = code;
            guard.lock();
            if (recorded || seen.injected) s.log.push_back(seen);
            else if (keeps_back && result) kept_back++;
            return result;
        }
    }
};

static void wrap_calls(Calls& table) { FOREBAY_SYCL(FOREBAY_WRAP) }
static void unwrap_calls(Calls& table) { FOREBAY_SYCL(FOREBAY_UNWRAP) }

}
