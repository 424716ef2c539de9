// Records the operations of core/driver.hpp, whose list this is, alike for all drivers that include it.
//
// A driver's `rule_of(operation)` says as which of its calls an operation is recorded.

#pragma once

#include "tests/observers/recorder.hpp"

namespace forebay_observer {

#define FOREBAY_OPERATIONS(X) \
    X(launch) X(set_pointer) X(set_value) X(copy) X(fill) X(marker) X(barrier) X(hold) X(open_gate) \
    X(wait_events) X(event_status) X(elapsed) X(bridge) X(destroy_event) X(destroy_kernel)
#define FOREBAY_OPERATION(name) OF_##name,
#define FOREBAY_WRAP_OPERATION(name) wrap_operation<Driver, OF_##name>(table.name);

enum Operation { FOREBAY_OPERATIONS(FOREBAY_OPERATION) };

enum { NOT_WRAPPED = -3, BY_CALLS, COUNTED };  // instead of a call; COUNTED follows references to events only

struct Rule {
    int call;
    int fails_as = call;   // the call that an error names
    bool is_task = false;  // its calls come between `begin_task` and `end_task`
    int gate = COUNTED;    // of a hold: as what the gate is recorded, which it makes first
};

static std::mutex& holding = *new std::mutex();  // while a gate is made, which others may open before it is noted
static thread_local int inside = -1;             // the operation

// Takes the place of an operation.
template <class Driver, int operation, class R, class... A> struct Performed {
    static inline R (*original)(A...) = nullptr;

    static constexpr Rule rule = Driver::rule_of(operation);
    static constexpr bool is_of_queue = operation == OF_launch || (operation >= OF_copy && operation <= OF_hold);
    static constexpr bool is_of_event = operation == OF_open_gate || operation == OF_event_status
        || operation == OF_destroy_event;
    static constexpr bool is_about_gates = !Driver::rule_of(OF_hold).is_task  // a task records its gate
        && (operation == OF_hold || operation == OF_open_gate || operation == OF_destroy_event);
    static constexpr bool makes_event = operation == OF_copy || operation == OF_fill || operation == OF_marker;

    static int64_t serial_of(void *event) { return only<Driver>().serial_of(only<Driver>().event_handle(event)); }

    template <class T> static auto note_waits(Call& seen, T& waits, int) -> decltype((void) waits.events) {
        for (size_t i = 0; i < waits.count; i++) seen.waits.push_back(serial_of(waits.events[i]));
    }

    template <class T> static void note_waits(Call&, T&, long) {}

    static Call described(Driver& s, std::tuple<A...>& all) {
        Call seen = {rule.call};
        seen.object = word(std::get<0>(all));
        std::apply([&](auto&... each) { (note_waits(seen, each, 0), ...); }, all);
        if constexpr (is_of_queue) seen.object = s.queue_handle(std::get<0>(all));
        if constexpr (operation == OF_launch) seen.kernel = word(std::get<1>(all));
        if constexpr (operation == OF_set_pointer || operation == OF_set_value || operation == OF_open_gate)
            seen.detail = std::get<1>(all);
        if constexpr (operation == OF_marker) seen.detail = 1;  // the host can ask all events
        if constexpr (is_of_event) seen.event = serial_of(std::get<0>(all));
        if constexpr (operation == OF_destroy_event) s.release(s.event_handle(std::get<0>(all)));
        if constexpr (operation == OF_wait_events) seen.event = seen.waits.size() == 1 ? seen.waits[0] : 0;
        return seen;
    }

    // After success, with what the operation has made.
    static void conclude(Driver& s, std::tuple<A...>& all, Call& seen) {
        if constexpr (makes_event) {
            if (void **made = std::get<sizeof...(A) - 1>(all)) seen.event = s.make(s.event_handle(*made));
        } else if constexpr (operation == OF_hold) {
            Call gate = {rule.gate};
            gate.event = s.make(s.event_handle(*std::get<5>(all)));
            seen.waits.push_back(gate.event);
            s.log.push_back(gate);
        } else if constexpr (operation == OF_bridge) {
            uintptr_t event = s.event_handle(std::get<1>(all)), bridged = s.event_handle(*std::get<2>(all));
            if (event == bridged) s.count(s.serial_of(event), 1);
            else s.make(bridged);
        }
    }

    static R call(A... args) {
        Driver& s = only<Driver>();
        std::tuple<A...> all(args...);
        std::unique_lock<std::mutex> one(holding, std::defer_lock);
        if constexpr (is_about_gates) one.lock();
        std::unique_lock<std::mutex> guard(s.lock);
        Call seen = described(s, all);
        int64_t code = 0;
        if constexpr (std::is_void_v<R>) {
            if (rule.call >= 0) s.log.push_back(seen);
            guard.unlock();
            if constexpr (is_about_gates && operation != OF_hold) one.unlock();
            original(args...);
        } else {
            if (rule.call >= 0 && operation != OF_open_gate && s.fails(rule.call, code)) {
                seen.injected = true;
                seen.status = code;
                seen.detail = operation == OF_event_status;
                s.log.push_back(seen);
                return (R) rule.fails_as << 32 | (uint32_t) code;
            }
            if (operation == OF_open_gate) s.log.push_back(seen);  // before what it lets go on
            guard.unlock();
            if constexpr (is_about_gates && operation != OF_hold) one.unlock();
            inside = operation;
            if constexpr (rule.is_task) s.begin_task(operation, seen.object, made_by(all));
            R result = std::apply(original, all);
            if constexpr (rule.is_task) s.end_task(result);
            inside = -1;
            guard.lock();
            if constexpr (operation == OF_event_status) seen.detail = result != 1;  // DONE
            else seen.status = (uint32_t) result;
            if (result == 0 && rule.call != BY_CALLS) conclude(s, all, seen);
            if (rule.call >= 0 && operation != OF_open_gate) s.log.push_back(std::move(seen));
            return result;
        }
    }

    static void **made_by(std::tuple<A...>& all) {
        if constexpr (makes_event || operation == OF_hold) return std::get<sizeof...(A) - 1>(all);
        return nullptr;
    }
};

template <class Driver, int operation, class R, class... A> static void wrap_operation(R (*&slot)(A...)) {
    typedef Performed<Driver, operation, R, A...> Wrapper;
    if (!slot || Wrapper::rule.call == NOT_WRAPPED) return;
    Wrapper::original = slot;
    slot = Wrapper::call;
}

template <class Driver, class Table> static void wrap_operations(Table& table) {
    FOREBAY_OPERATIONS(FOREBAY_WRAP_OPERATION)
}

}
