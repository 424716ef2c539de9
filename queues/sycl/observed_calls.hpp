// The wrappers around SYCL's calls, and what forebay keeps back before it makes them.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

/* The commands come first; each makes an event. */
#define FOREBAY_OBSERVED(X) \
    X(SubmitNDRange, "Queue_SubmitNDRange") X(Memcpy, "Queue_Memcpy") \
    X(MemcpyWithEvents, "Queue_MemcpyWithEvents") X(Memset, "Queue_Memset") X(Fill16, "Queue_Fill16") \
    X(Fill32, "Queue_Fill32") X(Fill64, "Queue_Fill64") X(Fill128, "Queue_Fill128") \
    X(SubmitBarrier, "Queue_SubmitBarrier") X(SubmitBarrierForEvents, "Queue_SubmitBarrierForEvents") \
    X(Event_Wait, "Event_Wait") X(Event_GetCommandExecutionStatus, "Event_GetCommandExecutionStatus") \
    X(Event_GetProfilingInfoEnd, "Event_GetProfilingInfoEnd") X(Event_Delete, "Event_Delete") \
    X(RawKernelArg_Create, "RawKernelArg_Create") X(WorkGroupMemory_Create, "WorkGroupMemory_Create") \
    X(Queue_Wait, "Queue_Wait") X(Queue_Copy, "Queue_Copy") X(Queue_Delete, "Queue_Delete") \
    X(Kernel_Copy, "Kernel_Copy") X(Kernel_Delete, "Kernel_Delete") \
    X(malloc_device, "malloc_device") X(malloc_shared, "malloc_shared") \
    X(malloc_host, "malloc_host") X(free_with_context, "free_with_context")

namespace forebay_sycl_observer {

enum Function {
#define X(name, full) name,
    FOREBAY_OBSERVED(X)
#undef X
    Gate, Hold, Open,  // forebay's own: no call of dpctl's
    FUNCTIONS
};

static const char* const names[] = {
#define X(name, full) "DPCTL" full,
    FOREBAY_OBSERVED(X)
#undef X
    "gate", "hold", "open",
};

struct Call {
    int function;
    uintptr_t object;           // a queue, kernel, event or context
    uintptr_t kernel;           // of a launch
    std::vector<int64_t> waits; // serial numbers of events
    int64_t event;              // that this call made, or is about; 0: none
    int64_t detail;             // of a query: 0 when the event was done; of a gate that is opened: does it fail
    int64_t status;
    bool injected;
};

struct Failure { int function; int64_t code; uint64_t after; };

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
    int as = -1;           // what a marker, barrier or copy is recorded as
    int64_t made = 0;
    size_t at = 0;
    uintptr_t queue = 0;
};

static thread_local Task task;
static std::mutex lock;  // guards all below
static std::vector<Call> log;
static std::vector<Failure> failures;
static std::vector<std::string> wrong;
static std::unordered_map<uintptr_t, int64_t> serials;   // of the newest event with this handle: they come again
static std::unordered_map<int64_t, int64_t> references;  // by serial, of SYCL's events made while observed
static std::unordered_map<uintptr_t, int64_t> pending;   // serials of forebay's events that SYCL does not know
static std::unordered_map<uintptr_t, std::pair<int64_t, int>> asked_for;  // forebay's events: serial, references
static std::unordered_map<uintptr_t, std::deque<Kept>> kept;  // by SYCL's queue
static bool gate_failed = false;  // what is kept behind it may never become a call
static int64_t newest = 0;

static int64_t serial_of(std::unordered_map<uintptr_t, int64_t>& known, uintptr_t event) {
    if (!event) return 0;
    auto found = known.find(event);
    if (found != known.end()) return found->second;
    return known[event] = ++newest;  // made before: its references are not known
}

static bool fails(int function, int64_t& code) {
    for (size_t i = 0; i < failures.size(); i++) {
        if (failures[i].function != function || failures[i].after-- != 0) continue;
        code = failures[i].code;
        failures.erase(failures.begin() + i);
        return true;
    }
    return false;
}

template <class T> static uintptr_t word(T value) {
    if constexpr (std::is_pointer_v<T> || std::is_integral_v<T>) return (uintptr_t) value;
    else return 0;
}

static int plain(int function) {
    if (function == MemcpyWithEvents) return Memcpy;
    return function;
}

static void violate(const std::string& text) {
    if (wrong.size() < 100) wrong.push_back(text);
}

