// Ownership: counted references, and locks with their guard. Nothing here needs the GIL.
//
// A plain pointer is a borrowed reference. A reference that is kept is a `Ref`, or one of several in `Refs`. A `Ref`
// reads as the plain pointer; assigning a plain pointer adds a reference. The object counts its own references: it has
// an atomic `references`, 1 when it is made, and a `destroy` that the last release calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace forebay {

#ifdef Py_GIL_DISABLED
constexpr bool FREE_THREADED = true;
#else
constexpr bool FREE_THREADED = false;
#endif

// For references that an atomic, a linked list or a Python object holds as plain pointers.
template <class T> T *retain(T *object) noexcept {
    object->references.fetch_add(1, std::memory_order_relaxed);
    return object;
}

template <class T> void release(T *object) noexcept {
    if (object->references.fetch_sub(1, std::memory_order_acq_rel) == 1) object->destroy(object);
}

template <class T> class Ref {
    T *object = nullptr;

  public:
    Ref() noexcept = default;
    Ref(T *borrowed) noexcept : object(borrowed ? retain(borrowed) : nullptr) {}
    Ref(const Ref &other) noexcept : object(other.object ? retain(other.object) : nullptr) {}
    Ref(Ref &&other) noexcept : object(other.take()) {}
    Ref &operator=(Ref other) noexcept {
        std::swap(object, other.object);
        return *this;
    }
    ~Ref() {
        if (object) release(object);
    }

    static Ref adopt(T *owned) noexcept {
        Ref made;
        made.object = owned;
        return made;
    }
    static Ref share(T *borrowed) noexcept { return Ref(borrowed); }

    T *get() const noexcept { return object; }
    operator T *() const noexcept { return object; }
    T *operator->() const noexcept { return object; }
    T *take() noexcept { return std::exchange(object, nullptr); }  // the caller owns it then
    void clear() noexcept { *this = Ref(); }
};

// Iterating over it in Cython gives plain pointers, so no count changes.
template <class T> struct Refs : std::vector<Ref<T>> {
    void adopt(T *owned) { this->push_back(Ref<T>::adopt(owned)); }
    void share(T *borrowed) { this->push_back(Ref<T>::share(borrowed)); }
};

}  // namespace forebay

// -- words that are read without the lock under which they are written

namespace forebay {

// A relaxed atomic that reads as a plain word. With a GIL it is one: GCC tests a plain word in memory, and adds to it,
// by one instruction, but needs two and three for an atomic.
template <class T> class Relaxed {
    T word{};

  public:
    Relaxed() noexcept = default;
    explicit Relaxed(T value) noexcept : word(value) {}
#ifdef Py_GIL_DISABLED
    Relaxed(const Relaxed &other) noexcept : word(other) {}
    operator T() const noexcept { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
    Relaxed &operator=(T value) noexcept {
        __atomic_store_n(&word, value, __ATOMIC_RELAXED);
        return *this;
    }
    Relaxed &operator=(const Relaxed &other) noexcept { return *this = T(other); }
#else
    operator T() const noexcept { return word; }
    Relaxed &operator=(T value) noexcept {
        word = value;
        return *this;
    }
#endif
    template <class To> explicit operator To *() const noexcept { return static_cast<To *>(T(*this)); }
    Relaxed &operator+=(T more) noexcept { return *this = T(*this) + more; }
    Relaxed &operator-=(T less) noexcept { return *this = T(*this) - less; }
};

}  // namespace forebay

// -- locks

// For clang's -Wthread-safety (`python -m tools.checks locks`); empty for other compilers.
#ifdef __clang__
#define THREAD_SAFETY(words) __attribute__((words))
#else
#define THREAD_SAFETY(words)
#endif
#define GUARDED_BY(lock) THREAD_SAFETY(guarded_by(lock))  // a member
#define REQUIRES(lock) THREAD_SAFETY(requires_capability(lock))  // a function that is called under it

namespace forebay {

// Locks by one atomic exchange and unlocks by one store, both inline: a third of what std::mutex costs a launch. A
// waiter spins briefly, because commands take a microsecond. Then it sleeps, because a driver call on a full queue may
// take seconds. The lowest byte says that the lock is held; the others count the waiting threads. A thread that arrives
// while others wait yields for some milliseconds. Otherwise a thread that launches without pause, and so nearly always
// has the lock, would starve a waiter that looks only now and then.
class THREAD_SAFETY(capability("lock")) Lock {
    static constexpr uint32_t WAITER = 256;
    union {
        std::atomic<uint32_t> word;
        std::atomic<uint8_t> held;  // its first byte in memory, which is the lowest one (little-endian)
    };

    static void pause(int tries) {
        if (tries < 100)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(tries < 200 ? 20 : 200));
    }

    void wait() THREAD_SAFETY(no_thread_safety_analysis) {
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
    constexpr Lock() noexcept : word(0) {}  // so that a static one runs no code
    bool try_lock() THREAD_SAFETY(try_acquire_capability(true)) {
        uint32_t free = 0;
        return word.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void unlock() THREAD_SAFETY(release_capability()) THREAD_SAFETY(no_thread_safety_analysis) {
        held.store(0, std::memory_order_release);
    }
    bool is_wanted() const { return word.load(std::memory_order_relaxed) >= WAITER; }
    void lock() THREAD_SAFETY(acquire_capability()) THREAD_SAFETY(no_thread_safety_analysis) {
        if (!try_lock()) wait();
    }
    void reset() { word.store(0); }
};

// Holds at most one lock, until it takes another, leaves it or goes out of scope. Declare it after the function's
// references, so that they are released without the lock. Inlined even on exception paths, so it stays in registers.
class THREAD_SAFETY(scoped_lockable) Guard {
    Lock *held = nullptr;

  public:
    Guard() noexcept = default;
    explicit Guard(Lock &lock) THREAD_SAFETY(acquire_capability(lock)) { take(lock); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
    [[gnu::always_inline]] ~Guard() THREAD_SAFETY(release_capability()) { leave(); }

    [[gnu::always_inline]] void take(Lock &lock) THREAD_SAFETY(no_thread_safety_analysis) {
        leave();
        lock.lock();
        held = &lock;
    }
    [[gnu::always_inline]] bool try_take(Lock &lock) THREAD_SAFETY(no_thread_safety_analysis) {
        leave();
        if (!lock.try_lock()) return false;
        held = &lock;
        return true;
    }
    [[gnu::always_inline]] void leave() THREAD_SAFETY(no_thread_safety_analysis) {
        if (held) held->unlock();
        held = nullptr;
    }
};

}  // namespace forebay
