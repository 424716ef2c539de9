// What only CUDA's calls need: operations that are no call of the driver, and what belongs together.

#pragma once

#include <algorithm>

#include "queues/cuda/calls.hpp"
#include "tests/observers/operations.hpp"

namespace forebay_observer::cuda {

using namespace forebay_cuda;

// Recorded like calls: forebay's own, and a wait of the host.
enum { MAKES_GATE = N_CALLS, OPEN_GATE, SET_ARGUMENT, WAIT_EVENTS, RELEASE_KERNEL };

constexpr Result NOT_READY = 600;

// What this thread is asked for.
struct Task {
    int operation = -1;
    uintptr_t queue = 0;
    void **made = nullptr;  // of OF_copy and OF_fill the event, of OF_hold the gate
    int64_t gate = 0;       // its serial
    bool kept = false;      // there is a command, which is recorded once its event is known
    Call command;
};

static thread_local Task task;

// A stream waits by a call of its own, so what it waits for is recorded with its next command. A handle of an event is
// recorded again and again, and each time is an event of its own; behind a wait for a word it is the gate.
struct Cuda : Record {
    typedef Result Status;
    static constexpr std::string_view QUEUE = "stream", KERNEL = "function", WAITS = "after";
    static constexpr int ONLY_WAITS = CALL_StreamWaitEvent;

    FOREBAY_RECORDED(Cuda, FOREBAY_CUDA)

    std::unordered_map<uintptr_t, std::vector<int64_t>> waits;  // by stream: of no command yet
    std::unordered_map<uintptr_t, uintptr_t> words;  // by address: the handle of the gate that has the word
    std::unordered_map<uintptr_t, bool> passed;      // by that handle: whether the driver said that the stream went on

    static constexpr Rule rule_of(int operation) {
        switch (operation) {
        case OF_launch: case OF_copy: case OF_fill: case OF_barrier: case OF_hold: return {BY_CALLS, BY_CALLS, true};
        case OF_set_pointer: case OF_set_value: return {SET_ARGUMENT};
        case OF_open_gate: return {OPEN_GATE};
        case OF_wait_events: return {WAIT_EVENTS, CALL_EventQuery, true};
        case OF_bridge: case OF_destroy_event: return {COUNTED};
        case OF_destroy_kernel: return {RELEASE_KERNEL};
        default: return {NOT_WRAPPED};
        }
    }

    void clear() override {
        Record::clear();
        waits.clear();
        words.clear();
        passed.clear();
    }

    std::vector<int64_t> taken(uintptr_t stream) { return std::exchange(waits[stream], {}); }

    void begin_task(int operation, uintptr_t queue, void **made) { task = {operation, queue, made}; }

    void end_task(int64_t status) {
        std::lock_guard<std::mutex> guard(lock);
        if (status != 0 && task.gate) references[task.gate] = 0;
        if (status == 0 && task.operation == OF_barrier) {
            Call seen = {CALL_StreamWaitEvent, task.queue};
            seen.waits = taken(task.queue);
            log.push_back(seen);
        }
        task = Task();
    }

    void make_gate() {
        if (task.gate) return;
        Call seen = {MAKES_GATE};
        task.gate = seen.event = make(event_handle(*task.made));
        log.push_back(seen);
    }

    void close_word(uintptr_t address, uintptr_t gate) {
        auto before = words.find(address);
        if (before != words.end() && !passed[before->second])
            violate("a gate is used again that a stream may still wait for");
        words[address] = gate;
        passed[gate] = false;
    }

    bool drops_waits(int function) { return task.operation != OF_wait_events && Record::drops_waits(function); }

    // -- what a call is

    static constexpr bool waits_for_word(int function) { return function == CALL_StreamWaitValue32_v2; }

    template <class F> static constexpr bool is_node() { return begins(F::name, "GraphAdd"); }

    template <class F> static constexpr bool is_command() {
        return begins(F::name, "Launch") || begins(F::name, "Memcpy") || begins(F::name, "Memset")
            || begins(F::name, "MemPrefetch") || waits_for_word(F::function) || F::function == CALL_EventRecord
            || F::function == CALL_GraphLaunch;
    }

