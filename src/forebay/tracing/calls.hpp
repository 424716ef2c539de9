// Notes the calls of a driver's table (core/driver.hpp): functions of ours are put into the table, and call the driver's.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__x86_64__) && !defined(_MSC_VER)
#include <x86intrin.h>
#endif

namespace forebay_tracing {

constexpr uint64_t CAPACITY = 1 << 20; // of calls; the newest are kept

enum Kind : uint16_t {
    WAITED, LAUNCH, COPY, FILL, MARKER, BARRIER, HOLD, OPEN_GATE, BRIDGE, NEW_RECORDING, ADD_COMMAND, REPLAY, POLL,
    WAIT_EVENTS, SEEN_DONE
};

enum Direction : uint32_t { ON_DEVICE, TO_HOST, FROM_HOST, ON_HOST };

// One cache line. What the fields mean for a kind is said where it is noted, and in timeline.py, which reads them.
struct alignas(64) Entry {
    std::atomic<uint64_t> number; // its place + 1, stored last: an entry that is half written has another
    uint64_t begin;
    uint64_t end;
    uint64_t object; // the first argument: a queue, context, event or recording
    uint64_t detail;
    uint64_t event;  // or gate or recording, that was made
    uint32_t thread;
    uint16_t kind;
    uint16_t failed;
    uint32_t waits; // how many entries of the kind WAITED follow
    uint32_t extra;
};
static_assert(sizeof(Entry) == 64);

inline Entry* entries = nullptr; // never given back: a call that began long ago may end at any time
inline std::atomic<uint64_t> next_number{0};

// Its unit is measured. clock_gettime takes twice as long, and two readings of it a tenth of a launch.
inline uint64_t ticks() {
#if defined(__x86_64__) && !defined(_MSC_VER)
    return __rdtsc();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    uint64_t now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

struct Thread {
    uint32_t id;
    uint32_t inside; // a call of the table that makes other calls of it: only the outer one is noted
};
static thread_local Thread thread = {0, 0};

inline uint32_t thread_id() {
    if (thread.id == 0) thread.id = static_cast<uint32_t>(PyThread_get_thread_native_id());
    return thread.id;
}

inline Entry& entry_at(uint64_t number) { return entries[number & (CAPACITY - 1)]; }

inline uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// An entry under way. It is made before the call, because a driver may overwrite the list of waits.
struct Noted {
    uint64_t number;
    Entry& entry;

    Noted(Kind kind, const void* object, uint32_t waits = 0)
        : number(next_number.fetch_add(1 + uint64_t(waits), std::memory_order_relaxed)), entry(entry_at(number)) {
        entry.number.store(0, std::memory_order_relaxed);
        entry.kind = kind;
        entry.failed = 0;
        entry.object = address_of(object);
        entry.detail = entry.event = 0;
        entry.thread = thread_id();
        entry.waits = waits;
        entry.extra = 0;
        entry.begin = ticks();
    }

    template <class Waits> Noted(Kind kind, const void* object, const Waits& waits, int) : Noted(kind, object, waits.count) {
        for (uint32_t i = 0; i < waits.count; i++) {
            Entry& waited = entry_at(number + 1 + i);
            waited.number.store(0, std::memory_order_relaxed);
            waited.kind = WAITED;
            waited.object = address_of(waits.events[i]);
            waited.begin = entry.begin;
            waited.number.store(number + 2 + i, std::memory_order_release);
        }
    }

    template <class Status> Status end(Status status) {
        entry.end = ticks();
        entry.failed = status != 0;
        entry.number.store(number + 1, std::memory_order_release);
        return status;
    }

    // The call has made something, if it was asked for.
    template <class Status> Status end(Status status, void** made) {
        if (made && status == 0) entry.event = address_of(*made);
        return end(status);
    }
};

// -- when commands ran on the device: a timed event before each and one after it, read once they are done
//
// These events are the trace's own. No command waits for them, and forebay does not know of them: the queue runs its commands
// in order, so they change none.

constexpr int TIMED_EVENT = 2;            // TIMED in core/driver.hpp
constexpr int64_t EVENT_NOT_YET = 0;      // NOT_YET there
constexpr int64_t EVENT_DONE = 1;         // DONE there
constexpr size_t MOST_IN_FLIGHT = 1 << 15; // commands whose events are kept: a driver may have few
constexpr int READ_AT_ONCE = 4;           // more than are added, so that they do not pile up

struct Ran {
    uint64_t number;    // of the call's entry
    uint64_t reference; // the number of that event
    double begin;       // nanoseconds since a reference event
    double end;
};

struct InFlight {
    uint64_t number;
    void* before;
    void* after;
};

struct Reference {
    void* event;
    uint64_t number;
};

struct TimedQueue {
    uint64_t context;
    int slot;
    std::deque<InFlight> commands;
};

// All of it is guarded by the lock, which is taken last, and not held across a call.
struct DeviceTimes {
    std::mutex lock;
    std::unordered_map<uint64_t, TimedQueue> queues;  // by the driver's handle
    std::unordered_map<uint64_t, Reference> references; // the newest of each context
    std::deque<Ran> ran;
    size_t in_flight = 0;
};

inline std::atomic<bool> times_wanted{false};

inline DeviceTimes& device_times() {
    static DeviceTimes& only = *new DeviceTimes(); // never destroyed: threads may still call while the process ends
    return only;
}

// Put a command back in front of its queue's. False when the trace has ended.
inline bool put_back(uint64_t queue, const InFlight& command) {
    DeviceTimes& known = device_times();
    std::lock_guard<std::mutex> guard(known.lock);
    auto found = known.queues.find(queue);
    if (found != known.queues.end()) found->second.commands.push_front(command);
    return found != known.queues.end();
}

// Read the oldest commands of a queue, as far as they are done. With `all`, those that are not are given up.
template <class Driver> void read_times(const Driver& driver, uint64_t queue, int most, bool all) {
    DeviceTimes& known = device_times();
    for (int i = 0; all || i < most; i++) {
        InFlight oldest;
        Reference reference;
        {
            std::lock_guard<std::mutex> guard(known.lock);
            auto found = known.queues.find(queue);
            if (found == known.queues.end() || found->second.commands.empty()) return;
            auto since = known.references.find(found->second.context);
            reference = since == known.references.end() ? Reference{nullptr, 0} : since->second;
            if (!reference.event && !all) return;
            oldest = found->second.commands.front();
            found->second.commands.pop_front();
        }
        int64_t answer = driver.event_status(oldest.after);
        if (answer == EVENT_NOT_YET && !all) {
            if (put_back(queue, oldest)) return;
            answer = 0; // the trace has ended meanwhile
        }
        Ran ran = {oldest.number, reference.number, 0, 0};
        bool read = answer == EVENT_DONE && reference.event
            && driver.elapsed(reference.event, oldest.before, &ran.begin) == 0
            && driver.elapsed(reference.event, oldest.after, &ran.end) == 0;
        driver.destroy_event(oldest.before);
        driver.destroy_event(oldest.after);
        std::lock_guard<std::mutex> guard(known.lock);
        known.in_flight--;
        if (read) known.ran.push_back(ran);
        if (known.ran.size() > CAPACITY) known.ran.pop_front();
    }
}

// A command under way.
template <class Driver, int slot> struct Timing {
    const Driver& driver;
    void* queue;
    void* before = nullptr;

    template <class Waits> Timing(const Driver& driver, void* queue, const Waits& waits) : driver(driver), queue(queue) {
        if (!times_wanted.load(std::memory_order_relaxed)) return;
        DeviceTimes& known = device_times();
        {
            std::lock_guard<std::mutex> guard(known.lock);
            auto found = known.queues.find(reinterpret_cast<uint64_t>(queue));
            if (found == known.queues.end() || known.in_flight >= MOST_IN_FLIGHT) return;
        }
        // The command begins when its waits are done. It keeps them, too: that it comes after them is none of our business.
        std::vector<void*> events(waits.events, waits.events + waits.count); // the driver may overwrite the list
        Waits same = waits;
        same.events = events.data();
        if (driver.marker(queue, same, TIMED_EVENT, &before) != 0) before = nullptr;
    }

    int64_t end(uint64_t number, int64_t status) {
        if (!before) return status;
        void* after = nullptr;
        Nothing waits;
        if (status != 0 || driver.marker(queue, waits, TIMED_EVENT, &after) != 0) {
            driver.destroy_event(before);
            return status;
        }
        {
            DeviceTimes& known = device_times();
            std::unique_lock<std::mutex> guard(known.lock);
            auto found = known.queues.find(reinterpret_cast<uint64_t>(queue));
            if (found == known.queues.end()) { // the trace has ended meanwhile
                guard.unlock();
                driver.destroy_event(before);
                driver.destroy_event(after);
                return status;
            }
            found->second.commands.push_back({number, before, after});
            known.in_flight++;
        }
        read_times(driver, reinterpret_cast<uint64_t>(queue), READ_AT_ONCE, false);
        return status;
    }

    // An empty list of waits, of whatever type the table has.
    struct Nothing {
        template <class Waits> operator Waits() const { return Waits{0, nullptr}; }
    };
};

// -- the table

template <class Driver, int slot> struct Table {
    static inline Driver driver; // what the table had before

    typedef Timing<Driver, slot> Times;

    template <class Geometry, class Waits>
    static int64_t launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) {
        if (thread.inside) return driver.launch(queue, kernel, geometry, waits);
        Times times(driver, queue, waits);
        Noted noted(LAUNCH, queue, waits, 0);
        noted.entry.detail = address_of(kernel);
        noted.entry.event = geometry->groups[0] | uint64_t(geometry->groups[1]) << 32;
        noted.entry.extra = geometry->groups[2];
        return times.end(noted.number, noted.end(driver.launch(queue, kernel, geometry, waits)));
    }

    template <class Memory> static uint32_t direction(const Memory* to, const Memory* source) {
        return (to->kind & 1 ? TO_HOST : 0) | (source->kind & 1 ? FROM_HOST : 0); // HOST_MEMORY
    }

    template <class Memory, class Waits>
    static int64_t copy(void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event) {
        Times times(driver, queue, waits);
        Noted noted(COPY, queue, waits, 0);
        noted.entry.detail = nbytes;
        noted.entry.extra = direction(to, source);
        return times.end(noted.number, noted.end(driver.copy(queue, to, source, nbytes, waits, event), event));
    }

    template <class Memory, class Waits>
    static int64_t fill(void* queue, const Memory* to, const void* pattern, size_t size, size_t nbytes, Waits waits, void** event) {
        Times times(driver, queue, waits);
        Noted noted(FILL, queue, waits, 0);
        noted.entry.detail = nbytes;
        return times.end(noted.number, noted.end(driver.fill(queue, to, pattern, size, nbytes, waits, event), event));
    }

    template <class Waits> static int64_t marker(void* queue, Waits waits, int use, void** event) {
        if (thread.inside) return driver.marker(queue, waits, use, event);
        Noted noted(MARKER, queue, waits, 0);
        noted.entry.extra = use;
        return noted.end(driver.marker(queue, waits, use, event), event);
    }

    template <class Waits> static int64_t barrier(void* queue, Waits waits) {
        Noted noted(BARRIER, queue, waits, 0);
        return noted.end(driver.barrier(queue, waits));
    }

    template <class Waits, class Wake>
    static int64_t hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) {
        Noted noted(HOLD, queue, waits, 0);
        noted.entry.extra = data != nullptr; // a host function
        return noted.end(driver.hold(queue, context, waits, wake, data, gate), gate);
    }

