// Shared by the observers: the record of a driver's calls, the planned failures, and the wrapping of its table.

#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/function_table.hpp"

namespace forebay_observer {

struct Call {
    int function;
    uintptr_t object = 0;       // the first argument: a queue, kernel, event or context
    uintptr_t kernel = 0;       // launches only
    std::vector<int64_t> waits; // serial numbers of events; unlike handles, they are never used again
    int64_t event = 0;          // the event that this call made or uses; 0: none
    int64_t detail = 0;         // one more fact for the driver's tests
    int64_t status = 0;
    bool injected = false;
    uint64_t thread = (uint64_t) pthread_self();  // which made it; Python's threading.get_ident()
};

struct Failure { int function; int64_t code; uint64_t after; };

// Observers add their own data; the lock guards that, too.
struct Record {
    std::mutex lock;
    std::vector<Call> log;
    size_t read = 0;  // calls that somebody has read, or counted: these do not change any more
    std::vector<Failure> failures;
    std::vector<std::string> violations;
    int64_t newest_serial = 0;
    std::unordered_map<uintptr_t, int64_t> serials;   // of the newest event with this handle
    std::unordered_map<int64_t, int64_t> references;  // forebay's, by serial, of events made while observed
    std::condition_variable moved;
    // Of the functions that may fail at random one call in so many does (0: none), with one of these codes.
    std::vector<bool> at_random;
    std::vector<int64_t> codes;
    std::vector<uint64_t> counted;  // calls of each function since then
    uint64_t seed = 0;
    uint64_t one_in = 0;
    // Of these functions one call in so many (0: none) that has waits reaches the driver without them.
    std::vector<bool> to_drop;
    uint64_t drop_one_in = 0;
    uint64_t with_waits = 0;  // calls since then
    uint64_t dropped = 0;
    int to_pause = -1;  // the function of which a call is to be paused
    bool paused = false;

    // -- for the wrappers, without the lock

    // When the driver has returned and its caller does not know yet.
    void pause_at(int function) {
        std::unique_lock<std::mutex> guard(lock);
        if (function != to_pause) return;
        to_pause = -1;
        paused = true;
        moved.notify_all();
        moved.wait(guard, [this] { return !paused; });
    }

    // -- for the wrappers, with the lock held

    bool fails(int function, int64_t& code) {
        for (size_t i = 0; i < failures.size(); i++) {
            if (failures[i].function != function || failures[i].after-- != 0) continue;
            code = failures[i].code;
            failures.erase(failures.begin() + i);
            return true;
        }
        return fails_at_random(function, code);
    }

    // It depends on the seed, the function, and how many calls of it there were: other calls may depend on the timing.
    bool fails_at_random(int function, int64_t& code) {
        if (one_in == 0 || (size_t) function >= at_random.size() || !at_random[function]) return false;
        uint64_t mixed = seed * 0x9e3779b97f4a7c15 + ++counted[function] * 0xd6e8feb86659fd93 + function + 1;
        for (int round = 0; round < 2; round++) {
            mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93;
            mixed ^= mixed >> 29;
        }
        if (mixed % one_in) return false;
        code = codes[(mixed >> 40) % codes.size()];
        return true;
    }

    bool drops_waits(int function) {
        if (drop_one_in == 0 || !to_drop[function] || ++with_waits % drop_one_in) return false;
        dropped++;
        return true;
    }

    void violate(const std::string& text) {
        if (violations.size() < 100) violations.push_back(text);
    }

    int64_t serial_of(uintptr_t event) {
        if (!event) return 0;
        auto found = serials.find(event);
        if (found != serials.end()) return found->second;
        return serials[event] = ++newest_serial;  // made before: its references are not known
    }

    int64_t make(uintptr_t event) {
        references[++newest_serial] = 1;
        return serials[event] = newest_serial;
    }

    void count(int64_t serial, int more) {
        auto found = references.find(serial);
        if (found != references.end()) found->second += more;
    }

    void release(uintptr_t event) {
        auto found = references.find(serial_of(event));
        if (found == references.end() || --found->second <= 0) serials.erase(event);  // the handle may come again
    }

