"""Records what penstock asks of dpctl's C interface, and makes chosen calls fail; for tests.

While it is on, the pointers in the table of calls and in the table of operations lead to wrappers. While it is off
nothing of it is on any path. What SYCL and its backends do, and what dpctl calls itself, is not seen.

A call is recorded when penstock asks for it. That is also when SYCL is called, except for what a gate keeps back: that
is recorded at once too, as the call that it will become, and when it is handed on, the call really made is compared
with it and not recorded again. What differs is a violation. So the order that the record shows is SYCL's order, and
nobody who reads it has to know that penstock holds queues itself. For the same reason a marker, a barrier and a copy
have one name each, whether waits are with them or not; arguments, which SYCL takes with the launch, are recorded when
they are set; and the event that dpctl makes of each command is not recorded where it is dropped at once.

A call that fails returns nothing: there are no codes here, and those given to `fail` are only recorded.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport memory_order_acquire
from libcpp.string cimport string
from libcpp.vector cimport vector

from penstock.queues.driver cimport Driver, Geometry, Memory, Status, Waits, Wake
from penstock.queues.queue cimport Queue
from penstock.queues.sycl.calls cimport (
    CALL_Event_Wait, CALL_Fill32, CALL_Memcpy, CALL_Queue_Wait, CALL_RawKernelArg_Create, CALL_SubmitBarrier,
    CALL_SubmitBarrierForEvents, CALL_SubmitNDRange, OUT_OF_MEMORY as NO_MEMORY, Call, Calls, sycl
)
from penstock.queues.sycl.held cimport PENDING, Event, Queue as SyclQueue
from penstock.queues.sycl.status cimport FAILED, failure

from penstock.queues.sycl import calls, operations
from penstock.queues.sycl.device import GATE_FAILED, NO_REASON

cdef extern from *:
    """
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
    #define PENSTOCK_OBSERVED(X) \\
        X(SubmitNDRange, "Queue_SubmitNDRange") X(Memcpy, "Queue_Memcpy") \\
        X(MemcpyWithEvents, "Queue_MemcpyWithEvents") X(Memset, "Queue_Memset") X(Fill16, "Queue_Fill16") \\
        X(Fill32, "Queue_Fill32") X(Fill64, "Queue_Fill64") X(Fill128, "Queue_Fill128") \\
        X(SubmitBarrier, "Queue_SubmitBarrier") X(SubmitBarrierForEvents, "Queue_SubmitBarrierForEvents") \\
        X(Event_Wait, "Event_Wait") X(Event_GetCommandExecutionStatus, "Event_GetCommandExecutionStatus") \\
        X(Event_GetProfilingInfoEnd, "Event_GetProfilingInfoEnd") X(Event_Delete, "Event_Delete") \\
        X(RawKernelArg_Create, "RawKernelArg_Create") X(WorkGroupMemory_Create, "WorkGroupMemory_Create") \\
        X(Queue_Wait, "Queue_Wait") X(Queue_Copy, "Queue_Copy") X(Queue_Delete, "Queue_Delete") \\
        X(Kernel_Copy, "Kernel_Copy") X(Kernel_Delete, "Kernel_Delete") \\
        X(malloc_device, "malloc_device") X(malloc_shared, "malloc_shared") \\
        X(malloc_host, "malloc_host") X(free_with_context, "free_with_context")

    namespace penstock_sycl_observer {

    enum Function {
    #define X(name, full) name,
        PENSTOCK_OBSERVED(X)
    #undef X
        Gate, Hold, Open,  // penstock's own: no call of dpctl's
        FUNCTIONS
    };

    static const char* const names[] = {
    #define X(name, full) "DPCTL" full,
        PENSTOCK_OBSERVED(X)
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
    static std::unordered_map<uintptr_t, int64_t> pending;   // serials of penstock's events that SYCL does not know
    static std::unordered_map<uintptr_t, std::pair<int64_t, int>> asked_for;  // penstock's events: serial, references
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
        PENSTOCK_OBSERVED(X)
    #undef X
    }

    template <class Table> static void end(Table& table) {
    #define X(name, full) unwrap<name>(table.name);
        PENSTOCK_OBSERVED(X)
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

    cdef enum Function "penstock_sycl_observer::Function":
        SubmitNDRange "penstock_sycl_observer::SubmitNDRange"
        Memcpy "penstock_sycl_observer::Memcpy"
        Memset "penstock_sycl_observer::Memset"
        Fill16 "penstock_sycl_observer::Fill16"
        Fill32 "penstock_sycl_observer::Fill32"
        Fill64 "penstock_sycl_observer::Fill64"
        Fill128 "penstock_sycl_observer::Fill128"
        SubmitBarrier "penstock_sycl_observer::SubmitBarrier"
        SubmitBarrierForEvents "penstock_sycl_observer::SubmitBarrierForEvents"
        Event_Wait "penstock_sycl_observer::Event_Wait"
        Event_GetCommandExecutionStatus "penstock_sycl_observer::Event_GetCommandExecutionStatus"
        RawKernelArg_Create "penstock_sycl_observer::RawKernelArg_Create"
        Queue_Wait "penstock_sycl_observer::Queue_Wait"
        GateMade "penstock_sycl_observer::Gate"
        Hold "penstock_sycl_observer::Hold"
        Open "penstock_sycl_observer::Open"
        FUNCTIONS "penstock_sycl_observer::FUNCTIONS"

    cdef const char* const* function_names "penstock_sycl_observer::names"
    void begin "penstock_sycl_observer::begin"(Calls& table) nogil
    void end "penstock_sycl_observer::end"(Calls& table) nogil
    int64_t serial_of_pending "penstock_sycl_observer::serial_of_pending"(uintptr_t event) nogil
    int64_t serial_of_sycl "penstock_sycl_observer::serial_of_sycl"(uintptr_t event) nogil
    int64_t new_serial "penstock_sycl_observer::new_serial"() nogil
    void enter "penstock_sycl_observer::enter"(cbool keeps, int record_as, cbool silent) nogil
    cbool leave "penstock_sycl_observer::leave"() nogil
    size_t note "penstock_sycl_observer::note"(
        int function, uintptr_t object, uintptr_t kernel, const vector[int64_t]& waits, int64_t event, int64_t detail
    ) nogil
    cbool refuse "penstock_sycl_observer::refuse"(int function, uintptr_t object) nogil
    void keep "penstock_sycl_observer::keep"(
        uintptr_t queue, int function, const vector[int64_t]& waits, int64_t event, size_t calls, cbool lasts
    ) nogil
    void keep_not "penstock_sycl_observer::keep_not"(uintptr_t queue, size_t at) nogil
    void made "penstock_sycl_observer::made"(uintptr_t event, int64_t serial, cbool is_pending) nogil
    void made_again "penstock_sycl_observer::made_again"(uintptr_t event) nogil
    void release "penstock_sycl_observer::release"(uintptr_t event) nogil
    void begin_hold "penstock_sycl_observer::begin_hold"() nogil
    void end_hold "penstock_sycl_observer::end_hold"() nogil
    void gate_fails "penstock_sycl_observer::gate_fails"() nogil
    size_t log_size "penstock_sycl_observer::size"() nogil
    vector[Seen] log_tail "penstock_sycl_observer::tail"(size_t start) nogil
    void add_failure "penstock_sycl_observer::fail"(int function, int64_t code, uint64_t after) nogil
    void drop_failures "penstock_sycl_observer::forgive"() nogil
    vector[string] take_violations "penstock_sycl_observer::take_violations"() nogil
    vector[int64_t] alive "penstock_sycl_observer::alive"() nogil


# -- operations: what penstock asks for. A queue and its events are described before the operation, which changes them.

cdef Driver real  # the table as it is without this


cdef int64_t serial_of(Event* event) noexcept nogil:
    if event.state.load(memory_order_acquire) == PENDING or event.event == NULL:
        return serial_of_pending(<uintptr_t> event)
    return serial_of_sycl(<uintptr_t> event.event)


cdef cbool is_pending(Event* event) noexcept nogil:
    return event.state.load(memory_order_acquire) == PENDING


cdef vector[int64_t] serials_of(Waits waits) noexcept nogil:
    cdef vector[int64_t] found
    cdef size_t i
    for i in range(waits.count):
        found.push_back(serial_of(<Event*> waits.events[i]))
    return found


cdef cbool is_kept(void* queue, Waits waits) noexcept nogil:
    """Will penstock keep this back? If so it may still be handed on at once; if not it cannot come to that."""
    cdef size_t i
    if (<SyclQueue*> queue).held.load(memory_order_acquire):
        return True
    for i in range(waits.count):
        if is_pending(<Event*> waits.events[i]):
            return True
    return False


cdef cppclass Asked:
    uintptr_t queue
    cbool kept
    int64_t event
    size_t at


cdef Status begin_command(
    Asked* asked, void* queue, void* kernel, Waits waits, int function, int record_as, Call call, size_t n_calls,
    cbool makes_event
) noexcept nogil:
    cdef vector[int64_t] serials
    asked.queue = <uintptr_t> (<SyclQueue*> queue).queue
    asked.kept = is_kept(queue, waits)
    if asked.kept:
        if refuse(function, asked.queue):
            return failure(call)
        serials = serials_of(waits)
        asked.event = new_serial() if makes_event else 0
        keep(asked.queue, function, serials, asked.event, n_calls, False)
        asked.at = note(function, asked.queue, <uintptr_t> kernel, serials, asked.event, 0)
    enter(asked.kept, record_as, False)
    return 0


cdef void end_command(Asked* asked, Status status, void** event) noexcept nogil:
    leave()
    if asked.kept and status != 0:
        keep_not(asked.queue, asked.at)
    elif status == 0 and event != NULL:
        if asked.kept:
            made(<uintptr_t> event[0], asked.event, True)
        else:
            made(<uintptr_t> event[0], serial_of(<Event*> event[0]), False)


cdef Status see_launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, kernel, waits, SubmitNDRange, -1, CALL_SubmitNDRange, 1, False)
    if status == 0:
        status = real.launch(queue, kernel, geometry, waits)
        end_command(&asked, status, NULL)
    return status


cdef Status see_copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(&asked, queue, NULL, waits, Memcpy, Memcpy, CALL_Memcpy, 1, event != NULL)
    if status == 0:
        status = real.copy(queue, to, source, nbytes, waits, event)
        end_command(&asked, status, event)
    return status


cdef int filled_by(size_t pattern_size) noexcept nogil:
    if pattern_size == 1:
        return Memset
    if pattern_size == 2:
        return Fill16
    if pattern_size == 4:
        return Fill32
    return Fill64 if pattern_size == 8 else Fill128


cdef size_t calls_of_fill(size_t pattern_size, size_t nbytes) noexcept nogil:
    cdef size_t n_calls = pattern_size // 16
    cdef size_t done = pattern_size
    if pattern_size <= 16:
        return 1
    while done < nbytes:
        n_calls += 1
        done *= 2
    return n_calls


cdef Status see_fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, filled_by(pattern_size), -1, CALL_Fill32, calls_of_fill(pattern_size, nbytes),
        event != NULL)
    if status == 0:
        status = real.fill(queue, to, pattern, pattern_size, nbytes, waits, event)
        end_command(&asked, status, event)
    return status