    template <class Failed> static int64_t open_gate(void* gate, Failed failed) {
        Noted noted(OPEN_GATE, gate);
        return noted.end(driver.open_gate(gate, failed));
    }

    static int64_t bridge(void* context, void* event, void** bridged) {
        Noted noted(BRIDGE, context);
        noted.entry.detail = address_of(event);
        return noted.end(driver.bridge(context, event, bridged), bridged);
    }

    template <class Changeable> static int64_t new_recording(void* queue, Changeable changeable, void** recording) {
        Noted noted(NEW_RECORDING, queue);
        return noted.end(driver.new_recording(queue, changeable, recording), recording);
    }

    template <class Command>
    static int64_t add_command(void* recording, const Command* command, const uint32_t* after, uint32_t count) {
        Noted noted(ADD_COMMAND, recording);
        noted.entry.detail = address_of(command->kernel);
        noted.entry.extra = command->kind;
        return noted.end(driver.add_command(recording, command, after, count));
    }

    template <class Waits> static int64_t replay(void* queue, void* recording, Waits waits) {
        Times times(driver, queue, waits);
        Noted noted(REPLAY, queue, waits, 0);
        noted.entry.detail = address_of(recording);
        thread.inside++;
        int64_t status = driver.replay(queue, recording, waits);
        thread.inside--;
        return times.end(noted.number, noted.end(status));
    }

