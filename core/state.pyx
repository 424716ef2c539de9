"""Makes, counts and destroys queue and device states. ``new`` sets all that is not set here to zero."""

from typing import TYPE_CHECKING

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic, memory_order_relaxed
from libcpp.map cimport map
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_HOST, Answer, Driver
from forebay.core.ownership cimport Guard, Ref, Refs, relaxed_uint64
from forebay.core.plan cimport delete_plan
from forebay.core.process cimport is_forked
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, Epochs, completed_epoch, new_epochs, note_reached, submitted_epoch
)

from forebay.core.stats import Stats

if TYPE_CHECKING:
    from typing import Any

    from forebay.queues.device import Device
    from forebay.queues.graphs.capture import Capture
    from forebay.queues.graphs.step import Step


cdef Ref[Marker] new_marker(
    DeviceState* device, Epochs* queue, uint64_t epoch, Clock* clock, void* event, int use
) noexcept nogil:
    cdef Marker* marker = new Marker()
    marker.references.store(1, memory_order_relaxed)
    marker.queue = queue
    marker.epoch = epoch
    marker.clock = clock
    marker.event = event
    marker.driver = device.driver
    marker.context = device.context
    marker.device = device
    marker.use = use if device.driver.scopes_matter else use | FOR_HOST
    marker.destroy = destroy_marker
    return Ref[Marker].adopt(marker)


# A forked child destroys nothing that is counted: the driver's part of it is the parent's.


cdef void destroy_marker(Marker* marker) noexcept nogil:
    if is_forked():
        return
    if marker.event != NULL:
        marker.driver.destroy_event(marker.event)
    del marker


cdef void note_done(Marker* marker) noexcept nogil:
    """Note that the queue has reached this epoch, as the driver reported. Everything ordered before it is done too."""
    note_reached(marker.queue, marker.epoch, marker.clock)


cdef Answer poll_marker(Marker* marker) noexcept nogil:
    """Ask whether the queue has reached this epoch. Never blocks. Only DONE shows that anything is done: a marker may
    fail because one of its waits failed, while its own queue and other queues that it waits for still work.
    """
    cdef Answer answer
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        return DONE
    answer = marker.driver.event_status(marker.event)
    if answer == DONE:
        note_done(marker)
    return answer


cdef Ref[DeviceState] new_device_state(
    const Driver* driver, void* context, uint64_t keeps_gil_below, bint waits_starve
) noexcept nogil:
    cdef DeviceState* device = new DeviceState()
    cdef Guard guard
    device.references.store(1, memory_order_relaxed)
    device.destroy = destroy_device_state
    device.driver = driver
    device.context = context
    device.in_flight.keeps_gil_below = keeps_gil_below
    device.in_flight.waits_starve = waits_starve
    device.in_flight.calls = 1
    device.in_flight.limit.store(UNLIMITED)
    device.resident.listed.version.store(1)
    guard.take(states_lock)
    states.push_back(device)
    return Ref[DeviceState].adopt(device)


cdef void destroy_device_state(DeviceState* device) noexcept nogil:
    """Call it when no queue is registered, because each holds a reference, and nothing retired is left."""
    cdef size_t i
    cdef Guard guard
    if is_forked():
        return
    guard.take(states_lock)
    for i in range(states.size()):
        if states[i] == device:
            states.erase(states.begin() + i)
            break
    guard.leave()
    del device


cdef void forget_opened_bridges(DeviceState* device) noexcept nogil:
    """Ask for the events themselves: the other queue may be known to be done before the driver opens its bridges."""
    cdef Refs[Marker] asked, closed
    cdef Answer answer
    cdef Guard guard
    guard.take(device.registry.lock)
    asked.swap(device.gates.bridges)
    guard.leave()
    for marker in asked:
        answer = device.driver.event_status(marker.event)
        if answer != DONE and answer >= 0:
            closed.share(marker)
    device.gates.closed_bridges.fetch_sub(<int32_t> (asked.size() - closed.size()))
    guard.take(device.registry.lock)
    for marker in closed:
        device.gates.bridges.share(marker)


