"""Memory that runs out: waits for what will come free, and for nothing that a gate or a host function holds up."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.clock cimport Clock, ClockEntry, list_entries, release_clock, retain_clock
from forebay.core.driver cimport FOR_HOST, Status
from forebay.core.epochs cimport completed_epoch, submitted_epoch
from forebay.core.marker cimport Marker, release_marker
from forebay.core.state cimport (
    DeviceState, QueueState, closed_gates, find_queue, release_queue_state, retain_queue_state
)
from forebay.sync.finish cimport wait_on_host_for_all
from forebay.sync.points cimport first_hold, marked_before, take_point


cdef uint64_t free_until(QueueState* queue) noexcept nogil:
    """Return the epoch that the queue reaches whether or not any gate is opened; 0 when that is not known."""
    cdef uint64_t held, epoch
    cdef Clock* clock
    cdef QueueState* other
    cdef vector[ClockEntry] entries
    cdef bint free = True
    queue.lock.lock()
    held = first_hold(queue)
    epoch = submitted_epoch(queue.epochs) if held == 0 else marked_before(queue, held)
    clock = retain_clock(queue.clock)
    queue.lock.unlock()
    list_entries(clock, entries)
    for entry in entries:
        other = find_queue(queue.device, entry.queue.queue_id)
        if other == NULL:
            continue
        other.lock.lock()
        held = first_hold(other)
        other.lock.unlock()
        free = free and (held == 0 or held > entry.epoch)
        release_queue_state(other)
    release_clock(clock)
    return epoch if free else 0


cdef Status wait_for_retired(DeviceState* device) noexcept nogil:
    """Block until everything is done that something retired waits for, except where a gate or host function is in the
    way.
    """
    cdef vector[QueueState*] queues
    cdef vector[Marker*] markers
    cdef Marker* marker
    cdef uint64_t epoch
    cdef Status status = 0
    cdef size_t i
    device.registry_lock.lock()
    for i in range(device.draining.size()):
        queues.push_back(retain_queue_state(device.draining[i]))
    device.registry_lock.unlock()
    for i in range(queues.size()):
        epoch = submitted_epoch(queues[i].epochs) if closed_gates(device) == 0 else free_until(queues[i])
        if status == 0 and epoch > completed_epoch(queues[i].epochs):
            queues[i].lock.lock()
            status = take_point(queues[i], epoch, FOR_HOST, &marker)
            queues[i].lock.unlock()
            if marker != NULL:
                markers.push_back(marker)
        release_queue_state(queues[i])
    if status == 0:
        status = wait_on_host_for_all(device, markers)
    for i in range(markers.size()):
        release_marker(markers[i])
    return status
