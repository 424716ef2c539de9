"""Waits of the host that end, although other threads go on submitting.

On some drivers they starve beside such threads (`waits_starve`). On Intel's CPU runtime a waiting thread executes
commands of any queue of the process, and returns only when it finds none. A watcher, a native thread, therefore looks
at all such waits every few milliseconds, and limits what each queue may have in flight:

- Once other threads have submitted during a wait, each queue may have a few milliseconds of work in flight. This limit
  ends a second after the last such submission was seen.
- Once a wait has lasted for long beside such threads, queues drain now and then: a thread of the runtime, and a waiting
  thread too, stays with a queue until that is empty. So it may never come to the queue that is waited for, or never
  return. Whether a wait starves or only waits for much work cannot be known. Queues are held for a fifth of the time at
  most, so that threads whose work goes well lose little.

The limit is part of a queue's `room`, so the launch path does not get longer; `give_way` obeys it. A wait that no
other thread disturbs costs its registration. Without waits the watcher sleeps.
"""

from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport Driver, Interrupted, Status, Waits
from forebay.core.vector_clock cimport Epochs, Lock, completed_epoch, submitted_epoch
from forebay.core.state cimport UNLIMITED, DeviceState, renew_room, states, states_lock

cdef extern from *:
    """
    #include <atomic>
    #include <chrono>
    #include <condition_variable>
    #include <cstdint>
    #include <mutex>
    #include <system_error>
    #include <thread>
    #ifndef _WIN32
    #include <signal.h>
    #endif

    namespace forebay {
    static std::uint64_t microseconds() {
        return std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    /* A native thread without a Python thread state. It calls `look` again after as many microseconds as that returns.
       After 0 it sleeps until `wake` is called. */
    class Watcher {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t (*look)();
        bool woken = false, running = false;
        std::atomic<bool> ended{false};

        void run() {
    #ifndef _WIN32
            sigset_t all;  // signals are for Python's main thread
            sigfillset(&all);
            pthread_sigmask(SIG_BLOCK, &all, nullptr);
    #endif
            std::unique_lock<std::mutex> lock(mutex);
            while (!ended) {
                if (!woken) {
                    changed.wait(lock);
                    continue;
                }
                woken = false;
                lock.unlock();
                while (std::uint64_t pause = ended ? 0 : look())
                    std::this_thread::sleep_for(std::chrono::microseconds(pause));
                lock.lock();
            }
            running = false;
            changed.notify_all();
        }

    public:
        explicit Watcher(std::uint64_t (*look)()) : look(look) {}

        bool wake() {  // false when the system has no thread
            std::lock_guard<std::mutex> lock(mutex);
            woken = true;
            if (!running && !ended) {
                try {
                    std::thread(&Watcher::run, this).detach();
                } catch (const std::system_error &) {
                    return false;
                }
                running = true;
            }
            changed.notify_all();
            return true;
        }

        void end() {
            std::unique_lock<std::mutex> lock(mutex);
            ended = true;
            changed.notify_all();
            changed.wait(lock, [this] { return !running; });
        }
    };
    }
    """
    uint64_t microseconds "forebay::microseconds"() nogil

    cdef cppclass Watcher "forebay::Watcher":
        Watcher(uint64_t (*look)() noexcept nogil)
        bint wake() nogil
        void end() nogil


cdef enum:
    LEAST_BACKLOG = 32  # commands in flight of a queue, until it is known how fast they run
    MOST_BACKLOG = 512  # a GPU's driver takes some hundreds, too, before a launch blocks
    IDLE_LOOKS = 250  # without a wait, before the watcher sleeps
    # All in microseconds
    PAUSE = 4000  # between two looks
    PAUSE_IN_WAIT = 2000  # the same, while a wait lasts
    PAUSE_TO_COMPARE = 500  # while the limit holds waits are short, and whether threads submit during one must be seen
    CALM = 1000000  # without a submission during a wait, before the limit ends
    WORK_IN_FLIGHT = 4000  # of a queue, while the limit holds
    RATED = 32000  # over how long it is counted how fast commands run
    STARVED = 20000  # how long a wait has lasted then
    LEAST_DRAIN = 4000  # how long queues are held so that they drain; the next time twice as long if they did not
    MOST_DRAIN = 512000


cdef cppclass HostWait:
    # A wait that is under way, on its thread's stack
    uint64_t since  # when the watcher saw it first, or 0
    HostWait* next
    HostWait* previous


cdef Lock waits_lock  # guards the list, and the two that follow
cdef HostWait* first_wait = NULL
cdef bint awake = False  # the watcher
cdef bint begun = False  # whether a wait began since the last look

# The watcher's own. Times are in microseconds
cdef uint32_t idle_looks = 0
cdef bint contended = False  # whether other threads submitted during a wait in the last second
cdef uint64_t contended_at = 0  # when they were last seen to
cdef uint64_t backlog = LEAST_BACKLOG
cdef uint64_t last_submitted = UNLIMITED
cdef uint64_t rated_at = 0, completed_then = 0
cdef uint64_t drain_length = LEAST_DRAIN, drain_begins = 0, drain_ends = 0  # the last is 0 while none lasts

cdef Watcher* watcher = new Watcher(look)  # never deleted: daemon threads may wait while the process ends