    // While another thread frees memory of cuMemAlloc, the driver lets these in only when running kernels have ended.
    // Events are destroyed only if processes share them.
    template <class F, class All> static bool may_block(const All& all) {
        if constexpr (F::function == CALL_EventCreate) return std::get<1>(all) & 4;  // CU_EVENT_INTERPROCESS
        return begins(F::name, "Ipc") || F::function == CALL_MemAlloc_v2 || F::function == CALL_MemFree_v2
            || F::function == CALL_StreamSynchronize || F::function == CALL_EventDestroy_v2;
    }

    template <class F> bool fails_now(int64_t& code) {
        if (F::function == CALL_EventQuery && task.operation == OF_hold) return false;
        // A wait asks again, and may have a private stream wait, too.
        return task.operation == OF_wait_events ? fails_at_random(F::function, code) : fails(F::function, code);
    }

    template <class F, class All> bool before(All& all, Call& seen, bool, Guard&, Result&) {
        const bool is_gate_made = F::function == CALL_LaunchHostFunc || waits_for_word(F::function);
        if (may_block<F>(all) && PyGILState_Check())
            violate("cu" + std::string(F::name) + ": the interpreter is locked, and the call may wait");
        if (is_gate_made && task.operation == OF_hold) make_gate();
        if constexpr (is_node<F>()) seen.object = word(std::get<1>(all));
        if constexpr (F::function == CALL_GraphLaunch) seen.kernel = word(std::get<0>(all));
        if constexpr (F::function == ONLY_WAITS) seen.waits.push_back(serial_of(word(std::get<1>(all))));
        return false;
    }

    template <class F, class All> void after(All& all, Call& seen, bool, Guard&, Result& result) {
        if (F::function == CALL_EventQuery) {
            if (task.operation == OF_hold) {
                passed[seen.object] = passed[seen.object] || result == 0;
                return;
            }
            seen.detail = result != 0;
            if (result == NOT_READY) seen.status = 0;  // that is an answer
        }
        if (task.operation == OF_wait_events && !seen.injected) return;
        if (result == 0 && follow<F>(all, seen)) return;
        if (task.kept) log.push_back(std::move(task.command));
        task.kept = false;
        if (F::function == CALL_StreamQuery && log.size() > read) {  // a finish asks again and again
            Call& last = log.back();
            if (last.function == F::function && last.object == seen.object && last.status == NOT_READY
                && last.thread == seen.thread) log.pop_back();
        }
        log.push_back(std::move(seen));
    }

    // What a call that succeeded has changed. Returns whether it is recorded with a later call.
    template <class F, class All> bool follow(All& all, Call& seen) {
        if constexpr (F::function == ONLY_WAITS) {
            std::vector<int64_t>& pending = waits[seen.object];
            if (std::find(pending.begin(), pending.end(), seen.waits[0]) == pending.end())
                pending.push_back(seen.waits[0]);
            return true;
        }
        if constexpr (is_command<F>()) seen.waits = taken(seen.object);
        if (waits_for_word(F::function) && task.operation == OF_hold) {
            seen.waits.push_back(task.gate);
            close_word(seen.detail, event_handle(*task.made));
        }
        if constexpr (is_node<F>()) seen.event = serials[word(*std::get<0>(all))] = ++newest_serial;
        if constexpr (F::function == CALL_GraphExecKernelNodeSetParams_v2)
            seen.event = serial_of(word(std::get<1>(all)));
        if constexpr (F::function == CALL_EventRecord) {
            seen.detail = 1;  // the host can ask all events
            seen.event = task.operation == OF_hold ? task.gate : make(word(std::get<0>(all)));
            if (task.kept) {  // both are one command
                task.command.event = seen.event;
                seen = std::move(task.command);
                task.kept = false;
            }
        } else if (is_command<F>() && task.made && (task.operation == OF_copy || task.operation == OF_fill)) {
            task.command = std::move(seen);
            return task.kept = true;
        }
        return false;
    }
};

}