    virtual void clear() {
        log.clear();
        read = 0;
        failures.clear();
        violations.clear();
        serials.clear();
        references.clear();
        one_in = drop_one_in = 0;
    }

    // -- for the tests

    template <class Act> auto locked(Act act) {
        std::lock_guard<std::mutex> guard(lock);
        return act();
    }

    void begin() {
        locked([&] { clear(); });
    }

    std::vector<int64_t> alive() {
        std::lock_guard<std::mutex> guard(lock);
        std::vector<int64_t> found;
        for (auto& entry : references)
            if (entry.second > 0) found.push_back(entry.first);
        return found;
    }

    size_t size() {
        return locked([&] { return read = log.size(); });
    }

    std::vector<Call> tail(size_t first) {
        std::lock_guard<std::mutex> guard(lock);
        read = log.size();
        return std::vector<Call>(log.begin() + std::min(first, read), log.end());
    }

    std::vector<Call> take() {
        std::lock_guard<std::mutex> guard(lock);
        read = 0;
        return std::exchange(log, {});
    }

    std::vector<std::string> take_violations() {
        return locked([&] { return std::exchange(violations, {}); });
    }

    void fail(int function, int64_t code, uint64_t after) {
        locked([&] { failures.push_back({function, code, after}); });
    }

    void fail_at_random(
        const std::vector<bool>& functions, const std::vector<int64_t>& with, uint64_t by, uint64_t in
    ) {
        std::lock_guard<std::mutex> guard(lock);
        at_random = functions;
        codes = with;
        counted.assign(functions.size(), 0);
        seed = by;
        one_in = in;
    }

    void drop_waits(const std::vector<bool>& functions, uint64_t in) {
        std::lock_guard<std::mutex> guard(lock);
        to_drop = functions;
        drop_one_in = in;
        with_waits = dropped = 0;
    }

    uint64_t waits_dropped() {
        return locked([&] { return dropped; });
    }

    void forgive() {
        std::lock_guard<std::mutex> guard(lock);
        failures.clear();
        one_in = drop_one_in = 0;
    }

    void pause(int function) {
        locked([&] { to_pause = function; });
    }

    void wait_until_paused() {
        std::unique_lock<std::mutex> guard(lock);
        moved.wait(guard, [this] { return paused; });
    }

    void go_on() {
        std::lock_guard<std::mutex> guard(lock);
        to_pause = -1;
        paused = false;
        moved.notify_all();
    }
};

static Record& record();  // each observer's own

template <class T> T& only() {
    static T& one = *new T();  // never destroyed: threads may still call while the process ends
    return one;
}

constexpr bool begins(std::string_view name, std::string_view with) { return name.substr(0, with.size()) == with; }

template <class T> static uintptr_t word(T value) {
    if constexpr (std::is_pointer_v<T> || std::is_integral_v<T>) return (uintptr_t) value;
    else return 0;
}

template <template <int, class, class...> class Wrapper, int function, class R, class... A>
static void wrap(R (*&slot)(A...)) {
    if (!slot) return;  // a library that does not have it
    Wrapper<function, R, A...>::original = slot;
    slot = Wrapper<function, R, A...>::call;
}

template <template <int, class, class...> class Wrapper, int function, class R, class... A>
static void unwrap(R (*&slot)(A...)) {
    if (slot) slot = Wrapper<function, R, A...>::original;
}

// The same for an entry that returns a `Status`.
template <template <int, class, class...> class Wrapper, int function, class R, class... A>
static void wrap(forebay::Checked<function, R, A...>& entry) { wrap<Wrapper, function>(entry.function); }

template <template <int, class, class...> class Wrapper, int function, class R, class... A>
static void unwrap(forebay::Checked<function, R, A...>& entry) { unwrap<Wrapper, function>(entry.function); }

// For each function of a driver's list, whose pointers are in `table`.
#define FOREBAY_WRAP(result, name, parameters) wrap<Wrapper, CALL_##name>(table.name);
#define FOREBAY_UNWRAP(result, name, parameters) unwrap<Wrapper, CALL_##name>(table.name);

}