cdef Status see_marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, SubmitBarrier, SubmitBarrier, CALL_SubmitBarrier, 1, True)
    if status == 0:
        status = real.marker(queue, waits, use, event)
        end_command(&asked, status, event)
    return status


cdef Status see_barrier(void* queue, Waits waits) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, SubmitBarrierForEvents, SubmitBarrierForEvents, CALL_SubmitBarrierForEvents, 1,
        False)
    if status == 0:
        status = real.barrier(queue, waits)
        end_command(&asked, status, NULL)
    return status


cdef Status see_hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef vector[int64_t] nothing
    cdef uintptr_t native = <uintptr_t> (<SyclQueue*> queue).queue
    cdef cbool kept = is_kept(queue, waits)
    cdef cbool arrives = wake != NULL or waits.count != 0  # by a barrier, which carries the waits
    cdef Status status
    cdef int64_t serial
    if refuse(GateMade, native) or refuse(Hold, native):
        return failure(NO_MEMORY)
    serial = new_serial()
    note(GateMade, 0, 0, nothing, serial, 0)
    if kept and arrives:
        keep(native, SubmitBarrier, serials, 0, 1, True)
    begin_hold()
    enter(kept, -1, False)
    status = real.hold(queue, context, waits, wake, data, gate)
    leave()
    if status == 0:
        made(<uintptr_t> gate[0], serial, True)
        if not kept:
            serials.clear()
        serials.push_back(serial)
        note(Hold, native, 0, serials, 0, 0)
    elif kept and arrives:
        keep_not(native, <size_t> -1)
    end_hold()
    return status