cdef QueueState* new_queue_state(
    DeviceState* device, void* handle, uint64_t queue_id, uint64_t owner, bint is_null, bint blocking, bint timing,
    bint adopted
) noexcept nogil:  # no other thread has it before it is registered
    """Make a state with two references, the caller's and the registry's. It owns the driver's `handle`."""
    cdef QueueState* queue = new QueueState()
    cdef Guard guard
    queue.references.store(2, memory_order_relaxed)
    queue.destroy = destroy_queue_state
    queue.driver = device.driver
    queue.handle = handle
    queue.kept_device = Ref[DeviceState].share(device)
    queue.device = device
    queue.owner = owner
    queue.epochs = new_epochs(queue_id)
    queue.is_null = is_null
    queue.blocking = blocking
    queue.made.timing = timing
    queue.adopted = queue.resident.is_indirect_user = adopted
    queue.order.prune_at = 8
    queue.slow_path = BY_CHECK if device.checked else 0
    guard.take(device.registry.lock)
    queue.in_flight.room = room_with(device, 0)
    device.registry.queues.insert(
        device.registry.queues.begin() + place_of(device, queue_id),
        Registered(queue_id, queue, queue.epochs, adopted, adopted))
    return queue


cdef void destroy_queue_state(QueueState* queue) noexcept nogil:  # no other thread has it
    """The registry drops its reference only when the work is done and the driver's queue was handed on."""
    if is_forked():
        return
    for each in queue.plans.by_kernel:
        delete_plan(each.second)
    del queue


cdef size_t place_of(DeviceState* device, uint64_t queue_id) noexcept nogil:
    """Return where the queue with this id is or would be. The registry is locked."""
    cdef size_t first = 0, end = device.registry.queues.size(), middle
    while first < end:
        middle = (first + end) // 2
        if device.registry.queues[middle].queue_id < queue_id:
            first = middle + 1
        else:
            end = middle
    return first


cdef void unregister(QueueState* queue) noexcept nogil:
    """Take a queue off. The caller gets the registry's reference. The registry is locked."""
    cdef DeviceState* device = queue.device
    cdef map[uint64_t, Statistics].iterator counts = device.registry.counts_of_ended.find(queue.owner)
    device.registry.queues.erase(device.registry.queues.begin() + place_of(device, queue.epochs.queue_id))
    if counts != device.registry.counts_of_ended.end():
        add_statistics(dereference(counts).second, queue.counts)
    if queue == device.null_queue:
        device.null_queue = NULL  # its Device is gone, so no more commands come


cdef void registered_queues(DeviceState* device, Refs[QueueState]& into) noexcept nogil:
    """Append all queues that may have work outstanding, by ascending id."""
    cdef Guard guard
    guard.take(device.registry.lock)
    into.reserve(device.registry.queues.size())
    for each in device.registry.queues:
        into.share(each.queue)


cdef Ref[QueueState] find_queue(DeviceState* device, uint64_t queue_id) noexcept nogil:
    """Return the queue with this id; NULL when it has ended, and so all its work is done."""
    cdef size_t place
    cdef Guard guard
    guard.take(device.registry.lock)
    place = place_of(device, queue_id)
    if place < device.registry.queues.size() and device.registry.queues[place].queue_id == queue_id:
        return Ref[QueueState].share(device.registry.queues[place].queue)
    return Ref[QueueState]()


cdef bint points_of_indirect_uses(DeviceState* device, bint unseen, vector[ClockEntry]& points) noexcept nogil:
    """Append the points after which no launch with indirect access is outstanding, and with `unseen` no command that
    an adopted queue got from other packages. Takes no queue's lock. Returns False while such a launch is being
    submitted: its epoch is not known yet. Those before it count.
    """
    cdef uint64_t epoch
    cdef bint known = True
    cdef Guard guard
    guard.take(device.registry.lock)
    for each in device.registry.queues:
        if not each.indirect:
            continue
        epoch = each.queue.resident.last_indirect.load()
        known = known and not epoch & FOLLOWING
        epoch &= ~<uint64_t> FOLLOWING
        if unseen and each.adopted:  # the marker that shows it counts as a command, as closing it does
            epoch = submitted_epoch(each.epochs) + (0 if is_closed(each.queue) else 1)
        if epoch > completed_epoch(each.epochs):
            points.push_back(ClockEntry(each.epochs, epoch))
    return known


cdef void begin_following(QueueState* queue) noexcept nogil:  # the queue is locked
    """Call before launches with indirect access read the list of memory, for the order with `unlist_memory`."""
    cdef Guard guard
    if not queue.resident.is_indirect_user:
        queue.resident.is_indirect_user = True
        guard.take(queue.device.registry.lock)
        queue.device.registry.queues[place_of(queue.device, queue.epochs.queue_id)].indirect = True
    queue.resident.last_indirect.store(queue.resident.last_indirect.load() | FOLLOWING)