cdef void begin_wait(HostWait* wait) noexcept nogil:
    global first_wait, awake, begun
    cdef bint asleep
    wait.since = 0
    wait.previous = NULL
    waits_lock.lock()
    wait.next = first_wait
    if first_wait != NULL:
        first_wait.previous = wait
    first_wait = wait
    begun = True
    asleep = not awake
    awake = True
    waits_lock.unlock()
    if asleep and not watcher.wake():
        waits_lock.lock()
        awake = False  # the next wait tries again
        waits_lock.unlock()


cdef void end_wait(HostWait* wait) noexcept nogil:
    global first_wait
    waits_lock.lock()
    if wait.previous != NULL:
        wait.previous.next = wait.next
    else:
        first_wait = wait.next
    if wait.next != NULL:
        wait.next.previous = wait.previous
    waits_lock.unlock()


cdef Status wait_watched(const Driver* driver, void* context, Waits events, Interrupted interrupted) noexcept nogil:
    cdef HostWait wait
    cdef Status status
    begin_wait(&wait)
    status = driver.wait_events(context, events, interrupted)
    end_wait(&wait)
    return status


cdef Status wait_on_host(
    DeviceState* device, const Driver* driver, Waits events, Interrupted interrupted
) noexcept nogil:
    if device.in_flight.waits_starve:
        return wait_watched(driver, device.context, events, interrupted)
    return driver.wait_events(device.context, events, interrupted)


# -- the watcher


cdef uint64_t note_progress(uint64_t now, bint disturbed) noexcept nogil:
    """Note whether other threads have submitted since the last look, if a wait has lasted as long, and how many
    commands may be in flight beside waits. Return how many the queue with the most has in flight.
    """
    global backlog, completed_then, contended, contended_at, last_submitted, rated_at
    cdef uint64_t submitted = 0, completed = 0, most = 0
    cdef Epochs* epochs
    cdef size_t i
    states_lock.lock()
    for device in states:
        if device.in_flight.waits_starve:
            device.registry.lock.lock()
            for i in range(device.registry.queues.size()):
                epochs = device.registry.queues[i].epochs
                completed += completed_epoch(epochs)
                submitted += submitted_epoch(epochs)
                most = max(most, submitted_epoch(epochs) - completed_epoch(epochs))
            device.registry.lock.unlock()
    states_lock.unlock()
    if disturbed and submitted > last_submitted:
        contended = True
        contended_at = now
    last_submitted = submitted
    if now >= rated_at + RATED:
        if contended and completed > completed_then:  # fewer, when a queue has gone
            backlog = (completed - completed_then) * WORK_IN_FLIGHT // (now - rated_at)
            backlog = min(max(backlog, <uint64_t> LEAST_BACKLOG), <uint64_t> MOST_BACKLOG)
        rated_at = now
        completed_then = completed
    return most


cdef bint is_draining(uint64_t now, bint starved, bint drained) noexcept nogil:
    """Return whether queues are to drain now."""
    global drain_begins, drain_ends, drain_length
    if not starved:
        drain_length = LEAST_DRAIN
        drain_ends = 0
        return False
    if drain_ends == 0:
        if now < drain_begins:
            return False
        drain_ends = now + drain_length
        return True
    if now < drain_ends and not drained:
        return True
    if not drained:
        drain_length = min(2 * drain_length, <uint64_t> MOST_DRAIN)
    drain_begins = now + 4 * drain_length
    drain_ends = 0
    return False


cdef void limit_in_flight(uint64_t limit) noexcept nogil:
    """Let no queue whose waits starve have more commands in flight."""
    cdef size_t i
    states_lock.lock()
    for device in states:
        if device.in_flight.waits_starve and device.in_flight.limit.load() != limit:
            device.registry.lock.lock()
            device.in_flight.limit.store(limit)
            for i in range(device.registry.queues.size()):
                renew_room(device.registry.queues[i].queue)
            device.registry.lock.unlock()
    states_lock.unlock()


cdef uint64_t look() noexcept nogil:
    """Look at the waits that are under way. Return after how many microseconds to look again."""
    global awake, backlog, begun, contended, idle_looks
    cdef bint lasting = False, starved = False, waited, goes_on
    cdef uint64_t now = microseconds(), most = 0
    cdef HostWait* wait
    waits_lock.lock()
    waited = first_wait != NULL
    wait = first_wait
    while wait != NULL:
        lasting = lasting or wait.since != 0
        starved = starved or wait.since != 0 and now > wait.since + STARVED
        if wait.since == 0:
            wait.since = now
        wait = wait.next
    idle_looks = 0 if waited or begun else idle_looks + 1
    begun = False
    awake = goes_on = idle_looks < IDLE_LOOKS
    waits_lock.unlock()
    if waited:
        most = note_progress(now, lasting)
    if not goes_on or contended and now > contended_at + CALM:
        contended = False
        backlog = LEAST_BACKLOG
    if is_draining(now, contended and starved, most <= 1):
        limit_in_flight(1)
    else:
        limit_in_flight(backlog if contended else UNLIMITED)
    if not goes_on:
        idle_looks = 0
        return 0
    if lasting:
        return PAUSE_IN_WAIT
    return PAUSE_TO_COMPARE if contended and waited else PAUSE


def end_watching() -> None:
    """Stop the watcher: at exit, before drivers are unloaded."""
    with nogil:
        watcher.end()
        limit_in_flight(UNLIMITED)