    template <class Done> static int64_t poll(void* queue, Done* done) {
        Noted noted(POLL, queue);
        int64_t status = driver.poll(queue, done);
        noted.entry.extra = status == 0 && *done;
        return noted.end(status);
    }

    template <class Waits, class Interrupted>
    static int64_t wait_events(void* context, Waits events, Interrupted interrupted) {
        Noted noted(WAIT_EVENTS, context, events, 0);
        return noted.end(driver.wait_events(context, events, interrupted));
    }

    static int64_t event_status(void* event) { // asked in loops: only the answer "done" is worth an entry
        int64_t answer = driver.event_status(event);
        if (answer == 1) Noted(SEEN_DONE, event).end(0);
        return answer;
    }

#define FOREBAY_EACH_CALL(DO) \
    DO(launch) DO(copy) DO(fill) DO(marker) DO(barrier) DO(hold) DO(open_gate) DO(bridge) DO(new_recording) \
    DO(add_command) DO(replay) DO(poll) DO(wait_events) DO(event_status)

    // Other threads may be about to call through the table: each pointer is one store, and either function will do.
    template <class Function> static void put(Function& place, Function function) {
        *const_cast<volatile Function*>(&place) = function;
    }

    static void watch(Driver* table) {
        driver = *table;
#define FOREBAY_WATCH(call) \
    if (driver.call) { decltype(driver.call) ours = &Table::call; put(table->call, ours); }
        FOREBAY_EACH_CALL(FOREBAY_WATCH)
#undef FOREBAY_WATCH
    }

