// What the observer of the driver that executes nothing records: its operations, and what its device makes.

#pragma once

#include "tests/observers/operations.hpp"

namespace forebay_observer {

static Record& record() {
    static Record& only = *new Record();  // never destroyed: threads may still call while the process ends
    return only;
}

// By the numbers of CALL_NAMES, which has no failing call first, then all operations, and then these.
enum { CALL_allocate = OF_release_queue + 2, CALL_free, CALL_new_queue, CALL_new_kernel, MAKES_GATE };

constexpr Rule rule_of(int operation) {
    const int call = operation == OF_release_event ? COUNTED : operation + 1;
    return {call, call, false, MAKES_GATE};
}

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static R call(A... args) {
        Record& s = record();
        auto all = std::make_tuple(args...);
        Call seen = {function};
        int64_t code = 0;
        std::unique_lock<std::mutex> guard(s.lock);
        seen.object = word(std::get<0>(all));
        if constexpr (std::is_void_v<R>) {
            s.log.push_back(seen);
            original(args...);
        } else {
            seen.injected = s.fails(function, code);
            R result = seen.injected ? (R) function << 32 | code : original(args...);
            if (result == 0) seen.object = word(*std::get<sizeof...(A) - 1>(all));
            seen.status = (uint32_t) result;
            s.log.push_back(seen);
            return result;
        }
    }
};

#define FOREBAY_NOTHING(X) X(, allocate, ) X(, free, ) X(, new_queue, ) X(, new_kernel, )

template <class Table> static void wrap_calls(Table& table) { FOREBAY_NOTHING(FOREBAY_WRAP) }

}
