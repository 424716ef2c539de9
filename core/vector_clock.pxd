"""Epochs, and the clocks that are made of them.

Epochs: how many commands a queue was given, and how many are known to be done.

They are separate from the queue so that markers and clocks can hold them without holding the queue. A queue's clock
names the epochs of other queues; if it held the queues, two queues that waited on each other would never be freed.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport (
    atomic, memory_order_acq_rel, memory_order_acquire, memory_order_relaxed, memory_order_release
)
from libcpp.vector cimport vector


cdef cppclass Epochs:
    atomic[int32_t] references
    uint64_t queue_id  # never used again, so that a clock can never mistake a new queue for a dead one
    atomic[uint64_t] submitted  # written under the queue's lock, read by anyone
    atomic[uint64_t] completed  # only ever raised


cdef inline Epochs* new_epochs(uint64_t queue_id) noexcept nogil:
    cdef Epochs* epochs = new Epochs()
    epochs.references.store(1, memory_order_relaxed)
    epochs.queue_id = queue_id
    epochs.submitted.store(0, memory_order_relaxed)
    epochs.completed.store(0, memory_order_relaxed)
    return epochs


cdef inline Epochs* retain_epochs(Epochs* epochs) noexcept nogil:
    epochs.references.fetch_add(1, memory_order_relaxed)
    return epochs


cdef inline void release_epochs(Epochs* epochs) noexcept nogil:
    if epochs.references.fetch_sub(1, memory_order_acq_rel) == 1:
        del epochs


cdef inline uint64_t submitted_epoch(Epochs* epochs) noexcept nogil:
    return epochs.submitted.load(memory_order_acquire)


cdef inline uint64_t completed_epoch(Epochs* epochs) noexcept nogil:
    return epochs.completed.load(memory_order_acquire)


cdef inline bint is_empty(Epochs* epochs) noexcept nogil:
    """Return whether all is done: two loads, no lock, no driver call. ``completed`` is read first, so that it never
    exceeds the ``submitted`` read after it.
    """
    cdef uint64_t completed = completed_epoch(epochs)
    return completed == submitted_epoch(epochs)


cdef inline void advance_submitted(Epochs* epochs) noexcept nogil:
    """Count one more command. The queue's lock is held, so a plain store is enough."""
    epochs.submitted.store(epochs.submitted.load(memory_order_relaxed) + 1, memory_order_release)


cdef inline void advance_submitted_by(Epochs* epochs, uint64_t count) noexcept nogil:
    """Count more, for a command that takes the room of several. The queue's lock is held."""
    epochs.submitted.store(epochs.submitted.load(memory_order_relaxed) + count, memory_order_release)


# -- the lock of queues, devices and allocations

cdef extern from *:
    """
    #ifndef FOREBAY_LOCK
    #define FOREBAY_LOCK
    #include <atomic>
    #include <chrono>
    #include <cstdint>
    #include <thread>

    namespace forebay {
    /* Locks by one atomic exchange and unlocks by one store, both inline: a third of what std::mutex costs a launch.
       A waiter spins briefly, because commands take a microsecond. Then it sleeps, because a driver call on a full
       queue may take seconds.

       The word's lowest byte says that the lock is held; the others count who waits for it. Who comes while somebody
       waits gives way for some milliseconds. Otherwise a thread that launches without pause, and so has the lock nearly
       always, would keep a waiter that looks now and then out for as long as it goes on. */
    class Lock {
        static constexpr std::uint32_t WAITER = 256;
        union {
            std::atomic<std::uint32_t> word{0};
            std::atomic<std::uint8_t> held;  // its first byte in memory, which is the lowest one (little-endian)
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
                if (try_lock())
                    return;
            }
            word.fetch_add(WAITER, std::memory_order_relaxed);
            for (; held.load(std::memory_order_relaxed) || held.exchange(1, std::memory_order_acquire); tries++)
                pause(tries);
            word.fetch_sub(WAITER, std::memory_order_relaxed);
        }

    public:
        bool try_lock() {
            std::uint32_t free = 0;
            return word.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
        }
        void unlock() { held.store(0, std::memory_order_release); }
        bool is_wanted() const { return word.load(std::memory_order_relaxed) >= WAITER; }
        void lock() {
            if (!try_lock())
                wait();
        }
        void reset() { word.store(0); }
    };
    }
    #endif
    """
    cdef cppclass Lock "forebay::Lock":
        void lock() nogil
        bint try_lock() nogil
        void unlock() nogil
        bint is_wanted() nogil  # somebody else waits for it
        void reset() nogil  # in a forked child, which has none of the threads that held it or waited


# A clock says, for a queue, which epochs of other queues it is already ordered after. It is an immutable snapshot,
# shared by reference count until it changes. NULL is the empty clock. What has changed lately stands in the clock
# itself; the rest lies in chunks, which clocks share. So a wait beside a thousand busy queues copies a few entries, and
# now and then references to the chunks.

cdef enum:
    RECENT = 8


cdef struct ClockEntry:
    Epochs* queue  # retained by who has the entry
    uint64_t epoch


cdef cppclass Chunk:
    atomic[int32_t] references
    uint64_t number  # of the queue ids divided by the chunk's size, so that all clocks cut at the same places
    vector[ClockEntry] entries  # by ascending queue id, at most one a queue


cdef cppclass Chunks:
    atomic[int32_t] references
    vector[Chunk*] each  # by ascending number; none is empty
    size_t next_look  # the chunk that the next change of this list looks at, to drop it if all of it is done


cdef cppclass Clock:
    atomic[int32_t] references
    Chunks* chunks  # retained; NULL for none
    size_t next_look  # the chunk that the next change looks at, to see whether all of it is done
    size_t found_done  # how many were, since the first
    size_t count
    ClockEntry recent[RECENT]  # in no order, at most one a queue; later than what the chunks say of that queue


cdef Clock* retain_clock(Clock* clock) noexcept nogil
cdef void release_clock(Clock* clock) noexcept nogil
cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil
cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil
cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil
cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil
# The only way to raise ``completed``. The clock is the queue's at that epoch, or NULL for nothing but the queue itself.
cdef void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept nogil
cdef bint clock_is_done(const Clock* clock) noexcept nogil
# Append all entries; of those of one queue the highest counts. They are there as long as the clock is.
cdef void list_entries(const Clock* clock, vector[ClockEntry]& into) noexcept nogil