cdef Status see_open_gate(void* gate, bint failed) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status
    note(Open, <uintptr_t> gate, 0, nothing, serial_of(<Event*> gate), failed)
    if failed:
        gate_fails()
    enter(True, -1, False)
    status = real.open_gate(gate, failed)
    leave()
    return status


cdef Status see_set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    cdef vector[int64_t] nothing
    if refuse(RawKernelArg_Create, <uintptr_t> kernel):
        return failure(CALL_RawKernelArg_Create)
    note(RawKernelArg_Create, <uintptr_t> kernel, 0, nothing, 0, index)
    return real.set_pointer(kernel, index, memory)


cdef Status see_set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef vector[int64_t] nothing
    if refuse(RawKernelArg_Create, <uintptr_t> kernel):
        return failure(CALL_RawKernelArg_Create)
    note(RawKernelArg_Create, <uintptr_t> kernel, 0, nothing, 0, index)
    return real.set_value(kernel, index, size, value)


cdef Status see_finish(void* queue) noexcept nogil:
    cdef Status status
    if refuse(Queue_Wait, <uintptr_t> (<SyclQueue*> queue).queue):
        return failure(CALL_Queue_Wait)
    enter(False, -1, False)
    status = real.finish(queue)
    leave()
    return status


cdef Status see_wait_events(void* context, Waits events) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(events)
    cdef Status status
    if refuse(Event_Wait, <uintptr_t> context):
        return failure(CALL_Event_Wait)
    enter(False, -1, True)
    status = real.wait_events(context, events)
    if leave() and status == 0:
        note(Event_Wait, <uintptr_t> context, 0, serials, serials[0] if serials.size() == 1 else 0, 0)
    return status


