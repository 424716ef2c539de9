"""The state of queues and devices below Python: everything that is touched without the GIL.

A `QueueState` is owned by reference count. Its Queue holds a reference, its device's registry holds one while work may
be outstanding, and the null queue's list holds one while the queue is in it. So closing or dropping a queue does not
end the ordering that it stands for.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from libcpp.deque cimport deque

from cpython.object cimport PyObject

from forebay.core.clock cimport Clock
from forebay.core.driver cimport NULL_FORBIDDEN, QUEUE_CAPTURED, QUEUE_CLOSED, Driver, Status
from forebay.core.epochs cimport Epochs
from forebay.core.marker cimport Marker
from forebay.core.plan cimport Plan


cdef extern from *:
    """
    #ifndef FOREBAY_LOCK
    #define FOREBAY_LOCK
    #include <atomic>
    #include <chrono>
    #include <thread>

    namespace forebay {
    /* Locks by one atomic exchange and unlocks by one store, both inline: a third of what std::mutex costs a launch.
       A waiter spins briefly, because commands take a microsecond. Then it sleeps, because a driver call on a full
       queue may take seconds. */
    class Lock {
        std::atomic<bool> held{false};

    public:
        bool try_lock() { return !held.exchange(true, std::memory_order_acquire); }
        void unlock() { held.store(false, std::memory_order_release); }
        void lock() {
            for (int tries = 0; !try_lock(); tries++) {
                if (tries < 100)
                    std::this_thread::yield();
                else
                    std::this_thread::sleep_for(std::chrono::microseconds(tries < 200 ? 20 : 200));
            }
        }
    };
    }
    #endif
    """
    cdef cppclass Lock "forebay::Lock":
        void lock() nogil
        bint try_lock() nogil
        void unlock() nogil


# The only list of counters. `Stats` has the same names, and `allocations`.
cdef struct Statistics:
    uint64_t launches
    uint64_t copies
    uint64_t fills
    uint64_t host_functions
    uint64_t markers_made
    uint64_t markers_shared
    uint64_t waits_made
    uint64_t waits_elided_completed
    uint64_t waits_elided_ordered
    uint64_t events_made
    uint64_t host_syncs
    uint64_t arg_bytes_set
    uint64_t arg_bytes_skipped
    uint64_t reductions
    uint64_t graph_launches


cdef struct QueueAnchor:
    Marker* after  # kept until this is reached; owned. Not flushed, so nobody else may wait for it
    PyObject* thing  # owned


cdef struct DeviceAnchor:
    Clock* after  # kept until all of this is done; owned
    PyObject* thing  # owned, as the next two are; one of the three is not NULL
    Plan* plan
    Marker* marker


cdef enum Barred:
    # The reasons share one word, so that the launch path checks all of them at once
    BY_CLOSING = 1
    BY_CAPTURE = 2  # it is captured: its commands become part of a graph
    BY_CAPTURE_OF_OTHERS = 4  # on the null queue, while a blocking queue is captured


cdef cppclass QueueState:
    atomic[int32_t] references
    Lock lock  # guards all below but the atomics
    const Driver* driver
    void* handle
    DeviceState* device  # retained
    Epochs* epochs  # retained
    bint is_null
    bint blocking
    bint timing
    bint adopted  # gets commands that forebay does not see, so only the driver knows whether it is empty
    uint32_t barred  # why no command may be submitted: 0, or some of Barred
    Clock* clock
    Marker* marker  # of the newest epoch anyone asked for
    vector[Marker*] pending  # waits that already count as commands, but that no command has carried yet
    atomic[uint64_t] null_seen  # the null queue's epoch up to which this queue needs no wait
    bint listed
    bint settled  # in the list, where every later command of the null queue will find it
    QueueState* next_listed
    unordered_map[uint64_t, Plan*] plans  # by kernel id
    Plan* last_plan
    Statistics counts
    deque[QueueAnchor] anchors  # by ascending epoch
    bint retiring  # gone and done; it ends once all work of `outlives`, which may wait for it, is done
    Clock* outlives  # the device's outstanding work when `retiring` was set; owned


cdef cppclass DeviceState:
    atomic[int32_t] references
    const Driver* driver
    void* context
    uint64_t keeps_gil_below  # a launch may keep the GIL while fewer commands than this can be in flight
    QueueState* null_queue  # not retained: the null queue's Queue belongs to the Device
    atomic[QueueState*] listed  # blocking queues with a command since the last null-queue wait, newest first
    Lock registry_lock  # guards all below
    vector[QueueState*] queues  # by ascending queue id; each retained
    vector[DeviceAnchor] anchors
    Statistics retired  # the counts of queues that are gone
    uint64_t host_syncs  # waits of the host for an event or for the whole device
    vector[uint64_t] dead_kernels  # ids of kernels whose plans must still be dropped from the queues
    atomic[int32_t] orphans  # number of registered queues whose Queue is gone
    atomic[uint64_t] closings  # how many allocations were closed; when it changes, bound launches must check again
    int blocking_captures  # how many blocking queues are captured; guarded by the null queue's lock
    uint64_t unseen_writes  # how many launches may have written anywhere; only touched with the GIL
    atomic[int32_t] open_holds  # gates not opened yet: OpenCL forbids releasing anything but events meanwhile


cdef DeviceState* new_device_state(const Driver* driver, void* context, uint64_t keeps_gil_below) noexcept nogil
cdef void release_device_state(DeviceState* device) noexcept nogil
cdef QueueState* new_queue_state(
    DeviceState* device, void* handle, uint64_t queue_id, bint is_null, bint blocking, bint timing, bint adopted
) noexcept nogil
cdef QueueState* retain_queue_state(QueueState* queue) noexcept nogil
cdef void release_queue_state(QueueState* queue) noexcept nogil
cdef void registered_queues(DeviceState* device, vector[QueueState*]& into) noexcept nogil
cdef Clock* outstanding_work(DeviceState* device) noexcept nogil
cdef void anchor(DeviceState* device, DeviceAnchor what) noexcept nogil
cdef void anchor_marker(DeviceState* device, Marker* marker) noexcept nogil
cdef inline bint is_closed(const QueueState* queue) noexcept nogil:
    return queue.barred & BY_CLOSING != 0


cdef inline Status refusal(const QueueState* queue) noexcept nogil:
    """Return the status that refuses a command of the queue; 0 when it is allowed. The queue is locked."""
    if queue.barred == 0:
        return 0
    if queue.barred & BY_CLOSING:
        return QUEUE_CLOSED
    return QUEUE_CAPTURED if queue.barred & BY_CAPTURE else NULL_FORBIDDEN


cdef object stats_of(const Statistics& counts, object allocations=*)
cdef void bar_for_capture(QueueState* queue) noexcept nogil
cdef void unbar_after_capture(QueueState* queue) noexcept nogil
cdef int captures_under_way() noexcept nogil
cdef void add_statistics(Statistics& into, const Statistics& counts) noexcept nogil
cdef Statistics device_statistics(DeviceState* device) noexcept nogil
