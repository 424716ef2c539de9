// The C++ half of the contract with a driver: the table of operations and its types. driver.py is the other half. Then
// what drivers share: tables of functions looked up at run time, counted and idle objects, and arrivals at gates. No
// operation needs the GIL, and each may be called with a queue's lock held. Only the driver looks behind handles.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace forebay {

// 0, or (number of the failed call) << 32 | (the driver's error code as 32 bits), for `explain`. Negative: forebay's
// own.
typedef int64_t Status;

enum : int32_t {
    QUEUE_CLOSED = -1,
    NO_PLAN = -2,
    NO_ROOM = -3,
    QUEUE_CAPTURED = -4,
    NULL_FORBIDDEN = -5,
    STALE = -6,
    WRONG_TYPE = -7,
    INTERRUPTED = -8,
    NOT_NOW = -9,
    NO_MEMORY = -10,   // of the host
    NOT_CREATED = -11  // the command precedes the creation of memory that it uses: see `Usage.creation`
};

constexpr Status failure(int call, uint32_t code) { return Status(call) << 32 | code; }

// A driver's answer about an event: DONE or NOT_YET. Negative: the command has ended with this error, which may come
// from something that it waited for; this says nothing of earlier commands. More than DONE: the query failed with this
// Status, so the state is unknown and nothing is released.
typedef int64_t Answer;

enum { NOT_YET = 0, DONE = 1 };

typedef void (*HostCallback)(void *data);
typedef int (*Interrupted)();  // whether a signal handler has raised meanwhile

enum { HOST_MEMORY = 1 };  // all that a driver reads of Memory.kind; driver.pxd has the rest

struct Memory {
    void *handle;      // the driver's memory object; NULL for host memory and for plain addresses
    uint64_t address;  // where it begins, this view's offset included; 0 when the device has no addresses
    size_t offset;     // of this view in `handle`
    uint64_t kind;     // a whole word, so that packed pointers have no padding to differ in

    void *pointer() const { return reinterpret_cast<void *>(address); }
};

struct Waits {
    uint32_t count;
    void **events;  // the driver may overwrite the list: each is handed to one operation only
};

struct Geometry {
    int dimensions;
    size_t global_size[3];  // work-items, as OpenCL and SYCL count
    size_t local_size[3];   // `block`, unless the kernel has a `Reshape`
    size_t offset[3];       // zeros, likewise
    uint32_t groups[3];     // as HIP and Level Zero count
    uint32_t block[3];
};

// Changes `local_size` and `offset` of a launch, for a kernel that was compiled for that.
typedef void (*Reshape)(Geometry *geometry);

enum CommandKind { LAUNCH_COMMAND, COPY_COMMAND, FILL_COMMAND };

// A command of a graph, with all that its operation takes.
struct RecordedCommand {
    int kind;
    void *kernel;  // with its arguments, which must not change
    Geometry geometry;
    Memory to, source;
    size_t nbytes, pattern_size;
    const unsigned char *pattern;
};

enum ChangeKind { CHANGED_POINTER, CHANGED_VALUE, CHANGED_GROUPS };

// A change to a launch in a recording.
struct Change {
    int kind;
    uint32_t command;   // in the order of `add_command`
    uint32_t index;     // of the argument
    uint32_t size;      // of a value
    const void *value;  // a Memory; the bytes of a value; or the groups, as in Geometry
};

enum MarkerUse {
    FOR_DEVICE = 0,  // only other queues of the device wait for it
    FOR_HOST = 1,    // the host waits for it or queries it, or another device waits for it
    TIMED = 2        // the host also asks when it was reached
};

