// What only Level Zero's calls need: follows its objects, the rules for using them, and the order of what is submitted.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "queues/levelzero/calls.hpp"
#include "tests/observers/recorder.hpp"

namespace forebay_observer::levelzero {

using namespace forebay_ze;

// What sizeof and offsetof give in C for the specification's header.
static_assert(sizeof(DriverProperties) == 40 && sizeof(ExtensionProperties) == 260);
static_assert(sizeof(DeviceProperties) == 368 && sizeof(ComputeProperties) == 88 && sizeof(ModuleProperties) == 64);
static_assert(sizeof(MemoryProperties) == 296 && sizeof(QueueGroupProperties) == 40 && sizeof(IpVersion) == 24);
static_assert(sizeof(ContextDesc) == 24 && sizeof(QueueDesc) == 40 && sizeof(ListDesc) == 24);
static_assert(sizeof(CounterDesc) == 32 && sizeof(ModuleDesc) == 56 && sizeof(KernelDesc) == 32);
static_assert(offsetof(QueueDesc, flags) == 24 && offsetof(ListDesc, flags) == 20 && offsetof(CounterDesc, wait) == 24);
static_assert(offsetof(ModuleDesc, input) == 32 && offsetof(KernelDesc, name) == 24);

constexpr Result SUCCESS = 0, NOT_READY = 1;
constexpr uint32_t SCOPE_DEVICE = 2, SCOPE_HOST = 4, POOL_HOST_VISIBLE = 1, POOL_TIMESTAMPS = 4,
    COUNTER_IMMEDIATE = 1, COUNTER_HOST_VISIBLE = 4, COUNTER_TIMESTAMPS = 16 | 32;
constexpr uint64_t FOREVER = UINT64_MAX, PATIENCE = 5;  // seconds until a wait for a closed gate is given up
constexpr uintptr_t GONE = 1;                           // where no memory is

struct AllocProperties {
    uint32_t stype = 0x17; void *next = nullptr; uint32_t type = 0; uint64_t id = 0, page_size = 0;
};
typedef Result (*GetAllocProperties)(void *context, const void *address, AllocProperties *properties, void **device);

typedef std::map<uint32_t, uint64_t> Clock;         // positions by the numbers of lists
typedef std::map<uint32_t, uintptr_t> MemoryUsed;  // by argument

struct Point {  // once it is reached, these are done and these gates are open
    Clock clock;
    std::set<int64_t> gates;
};

struct Inside {  // the thread that is in a driver call with an object that only one thread may use
    std::thread::id thread;
    const char *call = nullptr;
    int depth = 0;
};

enum Kind { CONTEXT, LIST, EVENT, POOL, MODULE, KERNEL, MEMORY, LOG, N_KINDS };

struct Object {  // that was made while watched
    Kind kind;
    void *parent;
    int children = 0;
};

struct List {
    uint32_t number = 0;
    void *context = nullptr, *device = nullptr;
    uint64_t position = 0;  // commands so far
    Point after;            // what its next command comes after, itself excepted
    Clock waiters;          // where other lists wait for signals of this one
    uint64_t behind = 0;    // commands behind a closed gate
    Inside inside;
    // Of one that is appended to others, as a whole: what it uses, and where.
    bool recorded = false, closed = false, changeable = false;
    std::set<void *> kernels;
    std::set<uintptr_t> addresses;
    std::map<uint64_t, MemoryUsed> named;  // by launches that can be changed
    uint64_t next_name = UINT64_MAX;       // of the launch that comes next; UINT64_MAX for none
    Clock used;
};

struct Event {
    bool counter_based = false, for_immediate = false, visible = false, timestamps = false, known = false;
    uint32_t signal = 0, wait = 0;
    int64_t serial = 0;            // of the newest signal, or of the one that the host will make
    bool ever = false;             // was it ever signalled?
    bool signalled = false;        // a plain one: since it was reset
    uint32_t list = 0;             // that signals it; 0: the host
    std::shared_ptr<Point> point;  // what its signal stands for
    Clock waiters;                 // of a plain one: where lists wait for it
};

struct Pool { uint32_t flags; bool counter_based; };
struct Kernel { Clock used; MemoryUsed memory; Inside inside; };
struct Memory { size_t nbytes; Clock used; };
struct HostCall { Point after; void (*function)(void *); void *data; };

struct Objects {
    std::unordered_map<void *, Object> objects;
    std::unordered_map<void *, List> lists;
    std::unordered_map<void *, Event> events;
    std::unordered_map<void *, Pool> pools;
    std::unordered_map<void *, Kernel> kernels;
    std::map<uintptr_t, Memory> memory;
    std::unordered_map<uint32_t, void *> numbers;
    uint32_t newest_list = 0;
    std::set<void *> ended;    // handles of what is gone, until they come again
    Clock done;                // what the host was told
    std::set<int64_t> closed;  // gates
    std::vector<HostCall> host_calls;
};

template <class F> struct Rules;  // of a function

// The record identifies a list by its number. A serial identifies one signal of an event. The detail of a signal tells
// whether it is for the host; for other calls it is the status or an index.
struct LevelZero : Record, Objects {
    typedef Result Status;
    static constexpr std::string_view QUEUE = "list";
    static constexpr int ONLY_WAITS = CALL_CommandListAppendWaitOnEvents;
    static constexpr bool HAS_DETAIL = false;

