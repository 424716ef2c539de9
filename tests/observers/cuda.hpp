// What the observer of CUDA records: the driver's calls, and operations that are no call of it.

#pragma once

#include <algorithm>

#include "queues/cuda/calls.hpp"
#include "tests/observers/operations.hpp"

namespace forebay_observer {

using namespace forebay_cuda;

// Recorded like calls: forebay's own, and a wait of the host.
enum { MAKES_GATE = N_CALLS, OPEN_GATE, SET_ARGUMENT, WAIT_EVENTS, RELEASE_KERNEL };

constexpr Rule rule_of(int operation) {
    switch (operation) {
    case OF_launch: case OF_copy: case OF_fill: case OF_barrier: case OF_hold: return {BY_CALLS, BY_CALLS, true};
    case OF_set_pointer: case OF_set_value: return {SET_ARGUMENT};
    case OF_open_gate: return {OPEN_GATE};
    case OF_wait_events: return {WAIT_EVENTS, CALL_EventQuery, true};
    case OF_bridge: case OF_release_event: return {COUNTED};
    case OF_release_kernel: return {RELEASE_KERNEL};
    default: return {NOT_WRAPPED};
    }
}

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
struct State : Record {
    std::unordered_map<uintptr_t, std::vector<int64_t>> waits;  // by stream: of no command yet
    std::unordered_map<uintptr_t, uintptr_t> words;  // by address: the handle of the gate that has the word
    std::unordered_map<uintptr_t, bool> passed;      // by that handle: whether the driver said that the stream went on

    void clear() override {
        Record::clear();
        waits.clear();
        words.clear();
        passed.clear();
    }

    void wait(uintptr_t stream, int64_t event) {
        std::vector<int64_t>& all = waits[stream];
        if (std::find(all.begin(), all.end(), event) == all.end()) all.push_back(event);
    }

    std::vector<int64_t> taken(uintptr_t stream) { return std::exchange(waits[stream], {}); }

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
};

static State& state() { return only<State>(); }

static Record& record() { return state(); }

void begin_task(int operation, uintptr_t queue, void **made) { task = {operation, queue, made}; }

void end_task(int64_t status) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    if (status != 0 && task.gate) s.references[task.gate] = 0;
    if (status == 0 && task.operation == OF_barrier) {
        Call seen = {CALL_StreamWaitEvent, task.queue};
        seen.waits = s.taken(task.queue);
        s.log.push_back(seen);
    }
    task = Task();
}

constexpr Result NOT_READY = 600;

