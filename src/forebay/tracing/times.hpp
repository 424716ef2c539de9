// When commands ran on the device: a timed event before each and one after it, read once they are done.
//
// These events are the trace's own. Nobody waits for them, and forebay does not know of them: the queue runs its commands
// in order, so they change none.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace forebay_tracing {

constexpr uint64_t CAPACITY = 1 << 20; // of calls; the newest are kept

constexpr int TIMED_EVENT = 2;            // TIMED in core/driver.pxd
constexpr int64_t EVENT_NOT_YET = 0;      // NOT_YET there
constexpr int64_t EVENT_DONE = 1;         // DONE there
constexpr size_t MOST_IN_FLIGHT = 1 << 15; // commands whose events are kept: a driver may have only so many
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
        driver.release_event(oldest.before);
        driver.release_event(oldest.after);
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
            driver.release_event(before);
            return status;
        }
        {
            DeviceTimes& known = device_times();
            std::unique_lock<std::mutex> guard(known.lock);
            auto found = known.queues.find(reinterpret_cast<uint64_t>(queue));
            if (found == known.queues.end()) { // the trace has ended meanwhile
                guard.unlock();
                driver.release_event(before);
                driver.release_event(after);
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

} // namespace forebay_tracing
