"""Markers and points of queues: events that show how far a queue is, and which of them shows a given epoch.

A marker is made when it is first asked for. So is that of a point, an epoch that somebody may wait for later, unless
what the queue is given next can be held up: then it is made before that. See ordering.pyx for who waits for whom.
"""

from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.vector_clock cimport (
    Clock, advance_submitted, completed_epoch, is_empty, note_reached, release_clock, retain_clock, submitted_epoch
)
from forebay.core.driver cimport DONE, FOR_HOST, Status, Waits, no_waits
from forebay.core.state cimport (
    Marker, QueueState, has_one_owner, is_closed, new_marker, poll_marker, release_marker, renew_marker, retain_marker,
    submit_collected
)


cdef enum:
    WAYS = 32  # how often a full queue is asked while as many commands are submitted as it takes


cdef Waits waits_of_pending(QueueState* queue, vector[void*]& events) noexcept nogil:
    cdef Waits waits
    cdef size_t i
    for i in range(queue.pending.size()):
        events.push_back(queue.pending[i].event)
    waits.count = <unsigned int> events.size()
    waits.events = events.data()
    return waits


cdef void drop_pending(QueueState* queue) noexcept nogil:
    cdef size_t i
    for i in range(queue.pending.size()):
        release_marker(queue.pending[i])
    queue.pending.clear()
    release_clock(queue.clock_before)
    queue.clock_before = NULL


cdef void thin_pending(QueueState* queue) noexcept nogil:
    """Drop pending waits that are done, or covered by a later one of the same queue. The queue is locked.

    It is called when their number has doubled, so that a wait costs the same however many were added before.
    """
    cdef unordered_map[uint64_t, size_t] newest
    cdef Marker* marker
    cdef size_t i, kept = 0
    for i in range(queue.pending.size()):
        newest[queue.pending[i].queue.queue_id] = i
    for i in range(queue.pending.size()):
        marker = queue.pending[i]
        if marker.epoch <= completed_epoch(marker.queue) or newest[marker.queue.queue_id] != i:
            release_marker(marker)
        else:
            queue.pending[kept] = marker
            kept += 1
    queue.pending.resize(kept)
    queue.crowded = max(<size_t> 8, 2 * kept)


cdef void add_pending(QueueState* queue, Marker* marker) noexcept nogil:
    """Add a wait for the queue's next command. Takes over the caller's reference. The queue is locked."""
    if queue.pending.empty():
        queue.before_pending = submitted_epoch(queue.epochs)
        queue.clock_before = retain_clock(queue.clock)
    elif queue.pending.size() >= queue.crowded:
        thin_pending(queue)
    queue.pending.push_back(marker)


cdef Status carry_pending(QueueState* queue) noexcept nogil:
    """Submit the waits that no command has carried yet. The queue is locked."""
    cdef vector[void*] events
    cdef Status status
    submit_collected(queue)
    if queue.pending.empty():
        return 0
    status = queue.driver.barrier(queue.handle, waits_of_pending(queue, events))
    if status == 0:
        drop_pending(queue)
    return status


cdef inline void replace_marker(QueueState* queue, Marker** marker, void* event, int use) noexcept nogil:
    """Let the event be the marker of the queue's newest epoch. The queue is locked."""
    if marker[0] != NULL:
        if has_one_owner(marker[0]):
            renew_marker(marker[0], submitted_epoch(queue.epochs), queue.clock, event, use)
            return
        release_marker(marker[0])
    marker[0] = new_marker(
        queue.epochs, submitted_epoch(queue.epochs), queue.clock, event, queue.driver, queue.device.context, use)
    marker[0].adopted = queue.adopted


cdef void keep_marker(QueueState* queue, void* event, int use) noexcept nogil:
    """Make the event, NULL when nothing is outstanding, the marker of the queue's newest epoch."""
    if event != NULL:
        queue.counts.markers_made += 1
        queue.counts.events_made += 1
    replace_marker(queue, &queue.marker, event, use)


# A finish right after a copy waits for the copy's own event: NVIDIA's OpenCL takes up to 8 us for a marker after one.
# Nobody else gets that event, because it is not flushed: what another queue waits for, or the host asks for without
# waiting, must be.


cdef void keep_copied(QueueState* queue, void* event) noexcept nogil:
    """Keep the event of the copy that was counted last. The queue is locked."""
    queue.counts.events_made += 1
    replace_marker(queue, &queue.copied, event, FOR_HOST)


