"""Makes, counts and ends queue and device states."""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic, memory_order_acq_rel, memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference, preincrement

from forebay.core.clock cimport Clock, ClockEntry, clock_of_entries, release_clock
from forebay.core.driver cimport Driver
from forebay.core.epochs cimport is_empty, new_epochs, release_epochs, submitted_epoch
from forebay.core.marker cimport Marker, release_marker
from forebay.core.plan cimport Plan, delete_plan

from forebay.core.stats import Stats


cdef DeviceState* new_device_state(const Driver* driver, void* context, uint64_t keeps_gil_below) noexcept nogil:
    cdef DeviceState* device = new DeviceState()
    device.references.store(1, memory_order_relaxed)
    device.driver = driver
    device.context = context
    device.keeps_gil_below = keeps_gil_below
    device.null_queue = NULL
    device.listed.store(NULL)
    device.host_syncs = 0
    device.blocking_captures = 0
    device.unseen_writes = 0
    device.open_holds.store(0)
    device.orphans.store(0)
    device.closings.store(0)
    return device


cdef void release_device_state(DeviceState* device) noexcept nogil:
    # At the last reference no queue is registered, because each holds one, and the Device has emptied the anchors.
    if device.references.fetch_sub(1, memory_order_acq_rel) == 1:
        del device


cdef QueueState* new_queue_state(
    DeviceState* device, void* handle, uint64_t queue_id, bint is_null, bint blocking, bint timing, bint adopted
) noexcept nogil:
    """Make a state with two references, the caller's and the registry's. It owns the driver's `handle` from now on."""
    cdef QueueState* queue = new QueueState()
    queue.references.store(2, memory_order_relaxed)
    queue.driver = device.driver
    queue.handle = handle
    device.references.fetch_add(1, memory_order_relaxed)
    queue.device = device
    queue.epochs = new_epochs(queue_id)
    queue.is_null = is_null
    queue.blocking = blocking
    queue.timing = timing
    queue.adopted = adopted
    queue.retiring = False
    queue.outlives = NULL
    queue.barred = 0
    queue.clock = NULL
    queue.marker = NULL
    queue.null_seen.store(0)
    queue.listed = queue.settled = False
    queue.next_listed = NULL
    queue.last_plan = NULL
    device.registry_lock.lock()
    device.queues.push_back(queue)
    device.registry_lock.unlock()
    return queue


cdef QueueState* retain_queue_state(QueueState* queue) noexcept nogil:
    queue.references.fetch_add(1, memory_order_relaxed)
    return queue


cdef void release_queue_state(QueueState* queue) noexcept nogil:
    """Drop a reference, and delete the state with the last one.

    The registry drops its own only when the work is done and the anchors are gone, so no work is outstanding here.
    """
    cdef size_t i
    cdef unordered_map[uint64_t, Plan*].iterator plan
    if queue.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    plan = queue.plans.begin()
    while plan != queue.plans.end():
        delete_plan(dereference(plan).second)
        preincrement(plan)
    for i in range(queue.pending.size()):
        release_marker(queue.pending[i])
    if queue.marker != NULL:
        release_marker(queue.marker)
    release_clock(queue.clock)
    release_clock(queue.outlives)
    queue.driver.release_queue(queue.handle)
    release_epochs(queue.epochs)
    release_device_state(queue.device)
    del queue


cdef void registered_queues(DeviceState* device, vector[QueueState*]& into) noexcept nogil:
    """Append all queues that may have work outstanding, each retained for the caller, by ascending id."""
    cdef size_t i
    device.registry_lock.lock()
    into.reserve(device.queues.size())
    for i in range(device.queues.size()):
        into.push_back(retain_queue_state(device.queues[i]))
    device.registry_lock.unlock()