static std::string text_of(const std::vector<int64_t>& waits) {
    std::string text = "[";
    for (int64_t each : waits) text += (text.size() > 1 ? ", " : "") + std::to_string(each);
    return text + "]";
}

// The serial that the event of a call gets which is made of what was kept back, and whether to follow that event.
static std::pair<int64_t, bool> hand_on(uintptr_t queue, int function, const std::vector<int64_t>& waits) {
    std::deque<Kept>& all = kept[queue];
    if (gate_failed) return {++newest, true};
    if (all.empty()) {
        violate(std::string(names[function]) + " was called for a queue that had kept nothing back");
        return {++newest, true};
    }
    Kept& first = all.front();
    bool is_fill = first.function >= Memset && first.function <= Fill128;
    bool is_barrier = function == SubmitBarrier || function == SubmitBarrierForEvents;
    bool expected;
    if (is_fill && is_barrier) expected = !first.begun && waits == first.waits;
    else if (is_fill)
        expected = (first.begun || first.waits.empty()) && (function == Memcpy || function == first.function);
    else if (first.function == SubmitBarrier || first.function == SubmitBarrierForEvents)
        expected = is_barrier && waits == first.waits;
    else expected = plain(function) == first.function && waits == first.waits;
    if (!expected)
        violate(std::string(names[function]) + " with waits for " + text_of(waits) + " was called where "
                + names[first.function] + " with waits for " + text_of(first.waits) + " was next");
    first.begun = true;
    if (is_fill && is_barrier) return {++newest, true};
    if (--first.calls) return {++newest, true};
    std::pair<int64_t, bool> result = {first.event ? first.event : ++newest, !first.lasts};
    all.pop_front();
    return result;
}

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr bool is_command = function <= SubmitBarrierForEvents;
    static constexpr bool waits =
        function == SubmitNDRange || function == MemcpyWithEvents || function == SubmitBarrierForEvents;
    static constexpr bool of_event = function >= Event_Wait && function <= Event_Delete;
    static constexpr bool of_argument = function == RawKernelArg_Create || function == WorkGroupMemory_Create;

    static R call(A... args) {
        auto all = std::make_tuple(args...);
        Call seen = {};
        int64_t code = 0;
        bool record = !task.silent && (task.inside || !(of_event || of_argument));
        bool hands_on = is_command && task.inside && task.keeps;
        seen.function = function;
        if (task.as >= 0 && is_command) seen.function = task.as;
        seen.object = word(std::get<0>(all));
        if constexpr (function == SubmitNDRange) {
            seen.kernel = seen.object;
            seen.object = word(std::get<1>(all));
        }
        {
            std::lock_guard<std::mutex> guard(lock);
            if constexpr (waits) {
                for (size_t i = 0; i < std::get<n - 1>(all); i++)
                    seen.waits.push_back(serial_of(serials, word(std::get<n - 2>(all)[i])));
            }
            if constexpr (of_event) seen.event = serial_of(serials, seen.object);
            if constexpr (function == Event_Wait) seen.waits.push_back(seen.event);
            if constexpr (function == Event_Delete) {
                auto count = references.find(seen.event);
                if (count != references.end()) count->second--;
                serials.erase(seen.object);  // before the handle can come again
                if (task.inside && seen.event == task.made) {
                    if (task.at < log.size()) log[task.at].event = 0;
                    record = false;
                }
            }
            if constexpr (function == Queue_Delete) kept.erase(seen.object);
            if constexpr (!std::is_void_v<R>)
                if (record && !hands_on) seen.injected = fails(seen.function, code);
        }
        task.reached = task.reached || function == Event_Wait;
        if constexpr (std::is_void_v<R>) {
            original(args...);
            std::lock_guard<std::mutex> guard(lock);
            if (record && !task.keeps) log.push_back(std::move(seen));
        } else {
            R result = R();
            std::pair<int64_t, bool> given = {0, true};
            if (hands_on) {
                std::lock_guard<std::mutex> guard(lock);
                given = hand_on(seen.object, function, seen.waits);
            }
            if (!seen.injected) {
                result = original(args...);
                if constexpr (std::is_pointer_v<R>) code = result ? 0 : -1;
            }
            seen.status = code;
            std::lock_guard<std::mutex> guard(lock);
            if constexpr (is_command) {
                if (result) {
                    seen.event = hands_on ? given.first : ++newest;
                    serials[word(result)] = seen.event;
                    if (given.second) references[seen.event] = 1;
                    if (!hands_on) {
                        task.made = seen.event;
                        task.at = record ? log.size() : SIZE_MAX;
                    }
                }
            }
            if constexpr (function == Event_GetCommandExecutionStatus) seen.detail = (int64_t) result != 3;
            if (record && !hands_on && !(task.keeps && task.inside)) log.push_back(std::move(seen));
            return result;
        }
    }
};