cdef int see_event_status(void* event) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef int status
    if is_pending(<Event*> event):
        if refuse(Event_GetCommandExecutionStatus, <uintptr_t> event):
            return FAILED
        note(Event_GetCommandExecutionStatus, <uintptr_t> event, 0, nothing, serial_of(<Event*> event), 1)
    enter(False, -1, False)
    status = real.event_status(event)
    leave()
    return status


cdef Status see_event_time(void* event, uint64_t* nanoseconds) noexcept nogil:
    cdef Status status
    enter(False, -1, False)
    status = real.event_time(event, nanoseconds)
    leave()
    return status


cdef Status see_bridge(void* context, void* event, void** bridged) noexcept nogil:
    cdef Status status = real.bridge(context, event, bridged)
    if status == 0:
        made_again(<uintptr_t> event)
    return status


cdef void see_release_event(void* event) noexcept nogil:
    release(<uintptr_t> event)
    enter(False, -1, False)
    real.release_event(event)
    leave()


cdef Driver* table() noexcept:
    cdef uintptr_t address = operations.table_address()
    return <Driver*> address


cdef void begin_operations():
    global real
    cdef Driver* current = table()
    real = current[0]
    current.launch = see_launch
    current.copy = see_copy
    current.fill = see_fill
    current.marker = see_marker
    current.barrier = see_barrier
    current.hold = see_hold
    current.open_gate = see_open_gate
    current.set_pointer = see_set_pointer
    current.set_value = see_set_value
    current.finish = see_finish
    current.wait_events = see_wait_events
    current.event_status = see_event_status
    current.event_time = see_event_time
    current.bridge = see_bridge
    current.release_event = see_release_event