cdef Clock* outstanding_work(DeviceState* device) noexcept nogil:
    """Return a new reference to the clock of all work of the device that is not known to be done."""
    cdef vector[ClockEntry] entries
    cdef size_t i
    device.registry_lock.lock()
    for i in range(device.queues.size()):
        if not is_empty(device.queues[i].epochs):
            entries.push_back(ClockEntry(device.queues[i].epochs, submitted_epoch(device.queues[i].epochs)))
    # Still under the lock: once it is released, the epochs of an unregistered queue may be gone.
    cdef Clock* clock = clock_of_entries(entries)
    device.registry_lock.unlock()
    return clock


cdef void anchor(DeviceState* device, DeviceAnchor what) noexcept nogil:
    """Keep it until everything submitted to the device so far is done, and no gate is closed.

    It may be kept longer than its own commands need: noting which queues use it would cost time in every launch.
    """
    what.after = outstanding_work(device)
    device.registry_lock.lock()  # never held across a driver call, so it may be taken with the GIL
    device.anchors.push_back(what)
    device.registry_lock.unlock()


cdef void anchor_marker(DeviceState* device, Marker* marker) noexcept nogil:
    """Anchor a marker. Takes over the caller's reference."""
    anchor(device, DeviceAnchor(NULL, NULL, NULL, marker))


cdef atomic[int32_t] captured  # how many queues of this process are captured


cdef int captures_under_way() noexcept nogil:
    """Return how many queues of any device are captured. While there are none, nothing must be refused."""
    return captured.load(memory_order_relaxed)


cdef void bar(QueueState* queue, uint32_t why, bint barred) noexcept nogil:
    queue.lock.lock()
    queue.barred = queue.barred | why if barred else queue.barred & ~why
    queue.lock.unlock()


cdef void count_blocking_capture(QueueState* queue, int by) noexcept nogil:
    """Bar the null queue while a blocking queue is captured, because it would have to come after that queue."""
    cdef QueueState* null_queue = queue.device.null_queue
    if not queue.blocking or null_queue == NULL:
        return
    null_queue.lock.lock()
    queue.device.blocking_captures += by
    if queue.device.blocking_captures:
        null_queue.barred |= BY_CAPTURE_OF_OTHERS
    else:
        null_queue.barred &= ~<uint32_t> BY_CAPTURE_OF_OTHERS
    null_queue.lock.unlock()


cdef void bar_for_capture(QueueState* queue) noexcept nogil:
    """Bar the queue because it is captured: its commands do not run from now on."""
    captured.fetch_add(1, memory_order_relaxed)
    count_blocking_capture(queue, 1)
    bar(queue, BY_CAPTURE, True)


cdef void unbar_after_capture(QueueState* queue) noexcept nogil:
    bar(queue, BY_CAPTURE, False)
    count_blocking_capture(queue, -1)
    captured.fetch_sub(1, memory_order_relaxed)


cdef void add_statistics(Statistics& into, const Statistics& counts) noexcept nogil:
    cdef uint64_t* sums = <uint64_t*> &into
    cdef const uint64_t* counters = <const uint64_t*> &counts
    cdef size_t i
    for i in range(sizeof(Statistics) // sizeof(uint64_t)):
        sums[i] += counters[i]


cdef Statistics device_statistics(DeviceState* device) noexcept nogil:
    """Return the counts of all its queues, including queues that are gone, and of its own waits."""
    cdef Statistics counts
    cdef vector[QueueState*] queues
    cdef size_t i
    registered_queues(device, queues)
    device.registry_lock.lock()
    counts = device.retired
    counts.host_syncs += device.host_syncs
    device.registry_lock.unlock()
    for i in range(queues.size()):
        queues[i].lock.lock()
        add_statistics(counts, queues[i].counts)
        queues[i].lock.unlock()
        release_queue_state(queues[i])
    return counts


cdef object stats_of(const Statistics& counts, object allocations=0):
    cdef dict named = counts  # Cython makes a dict of a struct
    return Stats(allocations=allocations, **named)