template <int function, class R, class... A> static void wrap(R (*&slot)(A...)) {
    using W = Wrapper<function, R, A...>;
    W::original = slot;
    slot = W::call;
}

template <int function, class R, class... A> static void unwrap(R (*&slot)(A...)) {
    slot = Wrapper<function, R, A...>::original;
}

template <class Table> static void begin(Table& table) {
    log.clear();
    failures.clear();
    wrong.clear();
    serials.clear();
    references.clear();
    pending.clear();
    asked_for.clear();
    kept.clear();
    gate_failed = false;
#define X(name, full) wrap<name>(table.name);
    FOREBAY_OBSERVED(X)
#undef X
}

template <class Table> static void end(Table& table) {
#define X(name, full) unwrap<name>(table.name);
    FOREBAY_OBSERVED(X)
#undef X
}

// -- operations

static int64_t serial_of_pending(uintptr_t event) {
    std::lock_guard<std::mutex> guard(lock);
    return serial_of(pending, event);
}

static int64_t serial_of_sycl(uintptr_t event) {
    std::lock_guard<std::mutex> guard(lock);
    return serial_of(serials, event);
}

static int64_t new_serial() {
    std::lock_guard<std::mutex> guard(lock);
    return ++newest;
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
    std::lock_guard<std::mutex> guard(lock);
    log.push_back({function, object, kernel, waits, event, detail, 0, false});
    return log.size() - 1;
}

// Does an operation that SYCL is not called for fail?
static bool refuse(int function, uintptr_t object) {
    std::lock_guard<std::mutex> guard(lock);
    int64_t code = 0;
    if (!fails(function, code)) return false;
    log.push_back({function, object, 0, {}, 0, 1, code, true});
    return true;
}

static void keep(uintptr_t queue, int function, const std::vector<int64_t>& waits, int64_t event, size_t calls,
                 bool lasts) {
    std::lock_guard<std::mutex> guard(lock);
    kept[queue].push_back({function, waits, event, calls, false, lasts});
}

static void keep_not(uintptr_t queue, size_t at) {
    std::lock_guard<std::mutex> guard(lock);
    if (!kept[queue].empty()) kept[queue].pop_back();
    if (at < log.size()) log[at].status = -1;
}

static void made(uintptr_t event, int64_t serial, bool is_pending) {
    std::lock_guard<std::mutex> guard(lock);
    if (is_pending) pending[event] = serial;
    asked_for[event] = {serial, 1};
}

static void made_again(uintptr_t event) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = asked_for.find(event);
    if (found != asked_for.end()) found->second.second++;
}

static void released(uintptr_t event) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = asked_for.find(event);
    if (found != asked_for.end() && --found->second.second == 0) asked_for.erase(found);
}

static void gate_fails() {
    std::lock_guard<std::mutex> guard(lock);
    gate_failed = true;
}

// A gate may be opened and released by another thread before the operation that made it has returned.
static std::mutex holding;

static void begin_hold() { holding.lock(); }

static void end_hold() { holding.unlock(); }

static void release(uintptr_t event) {
    std::lock_guard<std::mutex> one(holding);
    released(event);
}

// -- for the tests

static size_t size() {
    std::lock_guard<std::mutex> guard(lock);
    return log.size();
}

static std::vector<Call> tail(size_t start) {
    std::lock_guard<std::mutex> guard(lock);
    if (start > log.size()) start = log.size();
    return std::vector<Call>(log.begin() + start, log.end());
}

static void fail(int function, int64_t code, uint64_t after) {
    std::lock_guard<std::mutex> guard(lock);
    failures.push_back({function, code, after});
}

static void forgive() {
    std::lock_guard<std::mutex> guard(lock);
    failures.clear();
}

static std::vector<std::string> take_violations() {
    std::lock_guard<std::mutex> guard(lock);
    std::vector<std::string> found;
    found.swap(wrong);
    return found;
}

static std::vector<int64_t> alive() {
    std::lock_guard<std::mutex> guard(lock);
    std::set<int64_t> found;
    for (auto& entry : references)
        if (entry.second > 0) found.insert(entry.first);
    for (auto& entry : asked_for) found.insert(entry.second.first);
    return std::vector<int64_t>(found.begin(), found.end());
}

}
