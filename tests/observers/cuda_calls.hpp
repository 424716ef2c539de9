// The wrappers around the calls of CUDA's driver.

#pragma once

#include <algorithm>
#include <tuple>

#include "queues/drivers/cuda/calls.hpp"
#include "tests/observers/record.hpp"

namespace forebay_observer {

using namespace forebay_cuda;

// What is recorded like a call: forebay's own, and a wait of the host.
enum Operation { MAKE_GATE = N_CALLS, OPEN_GATE, SET_ARGUMENT, WAIT_EVENTS, RELEASE_KERNEL };

// What this thread is asked for.
struct Task {
    enum Kind { NONE, COMMAND, WITH_EVENT, HOLD, WAIT } kind = NONE;
    void **gate = nullptr;  // HOLD: the gate, once there is one
    uintptr_t (*handle_of)(void *gate) = nullptr;
    int64_t serial = 0;     // HOLD: of the gate
    bool kept = false;      // WITH_EVENT: there is a command, which is recorded once its event is known
    Call command;
};

static thread_local Task task;

// A stream waits by a call of its own, so what it waits for is recorded with its next command. A handle of an event is
// recorded again and again, and each time is an event of its own; behind a wait for a word it is the gate.
struct State : EventRecord {
    std::unordered_map<uintptr_t, std::vector<int64_t>> waits;  // by stream: of no command yet
    std::unordered_map<uintptr_t, uintptr_t> words;  // by address: the handle of the gate that has the word
    std::unordered_map<uintptr_t, bool> passed;      // by that handle: whether the driver said that the stream went on

    int64_t new_event(uintptr_t handle) { return serials[handle] = ++newest_serial; }

    std::vector<int64_t> taken(uintptr_t stream) {
        std::vector<int64_t> found;
        std::swap(found, waits[stream]);
        return found;
    }

    void wait(uintptr_t stream, int64_t event) {
        std::vector<int64_t> &all = waits[stream];
        if (std::find(all.begin(), all.end(), event) == all.end()) all.push_back(event);
    }