// A driver sets what it has; the rest keeps its default. docs/driver.md has a row for each entry.
struct Driver {
    // -- properties
    bool gates_forbid_releases = false;  // while a gate is closed, nothing but events may be released
    bool copies_have_events = false;     // free; for a blocking wait only, since nothing is flushed (OpenCL)
    bool scopes_matter = false;          // the host must not wait for a marker for the device alone
    bool waits_read_queues = false;      // a wait reads memory of the signalling queue, which must outlive it
    bool changes_spare_running = false;  // a change of a recording does not affect replays submitted before (CUDA)
    bool recordings_branch = false;      // independent commands of a recording may run concurrently
    uint32_t room_of_host_function = 0;  // of a queue's limit, beside a command's: see `keeps_gil_below`
    uint32_t room_of_recorded_copy = 0;  // likewise, of each copy in a replayed recording
    uint32_t asks_of_finish = 0;  // polls of a finish before it waits for a marker; 0: mostly once
    // -- the launch path
    Status (*launch)(void *queue, void *kernel, const Geometry *geometry, Waits waits) = nullptr;
    Status (*set_pointer)(void *kernel, uint32_t index, const Memory *memory) = nullptr;
    // value NULL: local memory of that size
    Status (*set_value)(void *kernel, uint32_t index, size_t size, const void *value) = nullptr;
    // At least one allocation. With this entry, kernels with indirect access are not recorded. `copy` receives another
    // kernel object with the same arguments, which gets the list in place of `kernel`, unless it is NULL.
    Status (*follow)(void *kernel, const uint64_t *addresses, size_t count, void **copy) = nullptr;
    // -- other commands; `event` receives an event for the host, unless it is NULL
    Status (*copy)(void *queue, const Memory *to, const Memory *source, size_t nbytes, Waits waits, void **event) =
        nullptr;
    Status (*fill)(void *queue, const Memory *to, const void *pattern, size_t pattern_size, size_t nbytes, Waits waits,
        void **event) = nullptr;
    Status (*prefetch)(void *queue, const Memory *memory, size_t nbytes, int to_host, Waits waits) = nullptr;
    Status (*marker)(void *queue, Waits waits, int use, void **event) = nullptr;
    Status (*barrier)(void *queue, Waits waits) = nullptr;
    Status (*record_shared)(void *queue, void *event) = nullptr;
    Status (*hold)(void *queue, void *context, Waits waits, HostCallback wake, void *data, void **gate) = nullptr;
    Status (*open_gate)(void *gate, int failed) = nullptr;
    // -- graphs and steps; NULL where a loop over the commands is at least as fast
    Status (*new_recording)(void *queue, int changeable, void **recording) = nullptr;
    // `after` are indices of earlier commands. The kernel is kept as long as the recording.
    Status (*add_command)(void *recording, const RecordedCommand *command, const uint32_t *after, uint32_t count) =
        nullptr;
    Status (*end_recording)(void *recording) = nullptr;
    // The changes are sorted by command. After a failure the recording's effect is unknown.
    Status (*change)(void *recording, const Change *changes, size_t count) = nullptr;
    Status (*replay)(void *queue, void *recording, Waits waits) = nullptr;
    // -- the host's side
    Status (*poll)(void *queue, int *done) = nullptr;
    // A single event is for the host. `interrupted` may be NULL.
    Status (*wait_events)(void *context, Waits events, Interrupted interrupted) = nullptr;
    Status (*tell_failure)(void *queue) = nullptr;
    void (*renew_queue)(void *queue) = nullptr;
    void (*write_printed)(void *context) = nullptr;
    Answer (*event_status)(void *event) = nullptr;
    // a clock that wraps is read the shorter way round
    Status (*elapsed)(void *first, void *second, double *nanoseconds) = nullptr;
    Status (*bridge)(void *context, void *event, void **bridged) = nullptr;
    void (*destroy_event)(void *event) = nullptr;
    void (*destroy_kernel)(void *kernel) = nullptr;
    void (*destroy_recording)(void *recording) = nullptr;
    void (*destroy_queue)(void *queue) = nullptr;
};

// A table entry that is called like its function, and returns a `Status`: 0, or the function's number and error code.
template <int number, class Code, class... A> struct Checked {
    Code (*function)(A...);

    // Always inlined: otherwise a launch takes some instructions more.
    [[gnu::always_inline]] int64_t operator()(A... arguments) const {
        const Code code = function(arguments...);
        return __builtin_expect(code == 0, 1) ? 0 : failure(number, code);
    }

    bool operator==(const void *other) const { return (const void *) function == other; }
    bool operator!=(const void *other) const { return (const void *) function != other; }
};

// The same for a function that returns a new object, or NULL without an error code: the first argument receives it.
struct Made;
template <int number, class... A> struct Maker {
    Made *(*function)(A...);

    int64_t operator()(void **made, A... arguments) const {
        *made = function(arguments...);
        return *made ? 0 : failure(number, -1);
    }
};

// Other functions without an error code are entries as they are.
template <int number, class F> struct Entry { typedef F *type; };
template <int number, class... A> struct Entry<number, Made *(A...)> { typedef Maker<number, A...> type; };
template <int number, class... A> struct Entry<number, int32_t(A...)> { typedef Checked<number, int32_t, A...> type; };
template <int number, class... A> struct Entry<number, uint32_t(A...)> { typedef Checked<number, uint32_t, A...> type; };

// From one list of a driver's functions, a macro that calls X(result, name, parameters) for each, defines the table
// `Calls`, the number CALL_name of each function, and the names by number.
#define FOREBAY_TABLE(LIST) \
    enum Call { LIST(FOREBAY_NUMBER) N_CALLS }; \
    struct Calls { LIST(FOREBAY_ENTRY) }; \
    constexpr const char *call_names[] = {LIST(FOREBAY_NAME)};
#define FOREBAY_ENTRY(result, name, parameters) forebay::Entry<CALL_##name, result parameters>::type name;
#define FOREBAY_NUMBER(result, name, parameters) CALL_##name,
#define FOREBAY_NAME(result, name, parameters) #name,

// What a `Ref` of core/ownership.hpp can hold: made with one reference, deleted with the last.
template <class T> struct Counted {
    std::atomic<int32_t> references{1};

    static void destroy(T *object) { delete object; }
};

// Remove and return the last idle object, or a default.
template <class T> T take_last(std::vector<T> &idle) {
    if (idle.empty()) return T();
    T last = std::move(idle.back());
    idle.pop_back();
    return last;
}

// The argument of a driver's host function that reports a queue's arrival at a gate to a thread of forebay, and nothing
// more. The driver may call it before a later part of the hold is refused, and the call cannot be cancelled. So
// whichever comes second, the arrival or the hold's outcome, wakes and deletes.
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
    // If the driver refuses the host function, delete the object.
    Arrival(void (*wake)(void *), void *data) : wake(wake), data(data) {}

    // The driver's host function.
    static void arrive(void *arrival) {
        Arrival *self = static_cast<Arrival *>(arrival);
        State before = self->state.exchange(ARRIVED, std::memory_order_acq_rel);
        if (before != SUBMITTING) self->end(before == SUBMITTED);
    }

    // Record the hold's outcome: submitted, or refused after the driver had accepted the host function.
    void settle(bool submitted) {
        State before = state.exchange(submitted ? SUBMITTED : REFUSED, std::memory_order_acq_rel);
        if (before != SUBMITTING) end(submitted);
    }
};

}  // namespace forebay
