// What drivers share: tables of functions that are found in a library at run time, and arrivals at gates.

#pragma once

#include <atomic>

#define FOREBAY_POINTER(result, name, parameters) result (*name) parameters;
#define FOREBAY_NUMBER(result, name, parameters) CALL_##name,
#define FOREBAY_NAME(result, name, parameters) #name,

// One list of a driver's functions, and what follows from it. The list is a macro that calls another one for each
// function: X(result, name, parameters). Defines the table of pointers, `Calls`; the number of each function, CALL_name;
// and the names by these numbers.
#define FOREBAY_FUNCTION_TABLE(LIST) \
    struct Calls { LIST(FOREBAY_POINTER) }; \
    enum Call { LIST(FOREBAY_NUMBER) N_CALLS }; \
    constexpr const char *call_names[] = {LIST(FOREBAY_NAME)};

namespace forebay {

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