cdef bint is_idle(QueueState* queue) noexcept nogil:
    """Return whether the queue has nothing outstanding. For an adopted queue only the driver knows."""
    return is_empty(queue.epochs) and (not queue.adopted or is_closed(queue))


cdef Status take_marker(QueueState* queue, int use, Marker** marker) noexcept nogil:
    """Return a new reference to the marker of everything submitted to this queue so far. The queue is locked.

    An epoch has at most one marker, or two when the first was for the device alone and the host asks later. A queue
    with nothing outstanding needs no driver event. An adopted queue may have received commands that forebay did not
    see. Each call therefore counts as a command, so that the queue's markers are never shared.
    """
    submit_collected(queue)
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)
    cdef uint64_t epoch = submitted_epoch(queue.epochs)
    cdef void* event = NULL
    cdef vector[void*] events
    cdef Status status
    if queue.marker != NULL and queue.marker.epoch == epoch and (
        queue.marker.event == NULL or use & ~queue.marker.use == 0
    ):
        if queue.marker.event != NULL:
            queue.counts.markers_shared += 1
    else:
        if not is_empty(queue.epochs):
            status = queue.driver.marker(queue.handle, waits_of_pending(queue, events), use, &event)
            if status != 0:
                return status
            drop_pending(queue)
        keep_marker(queue, event, use)
    marker[0] = retain_marker(queue.marker)
    return 0


cdef Status ask_queue(QueueState* queue, bint* done) noexcept nogil:
    """Ask the driver whether everything submitted is done. The queue is locked and its driver has `poll`."""
    cdef Status status = queue.driver.poll(queue.handle, done)
    queue.found_busy = not done[0]
    if done[0]:
        note_reached(queue.epochs, submitted_epoch(queue.epochs), queue.clock)
    return status


# -- points: epochs that somebody may wait for later, without waiting for what comes after them


cdef void forget_done_marks(QueueState* queue) noexcept nogil:
    while not queue.marks.empty() and queue.marks.front().epoch <= completed_epoch(queue.epochs):
        release_marker(queue.marks.front())
        queue.marks.pop_front()


cdef Status mark_before(QueueState* queue, uint64_t epoch, Clock* clock, Marker** marker) noexcept nogil:
    """Return a new reference to a marker, for the host, of all that the driver has. That is this epoch, when the queue
    had this clock: what counts as submitted since is pending or collected. The queue is locked.
    """
    cdef void* event = NULL
    cdef Status status
    if queue.marker != NULL and queue.marker.epoch == epoch and queue.marker.use & FOR_HOST:
        marker[0] = retain_marker(queue.marker)
        return 0
    status = queue.driver.marker(queue.handle, no_waits(), FOR_HOST, &event)
    if status != 0:
        return status
    queue.counts.markers_made += 1
    queue.counts.events_made += 1
    marker[0] = new_marker(queue.epochs, epoch, clock, event, queue.driver, queue.device.context, FOR_HOST)
    return 0


cdef Status mark_alone(QueueState* queue, Marker** marker) noexcept nogil:
    """Return a marker, for the host, of the queue's own work and of nothing that the queue waits for. The queue is
    locked.

    It is for who asked in vain: a marker fails when something that the queue waits for has failed, and may then be the
    newest, which all share, for as long as nothing else is submitted.
    """
    cdef void* event = NULL
    cdef uint64_t epoch
    cdef Status status
    submit_collected(queue)
    epoch = submitted_epoch(queue.epochs) if queue.pending.empty() else queue.before_pending
    status = queue.driver.marker(queue.handle, no_waits(), FOR_HOST, &event)
    if status != 0:
        return status
    queue.counts.markers_made += 1
    queue.counts.events_made += 1
    marker[0] = new_marker(queue.epochs, epoch, NULL, event, queue.driver, queue.device.context, FOR_HOST)
    return 0


cdef Status mark_early(QueueState* queue, Marker** marker) noexcept nogil:
    """Return a new reference to a marker of all that was submitted before the pending waits. The queue is locked."""
    if queue.pending.empty():
        return take_marker(queue, FOR_HOST, marker)
    return mark_before(queue, queue.before_pending, queue.clock_before, marker)


