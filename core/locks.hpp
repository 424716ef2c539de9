// The lock of queues, devices and allocations, and the guard that holds it. Nothing here needs the GIL.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

namespace forebay {

// Locks by one atomic exchange and unlocks by one store, both inline: a third of what std::mutex costs a launch. A
// waiter spins briefly, because commands take a microsecond. Then it sleeps, because a driver call on a full queue may
// take seconds.
//
// The word's lowest byte says that the lock is held; the others count the waiting threads. A thread that comes while
// others wait gives way for some milliseconds. Otherwise a thread that launches without pause, and so has the lock nearly always,
// would keep a waiter that looks now and then out for as long as it goes on.
class Lock {
    static constexpr uint32_t WAITER = 256;
    union {
        std::atomic<uint32_t> word{0};
        std::atomic<uint8_t> held;  // its first byte in memory, which is the lowest one (little-endian)
    };

    static void pause(int tries) {
        if (tries < 100)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(tries < 200 ? 20 : 200));
    }

    void wait() {
        int tries = 0;
        for (; tries < 250 && word.load(std::memory_order_relaxed) >= WAITER; tries++) {
            pause(tries);
            if (try_lock()) return;
        }
        word.fetch_add(WAITER, std::memory_order_relaxed);
        for (; held.load(std::memory_order_relaxed) || held.exchange(1, std::memory_order_acquire); tries++)
            pause(tries);
        word.fetch_sub(WAITER, std::memory_order_relaxed);
    }

  public:
    bool try_lock() {
        uint32_t free = 0;
        return word.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void unlock() { held.store(0, std::memory_order_release); }
    bool is_wanted() const { return word.load(std::memory_order_relaxed) >= WAITER; }
    void lock() {
        if (!try_lock()) wait();
    }
    void reset() { word.store(0); }
};

// Holds at most one lock: until it takes another, leaves it or goes out of scope. Declare it after the references of the
// function, which then go without the lock.
class Guard {
    Lock *held = nullptr;

  public:
    Guard() noexcept = default;
    explicit Guard(Lock &lock) { take(lock); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
    ~Guard() { leave(); }

    void take(Lock &lock) {
        leave();
        lock.lock();
        held = &lock;
    }
    bool try_take(Lock &lock) {
        leave();
        if (!lock.try_lock()) return false;
        held = &lock;
        return true;
    }
    void leave() {
        if (held) std::exchange(held, nullptr)->unlock();
    }
};

}  // namespace forebay