    void make_gate() {
        if (task.serial) return;
        task.serial = new_event(task.handle_of(*task.gate));
        references[task.serial] = 1;
        Call seen = {MAKE_GATE};
        seen.event = task.serial;
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

static State& state() {
    static State& only = *new State();  // never destroyed: threads may still call while the process ends
    return only;
}

static Record& record() { return state(); }

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
    static constexpr bool is_command = begins(name, "Launch") || begins(name, "Memcpy") || begins(name, "Memset")
        || begins(name, "MemPrefetch")
        || function == CALL_EventRecord || function == CALL_StreamWaitValue32_v2 || function == CALL_GraphLaunch;

    static constexpr bool is_node = begins(name, "GraphAdd");

    // While another thread frees memory of cuMemAlloc, the driver lets these in only when running kernels have ended.
    // Events are destroyed only if processes share them.
    static constexpr bool may_wait = begins(name, "Ipc") || function == CALL_MemAlloc_v2 || function == CALL_MemFree_v2
        || function == CALL_StreamSynchronize || function == CALL_EventDestroy_v2;

    static R call(A... args) {
        State& s = state();
        auto all = std::make_tuple(args...);
        auto passed = all;  // to the driver
        bool dropped = false;
        Call seen = {};
        int64_t code = 0;
        bool waits = may_wait;
        if constexpr (function == CALL_EventCreate) waits = std::get<1>(all) & 4;  // CU_EVENT_INTERPROCESS
        if constexpr (may_wait || function == CALL_EventCreate)
            if (waits && PyGILState_Check()) {
                std::lock_guard<std::mutex> guard(s.lock);
                s.violate("cu" + std::string(name) + ": the interpreter is locked, and the call may wait");
            }
        seen.function = function;
        if constexpr (sizeof...(A) > 0) seen.object = word(std::get<place_of(function)>(all));
        if constexpr (sizeof...(A) > 1) seen.detail = (int64_t) word(std::get<1>(all));
        if constexpr (function == CALL_LaunchKernel) seen.kernel = word(std::get<0>(all));
        if constexpr (function == CALL_GraphLaunch) seen.kernel = word(std::get<0>(all));
        if (task.kind == Task::WAIT) {  // it asks again and again, and may have a private stream wait
            {
                std::lock_guard<std::mutex> guard(s.lock);
                seen.injected = s.fails_at_random(function, code);
                if (seen.injected) {
                    seen.status = code;
                    s.log.push_back(seen);
                }
            }
            return seen.injected ? (R) code : original(args...);
        }
        if constexpr (function == CALL_EventQuery) {
            if (task.kind == Task::HOLD) {  // whether an old gate may be used again
                R result = original(args...);
                std::lock_guard<std::mutex> guard(s.lock);
                if (result == 0) s.passed[seen.object] = true;
                return result;
            }
        }
        {
            std::lock_guard<std::mutex> guard(s.lock);
            if constexpr (function == CALL_LaunchHostFunc || function == CALL_StreamWaitValue32_v2)
                if (task.kind == Task::HOLD) s.make_gate();
            if constexpr (function == CALL_StreamWaitEvent)
                seen.waits.push_back(s.serial_of(word(std::get<1>(all))));
            if constexpr (function == CALL_EventQuery) seen.event = s.serial_of(seen.object);
            seen.injected = s.fails(function, code);
            if constexpr (function == CALL_StreamWaitEvent) dropped = s.drops_waits(function);
            if constexpr (is_node) {
                if (std::get<3>(all) && s.drops_waits(function)) {
                    std::get<2>(passed) = nullptr;
                    std::get<3>(passed) = 0;
                }
            }
        }
        R result = seen.injected ? (R) code : dropped ? (R) 0 : std::apply(original, passed);
        std::lock_guard<std::mutex> guard(s.lock);
        seen.status = (int64_t) result;
        if constexpr (function == CALL_EventQuery) {
            seen.detail = result != 0;
            if (result == NOT_READY) seen.status = 0;  // that is an answer
        }
        if (result == 0) {
            if constexpr (function == CALL_StreamWaitEvent) {
                s.wait(seen.object, seen.waits[0]);
                return result;
            }
            if constexpr (is_command) seen.waits = s.taken(seen.object);
            if constexpr (function == CALL_StreamWaitValue32_v2) {
                if (task.kind == Task::HOLD) {
                    seen.waits.push_back(task.serial);
                    s.close_word(word(std::get<1>(all)), task.handle_of(*task.gate));
                }
            }
            if constexpr (is_node) {  // of a graph; what it comes after are other nodes
                seen.event = s.new_event(word(*std::get<0>(all)));
                for (size_t i = 0; i < std::get<3>(all); i++)
                    seen.waits.push_back(s.serial_of(word(std::get<2>(all)[i])));
            }
            if constexpr (function == CALL_GraphExecKernelNodeSetParams_v2)
                seen.event = s.serial_of(word(std::get<1>(all)));
            if constexpr (function == CALL_EventRecord) {
                uintptr_t handle = word(std::get<0>(all));
                seen.detail = 1;  // the host can ask all events
                if (task.kind == Task::HOLD) {
                    seen.event = task.serial;
                } else {
                    seen.event = s.new_event(handle);
                    s.references[seen.event] = 1;
                }
                if (task.kept) {  // both are one command
                    task.command.event = seen.event;
                    task.kept = false;
                    s.log.push_back(std::move(task.command));
                    return result;
                }
            } else if constexpr (is_command) {
                if (task.kind == Task::WITH_EVENT) {
                    task.command = std::move(seen);
                    task.kept = true;
                    return result;
                }
            }
        }
        if (task.kept) {
            task.kept = false;
            s.log.push_back(std::move(task.command));
        }
        if constexpr (function == CALL_StreamQuery)  // a finish asks again and again
            if (s.log.size() > s.read && s.log.back().function == function && s.log.back().object == seen.object
                && s.log.back().status == NOT_READY && s.log.back().thread == seen.thread) {
                s.log.back() = std::move(seen);
                return result;
            }
        s.log.push_back(std::move(seen));
        return result;
    }
};

static void begin_calls(Calls& table) {
    State& s = state();
    s.begin();
    s.waits.clear();
    s.words.clear();
    s.passed.clear();
    FOREBAY_CUDA(FOREBAY_WRAP)
}

static void end_calls(Calls& table) { FOREBAY_CUDA(FOREBAY_UNWRAP) }

// -- operations

static void enter(Task::Kind kind) {
    task = Task();
    task.kind = kind;
}

static void enter_hold(void **gate, uintptr_t (*handle_of)(void *gate)) {
    enter(Task::HOLD);
    task.gate = gate;
    task.handle_of = handle_of;
}

static void leave(int64_t status) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    if (status != 0 && task.serial) s.references[task.serial] = 0;
    task = Task();
}

static int64_t serial_of(uintptr_t event) {
    std::lock_guard<std::mutex> guard(state().lock);
    return state().serial_of(event);
}

static void count(uintptr_t event, int more) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.count(s.serial_of(event), more);
}

static void note(int function, uintptr_t object, const std::vector<int64_t>& waits, int64_t event, int64_t detail,
                 int64_t status) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.log.push_back({function, object, 0, waits, event, detail, status, false});
}

// The waits that a stream has got and no command, as a command of their own.
static void note_barrier(uintptr_t stream) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.log.push_back({CALL_StreamWaitEvent, stream, 0, s.taken(stream), 0, 0, 0, false});
}

static int64_t refused(int function, uintptr_t object) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    int64_t code = 0;
    if (!s.fails(function, code)) return 0;
    s.log.push_back({function, object, 0, {}, 0, 1, code, true});
    return code;
}

}
