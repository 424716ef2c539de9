"""Records penstock's driver calls, makes chosen ones fail, and finds mistakes that null hardware hides; for tests.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path.

It follows each call: which objects there are and with which scopes, what each list was ordered after, and what the host
was told is done. Out of that come its `violations`. Hardware that executes nothing says at once that all is done; with
`emulate` it is answered for: what is behind a gate that the host has not opened is not done, and host functions are
called.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from penstock.queues.levelzero.calls cimport Calls, ze
from penstock.queues.levelzero.handles cimport (
    EVENT_KINDS, Device as DeviceState, Queue as QueueState
)
from penstock.queues.queue cimport Queue

from penstock.queues.levelzero import calls, loader

cdef extern from *:
    """
    #include <algorithm>
    #include <chrono>
    #include <condition_variable>
    #include <cstdint>
    #include <cstring>
    #include <map>
    #include <memory>
    #include <mutex>
    #include <set>
    #include <string>
    #include <string_view>
    #include <thread>
    #include <tuple>
    #include <type_traits>
    #include <unordered_map>
    #include <vector>

    namespace penstock_ze_observer {

    using namespace penstock_ze;

    constexpr Result SUCCESS = 0, NOT_READY = 1;
    constexpr uint32_t SCOPE_DEVICE = 2, SCOPE_HOST = 4, POOL_HOST_VISIBLE = 1, POOL_TIMESTAMPS = 4,
        COUNTER_IMMEDIATE = 1, COUNTER_HOST_VISIBLE = 4, COUNTER_TIMESTAMPS = 16 | 32, COUNTER_POOL = 0x20014;
    constexpr uint64_t FOREVER = UINT64_MAX, PATIENCE = 5;  // seconds until a wait for a closed gate is given up

    static constexpr std::string_view names[] = {
    #define X(name, parameters) #name,
        PENSTOCK_ZE(X)
    #undef X
    };

    constexpr bool begins(int function, std::string_view with) {
        return names[function].substr(0, with.size()) == with;
    }

    struct Call {
        int function;
        uintptr_t object = 0;       // the first argument: the number of a list, or the handle of something else
        uintptr_t kernel = 0;       // of a launch
        std::vector<int64_t> waits; // serial numbers of signals
        int64_t event = 0;          // the signal that this call makes, or is about; 0: none
        int64_t detail = 0;         // of a signal: is it for the host; else the status or an index
        int64_t status = 0;
        bool injected = false;
    };

    struct Failure { int function; Result code; uint64_t after; };

    typedef std::map<uint32_t, uint64_t> Clock;  // positions by the numbers of lists

    struct Point {  // what is done, and which gates are open, once it is reached
        Clock clock;
        std::set<int64_t> gates;
    };

    struct Inside {  // who is in a driver call with something that only one may use at a time
        std::thread::id thread;
        const char *call = nullptr;
        int depth = 0;
    };

    struct List {
        uint32_t number = 0;
        void *context = nullptr, *device = nullptr;
        uint64_t position = 0;  // commands so far
        Point after;            // what its next command comes after, itself excepted
        Clock waiters;          // where other lists wait for signals of this one
        Inside inside;
        bool recorded = false, closed = false;  // one that is appended to others, as a whole
        std::set<void *> kernels;               // of that: what it uses
        std::set<uintptr_t> addresses;
        Clock used;
    };

    struct Event {
        void *context = nullptr, *device = nullptr, *pool = nullptr;
        bool counter_based = false, for_immediate = false, visible = false, timestamps = false, known = false;
        uint32_t signal = 0, wait = 0;
        int64_t serial = 0;             // of the newest signal, or of the one that the host will make
        bool ever = false;              // was it ever signalled?
        bool signalled = false;         // a plain one: since it was reset
        uint32_t list = 0;              // that signals it; 0: the host
        std::shared_ptr<Point> point;   // what its signal stands for
        Clock waiters;                  // of a plain one: where lists wait for it
    };

    struct Pool { void *context; uint32_t flags; bool counter_based; int events; };
    struct Kernel { void *module; Clock used; std::map<uint32_t, uintptr_t> memory; Inside inside; };
    struct Module { void *context; Clock used; int kernels; };
    struct Memory { void *context; size_t nbytes; Clock used; };
    struct HostCall { Point after; void (*function)(void *); void *data; };

    struct State {  // never destroyed: threads may still call while the process ends
        std::mutex lock;  // guards all below
        std::condition_variable opened;
        bool recording = false, emulating = false;
        std::vector<Call> log;
        std::vector<Failure> failures;
        std::map<int, uint64_t> slow;
        std::vector<std::string> violations;
        std::unordered_map<void *, List> lists;
        std::unordered_map<void *, Event> events;
        std::unordered_map<void *, Pool> pools;
        std::unordered_map<void *, Kernel> kernels;
        std::unordered_map<void *, Module> modules;
        std::map<uintptr_t, Memory> memory;
        std::unordered_map<void *, int> contexts;  // how many objects each has
        std::unordered_map<void *, int> logs;
        std::unordered_map<uint32_t, void *> numbers;
        std::set<void *> ended;  // handles of what is gone, until they come again
        Clock done;  // what the host was told
        std::set<int64_t> closed;  // gates
        std::vector<HostCall> host_calls;
        uint32_t newest_list = 0;
        int64_t newest_serial = 0, first_serial = 0;  // the latter: when recording began
    };

    static State& state() {
        static State& only = *new State();
        return only;
    }

    static Calls real;  // the driver's own

    static std::string name_of(int function) { return "ze" + std::string(names[function]); }

    static void violate(int function, const std::string& text) {
        State& s = state();
        if (s.violations.size() < 100) s.violations.push_back(name_of(function) + ": " + text);
    }

    static List& list_of(void *handle) {
        State& s = state();
        List& list = s.lists[handle];
        if (!list.number) {
            list.number = ++s.newest_list;
            s.numbers[list.number] = handle;
        }
        return list;
    }

    static std::string text_of(const List& list) { return "list " + std::to_string(list.number); }

    static Event& event_of(void *handle) {
        Event& event = state().events[handle];
        if (!event.serial) event.serial = ++state().newest_serial;  // made before: nothing is known of it
        return event;
    }

    static bool is_done(const Clock& clock) {
        Clock& done = state().done;
        for (auto& entry : clock) {
            auto known = done.find(entry.first);
            if (entry.second && (known == done.end() || known->second < entry.second)) return false;
        }
        return true;
    }

    static void raise(Clock& clock, uint32_t list, uint64_t position) {
        uint64_t& entry = clock[list];
        entry = std::max(entry, position);
    }

    static void told(const Clock& clock) {
        for (auto& entry : clock) raise(state().done, entry.first, entry.second);
    }

    static Clock clock_of(const List& list) {
        Clock clock = list.after.clock;
        raise(clock, list.number, list.position);
        return clock;
    }

    static bool is_blocked(const std::set<int64_t>& gates) {
        State& s = state();
        if (s.emulating)
            for (int64_t gate : gates)
                if (s.closed.count(gate)) return true;
        return false;
    }

    static void join(Point& into, const Point& other) {
        State& s = state();
        for (auto& entry : other.clock) {
            auto known = s.done.find(entry.first);
            if (known == s.done.end() || known->second < entry.second) raise(into.clock, entry.first, entry.second);
        }
        for (int64_t gate : other.gates)
            if (s.closed.count(gate)) into.gates.insert(gate);
    }

    static bool is_closed_gate(const Event& event) { return !event.counter_based && event.known && !event.signalled; }

    static std::set<int64_t> gates_of(const Event& event) {
        if (is_closed_gate(event)) return {event.serial};
        return event.point ? event.point->gates : std::set<int64_t>();
    }

    static Memory *memory_at(uintptr_t address, uintptr_t *base = nullptr) {
        auto& all = state().memory;
        auto found = all.upper_bound(address);
        if (found == all.begin()) return nullptr;
        --found;
        if (address - found->first >= found->second.nbytes) return nullptr;
        if (base) *base = found->first;
        return &found->second;
    }

    static void check_memory(int function, const List& list, const void *address, size_t nbytes) {
        AllocProperties properties;
        void *device = nullptr;
        uintptr_t base = 0;
        if (!address || !nbytes || !list.context) return;
        Memory *memory = memory_at((uintptr_t) address, &base);
        if (memory && (uintptr_t) address - base + nbytes > memory->nbytes)
            violate(function, "past the end of an allocation of " + std::to_string(memory->nbytes) + " bytes");
        Result result = real.MemGetAllocProperties(list.context, address, &properties, &device);
        if (result || properties.type == 0)
            violate(function, "an address that is not unified shared memory: pageable");
    }

    static void use_memory(const void *address, uint32_t list, uint64_t position) {
        Memory *memory = memory_at((uintptr_t) address);
        if (memory) raise(memory->used, list, position);
    }

    static void enter(int function, Inside& inside, const std::string& what) {
        std::thread::id self = std::this_thread::get_id();
        if (inside.depth && inside.thread != self)
            violate(function, "while another thread is in ze" + std::string(inside.call) + " with the same " + what);
        inside.thread = self;
        inside.call = names[function].data();
        inside.depth++;
    }

    static void check_host_use(int function, const Event& event) {
        if (!event.known) return;
        if (!event.visible) violate(function, "the event is not visible to the host");
        if (!(event.signal & SCOPE_HOST)) violate(function, "the scope of the event's signal does not reach the host");
    }

    static void check_wait(int function, List& list, Event& event) {
        if (!event.known) return;
        if (event.counter_based && !event.ever) violate(function, "waits for an event that was never signalled");
        if (event.list == list.number && event.list) return;  // of its own, which is in order anyway
        if (event.counter_based && event.list && !state().numbers.count(event.list))
            violate(function, text_of(list) + " waits for an event whose list was destroyed");
        if (!(event.signal & (SCOPE_DEVICE | SCOPE_HOST)))
            violate(function, text_of(list) + " waits for an event whose signal does not reach the device");
        if (!(event.wait & (SCOPE_DEVICE | SCOPE_HOST)))
            violate(function, text_of(list) + " waits for an event whose wait does not reach the device");
        if (is_closed_gate(event) && !(event.wait & SCOPE_HOST))
            violate(function, text_of(list) + " waits for the host by an event whose wait does not reach it");
        auto from = state().numbers.find(event.list);
        void *device = from == state().numbers.end() ? nullptr : state().lists[from->second].device;
        if (device && list.device && device != list.device && !(event.signal & SCOPE_HOST))
            violate(function, text_of(list) + " waits for another device's event whose signal stays on that");
    }

    static void check_signal(int function, const List& list, const Event& event) {
        if (!event.known) return;
        if (event.counter_based && !event.for_immediate)
            violate(function, "the event is not for immediate lists");
        if (!event.counter_based && event.signalled)
            violate(function, text_of(list) + " signals an event again without a reset");
        if (!event.counter_based && !event.signalled && !is_done(event.waiters))
            violate(function, text_of(list) + " signals an event that others wait for the host to signal");
    }

    // What a plain event's end or reset must not meet. A counter-based one is an address and a value, taken by then.
    static void check_unused(int function, const Event& event) {
        if (!event.known || event.counter_based) return;
        if (!is_done(event.waiters)) violate(function, "a list may still wait for the event");
        if (event.signalled && event.list && event.point && !is_done(event.point->clock))
            violate(function, "the event's signal is not known to have happened");
    }

    static void check_list_end(int function, const List& list) {
        State& s = state();
        if (!is_done(list.used)) violate(function, text_of(list) + " is not known to have run");
        if (!is_done({{list.number, list.position}}))
            violate(function, text_of(list) + " has work that is not known to be done: "
                    + std::to_string(s.done[list.number]) + " of " + std::to_string(list.position) + " commands");
        for (auto& waiter : list.waiters)
            if (!is_done({waiter}))
                violate(function, text_of(list) + " signals what list " + std::to_string(waiter.first)
                        + " may still wait for");
        for (auto& entry : s.events)
            if (!entry.second.counter_based && entry.second.list == list.number) entry.second.list = 0;
    }

    static int64_t new_serial(Event& event) { return event.serial = ++state().newest_serial; }

    static void waited(List& list, Event& event, uint64_t position) {
        State& s = state();
        if (is_closed_gate(event)) {
            if (s.emulating) list.after.gates.insert(event.serial);
        } else if (event.point) {
            join(list.after, *event.point);
        }
        if (!event.counter_based) {
            raise(event.waiters, list.number, position);
        } else if (event.list != list.number) {
            auto from = s.numbers.find(event.list);
            if (from != s.numbers.end()) raise(s.lists[from->second].waiters, list.number, position);
        }
    }

    static void signalled(List& list, Event& event) {
        State& s = state();
        s.closed.erase(event.serial);
        event.ever = event.signalled = true;
        event.list = list.number;
        event.point = std::make_shared<Point>();
        join(*event.point, list.after);
        raise(event.point->clock, list.number, list.position);
    }

    static bool fails(int function, Result& code) {
        auto& failures = state().failures;
        for (size_t i = 0; i < failures.size(); i++) {
            if (failures[i].function != function || failures[i].after-- != 0) continue;
            code = failures[i].code;
            failures.erase(failures.begin() + i);
            return true;
        }
        return false;
    }

    // Blocks until the gates are open. False: they are not, and nobody waits any longer.
    template <class Gates> static bool await(std::unique_lock<std::mutex>& guard, int function, uint64_t timeout,
                                             Gates gates) {
        State& s = state();
        auto open = [&] { return !is_blocked(gates()); };
        if (timeout == 0) return open();
        if (timeout != FOREVER) return s.opened.wait_for(guard, std::chrono::nanoseconds(timeout), open);
        if (s.opened.wait_for(guard, std::chrono::seconds(PATIENCE), open)) return true;
        violate(function, "waited for a gate that nobody opens");
        return false;
    }

    // Calls the host functions that are reached; the lock is given up meanwhile.
    static void call_host(std::unique_lock<std::mutex>& guard) {
        State& s = state();
        for (size_t i = 0; i < s.host_calls.size();) {
            if (is_blocked(s.host_calls[i].after.gates)) {
                i++;
                continue;
            }
            HostCall call = s.host_calls[i];
            s.host_calls.erase(s.host_calls.begin() + i);
            guard.unlock();
            call.function(call.data);
            guard.lock();
            i = 0;
        }
    }

    template <class T> static uintptr_t word(T value) {
        if constexpr (std::is_pointer_v<T> || std::is_integral_v<T>) return (uintptr_t) value;
        else return 0;
    }

    template <int function, class... A> struct Wrapper {
        static inline Result (*original)(A...) = nullptr;

        static constexpr int n = sizeof...(A);
        static constexpr bool is_replay = function == CALL_CommandListImmediateAppendCommandListsExp;
        static constexpr bool is_append = begins(function, "CommandListAppend") || is_replay;
        static constexpr bool is_of_list = is_append || function == CALL_CommandListHostSynchronize
            || function == CALL_CommandListDestroy || function == CALL_CommandListClose;
        static constexpr bool is_of_kernel = begins(function, "KernelSet") || function == CALL_KernelDestroy;
        static constexpr bool is_launch = begins(function, "CommandListAppendLaunch");
        static constexpr bool is_copy = function == CALL_CommandListAppendMemoryCopy;
        static constexpr bool is_fill = function == CALL_CommandListAppendMemoryFill;
        static constexpr bool is_marker = function == CALL_CommandListAppendSignalEvent;
        static constexpr bool is_barrier = function == CALL_CommandListAppendWaitOnEvents;
        static constexpr bool has_waits = is_append && !is_marker;
        static constexpr bool signals = is_append && !is_barrier;
        static constexpr bool is_of_event = begins(function, "EventHost") || begins(function, "EventQuery")
            || function == CALL_EventDestroy;
        static constexpr bool is_end = begins(function, "MemFree") || names[function].find("Destroy") != names[0].npos;
        typedef std::tuple<A...> Arguments;

        static void *signal_of(const Arguments& all) {
            if constexpr (is_marker) return std::get<1>(all);
            else if constexpr (signals) return (void *) std::get<n - 3>(all);
            else return nullptr;
        }

        static void **waits_of(const Arguments& all, uint32_t *count) {
            *count = 0;
            if constexpr (has_waits) {
                *count = std::get<n - 2>(all);
                return std::get<n - 1>(all);
            }
            return nullptr;
        }

        // What is wrong whatever the driver says. The arguments are noted first: the driver may change them.
        static void check(const Arguments& all) {
            State& s = state();
            void *first = (void *) std::get<0>(all);
            uint32_t count = 0;
            (void) s;
            if constexpr (is_append) {
                List& list = list_of(first);
                void **waits = waits_of(all, &count);
                for (uint32_t i = 0; i < count; i++) check_wait(function, list, event_of(waits[i]));
                if (void *signal = signal_of(all)) check_signal(function, list, event_of(signal));
                if constexpr (is_copy || is_fill)
                    check_memory(function, list, std::get<1>(all), std::get<is_fill ? 4 : 3>(all));
                if constexpr (is_copy) check_memory(function, list, std::get<2>(all), std::get<3>(all));
                if constexpr (is_launch)
                    for (auto& argument : s.kernels[std::get<1>(all)].memory)
                        if (!memory_at(argument.second))
                            violate(function, "argument " + std::to_string(argument.first) + " was freed");
                if (list.recorded && (list.closed || is_replay))
                    violate(function, text_of(list) + " is closed, or none to run anything at once");
                if constexpr (is_replay) {
                    for (uint32_t i = 0; i < std::get<1>(all); i++) {
                        List& recorded = list_of(std::get<2>(all)[i]);
                        check_life(std::get<2>(all)[i]);
                        if (!recorded.closed) violate(function, text_of(recorded) + " is not closed");
                        if (recorded.device != list.device)
                            violate(function, text_of(recorded) + " is of another device");
                        for (uintptr_t address : recorded.addresses)
                            if (!memory_at(address))
                                violate(function, text_of(recorded) + " uses memory that was freed");
                        for (void *kernel : recorded.kernels) check_life(kernel);
                    }
                }
            }
            if constexpr (function == CALL_CommandListDestroy) check_list_end(function, list_of(first));
            if constexpr (function == CALL_EventHostSynchronize || begins(function, "EventQuery")) {
                Event& event = event_of(first);
                check_host_use(function, event);
                if (event.known && event.counter_based && !event.ever)
                    violate(function, "the event was never signalled, which reads as done");
                if (function == CALL_EventQueryKernelTimestamp && event.known && !event.timestamps)
                    violate(function, "the event has no timestamps");
            }
            if constexpr (function == CALL_EventHostSignal || function == CALL_EventHostReset) {
                Event& event = event_of(first);
                if (event.known && event.counter_based) violate(function, "the host cannot do this with such an event");
                if (event.known && !event.visible) violate(function, "the event is not visible to the host");
                if (function == CALL_EventHostReset) check_unused(function, event);
            }
            if constexpr (function == CALL_EventDestroy) check_unused(function, event_of(first));
            if constexpr (function == CALL_EventPoolDestroy) {
                if (s.pools.count(first) && s.pools[first].events) violate(function, "it has events");
            }
            if constexpr (function == CALL_KernelDestroy) {
                if (!is_done(s.kernels[first].used)) violate(function, "launches of it are not known to be done");
            }
            if constexpr (function == CALL_ModuleDestroy) {
                Module& module = s.modules[first];
                if (module.kernels) violate(function, "it has kernels");
                if (!is_done(module.used)) violate(function, "launches of its kernels are not known to be done");
            }
            if constexpr (function == CALL_MemFree) {
                Memory *memory = memory_at((uintptr_t) std::get<1>(all));
                AllocProperties properties;
                void *device = nullptr;
                Result result = real.MemGetAllocProperties(first, std::get<1>(all), &properties, &device);
                if (result || properties.type == 0) violate(function, "it is not allocated");
                if (memory && !is_done(memory->used)) violate(function, "what uses it is not known to be done");
            }
            if constexpr (function == CALL_ContextDestroy) {
                if (s.contexts.count(first) && s.contexts[first])
                    violate(function, "it has " + std::to_string(s.contexts[first]) + " objects");
            }
        }

        // By a command of the list, or by whichever runs what is recorded in it.
        static void use(List& list, const void *address) {
            if (list.recorded) {
                if (memory_at((uintptr_t) address)) list.addresses.insert((uintptr_t) address);
            } else {
                use_memory(address, list.number, list.position);
            }
        }

        static void use_kernel(List& list, void *handle) {
            State& s = state();
            if (list.recorded) {
                list.kernels.insert(handle);
                return;
            }
            Kernel& kernel = s.kernels[handle];
            raise(kernel.used, list.number, list.position);
            auto module = s.modules.find(kernel.module);
            if (module != s.modules.end()) raise(module->second.used, list.number, list.position);
        }

        // What a call that succeeded has changed.
        static void follow(const Arguments& all, const std::vector<void *>& waits, Call& seen) {
            State& s = state();
            void *first = (void *) std::get<0>(all);
            (void) s;
            if constexpr (is_append) {
                List& list = list_of(first);
                void *signal = signal_of(all);
                bool is_work = !is_marker;
                if constexpr (is_marker) is_work = !event_of(signal).counter_based;
                if constexpr (is_barrier) is_work = !waits.empty();
                if (is_work && !list.recorded) list.position++;
                for (void *each : waits) waited(list, event_of(each), list.position);
                if (signal) {
                    Event& event = event_of(signal);
                    signalled(list, event);
                    seen.event = new_serial(event);
                    if (is_marker) seen.detail = (event.signal & SCOPE_HOST) != 0;
                }
                if constexpr (is_copy || is_fill) use(list, std::get<1>(all));
                if constexpr (is_copy) use(list, std::get<2>(all));
                if constexpr (is_launch) {
                    use_kernel(list, std::get<1>(all));
                    for (auto& argument : s.kernels[std::get<1>(all)].memory) use(list, (void *) argument.second);
                }
                if constexpr (is_replay) {
                    for (uint32_t i = 0; i < std::get<1>(all); i++) {
                        List& recorded = list_of(std::get<2>(all)[i]);
                        raise(recorded.used, list.number, list.position);
                        for (uintptr_t address : recorded.addresses) use(list, (void *) address);
                        for (void *kernel : recorded.kernels) use_kernel(list, kernel);
                    }
                }
                if constexpr (function == CALL_CommandListAppendHostFunction)
                    if (s.emulating) s.host_calls.push_back({list.after, std::get<1>(all), std::get<2>(all)});
            }
            if constexpr (function == CALL_CommandListClose) list_of(first).closed = true;
            if constexpr (function == CALL_CommandListHostSynchronize) told(clock_of(list_of(first)));
            if constexpr (function == CALL_EventHostSynchronize || function == CALL_EventQueryStatus) {
                Event& event = event_of(first);
                if (event.point) told(event.point->clock);
            }
            if constexpr (function == CALL_EventHostSignal) {
                Event& event = event_of(first);
                if (!event.signalled) {
                    event.signalled = event.ever = true;
                    event.list = 0;
                    event.point = nullptr;
                    s.closed.erase(event.serial);
                }
                s.opened.notify_all();
            }
            if constexpr (function == CALL_EventHostReset) {
                Event& event = event_of(first);
                event.signalled = false;
                event.list = 0;
                event.point = nullptr;
                event.waiters.clear();
                s.closed.erase(event.serial);
                seen.event = new_serial(event);
                s.closed.insert(event.serial);
            }
            if constexpr (function == CALL_KernelSetArgumentValue) {
                uintptr_t value = 0;
                Kernel& kernel = s.kernels[first];
                kernel.memory.erase(std::get<1>(all));
                if (std::get<2>(all) == sizeof value && std::get<3>(all)) {
                    std::memcpy(&value, std::get<3>(all), sizeof value);
                    if (memory_at(value)) kernel.memory[std::get<1>(all)] = value;
                }
            }
            made(all, seen);
        }

        static void made(const Arguments& all, Call& seen) {
            State& s = state();
            if constexpr (names[function].find("Create") != names[0].npos) {
                s.ended.erase((void *) *std::get<function == CALL_ModuleCreate ? n - 2 : n - 1>(all));
                if constexpr (function == CALL_ModuleCreate) s.ended.erase(*std::get<n - 1>(all));
            }
            void *first = (void *) std::get<0>(all);
            (void) s;
            (void) first;
            if constexpr (function == CALL_ContextCreate) s.contexts[*std::get<2>(all)] = 0;
            if constexpr (function == CALL_CommandListCreateImmediate || function == CALL_CommandListCreate) {
                s.lists.erase(*std::get<3>(all));
                List& list = list_of(*std::get<3>(all));
                list.context = first;
                list.device = std::get<1>(all);
                list.recorded = function == CALL_CommandListCreate;
                s.contexts[first]++;
                seen.detail = list.number;
            }
            if constexpr (function == CALL_KernelCreate) {
                s.kernels[*std::get<2>(all)] = {first, {}, {}, {}};
                s.modules[first].kernels++;
            }
            if constexpr (function == CALL_ModuleCreate) {
                s.modules[*std::get<3>(all)] = {first, {}, 0};
                s.contexts[first]++;
            }
            if constexpr (function == CALL_EventCounterBasedCreate) {
                Event event;
                const CounterDesc *desc = std::get<2>(all);
                event.context = first;
                event.device = std::get<1>(all);
                event.counter_based = event.known = true;
                event.for_immediate = desc->flags & COUNTER_IMMEDIATE;
                event.visible = desc->flags & COUNTER_HOST_VISIBLE;
                event.timestamps = desc->flags & COUNTER_TIMESTAMPS;
                event.signal = desc->signal;
                event.wait = desc->wait;
                seen.event = new_serial(event);
                s.events[*std::get<3>(all)] = event;
                s.contexts[first]++;
            }
            if constexpr (function == CALL_EventPoolCreate) {
                const EventPoolDesc *desc = std::get<1>(all);
                const CounterPoolDesc *next = (const CounterPoolDesc *) desc->next;
                s.pools[*std::get<4>(all)] = {first, desc->flags, next && next->stype == COUNTER_POOL, 0};
                s.contexts[first]++;
            }
            if constexpr (function == CALL_EventCreate) {
                Event event;
                const EventDesc *desc = std::get<1>(all);
                auto pool = s.pools.find(first);
                event.pool = first;
                event.signal = desc->signal;
                event.wait = desc->wait;
                if (pool != s.pools.end()) {
                    event.known = true;
                    event.context = pool->second.context;
                    event.counter_based = event.for_immediate = pool->second.counter_based;
                    event.visible = pool->second.flags & POOL_HOST_VISIBLE;
                    event.timestamps = pool->second.flags & POOL_TIMESTAMPS;
                    pool->second.events++;
                    s.contexts[event.context]++;
                }
                seen.event = new_serial(event);
                if (!event.counter_based) s.closed.insert(event.serial);
                s.events[*std::get<2>(all)] = event;
            }
            if constexpr (begins(function, "MemAlloc")) {
                size_t nbytes = std::get<function == CALL_MemAllocShared ? 3 : 2>(all);
                s.memory[(uintptr_t) *std::get<n - 1>(all)] = {first, nbytes, {}};
                s.contexts[first]++;
            }
        }

        template <class Objects> static void forget(Objects& objects, typename Objects::key_type handle) {
            State& s = state();
            auto found = objects.find(handle);
            if (found == objects.end()) return;
            auto context = s.contexts.find(found->second.context);
            if (context != s.contexts.end()) context->second--;
            objects.erase(found);
        }

        // What a call is about to end, whatever it returns.
        static void ended(const Arguments& all) {
            State& s = state();
            void *first = (void *) std::get<0>(all);
            if constexpr (function != CALL_MemFree) s.ended.insert(first);
            if constexpr (function == CALL_CommandListDestroy) {
                uint32_t number = list_of(first).number;
                s.done[number] = FOREVER;  // told once, it is not told again for each of its objects
                s.numbers.erase(number);
                forget(s.lists, first);
            }
            if constexpr (function == CALL_EventDestroy) {
                auto pool = s.pools.find(event_of(first).pool);
                if (pool != s.pools.end()) pool->second.events--;
                s.closed.erase(event_of(first).serial);
                s.opened.notify_all();
                forget(s.events, first);
            }
            if constexpr (function == CALL_EventPoolDestroy) forget(s.pools, first);
            if constexpr (function == CALL_KernelDestroy) {
                auto module = s.modules.find(s.kernels[first].module);
                if (module != s.modules.end()) module->second.kernels--;
                s.kernels.erase(first);
            }
            if constexpr (function == CALL_ModuleDestroy) forget(s.modules, first);
            if constexpr (function == CALL_MemFree) forget(s.memory, (uintptr_t) std::get<1>(all));
            if constexpr (function == CALL_ContextDestroy) s.contexts.erase(first);
            if constexpr (function == CALL_ModuleBuildLogDestroy) s.logs.erase(first);
        }

        static void check_life(void *handle) {
            if (handle && state().ended.count(handle)) violate(function, "what it is given was destroyed");
        }

        // Answers for hardware that executes nothing. True: the driver is not asked.
        static bool emulate(const Arguments& all, std::unique_lock<std::mutex>& guard, Result& result) {
            if (!state().emulating) return false;
            void *first = (void *) std::get<0>(all);
            if constexpr (function == CALL_CommandListHostSynchronize) {
                auto gates = [&] { return list_of(first).after.gates; };
                if (await(guard, function, std::get<1>(all), gates)) return false;
                result = NOT_READY;
                return true;
            }
            if constexpr (function == CALL_EventQueryKernelTimestamp) {
                *std::get<1>(all) = {};
                result = is_blocked(gates_of(event_of(first))) ? NOT_READY : SUCCESS;
                return true;
            }
            if constexpr (function == CALL_EventHostSynchronize || function == CALL_EventQueryStatus) {
                uint64_t timeout = 0;
                if constexpr (function == CALL_EventHostSynchronize) timeout = std::get<1>(all);
                auto gates = [&] { return gates_of(event_of(first)); };
                bool open = await(guard, function, timeout, gates);
                if (!event_of(first).known) return false;
                if (open) std::apply(original, all);  // whose answer, from memory that nothing changes, is often wrong
                result = open ? SUCCESS : NOT_READY;
                return true;
            }
            return false;
        }

        static Result call(A... args) {
            State& s = state();
            Arguments all(args...);
            void *first = (void *) std::get<0>(all);
            std::vector<void *> waits;
            Call seen;
            Result result = 0;
            uint64_t slow = 0;
            bool answered;
            seen.function = function;
            std::unique_lock<std::mutex> guard(s.lock);
            seen.object = (uintptr_t) first;
            if constexpr (is_of_list) {
                List& list = list_of(first);
                seen.object = list.number;
                enter(function, list.inside, "list");
            }
            if constexpr (is_of_kernel) enter(function, s.kernels[first].inside, "kernel");
            if constexpr (is_launch) {
                seen.kernel = word(std::get<1>(all));
                enter(function, s.kernels[std::get<1>(all)].inside, "kernel");
            }
            if constexpr (begins(function, "KernelSetArgument")) seen.detail = std::get<1>(all);
            uint32_t count = 0;
            if (void **events = waits_of(all, &count)) waits.assign(events, events + count);
            for (void *each : waits) seen.waits.push_back(event_of(each).serial);
            if constexpr (is_of_event) seen.event = event_of(first).serial;
            if constexpr (function == CALL_EventHostSynchronize) seen.waits.push_back(seen.event);
            for (void *each : waits) check_life(each);
            check_life(first);
            if constexpr (signals) check_life(signal_of(all));
            if constexpr (is_launch) check_life(std::get<1>(all));
            seen.injected = fails(function, result);
            if (!seen.injected || is_end) check(all);
            // Before the driver is called: another thread may make an object with this handle at once.
            if constexpr (is_end) ended(all);
            auto delay = s.slow.find(function);
            if (delay != s.slow.end()) slow = delay->second;
            answered = (seen.injected && !is_end) || emulate(all, guard, result);
            guard.unlock();
            if (slow) std::this_thread::sleep_for(std::chrono::microseconds(slow));
            if (!answered) {
                Result said = original(args...);
                if (!seen.injected) result = said;
            }
            guard.lock();
            seen.status = result;
            if (function == CALL_EventQueryStatus) seen.detail = result;
            if constexpr (is_of_list && !is_end) list_of(first).inside.depth--;
            if constexpr (is_of_kernel && !is_end) s.kernels[first].inside.depth--;
            if constexpr (is_launch) s.kernels[std::get<1>(all)].inside.depth--;
            if constexpr (function == CALL_ModuleCreate)
                if (!answered && *std::get<4>(all)) s.logs[*std::get<4>(all)] = 1;
            if (result == SUCCESS && !is_end) follow(all, waits, seen);
            if (s.recording) s.log.push_back(std::move(seen));
            if constexpr (is_append || function == CALL_EventHostSignal) call_host(guard);
            return result;
        }
    };

    template <int function, class... A> static void wrap(Result (*&slot)(A...)) {
        using W = Wrapper<function, A...>;
        if (!slot) return;  // a loader that does not have it
        W::original = slot;
        slot = W::call;
    }

    template <int function, class... A> static void unwrap(Result (*&slot)(A...)) {
        if (slot) slot = Wrapper<function, A...>::original;
    }

    static void install(Calls& table, bool emulating) {
        State& s = state();
        std::lock_guard<std::mutex> guard(s.lock);
        real = table;
        s.emulating = emulating;
        s.newest_list = 0;
        s.lists.clear();
        s.events.clear();
        s.pools.clear();
        s.kernels.clear();
        s.modules.clear();
        s.memory.clear();
        s.contexts.clear();
        s.logs.clear();
        s.numbers.clear();
        s.ended.clear();
        s.done.clear();
        s.closed.clear();
        s.host_calls.clear();
        s.violations.clear();
        s.slow.clear();
        s.failures.clear();
    #define X(name, parameters) wrap<CALL_##name>(table.name);
        PENSTOCK_ZE(X)
    #undef X
    }

    static void uninstall(Calls& table) {
    #define X(name, parameters) unwrap<CALL_##name>(table.name);
        PENSTOCK_ZE(X)
    #undef X
    }

    static void record(bool on) {
        State& s = state();
        std::lock_guard<std::mutex> guard(s.lock);
        s.recording = on;
        if (on) {
            s.log.clear();
            s.first_serial = s.newest_serial;
        }
        s.failures.clear();
        s.slow.clear();
    }

    static size_t size() {
        std::lock_guard<std::mutex> guard(state().lock);
        return state().log.size();
    }

    static std::vector<Call> tail(size_t start) {
        State& s = state();
        std::lock_guard<std::mutex> guard(s.lock);
        if (start > s.log.size()) start = s.log.size();
        return std::vector<Call>(s.log.begin() + start, s.log.end());
    }

    static void fail(int function, Result code, uint64_t after) {
        std::lock_guard<std::mutex> guard(state().lock);
        state().failures.push_back({function, code, after});
    }

    static void forgive() {
        std::lock_guard<std::mutex> guard(state().lock);
        state().failures.clear();
    }

    static void slow_down(int function, uint64_t microseconds) {
        std::lock_guard<std::mutex> guard(state().lock);
        state().slow[function] = microseconds;
    }

    static std::vector<std::string> take_violations() {
        std::lock_guard<std::mutex> guard(state().lock);
        std::vector<std::string> found;
        found.swap(state().violations);
        return found;
    }

    // Of all events but these, which nobody uses now, since recording began.
    static std::vector<int64_t> serials(const std::vector<void *>& idle) {
        State& s = state();
        std::lock_guard<std::mutex> guard(s.lock);
        std::set<void *> unused(idle.begin(), idle.end());
        std::vector<int64_t> found;
        for (auto& entry : s.events)
            if (entry.second.serial > s.first_serial && !unused.count(entry.first))
                found.push_back(entry.second.serial);
        return found;
    }

    static std::vector<size_t> alive() {
        State& s = state();
        std::lock_guard<std::mutex> guard(s.lock);
        return {s.contexts.size(), s.lists.size(), s.events.size(), s.pools.size(), s.modules.size(), s.kernels.size(),
                s.memory.size(), s.logs.size()};
    }

    static uint32_t number_of(void *list) {
        std::lock_guard<std::mutex> guard(state().lock);
        return list_of(list).number;
    }

    }
    """
    cdef cppclass Seen "penstock_ze_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected

    void install "penstock_ze_observer::install"(Calls& table, cbool emulating) nogil
    void uninstall "penstock_ze_observer::uninstall"(Calls& table) nogil
    void record "penstock_ze_observer::record"(cbool on) nogil
    size_t log_size "penstock_ze_observer::size"() nogil
    vector[Seen] log_tail "penstock_ze_observer::tail"(size_t start) nogil
    void add_failure "penstock_ze_observer::fail"(int function, unsigned int code, uint64_t after) nogil
    void drop_failures "penstock_ze_observer::forgive"() nogil
    void slow_down "penstock_ze_observer::slow_down"(int function, uint64_t microseconds) nogil
    vector[string] take_violations "penstock_ze_observer::take_violations"() nogil
    vector[int64_t] event_serials "penstock_ze_observer::serials"(const vector[void*]& idle) nogil
    vector[size_t] objects_alive "penstock_ze_observer::alive"() nogil
    unsigned int number_of_list "penstock_ze_observer::number_of"(void* list) nogil


NAMES = calls.CALL_NAMES

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver.
KINDS = {
    "zeCommandListAppendSignalEvent": "marker",
    "zeCommandListImmediateAppendCommandListsExp": "command",
    "zeCommandListAppendWaitOnEvents": "barrier",
    "zeCommandListHostSynchronize": "finish",
    "zeEventHostSynchronize": "wait",
    "zeEventQueryStatus": "query",
    "zeEventCreate": "gate",  # of those that a command signals nobody waits for this serial
    "zeEventHostReset": "gate",
    "zeEventHostSignal": "open",
    "zeKernelSetArgumentValue": "argument",
    "zeMemAllocDevice": "allocate",
    "zeMemAllocHost": "allocate",
    "zeMemAllocShared": "allocate",
}
# And which call does it, where only one does.
LAUNCH = "zeCommandListAppendLaunchKernel"
UPLOAD = DOWNLOAD = "zeCommandListAppendMemoryCopy"
FILL = "zeCommandListAppendMemoryFill"
MARKER = "zeCommandListAppendSignalEvent"
BARRIER = "zeCommandListAppendWaitOnEvents"
HOLD = "zeCommandListAppendWaitOnEvents"  # what a gate holds the queue with
HOST_FUNCTION = "zeCommandListAppendHostFunction"
ARGUMENT = "zeKernelSetArgumentValue"
REPLAY = "zeCommandListImmediateAppendCommandListsExp"  # of a graph
FINISH = "zeCommandListHostSynchronize"
WAIT = "zeEventHostSynchronize"
QUERY = "zeEventQueryStatus"
GATE = ("zeEventHostReset", "zeEventPoolCreate")  # an old one, or a new one
FLUSH = None  # there is none
OPEN = "zeEventHostSignal"
NEW_QUEUE = "zeCommandListCreateImmediate"
RELEASE_QUEUE = "zeCommandListDestroy"
GATE_MARKERS = 1  # that a gate makes for itself, to know when it may be used again
POLLS = True  # whether the driver says of a queue that it is done, without a marker
DONE = 0  # the status of an event that is done
FAILURE = 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"  # one that any call may have
EVENT_FAILURE = FAILURE[1]  # what it is called when asking for an event fails
OUT_OF_MEMORY = 0x70000003
OBJECTS = ("contexts", "lists", "events", "pools", "modules", "kernels", "memory", "logs")

cdef cbool watching = False
cdef cbool recording = False


def kind_of(name):
    """What a call does, in the words of KINDS; "command" for other commands and "other" for the rest."""
    return KINDS.get(name, "command" if name.startswith("zeCommandListAppend") else "other")


def watch(emulate=False):
    """Follow objects and find violations from here on, without recording calls; once, before what is to be known.

    Parameters
    ----------
    emulate : bool
        Answer for hardware that executes nothing.
    """
    global watching
    cdef cbool emulating = emulate
    if watching:
        raise RuntimeError("the driver's calls are being watched already")
    calls.load(loader.load().library)
    install(ze, emulating)
    watching = True


def unwatch():
    """Restore the driver's own functions."""
    global watching
    if watching:
        uninstall(ze)
        watching = False


