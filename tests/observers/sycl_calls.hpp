// The wrappers around SYCL's calls, and what forebay keeps back before it makes them.

#pragma once

#include <deque>
#include <set>
#include <tuple>

#include "queues/drivers/sycl/calls.hpp"
#include "tests/observers/record.hpp"

namespace forebay_observer {

using namespace forebay_sycl;

// Forebay's own, which are recorded like calls.
enum Operation { MAKE_GATE = N_CALLS, HOLD_QUEUE, OPEN_GATE, THROWN_WAIT };

struct Kept {  // what a queue has kept back
    int function;
    std::vector<int64_t> waits;
    int64_t event;  // 0: nobody asked for one
    size_t calls;   // how many it becomes, besides the barrier that a fill waits by
    bool begun;
    bool lasts;     // its event is somebody else's, who is not followed
};

// What this thread is asked for. Calls outside of any operation are those of threads that wait for an arrival.
struct Task {
    bool inside = false;
    bool keeps = false;    // SYCL is not called for it, or only for what was kept back
    bool silent = false;   // it is recorded as a whole
    bool reached = false;  // the last of its calls
    bool thrown = false;   // a wait has thrown: nobody knows what became of what it was for
    int as = -1;           // what a marker, barrier or copy is recorded as
    int64_t made = 0;
    size_t at = 0;
    uintptr_t queue = 0;
};

static thread_local Task task;

// In the record the detail is, of a query, 0 when the event was done; of a gate that is opened, whether it fails.
struct State : EventRecord {
    Serials pending;  // of forebay's events that SYCL does not know
    std::unordered_map<uintptr_t, std::pair<int64_t, int>> asked_for;  // forebay's events: serial, references
    std::unordered_map<uintptr_t, std::deque<Kept>> kept;  // by SYCL's queue
    bool gate_failed = false;  // what is kept behind it may never become a call
};

static State& state() {
    static State& only = *new State();  // never destroyed: threads may still call while the process ends
    return only;
}

static Record& record() { return state(); }

static bool is_fill(int function) {
    return function == CALL_Queue_Memset || begins(call_names[function], "Queue_Fill");
}

static bool is_barrier(int function) {
    return function == CALL_Queue_SubmitBarrier || function == CALL_Queue_SubmitBarrierForEvents;
}

static int plain(int function) {
    return function == CALL_Queue_MemcpyWithEvents ? CALL_Queue_Memcpy : function;
}

static std::string text_of(const std::vector<int64_t>& waits) {
    std::string text = "[";
    for (int64_t each : waits) text += (text.size() > 1 ? ", " : "") + std::to_string(each);
    return text + "]";
}

// The serial that the event of a call gets which is made of what was kept back, and whether to follow that event.
static std::pair<int64_t, bool> hand_on(uintptr_t queue, int function, const std::vector<int64_t>& waits) {
    State& s = state();
    std::deque<Kept>& all = s.kept[queue];
    if (s.gate_failed) return {++s.newest_serial, true};
    if (all.empty()) {
        s.violate(std::string(call_names[function]) + " was called for a queue that had kept nothing back");
        return {++s.newest_serial, true};
    }
    Kept& first = all.front();
    bool fills = is_fill(first.function);
    bool expected;
    if (fills && is_barrier(function)) expected = !first.begun && waits == first.waits;
    else if (fills)
        expected = (first.begun || first.waits.empty())
            && (function == CALL_Queue_Memcpy || function == first.function);
    else if (is_barrier(first.function)) expected = is_barrier(function) && waits == first.waits;
    else expected = plain(function) == first.function && waits == first.waits;
    if (!expected)
        s.violate(std::string(call_names[function]) + " with waits for " + text_of(waits) + " was called where "
                  + call_names[first.function] + " with waits for " + text_of(first.waits) + " was next");
    first.begun = true;
    if (fills && is_barrier(function)) return {++s.newest_serial, true};
    if (--first.calls) return {++s.newest_serial, true};
    std::pair<int64_t, bool> result = {first.event ? first.event : ++s.newest_serial, !first.lasts};
    all.pop_front();
    return result;
}

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr std::string_view name = call_names[function];
    static constexpr bool waits = function == CALL_Queue_SubmitNDRange
        || function == CALL_Queue_MemcpyWithEvents || function == CALL_Queue_SubmitBarrierForEvents;
    static constexpr bool is_command = begins(name, "Queue_Submit") || begins(name, "Queue_Mem")
        || begins(name, "Queue_Fill");
    static constexpr bool is_wait = function == CALL_Event_Wait;
    static constexpr bool of_event = begins(name, "Event_");
    static constexpr bool of_argument = begins(name, "RawKernelArg_") || begins(name, "WorkGroupMemory_");

