// One recorder of driver calls for all drivers: the record, the planned failures, and what takes the place of a driver's
// functions. The driver's own list says which there are, and by the names of their parameters what an argument is.

#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/driver.hpp"

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

typedef std::unique_lock<std::mutex> Guard;

// Drivers add what only they need; the lock guards that, too.
struct Record {
    // -- what a driver says of itself, where this is not so

    static constexpr std::string_view QUEUE = "queue", KERNEL = "kernel", WAITS = "waits";  // names of parameters
    static constexpr int ONLY_WAITS = -1;   // a call that does nothing else
    static constexpr bool HAS_DETAIL = true;  // which is the second argument

    virtual void install(void *table) = 0;
    virtual void uninstall(void *table) = 0;
    uintptr_t (*queue_handle)(void *) = same;  // what the record has for the handles of queues and events
    uintptr_t (*event_handle)(void *) = same;

    static uintptr_t same(void *handle) { return (uintptr_t) handle; }

    uintptr_t object_of(uintptr_t handle) { return handle; }

    template <class F> static constexpr bool is_described() { return true; }

    template <class F> bool fails_now(int64_t& code) { return fails(F::function, code); }

    // -- the record

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
        Guard guard(lock);
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

    void begin() { locked([&] { clear(); }); }

    std::vector<int64_t> alive() {
        std::lock_guard<std::mutex> guard(lock);
        std::vector<int64_t> found;
        for (auto& entry : references)
            if (entry.second > 0) found.push_back(entry.first);
        return found;
    }

    size_t size() { return locked([&] { return read = log.size(); }); }

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

    std::vector<std::string> take_violations() { return locked([&] { return std::exchange(violations, {}); }); }

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

    uint64_t waits_dropped() { return locked([&] { return dropped; }); }

    void forgive() {
        std::lock_guard<std::mutex> guard(lock);
        failures.clear();
        one_in = drop_one_in = 0;
    }

    void pause(int function) { locked([&] { to_pause = function; }); }

    void wait_until_paused() {
        Guard guard(lock);
        moved.wait(guard, [this] { return paused; });
    }

    void go_on() {
        std::lock_guard<std::mutex> guard(lock);
        to_pause = -1;
        paused = false;
        moved.notify_all();
    }
};

template <class T> T& only() {
    static T& one = *new T();  // never destroyed: threads may still call while the process ends
    return one;
}

constexpr bool begins(std::string_view name, std::string_view with) { return name.substr(0, with.size()) == with; }

template <class T> static uintptr_t word(T value) {
    if constexpr (std::is_pointer_v<T> || std::is_integral_v<T>) return (uintptr_t) value;
    else return 0;
}

// Which of these parameters has the name; -1: none has.
constexpr int place_of(std::string_view parameters, std::string_view name) {
    int depth = 0, place = 0;
    for (size_t i = 0; i < parameters.size(); i++) {
        depth += (parameters[i] == '(') - (parameters[i] == ')');
        if (depth > 1 || (depth == 1 && parameters[i] != ',')) continue;
        const size_t begin = i > name.size() ? i - name.size() : 0;
        const char before = parameters[begin - (begin > 0)];
        if (parameters.substr(begin, i - begin) == name && (before == ' ' || before == '*')) return place;
        place++;
    }
    return -1;
}