cdef void end_following(QueueState* queue, uint64_t epoch) noexcept nogil:  # the queue is locked
    """Note the epoch of the launch that may have used all open memory; 0 if none was submitted."""
    cdef uint64_t before = queue.resident.last_indirect.load() & ~<uint64_t> FOLLOWING
    queue.resident.last_indirect.store(epoch if epoch != 0 else before)
    if epoch != 0:
        queue.device.resident.unseen_writes.fetch_add(1)


cdef void leave_to_parent(DeviceState* device) noexcept nogil:
    """In a forked child: let the queues refuse commands. Threads that the child lacks may have held the locks."""
    cdef QueueState* queue
    states_lock.reset()
    if device.in_flight.quota != NULL:
        device.in_flight.quota.lock.reset()
    device.registry.lock.reset()
    if device.null_queue == NULL:
        return
    for each in device.registry.queues:
        queue = each.queue
        queue.lock.reset()
        queue.slow_path |= BY_CLOSING
        queue.order.null_seen.store(submitted_epoch(device.null_queue.epochs))


cdef atomic[int32_t] captured  # queues of this process that are captured; while there are none, nothing must be refused


cdef int captures_under_way() noexcept nogil:
    return captured.load(memory_order_relaxed)


cdef void set_slow_path(QueueState* queue, uint32_t why, bint on) noexcept nogil:
    cdef Guard guard
    guard.take(queue.lock)
    queue.slow_path = queue.slow_path | why if on else queue.slow_path & ~why


cdef void set_captured(QueueState* queue, bint captured_now) noexcept nogil:
    """Refuse commands of a captured queue; if it is blocking, also of the null queue, which would come after it."""
    cdef QueueState* null_queue = queue.device.null_queue
    cdef Guard guard
    if captured_now:
        captured.fetch_add(1, memory_order_relaxed)
    set_slow_path(queue, BY_CAPTURE, captured_now)
    if queue.blocking and null_queue != NULL:
        guard.take(null_queue.lock)
        queue.device.null_order.blocking_captures += 1 if captured_now else -1
        if queue.device.null_order.blocking_captures:
            null_queue.slow_path |= BY_CAPTURE_OF_OTHERS
        else:
            null_queue.slow_path &= ~<uint32_t> BY_CAPTURE_OF_OTHERS
    if not captured_now:
        captured.fetch_sub(1, memory_order_relaxed)


cdef void add_statistics(Statistics& into, const Statistics& counts) noexcept nogil:
    cdef relaxed_uint64* sums = <relaxed_uint64*> &into
    cdef const relaxed_uint64* counters = <const relaxed_uint64*> &counts
    cdef size_t i
    for i in range(sizeof(Statistics) // sizeof(relaxed_uint64)):
        sums[i] += counters[i]


cdef Statistics device_statistics(DeviceState* device, uint64_t owner) noexcept nogil:
    # No queue is locked: another thread may hold its lock while a driver call blocks. Each counter is one word, written
    # under that lock, so each is right; they need not be of one moment.
    cdef Statistics counts
    cdef map[uint64_t, Statistics].iterator gone
    cdef QueueState* queue
    cdef Guard guard
    guard.take(device.registry.lock)
    gone = device.registry.counts_of_ended.find(owner)
    if gone != device.registry.counts_of_ended.end():
        counts = dereference(gone).second
    counts.host_syncs += device.host_syncs
    for each in device.registry.queues:
        queue = each.queue
        if queue.owner == owner or queue.is_null:
            add_statistics(counts, queue.counts)
    return counts


cdef object stats_of(const Statistics& counts, object allocations=0):
    cdef dict named = counts  # Cython makes a dict of a struct
    return Stats(allocations=allocations, **named)


@cython.no_gc_clear
cdef class AnyQueue:
    """A Queue, for modules below `forebay.queues.queue`, which cannot import it."""

    device: Device
    priority: int
    native: Any

    @property
    def _capture(self) -> Capture | None:
        with cython.critical_section(self):
            return self.captured_by

    @property
    def _step(self) -> Step | None:
        with cython.critical_section(self):
            return self.in_step

    @_step.setter
    def _step(self, step: Step | None) -> None:
        with cython.critical_section(self):
            step, self.in_step = self.in_step, step  # so that the old one is released outside