NAMES = tuple((<bytes> function_names[<int> i]).decode() for i in range(<int> FUNCTIONS))

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver.
KINDS = {
    "DPCTLQueue_SubmitBarrier": "marker",
    "DPCTLQueue_SubmitBarrierForEvents": "barrier",
    "DPCTLQueue_Wait": "finish",
    "DPCTLEvent_Wait": "wait",
    "DPCTLEvent_GetCommandExecutionStatus": "query",
    "DPCTLRawKernelArg_Create": "argument",
    "DPCTLmalloc_device": "allocate",
    "DPCTLmalloc_shared": "allocate",
    "DPCTLmalloc_host": "allocate",
    "gate": "gate",
    "hold": "barrier",
    "open": "open",
}
COMMANDS = ("SubmitNDRange", "Memcpy", "Memset", "Fill16", "Fill32", "Fill64", "Fill128")
# And which call does it, where only one does.
LAUNCH = "DPCTLQueue_SubmitNDRange"
UPLOAD = DOWNLOAD = "DPCTLQueue_Memcpy"
FILL = "DPCTLQueue_Fill32"  # with elements of four bytes
MARKER = "DPCTLQueue_SubmitBarrier"
BARRIER = "DPCTLQueue_SubmitBarrierForEvents"
HOLD = "hold"  # what a gate holds the queue with: penstock's own list
HOST_FUNCTION = "hold"
ARGUMENT = "DPCTLRawKernelArg_Create"
REPLAY = None  # of a graph: a loop over its commands
FINISH = "DPCTLQueue_Wait"
WAIT = "DPCTLEvent_Wait"
QUERY = "DPCTLEvent_GetCommandExecutionStatus"
GATE = ("gate",)
FLUSH = None  # there is none
OPEN = "open"
NEW_QUEUE = "DPCTLQueue_Copy"
RELEASE_QUEUE = "DPCTLQueue_Delete"
GATE_MARKERS = 0  # that a gate makes for itself
POLLS = False  # whether the driver says of a queue that it is done, without a marker
DONE = 0  # the status of an event that is done
FAILURE = FAILED, NO_REASON  # one that any call may have
EVENT_FAILURE = GATE_FAILED  # what it is called when asking for an event fails
OUT_OF_MEMORY = FAILED

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
    begin_operations()
    observing = True


def stop():
    """Restore the table of operations and dpctl's own functions; the log stays until the next start."""
    global observing
    if observing:
        table()[0] = real
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
    if "elete" in name or "free" in name:
        raise ValueError(f"{name} has no way of failing")
    add_failure(NAMES.index(name), code, after)


def forgive():
    """No call fails any more that `fail` said it should."""
    drop_failures()


def watch(emulate=False):
    """Nothing has to be known from before `start`, and there is nothing to answer for: this driver executes."""


def unwatch():
    """End what `watch` began."""


def violations():
    """Where SYCL was called otherwise than it was kept back, since this was last asked."""
    return [text.decode() for text in take_violations()]


def events_alive(device):
    """The serials of events made while observed to which penstock still holds references."""
    return sorted(alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> (<SyclQueue*> queue.state.handle).queue