    static void unwatch(Driver* table) {
#define FOREBAY_UNWATCH(call) \
    if (driver.call) { decltype(driver.call) ours = &Table::call; if (table->call == ours) put(table->call, driver.call); }
        FOREBAY_EACH_CALL(FOREBAY_UNWATCH)
#undef FOREBAY_UNWATCH
    }
};

template <class Driver> void set_watched(Driver* table, int slot, bool watched) {
#define FOREBAY_SLOT(number) \
    case number: watched ? Table<Driver, number>::watch(table) : Table<Driver, number>::unwatch(table); break;
    switch (slot) { FOREBAY_SLOT(0) FOREBAY_SLOT(1) FOREBAY_SLOT(2) FOREBAY_SLOT(3) }
#undef FOREBAY_SLOT
}

// The driver's own functions, while its table is watched.
template <class Driver> const Driver* originals(int slot) {
#define FOREBAY_SLOT(number) case number: return &Table<Driver, number>::driver;
    switch (slot) { FOREBAY_SLOT(0) FOREBAY_SLOT(1) FOREBAY_SLOT(2) FOREBAY_SLOT(3) }
#undef FOREBAY_SLOT
    return nullptr;
}

inline bool make_room() {
    if (!entries) entries = static_cast<Entry*>(std::calloc(CAPACITY + 1, sizeof(Entry)));
    if (!entries) return false;
    entries = reinterpret_cast<Entry*>((address_of(entries) + 63) / 64 * 64);
    return true;
}

} // namespace forebay_tracing
