// What only SYCL's calls need: of commands and events forebay's operations are recorded, and of the rest the calls of
// dpctl that make, copy and end objects.
//
// Forebay itself keeps back what is behind a gate, so operations are recorded when they are asked for.

#pragma once

#include "queues/sycl/operations.hpp"
#include "tests/observers/operations.hpp"

namespace forebay_observer::sycl {

using namespace forebay_sycl;

// Recorded like calls. THROWN_WAIT is none: a wait that has thrown.
enum { MAKES_GATE = N_CALLS, HOLD_QUEUE, OPEN_GATE, THROWN_WAIT };

static std::atomic<uint64_t> kept_back{0};     // kernels copied inside a launch, which the record leaves out
static thread_local bool has_thrown = false;  // so that SYCL cannot say what became of the event

struct Sycl : Record {
    struct Status {};  // no call returns one
    static constexpr int64_t NOTHING_MADE = -1;
    static constexpr bool HAS_DETAIL = false;

    FOREBAY_RECORDED(Sycl, FOREBAY_SYCL)

    static constexpr Rule rule_of(int operation) {
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
        case OF_bridge: case OF_destroy_event: return {COUNTED};
        default: return {NOT_WRAPPED};
        }
    }

    // What operations are recorded for is not.
    template <class F> static constexpr bool is_described() {
        return !begins(F::name, "Queue_Submit") && !begins(F::name, "Queue_Mem") && !begins(F::name, "Queue_Fill")
            && !begins(F::name, "Event_");
    }

    template <class F> static bool is_recorded() {
        const bool is_of_argument = begins(F::name, "RawKernelArg_") || begins(F::name, "WorkGroupMemory_");
        return is_described<F>() && (!is_of_argument || inside == OF_launch);
    }

    template <class F> bool fails_now(int64_t& code) { return is_recorded<F>() && fails(F::function, code); }

    template <class F, class All, class Result> bool before(All&, Call&, bool, Guard&, Result&) {
        int64_t code;
        if (drop_one_in && F::function == CALL_free_with_context) return true;  // as OpenCL's
        if constexpr (F::function == CALL_Event_Wait) return has_thrown = has_thrown || fails(THROWN_WAIT, code);
        return F::function == CALL_Event_GetCommandExecutionStatus && std::exchange(has_thrown, false);
    }

    template <class F, class All, class Result>
    void after(All&, Call& seen, bool, Guard&, Result& result) {
        const bool is_kept_back = F::function == CALL_Kernel_Copy && inside == OF_launch;  // for a launch behind a gate
        if (is_kept_back && result) kept_back++;
        if (seen.injected || (is_recorded<F>() && !is_kept_back)) log.push_back(std::move(seen));
    }
};

}