cdef Status mark_before_hold(QueueState* queue) noexcept nogil:
    """Mark this point, because what the queue is given next can be held up: by a host function, a gate, or a wait for
    a queue that is held. Whoever waits for an earlier point then does not wait for that. The queue is locked.
    """
    cdef Marker* marker = NULL
    cdef uint64_t epoch = submitted_epoch(queue.epochs) if queue.pending.empty() else queue.before_pending
    cdef Status status
    forget_done_marks(queue)
    if queue.marks.size() >= 8 and poll_marker(queue.marks.front()) == DONE:  # nobody else may ever ask how far it is
        forget_done_marks(queue)
    if epoch <= completed_epoch(queue.epochs) or not queue.marks.empty() and queue.marks.back().epoch >= epoch:
        return 0
    status = mark_early(queue, &marker)
    if status == 0:
        queue.marks.push_back(marker)
    return status


cdef Status mark_the_way(QueueState* queue) noexcept nogil:
    """Where the queue may be full, ask how far it is, by a marker now and then. The queue is locked.

    Whoever submits without ever waiting would otherwise never hear of it. A device that keeps up is then asked, and
    given a marker, once for all that fits into a queue: the commands in between keep the GIL.
    """
    cdef uint64_t submitted = submitted_epoch(queue.epochs), marked
    cdef Marker* marker = NULL
    cdef Status status = 0
    forget_done_marks(queue)
    # An answer takes the driver as long as a launch: where the device does not keep up, few are asked for.
    if not queue.marks.empty() and submitted % max(queue.room // WAYS, <uint64_t> 8) == 0:
        if poll_marker(queue.marks.front()) == DONE:
            forget_done_marks(queue)
    marked = completed_epoch(queue.epochs) if queue.marks.empty() else queue.marks.back().epoch
    if submitted - marked >= queue.room // 2:
        status = mark_early(queue, &marker)
        if status == 0:
            if queue.marks.empty() or marker.epoch > queue.marks.back().epoch:
                queue.marks.push_back(marker)
            else:
                release_marker(marker)
    return status


cdef uint64_t first_hold(QueueState* queue) noexcept nogil:
    """Return the epoch of the queue's first gate or host function that may not be over; 0 for none. It is locked."""
    while not queue.holds.empty() and queue.holds.front() <= completed_epoch(queue.epochs):
        queue.holds.pop_front()
    return 0 if queue.holds.empty() else queue.holds.front()


cdef uint64_t marked_before(QueueState* queue, uint64_t held) noexcept nogil:
    """Return the last epoch before this hold that has a marker, or is known to be reached. The hold carries the waits
    that were submitted since: a marker of these comes behind the hold. The queue is locked.
    """
    cdef uint64_t marked = completed_epoch(queue.epochs)
    cdef size_t i
    for i in range(queue.marks.size()):
        if queue.marks[i].epoch < held:
            marked = max(marked, queue.marks[i].epoch)
    return marked


cdef Status note_hold(QueueState* queue) noexcept nogil:
    """Note that the queue's next command is a gate or a host function. The queue is locked."""
    cdef Status status = mark_before_hold(queue)
    if status == 0:
        first_hold(queue)  # forgets those that are over
        queue.holds.push_back(submitted_epoch(queue.epochs) + 1)
    return status


cdef void forget_hold(QueueState* queue) noexcept nogil:
    """Take back what `note_hold` has noted of a command that was refused. The queue is locked."""
    while not queue.holds.empty() and queue.holds.back() > submitted_epoch(queue.epochs):
        queue.holds.pop_back()


cdef Status take_point(QueueState* queue, uint64_t epoch, int use, Marker** marker) noexcept nogil:
    """Return a new reference to the earliest marker that shows that the queue has reached this epoch; NULL if it is
    known to have. The queue is locked.
    """
    cdef size_t i
    marker[0] = NULL
    if epoch <= completed_epoch(queue.epochs):
        return 0
    if queue.adopted and not is_closed(queue):
        return take_marker(queue, use, marker)
    forget_done_marks(queue)
    for i in range(queue.marks.size()):
        if queue.marks[i].epoch >= epoch:
            marker[0] = retain_marker(queue.marks[i])
            return 0
    if queue.marker != NULL and queue.marker.epoch >= epoch and queue.marker.event != NULL and (
        use & ~queue.marker.use == 0
    ):
        queue.counts.markers_shared += 1
        marker[0] = retain_marker(queue.marker)
        return 0
    if not queue.pending.empty() and epoch <= queue.before_pending:
        return mark_early(queue, marker)
    return take_marker(queue, use, marker)
