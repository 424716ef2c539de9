"""Records the driver calls forebay makes, and makes chosen ones fail; for tests.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path. What
happens inside the driver, and what pyopencl calls itself, is not seen.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from forebay.queues.opencl.calls cimport Calls, cl
from forebay.queues.queue cimport Queue

from forebay.queues.opencl import calls

cdef extern from *:
    """
    #include <cstdint>
    #include <mutex>
    #include <tuple>
    #include <type_traits>
    #include <unordered_map>
    #include <vector>

    #define FOREBAY_OBSERVED(X) \\
        X(EnqueueNDRangeKernel) X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList) X(EnqueueReadBuffer) \\
        X(EnqueueWriteBuffer) X(EnqueueCopyBuffer) X(EnqueueFillBuffer) X(EnqueueSVMMemcpy) X(EnqueueSVMMemFill) \\
        X(SetKernelArg) X(SetKernelArgSVMPointer) X(Flush) X(Finish) X(WaitForEvents) X(GetEventInfo) \\
        X(GetEventProfilingInfo) X(SetEventCallback) X(SetUserEventStatus) X(RetainEvent) X(ReleaseEvent) \\
        X(RetainCommandQueue) X(ReleaseCommandQueue) X(RetainKernel) X(ReleaseKernel) X(ReleaseMemObject) \\
        X(CreateUserEvent) X(SVMAlloc) X(SVMFree) X(CreateBuffer)

    namespace forebay_observer {

    enum Function {
    #define X(name) name,
        FOREBAY_OBSERVED(X)
    #undef X
        FUNCTIONS
    };

    static const char* const names[] = {
    #define X(name) "cl" #name,
        FOREBAY_OBSERVED(X)
    #undef X
    };

    struct Call {
        int function;
        uintptr_t object;           // the first argument: a queue, kernel, event or context
        uintptr_t kernel;           // of a launch
        std::vector<int64_t> waits; // serial numbers of events
        int64_t event;              // that this call made, or is about; 0: none
        int64_t detail;             // the status found by clGetEventInfo or set by clSetUserEventStatus; an index
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
        if (!event) return 0;
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
            constexpr bool makes_object = function == CreateUserEvent || function == CreateBuffer;
            constexpr bool is_command = function <= EnqueueSVMMemFill;
            auto all = std::make_tuple(args...);
            Call seen = {};
            int64_t code = 0;
            seen.function = function;
            seen.object = word(std::get<0>(all));
            if constexpr (n > 1) seen.detail = (int64_t) word(std::get<1>(all));
            if constexpr (function == EnqueueNDRangeKernel) seen.kernel = word(std::get<1>(all));
            {
                std::lock_guard<std::mutex> guard(lock);
                if constexpr (is_command || function == WaitForEvents) {
                    constexpr int at = is_command ? n - 3 : 0;
                    for (size_t i = 0; i < std::get<at>(all); i++)
                        seen.waits.push_back(serial_of(word(std::get<at + 1>(all)[i])));
                }
                if constexpr (function >= GetEventInfo && function <= ReleaseEvent) seen.event = serial_of(seen.object);
                seen.injected = fails(function, code);
            }
            R result = R();
            if constexpr (std::is_void_v<R>) original(args...);
            else if (!seen.injected) result = original(args...);
            if constexpr (makes_object) {
                if (seen.injected) *std::get<n - 1>(all) = (int32_t) code;
                code = *std::get<n - 1>(all);
            } else if constexpr (function == SVMAlloc) {
                code = result ? 0 : -5;
            } else if constexpr (!std::is_void_v<R>) {
                if (seen.injected) result = (R) code;
                code = (int64_t) result;
            }
            seen.status = code;
            std::lock_guard<std::mutex> guard(lock);
            if (code == 0) {
                if constexpr (is_command) {
                    if (std::get<n - 1>(all)) seen.event = serial_of_new(word(*std::get<n - 1>(all)));
                }
                if constexpr (function == CreateUserEvent) seen.event = serial_of_new(word(result));
                if constexpr (function == GetEventInfo) seen.detail = *(int32_t*) std::get<3>(all);
                if constexpr (function == RetainEvent || function == ReleaseEvent) {
                    auto count = references.find(seen.event);
                    if (count != references.end()) count->second += function == RetainEvent ? 1 : -1;
                }
            }
            log.push_back(std::move(seen));
            return result;
        }
    };

    template <int function, class... A> struct Wrapper<function, void, A...> {
        static inline void (*original)(A...) = nullptr;

        static void call(A... args) {
            Call seen = {};
            seen.function = function;
            seen.object = word(std::get<0>(std::make_tuple(args...)));
            original(args...);
            std::lock_guard<std::mutex> guard(lock);
            log.push_back(std::move(seen));
        }
    };

    template <int function, class R, class... A> static void wrap(R (*&slot)(A...)) {
        using W = Wrapper<function, R, A...>;
        if (!slot) return;  // a loader that does not have it
        W::original = slot;
        slot = W::call;
    }

    template <int function, class R, class... A> static void unwrap(R (*&slot)(A...)) {
        if (slot) slot = Wrapper<function, R, A...>::original;
    }

    template <class Table> static void begin(Table& table) {
        log.clear();
        failures.clear();
        serials.clear();
        references.clear();
    #define X(name) wrap<name>(table.name);
        FOREBAY_OBSERVED(X)
    #undef X
    }

    template <class Table> static void end(Table& table) {
    #define X(name) unwrap<name>(table.name);
        FOREBAY_OBSERVED(X)
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

    static void forgive() {
        std::lock_guard<std::mutex> guard(lock);
        failures.clear();
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
    cdef cppclass Seen "forebay_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected

    cdef int n_functions "forebay_observer::FUNCTIONS"
    cdef const char* const* function_names "forebay_observer::names"
    void begin "forebay_observer::begin"(Calls& table) nogil
    void end "forebay_observer::end"(Calls& table) nogil
    size_t log_size "forebay_observer::size"() nogil
    vector[Seen] log_tail "forebay_observer::tail"(size_t start) nogil
    void add_failure "forebay_observer::fail"(int function, int64_t code, uint64_t after) nogil
    void drop_failures "forebay_observer::forgive"() nogil
    vector[int64_t] alive "forebay_observer::alive"() nogil


NAMES = tuple((<bytes> function_names[i]).decode() for i in range(n_functions))

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver.
KINDS = {
    "clEnqueueMarkerWithWaitList": "marker",
    "clEnqueueBarrierWithWaitList": "barrier",
    "clFinish": "finish",
    "clWaitForEvents": "wait",
    "clGetEventInfo": "query",
    "clCreateUserEvent": "gate",
    "clSetUserEventStatus": "open",
    "clSetKernelArg": "argument",
    "clSetKernelArgSVMPointer": "argument",
    "clSVMAlloc": "allocate",
    "clCreateBuffer": "allocate",
}
# And which call does it, where only one does.
LAUNCH = "clEnqueueNDRangeKernel"
UPLOAD = "clEnqueueWriteBuffer"
DOWNLOAD = "clEnqueueReadBuffer"
FILL = "clEnqueueFillBuffer"
MARKER = "clEnqueueMarkerWithWaitList"
BARRIER = "clEnqueueBarrierWithWaitList"
HOLD = "clEnqueueBarrierWithWaitList"  # what a gate holds the queue with
HOST_FUNCTION = "clSetEventCallback"
ARGUMENT = "clSetKernelArg"
REPLAY = None  # of a graph: a loop over its commands
FINISH = "clFinish"
WAIT = "clWaitForEvents"
QUERY = "clGetEventInfo"
GATE = ("clCreateUserEvent",)
FLUSH = "clFlush"
OPEN = "clSetUserEventStatus"
NEW_QUEUE = "clRetainCommandQueue"
RELEASE_QUEUE = "clReleaseCommandQueue"
GATE_MARKERS = 0  # that a gate makes for itself
POLLS = False  # whether the driver says of a queue that it is done, without a marker
DONE = 0  # the status of an event that is done
FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"  # one that any call may have
EVENT_FAILURE = FAILURE[1]  # what it is called when asking for an event fails
OUT_OF_MEMORY = -6

cdef cbool observing = False


def kind_of(name):
    """What a call does, in the words of KINDS; "command" for other commands and "other" for the rest."""
    return KINDS.get(name, "command" if name.startswith("clEnqueue") else "other")


def start():
    """Begin to record, with an empty log and no failures planned."""
    global observing
    if observing:
        raise RuntimeError("the driver's calls are being observed already")
    calls.load()
    begin(cl)
    observing = True


def stop():
    """Restore the driver's own functions; the log stays until the next start."""
    global observing
    if observing:
        end(cl)
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
    add_failure(NAMES.index(name), code, after)


def forgive():
    """No call fails any more that `fail` said it should."""
    drop_failures()


def watch(emulate=False):
    """Nothing has to be known from before `start`, and there is nothing to answer for: this driver executes."""


def unwatch():
    """End what `watch` began."""


def violations():
    """None are looked for: what is wrong here the driver refuses, or the results show it."""
    return []


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