    FOREBAY_RECORDED(LevelZero, FOREBAY_ZE)

    std::condition_variable opened;
    bool recording = false, emulating = false, reports_refused = false;
    uint64_t room = UINT64_MAX;  // commands behind a closed gate that fill a list; the next blocks
    int blocked = 0;             // threads that wait for room
    GetAllocProperties properties_of = nullptr;
    int64_t first_serial = 0;  // when recording began

    void clear() override {  // what was violated before stays
        log.clear();
        failures.clear();
        first_serial = newest_serial;
        one_in = drop_one_in = 0;
    }

    uintptr_t object_of(uintptr_t list);
    int64_t serial_of(uintptr_t event);

    template <class F, class All> bool before(All& all, Call& seen, bool is_without, Guard& guard, Result& result) {
        return Rules<F>::before(all, seen, is_without, guard, result);
    }

    template <class F, class All> void after(All& all, Call& seen, bool is_asked, Guard& guard, Result& result) {
        Rules<F>::after(all, seen, is_asked, guard, result);
    }
};

static LevelZero& state() { return only<LevelZero>(); }

static thread_local const char *current = "";  // the call that this thread is in

static void violate(const std::string& text) { state().violate("ze" + std::string(current) + ": " + text); }

// -- objects

static void add(void *handle, Kind kind, void *parent) {
    LevelZero& s = state();
    s.ended.erase(handle);
    s.objects[handle] = {kind, parent};
    auto found = s.objects.find(parent);
    if (found != s.objects.end()) found->second.children++;
}

static void remove(void *handle) {
    LevelZero& s = state();
    auto found = s.objects.find(handle);
    if (found == s.objects.end()) return;
    auto parent = s.objects.find(found->second.parent);
    if (parent != s.objects.end()) parent->second.children--;
    s.objects.erase(found);
}

static List& list_of(void *handle) {
    LevelZero& s = state();
    List& list = s.lists[handle];
    if (!list.number) {
        list.number = ++s.newest_list;
        s.numbers[list.number] = handle;
    }
    return list;
}

uintptr_t LevelZero::object_of(uintptr_t list) { return list_of((void *) list).number; }

static std::string text_of(const List& list) { return "list " + std::to_string(list.number); }

static int64_t new_serial(Event& event) { return event.serial = ++state().newest_serial; }

static Event& event_of(void *handle) {
    Event& event = state().events[handle];
    if (!event.serial) new_serial(event);  // made before: nothing is known of it
    return event;
}

int64_t LevelZero::serial_of(uintptr_t event) { return event_of((void *) event).serial; }

static std::set<uintptr_t> addresses_of(const List& recorded) {
    std::set<uintptr_t> all = recorded.addresses;
    for (auto& launch : recorded.named)
        for (auto& argument : launch.second) all.insert(argument.second);
    return all;
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

// An address of the allocation is not one of its successor there.
static void end_addresses(uintptr_t base) {
    LevelZero& s = state();
    auto found = s.memory.find(base);
    if (found == s.memory.end()) return;
    size_t nbytes = found->second.nbytes;
    auto end = [&](MemoryUsed& used) {
        for (auto& argument : used)
            if (argument.second - base < nbytes) argument.second = GONE;
    };
    for (auto& kernel : s.kernels) end(kernel.second.memory);
    for (auto& list : s.lists) {
        for (auto& launch : list.second.named) end(launch.second);
        auto& addresses = list.second.addresses;
        auto first = addresses.lower_bound(base), last = addresses.lower_bound(base + nbytes);
        if (first == last) continue;
        addresses.erase(first, last);
        addresses.insert(GONE);
    }
    s.memory.erase(found);
}

static bool is_allocated(void *context, const void *address) {
    AllocProperties properties;
    void *device = nullptr;
    return state().properties_of(context, address, &properties, &device) == SUCCESS && properties.type != 0;
}

// -- order

static bool is_done(const Clock& clock) {
    Clock& done = state().done;
    return std::all_of(clock.begin(), clock.end(), [&](auto& entry) {
        auto known = done.find(entry.first);
        return !entry.second || (known != done.end() && known->second >= entry.second);
    });
}

static void raise(Clock& clock, uint32_t list, uint64_t position) {
    uint64_t& entry = clock[list];
    entry = std::max(entry, position);
}

static void told(const Clock& clock) {
    for (auto& entry : clock) raise(state().done, entry.first, entry.second);
}

static bool is_blocked(const std::set<int64_t>& gates) {
    LevelZero& s = state();
    return s.emulating && std::any_of(gates.begin(), gates.end(), [&](int64_t gate) { return s.closed.count(gate); });
}

static void join(Point& into, const Point& other) {
    for (auto& entry : other.clock)
        if (!is_done({entry})) raise(into.clock, entry.first, entry.second);
    for (int64_t gate : other.gates)
        if (state().closed.count(gate)) into.gates.insert(gate);
}

static bool is_closed_gate(const Event& event) { return !event.counter_based && event.known && !event.signalled; }

static std::set<int64_t> gates_of(const Event& event) {
    if (is_closed_gate(event)) return {event.serial};
    return event.point ? event.point->gates : std::set<int64_t>();
}

static void waited(List& list, Event& event) {
    LevelZero& s = state();
    if (is_closed_gate(event)) {
        if (s.emulating) list.after.gates.insert(event.serial);
    } else if (event.point) {
        join(list.after, *event.point);
    }
    auto from = s.numbers.find(event.list);
    if (!event.counter_based) raise(event.waiters, list.number, list.position);
    else if (event.list != list.number && from != s.numbers.end())
        raise(s.lists[from->second].waiters, list.number, list.position);
}

static void signalled(List& list, Event& event) {
    state().closed.erase(event.serial);
    event.ever = event.signalled = true;
    event.list = list.number;
    event.point = std::make_shared<Point>();
    join(*event.point, list.after);
    raise(event.point->clock, list.number, list.position);
}

// The host signals or resets a plain event.
static void set_by_host(Event& event, bool is_signalled) {
    LevelZero& s = state();
    event.signalled = is_signalled;
    event.list = 0;
    event.point = nullptr;
    s.closed.erase(event.serial);
    if (is_signalled) {
        event.ever = true;
    } else {
        event.waiters.clear();
        s.closed.insert(new_serial(event));
    }
}

// -- rules

static void enter(Inside& inside, const std::string& what) {
    std::thread::id self = std::this_thread::get_id();
    if (inside.depth && inside.thread != self)
        violate("while another thread is in ze" + std::string(inside.call) + " with the same " + what);
    inside.thread = self;
    inside.call = current;
    inside.depth++;
}

static void check_life(void *handle) {
    if (handle && state().ended.count(handle)) violate("what it is given was destroyed");
}

static void check_memory(const List& list, const void *address, size_t nbytes) {
    uintptr_t base = 0;
    if (!address || !nbytes || !list.context) return;
    Memory *memory = memory_at((uintptr_t) address, &base);
    if (memory && (uintptr_t) address - base + nbytes > memory->nbytes)
        violate("past the end of an allocation of " + std::to_string(memory->nbytes) + " bytes");
    if (!is_allocated(list.context, address)) violate("an address that is not unified shared memory: pageable");
}

static void check_host_use(const Event& event) {
    if (!event.known) return;
    if (!event.visible) violate("the event is not visible to the host");
    if (!(event.signal & SCOPE_HOST)) violate("the scope of the event's signal does not reach the host");
    if (event.counter_based && !event.ever) violate("the event was never signalled, which reads as done");
}

static void check_wait(List& list, Event& event) {
    LevelZero& s = state();
    if (!event.known) return;
    if (event.counter_based && !event.ever) violate("waits for an event that was never signalled");
    if (event.list == list.number && event.list) return;  // of its own, which is in order anyway
    const std::string waits = text_of(list) + " waits for ";
    auto from = s.numbers.find(event.list);
    if (event.counter_based && event.list && from == s.numbers.end())
        violate(waits + "an event whose list was destroyed");
    if (!(event.signal & (SCOPE_DEVICE | SCOPE_HOST)))
        violate(waits + "an event whose signal does not reach the device");
    if (!(event.wait & (SCOPE_DEVICE | SCOPE_HOST))) violate(waits + "an event whose wait does not reach the device");
    if (is_closed_gate(event) && !(event.wait & SCOPE_HOST))
        violate(waits + "the host by an event whose wait does not reach it");
    void *device = from == s.numbers.end() ? nullptr : s.lists[from->second].device;
    if (device && list.device && device != list.device && !(event.signal & SCOPE_HOST))
        violate(waits + "another device's event whose signal stays on that");
}

static void check_signal(const List& list, const Event& event) {
    if (!event.known) return;
    if (event.counter_based && !event.for_immediate) violate("the event is not for immediate lists");
    if (!event.counter_based && event.signalled) violate(text_of(list) + " signals an event again without a reset");
    if (is_closed_gate(event) && !is_done(event.waiters))
        violate(text_of(list) + " signals an event that others wait for the host to signal");
}

// A plain event must not end or be reset while a list waits for it. A counter-based event may: the list has already
// taken its address and value.
static void check_unused(const Event& event) {
    if (!event.known || event.counter_based) return;
    if (!is_done(event.waiters)) violate("a list may still wait for the event");
    if (event.signalled && event.list && event.point && !is_done(event.point->clock))
        violate("the event's signal is not known to have happened");
}

static void check_list_end(const List& list) {
    if (!is_done(list.used)) violate(text_of(list) + " is not known to have run");
    if (!is_done({{list.number, list.position}}))
        violate(text_of(list) + " has work that is not known to be done: "
                + std::to_string(state().done[list.number]) + " of " + std::to_string(list.position) + " commands");
    for (auto& waiter : list.waiters)
        if (!is_done({waiter}))
            violate(text_of(list) + " signals what list " + std::to_string(waiter.first) + " may still wait for");
}

static void check_replay(const List& list, void *handle) {
    List& recorded = list_of(handle);
    check_life(handle);
    if (!recorded.closed) violate(text_of(recorded) + " is not closed");
    if (recorded.device && list.device && recorded.device != list.device)  // a list from before the watch has none
        violate(text_of(recorded) + " is of another device");
    for (uintptr_t address : addresses_of(recorded))
        if (!memory_at(address)) violate(text_of(recorded) + " uses memory that was freed");
    for (void *kernel : recorded.kernels) check_life(kernel);
}

// -- answers for hardware that executes nothing

// Blocks until the gates are open. Returns false if they still are not when the wait is given up.
template <class Gates> static bool await(Guard& guard, uint64_t timeout, Gates gates) {
    LevelZero& s = state();
    auto open = [&] { return !is_blocked(gates()); };
    if (timeout == 0) return open();
    if (timeout != FOREVER) return s.opened.wait_for(guard, std::chrono::nanoseconds(timeout), open);
    if (s.opened.wait_for(guard, std::chrono::seconds(PATIENCE), open)) return true;
    violate("waited for a gate that is never opened");
    return false;
}

static void wait_for_room(Guard& guard, void *handle) {
    LevelZero& s = state();
    s.blocked++;
    s.opened.wait(guard, [&] { return !is_blocked(list_of(handle).after.gates) || list_of(handle).behind < s.room; });
    s.blocked--;
    List& list = list_of(handle);
    list.behind = is_blocked(list.after.gates) ? list.behind + 1 : 0;
}

// Calls the host functions that are reached. Releases the lock meanwhile.
static void call_host(Guard& guard) {
    LevelZero& s = state();
    auto is_reached = [](const HostCall& call) { return !is_blocked(call.after.gates); };
    for (;;) {
        auto next = std::find_if(s.host_calls.begin(), s.host_calls.end(), is_reached);
        if (next == s.host_calls.end()) return;
        HostCall call = *next;
        s.host_calls.erase(next);
        guard.unlock();
        call.function(call.data);
        guard.lock();
    }
}

// -- calls

// What the events are that this thread's call waits for.
static thread_local std::vector<void *> waits;

template <class F> struct Rules {
    typedef typename F::Arguments Arguments;

    static constexpr int n = F::n, function = F::function;
    static constexpr std::string_view name = F::name;
    static constexpr bool is_replay = function == CALL_CommandListImmediateAppendCommandListsExp;
    static constexpr bool is_append = begins(name, "CommandListAppend") || is_replay;
    static constexpr bool is_update = function == CALL_CommandListUpdateMutableCommandsExp;
    static constexpr bool is_of_kernel = begins(name, "KernelSet") || function == CALL_KernelDestroy;
    static constexpr bool is_launch = function == CALL_CommandListAppendLaunchKernel;
    static constexpr bool is_copy = function == CALL_CommandListAppendMemoryCopy;
    static constexpr bool is_fill = function == CALL_CommandListAppendMemoryFill;
    static constexpr bool is_marker = function == CALL_CommandListAppendSignalEvent;
    static constexpr bool is_barrier = function == CALL_CommandListAppendWaitOnEvents;
    static constexpr bool is_list_wait = function == CALL_CommandListHostSynchronize;
    static constexpr bool is_event_wait = function == CALL_EventHostSynchronize || function == CALL_EventQueryStatus;
    static constexpr bool makes = name.find("Create") != name.npos || begins(name, "MemAlloc");
    static constexpr bool is_end = function == CALL_MemFree || name.find("Destroy") != name.npos;
    static constexpr Kind kind = begins(name, "Context") ? CONTEXT : begins(name, "CommandList") ? LIST
        : begins(name, "EventPool") ? POOL : begins(name, "Event") ? EVENT : begins(name, "ModuleBuildLog") ? LOG
        : begins(name, "Module") ? MODULE : begins(name, "Mem") ? MEMORY : KERNEL;
    static constexpr int signal = F::queue < 0 ? -1 : F::given(is_marker ? "event" : "signal");

    static void *signal_of(const Arguments& all) {
        if constexpr (signal < 0) return nullptr;
        else return std::get<signal>(all);
    }

    static std::vector<void *> waits_of(const Arguments& all) {
        if constexpr (F::waits < 0) return {};
        else return std::vector<void *>(std::get<F::waits>(all), std::get<F::waits>(all) + std::get<F::count>(all));
    }

    // What only one thread may use at a time.
    static std::vector<std::pair<Inside *, const char *>> used_alone(const Arguments& all) {
        LevelZero& s = state();
        std::vector<std::pair<Inside *, const char *>> found;
        if constexpr (F::queue == 0) found.push_back({&list_of((void *) std::get<0>(all)).inside, "list"});
        if constexpr (is_of_kernel) found.push_back({&s.kernels[(void *) std::get<0>(all)].inside, "kernel"});
        if constexpr (is_launch) found.push_back({&s.kernels[std::get<1>(all)].inside, "kernel"});
        return found;
    }

    template <class Each> static void each_change(const ChangesDesc *desc, Each each) {
        struct Any { uint32_t stype; const void *next; };
        for (const Any *at = (const Any *) desc->next; at; at = (const Any *) at->next) {
            if (at->stype == ArgumentChange().stype) each((const ArgumentChange *) at, nullptr);
            if (at->stype == GroupsChange().stype) each(nullptr, (const GroupsChange *) at);
        }
    }

    static uintptr_t pointer_in(size_t size, const void *value) {
        uintptr_t pointer = 0;
        if (size == sizeof pointer && value) std::memcpy(&pointer, value, sizeof pointer);
        return pointer;
    }

    static void check_append(const Arguments& all, List& list) {
        for (void *each : waits_of(all)) check_wait(list, event_of(each));
        if (void *signal = signal_of(all)) check_signal(list, event_of(signal));
        if constexpr (is_copy || is_fill) check_memory(list, std::get<1>(all), std::get<is_fill ? 4 : 3>(all));
        if constexpr (is_copy) check_memory(list, std::get<2>(all), std::get<3>(all));
        if constexpr (is_launch)
            for (auto& argument : state().kernels[std::get<1>(all)].memory)
                if (!memory_at(argument.second))
                    violate("argument " + std::to_string(argument.first) + " was freed");
        if (list.recorded && (list.closed || is_replay))
            violate(text_of(list) + " is closed, or none to run anything at once");
        if constexpr (is_replay)
            for (uint32_t i = 0; i < std::get<1>(all); i++) check_replay(list, std::get<2>(all)[i]);
    }

    static void check_update(const Arguments& all, List& list) {
        if (!list.changeable || !list.closed) violate(text_of(list) + " is not closed, or not mutable");
        if (!is_done(list.used)) violate(text_of(list) + " may still run");
        each_change(std::get<1>(all), [&](const ArgumentChange *argument, const GroupsChange *groups) {
            auto launch = list.named.find(argument ? argument->command : groups->command);
            if (launch == list.named.end()) return violate("no such command");
            uintptr_t value = argument ? pointer_in(argument->size, argument->value) : 0;
            // Nothing tells which arguments are pointers, but one that was memory is.
            if (value && !memory_at(value) && launch->second.count(argument->index))
                violate("argument " + std::to_string(argument->index) + " was freed");
        });
    }

    // What is wrong whatever the driver says.
    static void check(const Arguments& all) {
        LevelZero& s = state();
        void *first = (void *) (uintptr_t) std::get<0>(all);
        if constexpr (is_append) check_append(all, list_of(first));
        if constexpr (is_update) check_update(all, list_of(first));
        if constexpr (function == CALL_CommandListDestroy) check_list_end(list_of(first));
        if constexpr (function == CALL_CommandListGetNextCommandIdExp)
            if (!list_of(first).changeable || list_of(first).closed)
                violate(text_of(list_of(first)) + " is closed, or not mutable");
        if constexpr (is_event_wait || function == CALL_EventQueryKernelTimestamp) check_host_use(event_of(first));
        if constexpr (function == CALL_EventQueryKernelTimestamp)
            if (event_of(first).known && !event_of(first).timestamps) violate("the event has no timestamps");
        if constexpr (function == CALL_EventHostSignal || function == CALL_EventHostReset) {
            Event& event = event_of(first);
            if (event.known && event.counter_based) violate("the host cannot do this with such an event");
            if (event.known && !event.visible) violate("the event is not visible to the host");
        }
        if constexpr (function == CALL_EventHostReset || function == CALL_EventDestroy) check_unused(event_of(first));
        if constexpr (function == CALL_KernelDestroy)
            if (!is_done(s.kernels[first].used)) violate("launches of it are not known to be done");
        if constexpr (function == CALL_MemFree) {
            Memory *memory = memory_at((uintptr_t) std::get<1>(all));
            if (!is_allocated(first, std::get<1>(all))) violate("it is not allocated");
            if (memory && !is_done(memory->used)) violate("what uses it is not known to be done");
        } else if constexpr (is_end) {
            auto found = s.objects.find(first);
            if (found != s.objects.end() && found->second.children)
                violate("it has " + std::to_string(found->second.children) + " objects");
        }
    }

    // By a command of the list, or by whichever runs what is recorded in it.
    static void use(List& list, const void *address) {
        Memory *memory = memory_at((uintptr_t) address);
        if (memory && list.recorded) list.addresses.insert((uintptr_t) address);
        else if (memory) raise(memory->used, list.number, list.position);
    }

    static void use_kernel(List& list, void *handle) {
        if (list.recorded) list.kernels.insert(handle);
        else raise(state().kernels[handle].used, list.number, list.position);
    }

    static void follow_append(const Arguments& all, List& list, Call& seen) {
        LevelZero& s = state();
        void *signal = signal_of(all);
        bool is_work = is_barrier ? !waits.empty() : !is_marker || !event_of(signal).counter_based;
        if (is_work && !list.recorded) list.position++;
        for (void *each : waits) waited(list, event_of(each));
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
            const MemoryUsed& memory = s.kernels[std::get<1>(all)].memory;
            if (list.next_name != UINT64_MAX) list.named[list.next_name] = memory;
            else for (auto& argument : memory) use(list, (void *) argument.second);
            list.next_name = UINT64_MAX;
        }
        if constexpr (is_replay) {
            for (uint32_t i = 0; i < std::get<1>(all); i++) {
                List& recorded = list_of(std::get<2>(all)[i]);
                raise(recorded.used, list.number, list.position);
                for (uintptr_t address : addresses_of(recorded)) use(list, (void *) address);
                for (void *kernel : recorded.kernels) use_kernel(list, kernel);
            }
        }
        if constexpr (function == CALL_CommandListAppendHostFunction)
            if (s.emulating) s.host_calls.push_back({list.after, std::get<1>(all), std::get<2>(all)});
    }

    // What a call that succeeded has changed.
    static void follow(const Arguments& all, Call& seen) {
        LevelZero& s = state();
        void *first = (void *) (uintptr_t) std::get<0>(all);
        if constexpr (is_append) follow_append(all, list_of(first), seen);
        if constexpr (function == CALL_CommandListClose) list_of(first).closed = true;
        if constexpr (function == CALL_CommandListGetNextCommandIdExp) list_of(first).next_name = *std::get<2>(all);
        if constexpr (is_update) {
            List& list = list_of(first);
            list.closed = false;
            each_change(std::get<1>(all), [&](const ArgumentChange *argument, const GroupsChange *) {
                if (!argument) return;
                uintptr_t value = pointer_in(argument->size, argument->value);
                list.named[argument->command].erase(argument->index);
                if (memory_at(value)) list.named[argument->command][argument->index] = value;
            });
        }
        if constexpr (is_list_wait) {
            told(list_of(first).after.clock);
            told({{list_of(first).number, list_of(first).position}});
        }
        if constexpr (is_event_wait)
            if (event_of(first).point) told(event_of(first).point->clock);
        if constexpr (function == CALL_EventHostSignal) {
            if (!event_of(first).signalled) set_by_host(event_of(first), true);
            s.opened.notify_all();
        }
        if constexpr (function == CALL_EventHostReset) {
            set_by_host(event_of(first), false);
            seen.event = event_of(first).serial;
        }
        if constexpr (function == CALL_KernelSetArgumentValue) {
            uintptr_t value = pointer_in(std::get<2>(all), std::get<3>(all));
            s.kernels[first].memory.erase(std::get<1>(all));
            if (memory_at(value)) s.kernels[first].memory[std::get<1>(all)] = value;
        }
        if constexpr (makes) made(all, (void *) *std::get<function == CALL_ModuleCreate ? n - 2 : n - 1>(all), seen);
    }

    static void made(const Arguments& all, void *handle, Call& seen) {
        LevelZero& s = state();
        void *first = (void *) (uintptr_t) std::get<0>(all);
        add(handle, kind, first);
        if constexpr (kind == LIST) {
            s.lists.erase(handle);
            List& list = list_of(handle);
            list.context = first;
            list.device = std::get<1>(all);
            list.recorded = function == CALL_CommandListCreate;
            list.changeable = list.recorded && std::get<2>(all)->next;
            seen.detail = list.number;
        }
        if constexpr (kind == KERNEL) s.kernels[handle] = {};
        if constexpr (kind == MEMORY)
            s.memory[(uintptr_t) handle] = {std::get<function == CALL_MemAllocShared ? 3 : 2>(all), {}};
        if constexpr (kind == POOL) {
            const EventPoolDesc *desc = std::get<1>(all);
            const CounterPoolDesc *next = (const CounterPoolDesc *) desc->next;
            s.pools[handle] = {desc->flags, next && next->stype == CounterPoolDesc().stype};
        }
        if constexpr (kind == EVENT) {
            Event event;
            event.signal = std::get<n - 2>(all)->signal;
            event.wait = std::get<n - 2>(all)->wait;
            if constexpr (function == CALL_EventCounterBasedCreate) {
                const uint32_t flags = std::get<2>(all)->flags;
                event.counter_based = event.known = true;
                event.for_immediate = flags & COUNTER_IMMEDIATE;
                event.visible = flags & COUNTER_HOST_VISIBLE;
                event.timestamps = flags & COUNTER_TIMESTAMPS;
            } else if (s.pools.count(first)) {
                const Pool& pool = s.pools[first];
                event.known = true;
                event.counter_based = event.for_immediate = pool.counter_based;
                event.visible = pool.flags & POOL_HOST_VISIBLE;
                event.timestamps = pool.flags & POOL_TIMESTAMPS;
            }
            seen.event = new_serial(event);
            if (!event.counter_based) s.closed.insert(event.serial);
            s.events[handle] = event;
        }
    }

    // What a call is about to end, whatever it returns.
    static void end(const Arguments& all) {
        LevelZero& s = state();
        void *first = (void *) (uintptr_t) std::get<0>(all);
        if constexpr (function == CALL_MemFree) {
            remove(std::get<1>(all));
            return end_addresses((uintptr_t) std::get<1>(all));
        }
        remove(first);
        s.ended.insert(first);
        if constexpr (kind == LIST) {
            uint32_t number = list_of(first).number;
            for (auto& entry : s.events)
                if (!entry.second.counter_based && entry.second.list == number) entry.second.list = 0;
            s.done[number] = FOREVER;  // told once, it is not told again for each of its objects
            s.numbers.erase(number);
            s.lists.erase(first);
        }
        if constexpr (kind == EVENT) {
            s.closed.erase(event_of(first).serial);
            s.opened.notify_all();
            s.events.erase(first);
        }
        if constexpr (kind == POOL) s.pools.erase(first);
        if constexpr (kind == KERNEL) s.kernels.erase(first);
    }

    // Answers for hardware that executes nothing. True: the driver is not asked.
    static bool emulate(const Arguments& all, Guard& guard, Result& result) {
        void *first = (void *) (uintptr_t) std::get<0>(all);
        if (!state().emulating) return false;
        if constexpr (is_list_wait) {
            if (await(guard, std::get<1>(all), [&] { return list_of(first).after.gates; })) return false;
            result = NOT_READY;
            return true;
        }
        if constexpr (function == CALL_EventQueryKernelTimestamp) {
            *std::get<1>(all) = {};
            result = is_blocked(gates_of(event_of(first))) ? NOT_READY : SUCCESS;
            return true;
        }
        if constexpr (is_event_wait) {
            uint64_t timeout = 0;
            if constexpr (function == CALL_EventHostSynchronize) timeout = std::get<1>(all);
            bool open = await(guard, timeout, [&] { return gates_of(event_of(first)); });
            if (!event_of(first).known) return false;
            if (open) std::apply(F::original, all);  // whose answer, from memory that nothing changes, is often wrong
            result = open ? SUCCESS : NOT_READY;
            return true;
        }
        return false;
    }

    static bool before(const Arguments& all, Call& seen, bool is_without, Guard& guard, Result& result) {
        LevelZero& s = state();
        void *first = (void *) (uintptr_t) std::get<0>(all);
        current = call_names[function];
        waits = waits_of(all);  // the driver may change them
        const size_t known = s.violations.size();
        for (auto& [inside, what] : used_alone(all)) enter(*inside, what);
        check_life(first);
        for (void *each : waits) check_life(each);
        check_life(signal_of(all));
        if constexpr (is_launch) check_life(std::get<1>(all));
        if constexpr (begins(name, "KernelSetArgument")) seen.detail = std::get<1>(all);
        if constexpr (function == CALL_EventHostSynchronize) seen.waits.push_back(seen.event);
        if (!seen.injected || is_end) check(all);
        // What is forbidden does not reach the driver, which need not survive it; but what is made has to be there.
        const bool is_forbidden = !makes && s.violations.size() != known;
        if (is_without) waits.clear();
        // Before the driver is called: another thread may make an object with this handle at once.
        if constexpr (is_end) end(all);
        if (is_end && seen.injected && !is_forbidden) {
            guard.unlock();
            std::apply(F::original, all);
            guard.lock();
        }
        if constexpr (F::waits >= 0) wait_for_room(guard, first);
        return is_forbidden || (!seen.injected && emulate(all, guard, result));
    }

    static void after(const Arguments& all, Call& seen, bool is_asked, Guard& guard, Result result) {
        LevelZero& s = state();
        if (s.reports_refused && is_asked && result != SUCCESS && result != NOT_READY)
            violate("refused with " + std::to_string(result));
        if (function == CALL_EventQueryStatus) seen.detail = result;
        if (!is_end)
            for (auto& used : used_alone(all)) used.first->depth--;
        if constexpr (function == CALL_ModuleCreate)
            if (is_asked && *std::get<4>(all)) add(*std::get<4>(all), LOG, nullptr);
        if (result == SUCCESS && !is_end) follow(all, seen);
        if (s.recording) s.log.push_back(std::move(seen));
        if constexpr (is_append || function == CALL_EventHostSignal) call_host(guard);
    }
};

template <class T> static void set(T& member, T value) {
    state().locked([&] { member = value; });
}

static void begin_watch(GetAllocProperties properties_of, bool reports_refused) {
    LevelZero& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    static_cast<Objects&>(s) = Objects();
    s.clear();
    s.violations.clear();
    s.properties_of = properties_of;
    s.reports_refused = reports_refused;
}

// The serials since recording began of all events but the idle ones.
static std::vector<int64_t> event_serials(const std::vector<void *>& idle) {
    LevelZero& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    std::set<void *> unused(idle.begin(), idle.end());
    std::vector<int64_t> found;
    for (auto& entry : s.events)
        if (entry.second.serial > s.first_serial && !unused.count(entry.first)) found.push_back(entry.second.serial);
    return found;
}

static std::vector<size_t> objects_alive() {
    std::lock_guard<std::mutex> guard(state().lock);
    std::vector<size_t> found(N_KINDS);
    for (auto& entry : state().objects) found[entry.second.kind]++;
    return found;
}

static uint32_t number_of(void *list) {
    return state().locked([&] { return list_of(list).number; });
}

}