def is_watching():
    """Whether violations are looked for."""
    return watching


cdef cbool watched_to_record = False


def start():
    """Begin to record, with an empty log and no failures planned; watches too."""
    global recording, watched_to_record
    if recording:
        raise RuntimeError("the driver's calls are being observed already")
    if not watching:
        watch()
        watched_to_record = True
    record(True)
    recording = True


def stop():
    """End what `start` began; the log stays until the next start."""
    global recording, watched_to_record
    if not recording:
        return
    record(False)
    recording = False
    if watched_to_record:
        unwatch()
        watched_to_record = False


def count():
    """How many calls were recorded."""
    return log_size()


def read(size_t first):
    """The calls from the one with this index on, as tuples.

    (name, object, kernel, serials of the events waited for, serial of the event made or meant, detail, status,
    injected). A list is known by a number that is not used again, and a serial is that of one signal of an event.
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


def fail(name, unsigned int code, uint64_t after):
    """Let a later call of this name, after so many others of it, return the code without reaching the driver.

    What ends an object ends it all the same.
    """
    if name not in NAMES:
        raise ValueError(f"no call is named {name!r}")
    add_failure(NAMES.index(name), code, after)


def forgive():
    """No call fails any more that `fail` said it should."""
    drop_failures()


def slow(name, uint64_t microseconds):
    """Let each call of this name take that much longer, so that others meet it."""
    slow_down(NAMES.index(name), microseconds)


def violations():
    """What was done wrong since this was last asked, as texts."""
    return [text.decode() for text in take_violations()]


def events_alive(device):
    """The serials of events in use: of signals since `start`, and of events not waiting to be used again."""
    cdef vector[void*] idle
    cdef DeviceState* known = <DeviceState*> <uintptr_t> device.driver.context_handle
    cdef size_t i
    cdef int kind
    known.lock.lock()
    for kind in range(EVENT_KINDS):
        for i in range(known.idle[kind].size()):
            idle.push_back(known.idle[kind][i].handle)
    known.lock.unlock()
    return sorted(event_serials(idle))


def alive():
    """How many objects of each kind were made while watched and not destroyed."""
    return dict(zip(OBJECTS, objects_alive()))


def handle_of(Queue queue not None):
    """What `read` knows the list of a queue by."""
    return number_of_list((<QueueState*> queue.state.handle).list)


def pointer(name):
    """The address in the table of calls, now: for tests that call a function wrongly on purpose."""
    cdef void** entries = <void**> &ze
    return <uintptr_t> entries[NAMES.index(name)]