    static R call(A... args) {
        State& s = state();
        auto all = std::make_tuple(args...);
        Call seen = {};
        int64_t code = 0;
        bool record = !task.silent && (task.inside || !(of_event || of_argument));
        bool hands_on = is_command && task.inside && task.keeps;
        seen.function = function;
        if (task.as >= 0 && is_command) seen.function = task.as;
        if constexpr (n > 0) seen.object = word(std::get<0>(all));
        if constexpr (function == CALL_Queue_SubmitNDRange) {
            seen.kernel = seen.object;
            seen.object = word(std::get<1>(all));
        }
        {
            std::lock_guard<std::mutex> guard(s.lock);
            if constexpr (waits) {
                for (size_t i = 0; i < std::get<n - 1>(all); i++)
                    seen.waits.push_back(s.serial_of(word(std::get<n - 2>(all)[i])));
                if (!seen.waits.empty() && s.drops_waits(function)) std::get<n - 1>(all) = 0;
            }
            if constexpr (of_event) seen.event = s.serial_of(seen.object);
            if constexpr (function == CALL_Event_Wait) seen.waits.push_back(seen.event);
            if constexpr (function == CALL_Event_Delete) {
                s.count(seen.event, -1);
                s.serials.erase(seen.object);  // before the handle can come again
                if (task.inside && seen.event == task.made) {
                    if (task.at < s.log.size()) s.log[task.at].event = 0;
                    record = false;
                }
            }
            if constexpr (function == CALL_Queue_Delete) s.kept.erase(seen.object);
            if constexpr (is_wait) task.thrown = task.thrown || s.fails(THROWN_WAIT, code);
            if constexpr (!std::is_void_v<R>)
                if (record && !hands_on) seen.injected = s.fails(seen.function, code);
        }
        task.reached = task.reached || function == CALL_Event_Wait;
        if constexpr (std::is_void_v<R>) {
            if (!is_wait || !task.thrown) original(args...);
            std::lock_guard<std::mutex> guard(s.lock);
            if (record && !task.keeps) s.log.push_back(std::move(seen));
        } else {
            R result = R();
            std::pair<int64_t, bool> given = {0, true};
            if (hands_on) {
                std::lock_guard<std::mutex> guard(s.lock);
                given = hand_on(seen.object, function, seen.waits);
            }
            if (!seen.injected) {
                if (function != CALL_Event_GetCommandExecutionStatus || !task.thrown) result = std::apply(original, all);
                if constexpr (std::is_pointer_v<R>) code = result ? 0 : -1;
            }
            seen.status = code;
            std::lock_guard<std::mutex> guard(s.lock);
            if constexpr (is_command) {
                if (result) {
                    seen.event = hands_on ? given.first : ++s.newest_serial;
                    s.serials[word(result)] = seen.event;
                    if (given.second) s.references[seen.event] = 1;
                    if (!hands_on) {
                        task.made = seen.event;
                        task.at = record ? s.log.size() : SIZE_MAX;
                    }
                }
            }
            if constexpr (function == CALL_Event_GetCommandExecutionStatus) seen.detail = (int64_t) result != 3;
            if (record && !hands_on && !(task.keeps && task.inside)) s.log.push_back(std::move(seen));
            return result;
        }
    }
};

static void begin_calls(Calls& table) {
    State& s = state();
    s.begin();
    s.pending.clear();
    s.asked_for.clear();
    s.kept.clear();
    s.gate_failed = false;
    FOREBAY_SYCL(FOREBAY_WRAP)
}

static void end_calls(Calls& table) { FOREBAY_SYCL(FOREBAY_UNWRAP) }

// -- operations

static int64_t serial_of_pending(uintptr_t event) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    return s.serial_of(s.pending, event);
}

static int64_t serial_of_sycl(uintptr_t event) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    return s.serial_of(event);
}

static int64_t new_serial() {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    return ++s.newest_serial;
}

static void enter(bool keeps, int as, bool silent) {
    task = Task();
    task.inside = true;
    task.keeps = keeps;
    task.as = as;
    task.silent = silent;
}

static bool leave() {
    bool reached = task.reached;
    task = Task();
    return reached;
}

static size_t note(int function, uintptr_t object, uintptr_t kernel, const std::vector<int64_t>& waits,
                   int64_t event, int64_t detail) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.log.push_back({function, object, kernel, waits, event, detail, 0, false});
    return s.log.size() - 1;
}

// Does an operation that SYCL is not called for fail?
static bool refuse(int function, uintptr_t object) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    int64_t code = 0;
    if (!s.fails(function, code)) return false;
    s.log.push_back({function, object, 0, {}, 0, 1, code, true});
    return true;
}

static void keep(uintptr_t queue, int function, const std::vector<int64_t>& waits, int64_t event, size_t calls,
                 bool lasts) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.kept[queue].push_back({function, waits, event, calls, false, lasts});
}

static void keep_not(uintptr_t queue, size_t at) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    if (!s.kept[queue].empty()) s.kept[queue].pop_back();
    if (at < s.log.size()) s.log[at].status = -1;
}

static void made(uintptr_t event, int64_t serial, bool is_pending) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    if (is_pending) s.pending[event] = serial;
    s.asked_for[event] = {serial, 1};
}

static void made_again(uintptr_t event) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    auto found = s.asked_for.find(event);
    if (found != s.asked_for.end()) found->second.second++;
}

static void released(uintptr_t event) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    auto found = s.asked_for.find(event);
    if (found != s.asked_for.end() && --found->second.second == 0) s.asked_for.erase(found);
}

static void gate_fails() {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.gate_failed = true;
}

// A gate may be opened and released by another thread before the operation that made it has returned.
static std::mutex holding;

static void begin_hold() { holding.lock(); }

static void end_hold() { holding.unlock(); }

static void release(uintptr_t event) {
    std::lock_guard<std::mutex> one(holding);
    released(event);
}

static std::vector<int64_t> alive() {
    State& s = state();
    std::vector<int64_t> own = s.EventRecord::alive();
    std::set<int64_t> found(own.begin(), own.end());
    std::lock_guard<std::mutex> guard(s.lock);
    for (auto& entry : s.asked_for) found.insert(entry.second.first);
    return std::vector<int64_t>(found.begin(), found.end());
}

}
