"""Records the calls penstock makes of dpctl's C interface, and makes chosen ones fail; for tests.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path. What
SYCL and its backends do, and what dpctl calls itself, is not seen. A call that fails returns nothing: there are no
codes here, and those given to `fail` are only recorded.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from penstock.queues.queue cimport Queue
from penstock.queues.sycl.calls cimport Calls, sycl
from penstock.queues.sycl.held cimport Queue as SyclQueue

from penstock.queues.sycl import calls

cdef extern from *:
    """
    #include <cstdint>
    #include <mutex>
    #include <tuple>
    #include <type_traits>
    #include <unordered_map>
    #include <vector>

    /* The commands come first; each makes an event. */
    #define PENSTOCK_OBSERVED(X) \\
        X(SubmitNDRange, "Queue_SubmitNDRange") X(Memcpy, "Queue_Memcpy") \\
        X(MemcpyWithEvents, "Queue_MemcpyWithEvents") X(Memset, "Queue_Memset") X(Fill16, "Queue_Fill16") \\
        X(Fill32, "Queue_Fill32") X(Fill64, "Queue_Fill64") X(Fill128, "Queue_Fill128") \\
        X(SubmitBarrier, "Queue_SubmitBarrier") X(SubmitBarrierForEvents, "Queue_SubmitBarrierForEvents") \\
        X(Event_Wait, "Event_Wait") X(Event_GetCommandExecutionStatus, "Event_GetCommandExecutionStatus") \\
        X(Event_GetProfilingInfoEnd, "Event_GetProfilingInfoEnd") X(Event_Delete, "Event_Delete") \\
        X(Queue_Wait, "Queue_Wait") X(Queue_Copy, "Queue_Copy") X(Queue_Delete, "Queue_Delete") \\
        X(Kernel_Copy, "Kernel_Copy") X(Kernel_Delete, "Kernel_Delete") \\
        X(RawKernelArg_Create, "RawKernelArg_Create") X(WorkGroupMemory_Create, "WorkGroupMemory_Create") \\
        X(malloc_device, "malloc_device") X(malloc_shared, "malloc_shared") \\
        X(malloc_host, "malloc_host") X(free_with_context, "free_with_context")

    namespace penstock_sycl_observer {

    enum Function {
    #define X(name, full) name,
        PENSTOCK_OBSERVED(X)
    #undef X
        FUNCTIONS
    };

    static const char* const names[] = {
    #define X(name, full) "DPCTL" full,
        PENSTOCK_OBSERVED(X)
    #undef X
    };

    struct Call {
        int function;
        uintptr_t object;           // a queue, kernel, event or context
        uintptr_t kernel;           // of a launch
        std::vector<int64_t> waits; // serial numbers of events
        int64_t event;              // that this call made, or is about; 0: none
        int64_t detail;             // the status found of an event
        int64_t status;
        bool injected;
    };

    struct Failure { int function; int64_t code; uint64_t after; };

    static std::mutex lock;  // guards all below
    static std::vector<Call> log;
    static std::vector<Failure> failures;
    static std::unordered_map<uintptr_t, int64_t> serials;   // of the newest event with this handle: they come again
    static std::unordered_map<int64_t, int64_t> references;  // by serial, of events made while observed
    static int64_t newest = 0;

    static int64_t serial_of(uintptr_t event) {
        if (!event) return 0;
        auto found = serials.find(event);
        if (found != serials.end()) return found->second;
        return serials[event] = ++newest;  // made before: its references are not known
    }

    static int64_t serial_of_new(uintptr_t event) {
        references[++newest] = 1;
        return serials[event] = newest;
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

    template <int function, class R, class... A> struct Wrapper {
        static inline R (*original)(A...) = nullptr;

        static R call(A... args) {
            constexpr int n = sizeof...(A);
            constexpr bool is_command = function <= SubmitBarrierForEvents;
            constexpr bool waits =
                function == SubmitNDRange || function == MemcpyWithEvents || function == SubmitBarrierForEvents;
            constexpr bool of_event = function >= Event_Wait && function <= Event_Delete;
            auto all = std::make_tuple(args...);
            Call seen = {};
            int64_t code = 0;
            seen.function = function;
            seen.object = word(std::get<0>(all));
            if constexpr (function == SubmitNDRange) {
                seen.kernel = seen.object;
                seen.object = word(std::get<1>(all));
            }
            {
                std::lock_guard<std::mutex> guard(lock);
                if constexpr (waits) {
                    for (size_t i = 0; i < std::get<n - 1>(all); i++)
                        seen.waits.push_back(serial_of(word(std::get<n - 2>(all)[i])));
                }
                if constexpr (of_event) seen.event = serial_of(seen.object);
                if constexpr (function == Event_Wait) seen.waits.push_back(seen.event);
                if constexpr (function == Event_Delete) {
                    auto count = references.find(seen.event);
                    if (count != references.end()) count->second--;
                    serials.erase(seen.object);  // before the handle can come again
                }
                if constexpr (!std::is_void_v<R>) seen.injected = fails(function, code);
            }
            if constexpr (std::is_void_v<R>) {
                original(args...);
                std::lock_guard<std::mutex> guard(lock);
                log.push_back(std::move(seen));
            } else {
                R result = R();
                if (!seen.injected) {
                    result = original(args...);
                    if constexpr (std::is_pointer_v<R>) code = result ? 0 : -1;
                }
                seen.status = code;
                std::lock_guard<std::mutex> guard(lock);
                if constexpr (is_command) {
                    if (result) seen.event = serial_of_new(word(result));
                }
                if constexpr (function == Event_GetCommandExecutionStatus) seen.detail = (int64_t) result;
                log.push_back(std::move(seen));
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
        serials.clear();
        references.clear();
    #define X(name, full) wrap<name>(table.name);
        PENSTOCK_OBSERVED(X)
    #undef X
    }

    template <class Table> static void end(Table& table) {
    #define X(name, full) unwrap<name>(table.name);
        PENSTOCK_OBSERVED(X)
    #undef X
    }

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

    static std::vector<int64_t> alive() {
        std::lock_guard<std::mutex> guard(lock);
        std::vector<int64_t> found;
        for (auto& entry : references)
            if (entry.second > 0) found.push_back(entry.first);
        return found;
    }

    }
    """
    cdef cppclass Seen "penstock_sycl_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected

    cdef int n_functions "penstock_sycl_observer::FUNCTIONS"
    cdef const char* const* function_names "penstock_sycl_observer::names"
    void begin "penstock_sycl_observer::begin"(Calls& table) nogil
    void end "penstock_sycl_observer::end"(Calls& table) nogil
    size_t log_size "penstock_sycl_observer::size"() nogil
    vector[Seen] log_tail "penstock_sycl_observer::tail"(size_t start) nogil
    void add_failure "penstock_sycl_observer::fail"(int function, int64_t code, uint64_t after) nogil
    vector[int64_t] alive "penstock_sycl_observer::alive"() nogil


NAMES = tuple((<bytes> function_names[i]).decode() for i in range(n_functions))

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver. There
# are no gates among them: a queue is held by penstock itself, and SYCL sees its commands when they are let go.
KINDS = {
    "DPCTLQueue_SubmitBarrier": "marker",
    "DPCTLQueue_SubmitBarrierForEvents": "barrier",
    "DPCTLQueue_Wait": "finish",
    "DPCTLEvent_Wait": "wait",
    "DPCTLEvent_GetCommandExecutionStatus": "query",
    "DPCTLRawKernelArg_Create": "argument",
    "DPCTLWorkGroupMemory_Create": "argument",
    "DPCTLmalloc_device": "allocate",
    "DPCTLmalloc_shared": "allocate",
    "DPCTLmalloc_host": "allocate",
}
COMMANDS = ("SubmitNDRange", "Memcpy", "MemcpyWithEvents", "Memset", "Fill16", "Fill32", "Fill64", "Fill128")
LAUNCH = "DPCTLQueue_SubmitNDRange"
MARKER = "DPCTLQueue_SubmitBarrier"
BARRIER = "DPCTLQueue_SubmitBarrierForEvents"
DONE = 3  # the status of an event that is done
# Whether what is submitted behind a closed gate is seen at once. Here it is seen when the gate opens.
SEES_WHAT_IS_HELD = False

cdef cbool observing = False


def kind_of(name):
    """What a call does, in the words of KINDS; "command" for other commands and "other" for the rest."""
    return KINDS.get(name, "command" if name.removeprefix("DPCTLQueue_") in COMMANDS else "other")


def start():
    """Begin to record, with an empty log and no failures planned."""
    global observing
    if observing:
        raise RuntimeError("the driver's calls are being observed already")
    calls.load()
    begin(sycl)
    observing = True


def stop():
    """Restore the driver's own functions; the log stays until the next start."""
    global observing
    if observing:
        end(sycl)
        observing = False


def count():
    """How many calls were recorded."""
    return log_size()


def read(size_t first):
    """The calls from the one with this index on, as tuples.

    (name, object, kernel, serials of the events waited for, serial of the event made or meant, detail, status,
    injected)
    """
    cdef vector[Seen] found
    cdef size_t i
    with nogil:
        found = log_tail(first)
    return [
        (NAMES[found[i].function], found[i].object, found[i].kernel, tuple(found[i].waits), found[i].event,
         found[i].detail, found[i].status, found[i].injected)
        for i in range(found.size())
    ]


def fail(name, int64_t code, uint64_t after):
    """Let a later call of this name, after so many others of it, return the code without reaching the driver."""
    if name not in NAMES:
        raise ValueError(f"no call is named {name!r}")
    if name in ("DPCTLQueue_Wait", "DPCTLEvent_Wait") or "elete" in name or "free" in name:
        raise ValueError(f"{name} has no way of failing")
    add_failure(NAMES.index(name), code, after)


def events_alive():
    """The serials of events made while observed to which penstock still holds references."""
    return sorted(alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> (<SyclQueue*> queue.state.handle).queue