// Which parameter says what a call is of.
constexpr size_t place_of(int function) {
    switch (function) {
    case CALL_LaunchKernel: return 8;
    case CALL_MemcpyAsync: case CALL_MemsetD8Async: case CALL_MemsetD16Async: case CALL_MemsetD32Async: return 3;
    case CALL_MemPrefetchAsync_v2: return 4;
    case CALL_EventRecord: case CALL_GraphLaunch: return 1;
    case CALL_GraphAddKernelNode_v2: case CALL_GraphAddMemcpyNode: case CALL_GraphAddMemsetNode: return 1;
    default: return 0;
    }
}

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr std::string_view name = call_names[function];
    static constexpr bool is_node = begins(name, "GraphAdd");
    static constexpr bool makes_event = function == CALL_EventRecord;
    static constexpr bool waits = function == CALL_StreamWaitEvent;
    static constexpr bool waits_for_word = function == CALL_StreamWaitValue32_v2;
    static constexpr bool is_command = begins(name, "Launch") || begins(name, "Memcpy") || begins(name, "Memset")
        || begins(name, "MemPrefetch") || makes_event || waits_for_word || function == CALL_GraphLaunch;
    // While another thread frees memory of cuMemAlloc, the driver lets these in only when running kernels have ended.
    // Events are destroyed only if processes share them.
    static constexpr bool may_block = begins(name, "Ipc") || function == CALL_MemAlloc_v2
        || function == CALL_MemFree_v2 || function == CALL_StreamSynchronize || function == CALL_EventDestroy_v2;

    static Call described(const std::tuple<A...>& all) {
        State& s = state();
        Call seen = {function};
        bool blocks = may_block;
        if constexpr (sizeof...(A) > 0) seen.object = word(std::get<place_of(function)>(all));
        if constexpr (sizeof...(A) > 1) seen.detail = (int64_t) word(std::get<1>(all));
        if constexpr (function == CALL_LaunchKernel || function == CALL_GraphLaunch)
            seen.kernel = word(std::get<0>(all));
        if constexpr (waits) seen.waits.push_back(s.serial_of(word(std::get<1>(all))));
        if constexpr (function == CALL_EventQuery) seen.event = s.serial_of(seen.object);
        if constexpr (function == CALL_EventCreate) blocks = std::get<1>(all) & 4;  // CU_EVENT_INTERPROCESS
        if (blocks && PyGILState_Check())
            s.violate("cu" + std::string(name) + ": the interpreter is locked, and the call may wait");
        return seen;
    }

    // Returns whether it is recorded with a later call.
    static bool follow(const std::tuple<A...>& all, Call& seen) {
        State& s = state();
        if constexpr (waits) s.wait(seen.object, seen.waits[0]);
        if constexpr (is_command) seen.waits = s.taken(seen.object);
        if constexpr (waits_for_word) {
            if (task.operation == OF_hold) {
                seen.waits.push_back(task.gate);
                s.close_word(word(std::get<1>(all)), event_handle(*task.made));
            }
        }
        if constexpr (is_node) {  // of a graph; what it comes after are other nodes
            seen.event = s.serials[word(*std::get<0>(all))] = ++s.newest_serial;
            for (size_t i = 0; i < std::get<3>(all); i++)
                seen.waits.push_back(s.serial_of(word(std::get<2>(all)[i])));
        }
        if constexpr (function == CALL_GraphExecKernelNodeSetParams_v2)
            seen.event = s.serial_of(word(std::get<1>(all)));
        if constexpr (makes_event) {
            seen.detail = 1;  // the host can ask all events
            seen.event = task.operation == OF_hold ? task.gate : s.make(word(std::get<0>(all)));
            if (task.kept) {  // both are one command
                task.command.event = seen.event;
                seen = std::move(task.command);
                task.kept = false;
            }
        } else if (is_command && task.made && (task.operation == OF_copy || task.operation == OF_fill)) {
            task.command = std::move(seen);
            return task.kept = true;
        }
        return waits;
    }

    static R call(A... args) {
        State& s = state();
        std::tuple<A...> all(args...), passed = all;  // to the driver
        bool is_dropped = false;
        int64_t code = 0;
        std::unique_lock<std::mutex> guard(s.lock);
        Call seen = described(all);
        const bool asks_again = task.operation == OF_wait_events;  // it may have a private stream wait, too
        const bool asks_of_gate = function == CALL_EventQuery && task.operation == OF_hold;
        if ((function == CALL_LaunchHostFunc || waits_for_word) && task.operation == OF_hold) s.make_gate();
        seen.injected = !asks_of_gate && (asks_again ? s.fails_at_random(function, code) : s.fails(function, code));
        if (!asks_again) {
            if constexpr (waits) is_dropped = s.drops_waits(function);
            if constexpr (is_node) {
                if (std::get<3>(all) && s.drops_waits(function)) {
                    std::get<2>(passed) = nullptr;
                    std::get<3>(passed) = 0;
                }
            }
        }
        guard.unlock();
        R result = seen.injected ? (R) code : is_dropped ? (R) 0 : std::apply(original, passed);
        s.pause_at(function);
        guard.lock();
        if (asks_of_gate && result == 0) s.passed[seen.object] = true;
        if (asks_of_gate || (asks_again && !seen.injected)) return result;
        seen.status = (int64_t) result;
        if constexpr (function == CALL_EventQuery) {
            seen.detail = result != 0;
            if (result == NOT_READY) seen.status = 0;  // that is an answer
        }
        if (result == 0 && follow(all, seen)) return result;
        if (task.kept) s.log.push_back(std::move(task.command));
        task.kept = false;
        if (function == CALL_StreamQuery && s.log.size() > s.read) {  // a finish asks again and again
            Call& last = s.log.back();
            if (last.function == function && last.object == seen.object && last.status == NOT_READY
                && last.thread == seen.thread) s.log.pop_back();
        }
        s.log.push_back(std::move(seen));
        return result;
    }
};

static void wrap_calls(Calls& table) { FOREBAY_CUDA(FOREBAY_WRAP) }
static void unwrap_calls(Calls& table) { FOREBAY_CUDA(FOREBAY_UNWRAP) }

}
