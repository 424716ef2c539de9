// The observer's data about Level Zero's objects, and the rules for using them.

#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>

#include "queues/drivers/levelzero/calls.hpp"
#include "tests/observers/record.hpp"

namespace forebay_observer {

using namespace forebay_ze;

constexpr Result SUCCESS = 0, NOT_READY = 1;
constexpr uint32_t SCOPE_DEVICE = 2, SCOPE_HOST = 4, POOL_HOST_VISIBLE = 1, POOL_TIMESTAMPS = 4,
    COUNTER_IMMEDIATE = 1, COUNTER_HOST_VISIBLE = 4, COUNTER_TIMESTAMPS = 16 | 32, COUNTER_POOL = 0x20014;
constexpr uint64_t FOREVER = UINT64_MAX, PATIENCE = 5;  // seconds until a wait for a closed gate is given up

struct AllocProperties {
    uint32_t stype = 0x17; void *next = nullptr; uint32_t type = 0; uint64_t id = 0, page_size = 0;
};
typedef Result (*GetAllocProperties)(void *context, const void *address, AllocProperties *properties, void **device);

typedef std::map<uint32_t, uint64_t> Clock;  // positions by the numbers of lists

struct Point {  // once it is reached, these are done and these gates are open
    Clock clock;
    std::set<int64_t> gates;
};

struct Inside {  // the thread that is in a driver call with an object that only one thread may use
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
    uint64_t behind = 0;    // commands behind a closed gate
    Inside inside;
    bool recorded = false, closed = false;  // one that is appended to others, as a whole
    std::set<void *> kernels;               // of that: what it uses
    std::set<uintptr_t> addresses;
    bool changeable = false;
    std::map<uint64_t, std::map<uint32_t, uintptr_t>> named;  // launches that can be changed: memory by argument
    uint64_t next_name = UINT64_MAX;  // of the launch that comes next; UINT64_MAX for none
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

// The record identifies a list by its number. A serial identifies one signal of an event. The detail of a signal tells
// whether it is for the host; for other calls it is the status or an index.
struct State : Record {
    std::condition_variable opened;
    bool recording = false, emulating = false;
    uint64_t room = UINT64_MAX;  // so many commands behind a closed gate fill a list; the next blocks
    int blocked = 0;             // threads that wait for room
    GetAllocProperties properties_of = nullptr;
    std::map<int, uint64_t> slow;
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
    int64_t first_serial = 0;  // when recording began
};

static State& state() {
    static State& only = *new State();  // never destroyed: threads may still call while the process ends
    return only;
}

static Record& record() { return state(); }

static void violate(int function, const std::string& text) {
    state().violate("ze" + std::string(call_names[function]) + ": " + text);
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

static std::set<uintptr_t> addresses_of(const List& recorded) {
    std::set<uintptr_t> all = recorded.addresses;
    for (auto& launch : recorded.named)
        for (auto& argument : launch.second) all.insert(argument.second);
    return all;
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

static const uintptr_t GONE = 1;  // where no memory is

// Whoever still has an address of the allocation has none of what comes to lie there.
static void end_addresses(uintptr_t base) {
    State& s = state();
    auto found = s.memory.find(base);
    if (found == s.memory.end()) return;
    size_t nbytes = found->second.nbytes;
    auto end = [&](uintptr_t& address) { if (address - base < nbytes) address = GONE; };
    for (auto& kernel : s.kernels)
        for (auto& argument : kernel.second.memory) end(argument.second);
    for (auto& list : s.lists) {
        for (auto& launch : list.second.named)
            for (auto& argument : launch.second) end(argument.second);
        auto& addresses = list.second.addresses;
        auto first = addresses.lower_bound(base), last = addresses.lower_bound(base + nbytes);
        if (first != last) {
            addresses.erase(first, last);
            addresses.insert(GONE);
        }
    }
}

static bool is_allocated(void *context, const void *address) {
    AllocProperties properties;
    void *device = nullptr;
    return state().properties_of(context, address, &properties, &device) == SUCCESS && properties.type != 0;
}

static void check_memory(int function, const List& list, const void *address, size_t nbytes) {
    uintptr_t base = 0;
    if (!address || !nbytes || !list.context) return;
    Memory *memory = memory_at((uintptr_t) address, &base);
    if (memory && (uintptr_t) address - base + nbytes > memory->nbytes)
        violate(function, "past the end of an allocation of " + std::to_string(memory->nbytes) + " bytes");
    if (!is_allocated(list.context, address))
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
    inside.call = call_names[function];
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

// A plain event must not end or be reset while a list waits for it. A counter-based event may: the list has already
// taken its address and value.
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

// Blocks until the gates are open. Returns false if they still are not when the wait is given up.
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

static void wait_for_room(std::unique_lock<std::mutex>& guard, void *handle) {
    State& s = state();
    auto has_room = [&] { return !is_blocked(list_of(handle).after.gates) || list_of(handle).behind < s.room; };
    s.blocked++;
    s.opened.wait(guard, has_room);
    s.blocked--;
    List& list = list_of(handle);
    list.behind = is_blocked(list.after.gates) ? list.behind + 1 : 0;
}

// Calls the host functions that are reached. Releases the lock meanwhile.
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

}
