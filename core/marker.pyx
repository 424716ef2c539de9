"""Markers take driver events over from their makers, and release them with the last reference."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_acquire, memory_order_relaxed

from forebay.core.clock cimport Clock, note_reached, raised_clock, release_clock, retain_clock
from forebay.core.driver cimport DONE, FOR_HOST, Answer, Driver
from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs


cdef Marker* new_marker(
    Epochs* queue, uint64_t epoch, Clock* clock, void* event, const Driver* driver, void* context, int use
) noexcept nogil:
    cdef Marker* marker = new Marker()
    marker.references.store(1, memory_order_relaxed)
    marker.queue = retain_epochs(queue)
    marker.epoch = epoch
    marker.clock = retain_clock(clock)
    marker.after.store(NULL, memory_order_relaxed)
    marker.event = event
    marker.driver = driver
    marker.context = context
    marker.adopted = False
    marker.use = use if driver.scopes_matter else use | FOR_HOST
    return marker


cdef inline void let_go(Marker* marker) noexcept nogil:
    if marker.event != NULL:
        marker.driver.release_event(marker.event)
    release_clock(marker.clock)
    release_clock(marker.after.load(memory_order_relaxed))


cdef void renew_marker(Marker* marker, uint64_t epoch, Clock* clock, void* event, int use) noexcept nogil:
    """Make a marker that only the caller has that of a later epoch of its queue: as `new_marker`, without memory of its
    own.
    """
    let_go(marker)
    marker.epoch = epoch
    marker.clock = retain_clock(clock)
    marker.after.store(NULL, memory_order_relaxed)
    marker.event = event
    marker.use = use if marker.driver.scopes_matter else use | FOR_HOST


cdef Marker* retain_marker(Marker* marker) noexcept nogil:
    marker.references.fetch_add(1, memory_order_relaxed)
    return marker


cdef void release_marker(Marker* marker) noexcept nogil:
    if marker.references.fetch_sub(1, memory_order_acq_rel) == 1:
        let_go(marker)
        release_epochs(marker.queue)
        del marker


cdef Clock* clock_after(Marker* marker) noexcept nogil:
    """Return the clock of a queue that waits for just this marker. The marker owns it. NULL when all of it is done."""
    cdef Clock* made = marker.after.load(memory_order_acquire)
    cdef Clock* other = NULL
    if made == NULL:
        made = raised_clock(retain_clock(marker.clock), marker.queue, marker.epoch)
        if made != NULL and not marker.after.compare_exchange_strong(other, made, memory_order_acq_rel):
            release_clock(made)
            made = other
    return made


cdef void note_done(Marker* marker) noexcept nogil:
    """Note that the queue has reached this epoch, as the driver reported. Everything ordered before it is done too."""
    note_reached(marker.queue, marker.epoch, marker.clock)


cdef Answer poll_marker(Marker* marker) noexcept nogil:
    """Ask whether the queue has reached this epoch. Never blocks.

    Only after DONE is anything known to be done. A marker may fail because one of its waits failed, while its own queue
    and other queues that it waits for still work.
    """
    cdef Answer answer
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        return DONE
    answer = marker.driver.event_status(marker.event)
    if answer == DONE:
        note_done(marker)
    return answer