// Takes the place of a driver's function. The driver's struct has these for all of its functions:
//   fails_now  whether this call is made to fail, and with which code
//   before     whether it answers in the place of the driver; `is_without`: what the call waits for is left out
//   after      puts the call into the record, if it belongs there; `is_asked`: the driver has answered
template <class Driver, int number, class R, class... A> struct Function {
    static inline R (*original)(A...) = nullptr;

    typedef std::tuple<A...> Arguments;
    typedef std::conditional_t<std::is_void_v<R>, char, R> Result;

    static constexpr std::string_view name = Driver::names[number];

    static constexpr bool is_handle[] = {std::is_same_v<A, void *>..., false};

    static constexpr int at(std::string_view parameter) { return place_of(Driver::parameters[number], parameter); }

    static constexpr int given(std::string_view handle) {  // not made
        const int place = at(handle);
        return place >= 0 && is_handle[place] ? place : -1;
    }

    static constexpr int function = number, n = sizeof...(A);
    static constexpr int queue = given(Driver::QUEUE), kernel = given(Driver::KERNEL);
    static constexpr int waits = at(Driver::WAITS), events = waits < 0 ? at("events") : waits;
    static constexpr int count = at("count") < 0 ? at("n_waits") : at("count");
    static constexpr bool has_error = at("error") >= 0, is_of_event = queue < 0 && given("event") == 0;

    static void describe(Driver& s, const Arguments& all, Call& seen) {
        if constexpr (n > 0) seen.object = word(std::get<queue < 0 ? 0 : queue>(all));
        if constexpr (queue >= 0) seen.object = s.object_of(seen.object);
        if constexpr (n > 1 && Driver::HAS_DETAIL) seen.detail = (int64_t) word(std::get<1>(all));
        if constexpr (queue >= 0 && kernel >= 0) seen.kernel = word(std::get<kernel>(all));
        if constexpr (is_of_event) seen.event = s.serial_of(seen.object);
        if constexpr (events >= 0)
            for (size_t i = 0; i < std::get<count>(all); i++)
                seen.waits.push_back(s.serial_of(word(std::get<events>(all)[i])));
    }

    // What a result says: 0 for success, as the codes of all drivers have it.
    static int64_t status_of(const Arguments& all, const Result& result) {
        if constexpr (has_error) return *std::get<at("error")>(all);
        else if constexpr (std::is_pointer_v<Result>) return result ? 0 : Driver::NOTHING_MADE;
        else if constexpr (std::is_same_v<Result, typename Driver::Status>) return (int64_t) result;
        else return 0;
    }

    static void fail(const Arguments& all, Result& result, int64_t code) {
        if constexpr (has_error) *std::get<at("error")>(all) = (int32_t) code;
        else if constexpr (std::is_same_v<Result, typename Driver::Status>) result = (Result) code;
    }

    static void ask(const Arguments& all, Result& result) {
        if constexpr (std::is_void_v<R>) std::apply(original, all);
        else result = std::apply(original, all);
    }

    static R call(A... args) {
        Driver& s = only<Driver>();
        Arguments all(args...), passed = all;  // to the driver
        Result result{};
        Call seen = {number};
        int64_t code = 0;
        bool is_without = false;
        Guard guard(s.lock);
        if constexpr (Driver::template is_described<Function>()) describe(s, all, seen);
        seen.injected = s.template fails_now<Function>(code);
        if constexpr (waits >= 0) {
            is_without = !seen.injected && std::get<count>(all) && s.drops_waits(number);
            if (is_without) {
                std::get<count>(passed) = 0;
                std::get<waits>(passed) = nullptr;
            }
        } else if (number == Driver::ONLY_WAITS) {
            is_without = !seen.injected && s.drops_waits(number);
        }
        const bool is_answered = s.template before<Function>(all, seen, is_without, guard, result);
        const bool is_asked = !is_answered && !seen.injected && !(is_without && number == Driver::ONLY_WAITS);
        guard.unlock();
        if (is_asked) ask(passed, result);
        guard.lock();
        if (seen.injected) fail(all, result, code);
        seen.status = seen.injected ? code : status_of(all, result);
        s.template after<Function>(all, seen, is_asked, guard, result);
        guard.unlock();
        s.pause_at(number);
        if constexpr (!std::is_void_v<R>) return result;
    }
};

template <class Driver, int number, class R, class... A> static void wrap(R (*&slot)(A...)) {
    if (!slot) return;  // a library that does not have it
    Function<Driver, number, R, A...>::original = slot;
    slot = Function<Driver, number, R, A...>::call;
}

// The same for an entry that returns a `Status`.
template <class Driver, int number, class Entry, class = decltype(Entry::function)> static void wrap(Entry& entry) {
    wrap<Driver, number>(entry.function);
}

#define FOREBAY_PARAMETERS(result, name, parameters) #parameters,
#define FOREBAY_WRAP(result, name, parameters) wrap<Self, CALL_##name>(calls.name);

// In a driver's struct: what its list says.
#define FOREBAY_RECORDED(DRIVER, LIST) \
    typedef DRIVER Self; \
    static constexpr auto& names = call_names; \
    static constexpr const char *parameters[] = {LIST(FOREBAY_PARAMETERS)}; \
    Calls originals; \
    void install(void *table) override { \
        Calls& calls = *(Calls *) table; \
        originals = calls; \
        LIST(FOREBAY_WRAP) \
    } \
    void uninstall(void *table) override { *(Calls *) table = originals; }

}
