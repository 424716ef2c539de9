// What drivers share: tables of functions that are found in a library at run time, objects that are counted or idle, and
// arrivals at gates.

#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace forebay {

// An entry of a table that is called like the function, and returns the `Status` of core/driver.pxd: 0, or the number of
// the function and the error code.
template <int number, class Code, class... A> struct Checked {
    Code (*function)(A...);

    // Inlined always: a launch would take some instructions more.
    [[gnu::always_inline]] int64_t operator()(A... arguments) const {
        const Code code = function(arguments...);
        return __builtin_expect(code == 0, 1) ? 0 : (int64_t) number << 32 | (uint32_t) code;
    }

    bool operator==(const void *other) const { return (const void *) function == other; }
    bool operator!=(const void *other) const { return (const void *) function != other; }
};

// The same for a function that returns what it makes, or NULL without an error code: the entry gives it through its
// first argument.
struct Made;
template <int number, class... A> struct Maker {
    Made *(*function)(A...);

    int64_t operator()(void **made, A... arguments) const {
        *made = function(arguments...);
        return *made ? 0 : (int64_t) number << 32 | (uint32_t) -1;
    }
};

// Other functions that return no error code are entries as they are.
template <int number, class F> struct Entry { typedef F *type; };
template <int number, class... A> struct Entry<number, Made *(A...)> { typedef Maker<number, A...> type; };
template <int number, class... A> struct Entry<number, int32_t(A...)> { typedef Checked<number, int32_t, A...> type; };
template <int number, class... A> struct Entry<number, uint32_t(A...)> { typedef Checked<number, uint32_t, A...> type; };

// One list of a driver's functions, and what follows from it. The list is a macro that calls another one for each
// function: X(result, name, parameters). Defines the table, `Calls`; the number of each function, CALL_name; and the
// names by these numbers.
#define FOREBAY_TABLE(LIST) \
    enum Call { LIST(FOREBAY_NUMBER) N_CALLS }; \
    struct Calls { LIST(FOREBAY_ENTRY) }; \
    constexpr const char *call_names[] = {LIST(FOREBAY_NAME)};
#define FOREBAY_ENTRY(result, name, parameters) forebay::Entry<CALL_##name, result parameters>::type name;
#define FOREBAY_NUMBER(result, name, parameters) CALL_##name,
#define FOREBAY_NAME(result, name, parameters) #name,

// What a `Ref` of core/ownership.hpp can hold: made with one reference, and deleted with the last.
template <class T> struct Counted {
    std::atomic<int32_t> references{1};

    static void destroy(T *object) { delete object; }
};

// The last of a list of idle ones; a default where there is none.
template <class T> T take_last(std::vector<T> &idle) {
    if (idle.empty()) return T();
    T last = std::move(idle.back());
    idle.pop_back();
    return last;
}

// The argument of a driver's host function that tells a thread of forebay's, and nothing more, that a queue has arrived
// at a gate. The driver may call it before a later part of the hold is refused, and that call cannot be cancelled. So
// whichever comes second, the queue or the hold's outcome, wakes and deletes.
class Arrival {
    enum State {
        SUBMITTING,  // the hold's outcome is open, and the queue has not arrived
        SUBMITTED,   // the hold was submitted and holds the queue
        ARRIVED,     // the queue arrived before the hold's outcome was known
        REFUSED
    };

    std::atomic<State> state{SUBMITTING};
    void (*const wake)(void *);
    void *const data;

    void end(bool wakes) {
        if (wakes) wake(data);
        delete this;
    }

public:
    // Delete one whose host function the driver refused.
    Arrival(void (*wake)(void *), void *data) : wake(wake), data(data) {}

    // The driver's host function.
    static void arrive(void *arrival) {
        Arrival *self = static_cast<Arrival *>(arrival);
        State before = self->state.exchange(ARRIVED, std::memory_order_acq_rel);
        if (before != SUBMITTING) self->end(before == SUBMITTED);
    }

    // Note the hold's outcome: it was submitted, or refused after the driver had accepted the host function.
    void settle(bool submitted) {
        State before = state.exchange(submitted ? SUBMITTED : REFUSED, std::memory_order_acq_rel);
        if (before != SUBMITTING) end(submitted);
    }
};

}  // namespace forebay
