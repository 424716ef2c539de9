"""Waits of the host that end, although other threads go on submitting.

On some drivers they starve beside such threads (`waits_starve`). On Intel's CPU runtime a waiting thread executes
commands of any queue of the process, and returns only when it finds none. A watcher, a native thread, therefore looks
at all such waits every few milliseconds, and limits what each queue may have in flight:

- While a wait is stuck, which means that its events are over and it has not returned, no queue is given commands.
  Nothing that the wait needs is outstanding then.
- Once other threads have submitted during a wait, each queue may have a few milliseconds of work in flight, because a
  wait that is stuck lasts until this has run. This limit ends a second after the last such submission was seen.

The limit is part of a queue's `room`, so the launch path does not get longer; `give_way` in room.pyx obeys it. A wait
that no other thread disturbs costs its registration. Without waits the watcher sleeps.
"""

from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport NOT_YET, Driver, Interrupted, Status, Waits
from forebay.core.epochs cimport Epochs, Lock, completed_epoch, submitted_epoch
from forebay.core.state cimport UNLIMITED, DeviceState, room_with, states, states_lock

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
    /* A native thread without a Python thread state. It calls `look` again after as many microseconds as that returns.
       After 0 it sleeps until `wake` is called. */
    class Watcher {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t (*look)();
        bool woken = false, running = false;
        std::atomic<bool> ended{false};
        std::atomic<std::uint64_t> number{0};

        void run() {
    #ifndef _WIN32
            number = (std::uint64_t) pthread_self();
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

        std::uint64_t identifier() const { return number; }

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
    cdef cppclass Watcher "forebay::Watcher":
        Watcher(uint64_t (*look)() noexcept nogil)
        uint64_t identifier() nogil
        bint wake() nogil
        void end() nogil


cdef enum:
    LEAST_BACKLOG = 32  # commands in flight of a queue, until it is known how fast they run
    MOST_BACKLOG = 512  # a GPU's driver takes some hundreds, too, before a launch blocks
    PAUSE = 4000  # microseconds between two looks
    PAUSE_IN_WAIT = 2000  # the same, while a wait lasts
    PAUSE_OF_STUCK = 200
    PAUSE_TO_COMPARE = 500  # while the limit holds waits are short, and whether threads submit during one must be seen
    CALM = 1000000  # microseconds without a submission during a wait, before the limit ends
    IDLE_LOOKS = 250  # without a wait, before the watcher sleeps


cdef cppclass HostWait:
    # A wait that is under way, on its thread's stack
    const Driver* driver
    Waits events
    uint32_t over  # how many of the events, from the first on, are known to be over
    bint looked_at  # by the watcher
    HostWait* next
    HostWait* previous


cdef Lock waits_lock  # guards the list, and the two that follow
cdef HostWait* first_wait = NULL
cdef bint awake = False  # the watcher
cdef bint begun = False  # whether a wait began since the last look

# The watcher's own
cdef uint32_t idle_looks = 0
cdef bint contended = False  # whether other threads submitted during a wait in the last second
cdef uint64_t calm = 0  # microseconds since they were seen to
cdef uint64_t backlog = LEAST_BACKLOG
cdef uint64_t last_submitted = UNLIMITED
cdef uint64_t last_completed = 0

cdef Watcher* watcher = new Watcher(look)  # never deleted: daemon threads may wait while the process ends


cdef void begin_wait(HostWait* wait) noexcept nogil:
    global first_wait, awake, begun
    cdef bint asleep
    wait.over = 0
    wait.looked_at = False
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
    wait.driver = driver
    wait.events = events
    begin_wait(&wait)
    status = driver.wait_events(context, events, interrupted)
    end_wait(&wait)
    return status


cdef Status wait_on_host(
    DeviceState* device, const Driver* driver, Waits events, Interrupted interrupted
) noexcept nogil:
    if device.waits_starve:
        return wait_watched(driver, device.context, events, interrupted)
    return driver.wait_events(device.context, events, interrupted)


# -- the watcher


cdef bint is_stuck(HostWait* wait) noexcept nogil:
    """Return whether all events of the wait were over at the last look already."""
    if wait.over == wait.events.count:
        return True
    while wait.over < wait.events.count and wait.driver.event_status(wait.events.events[wait.over]) != NOT_YET:
        wait.over += 1
    return False


cdef void note_progress(bint disturbed) noexcept nogil:
    """Note whether other threads have submitted since the last look, if a wait has lasted as long, and how many
    commands may be in flight beside waits.
    """
    global backlog, calm, contended, last_completed, last_submitted
    cdef uint64_t submitted = 0, completed = 0
    cdef Epochs* epochs
    cdef size_t i
    states_lock.lock()
    for device in states:
        if device.waits_starve:
            device.registry_lock.lock()
            for i in range(device.queues.size()):
                epochs = device.queues[i].epochs
                completed += completed_epoch(epochs)
                submitted += submitted_epoch(epochs)
            device.registry_lock.unlock()
    states_lock.unlock()
    if disturbed and submitted > last_submitted:
        contended = True
        calm = 0
    if contended and completed > last_completed + backlog // 2:
        backlog = min(2 * backlog, <uint64_t> MOST_BACKLOG)
    last_submitted = submitted
    last_completed = completed


cdef void limit_in_flight(uint64_t limit) noexcept nogil:
    """Let no queue whose waits starve have more commands in flight."""
    cdef size_t i
    states_lock.lock()
    for device in states:
        if device.waits_starve and device.in_flight_limit.load() != limit:
            device.registry_lock.lock()
            device.in_flight_limit.store(limit)
            for i in range(device.queues.size()):
                device.queues[i].queue.room = room_with(device, device.queues[i].queue.lent)
            device.registry_lock.unlock()
    states_lock.unlock()


cdef uint64_t look() noexcept nogil:
    """Look at the waits that are under way. Return after how many microseconds to look again."""
    global awake, backlog, begun, calm, contended, idle_looks
    cdef bint stuck = False, lasting = False, waited, goes_on
    cdef uint64_t pause_time
    cdef HostWait* wait
    waits_lock.lock()
    waited = first_wait != NULL
    wait = first_wait
    while wait != NULL:
        stuck = is_stuck(wait) or stuck
        lasting = lasting or wait.looked_at
        wait.looked_at = True
        wait = wait.next
    idle_looks = 0 if waited or begun else idle_looks + 1
    begun = False
    awake = goes_on = idle_looks < IDLE_LOOKS
    waits_lock.unlock()
    if waited:
        note_progress(lasting)
    if not goes_on or calm >= CALM:
        contended = False
        backlog = LEAST_BACKLOG
    limit_in_flight(0 if stuck else backlog if contended else UNLIMITED)
    if not goes_on:
        idle_looks = 0
        return 0
    if stuck:
        pause_time = PAUSE_OF_STUCK
    elif lasting:
        pause_time = PAUSE_IN_WAIT
    else:
        pause_time = PAUSE_TO_COMPARE if contended and waited else PAUSE
    calm += pause_time
    return pause_time


def watcher_thread() -> int:
    """Return the identifier of the watcher, as `threading.get_ident` would; 0 before the first wait. It asks the driver
    how far events are, which no call of the program does.
    """
    return watcher.identifier()


def end_watching() -> None:
    """Stop the watcher: at exit, before drivers are unloaded."""
    with nogil:
        watcher.end()
        limit_in_flight(UNLIMITED)
