"""The wait rules: HIP's legacy null stream, and waits that are dropped because they order nothing.

Lock order: a command holds its own queue's lock. Only the null queue takes a second one: while it gathers, it locks
each blocking queue in turn. Every other waiter takes the producer's marker, unlocks the producer and then locks itself,
so two queues that wait on each other from two threads cannot deadlock.
"""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.clock cimport Clock, clock_epoch, covers, merged, raised_clock, release_clock, retain_clock
from forebay.core.driver cimport FOR_DEVICE, NO_MEMORY, TIMED, Status, Waits
from forebay.core.epochs cimport completed_epoch, submitted_epoch
from forebay.core.marker cimport Marker, clock_after, new_marker, release_marker, retain_marker
from forebay.core.process cimport is_memory_short
from forebay.core.state cimport (
    DeviceState, QueueState, closed_gates, find_queue, is_closed, note_bridge, refusal, release_queue_state,
    retain_queue_state, retire_marker, submit_collected
)
from forebay.sync.points cimport (
    add_pending, drop_pending, forget_hold, is_idle, keep_marker, mark_before_hold, take_marker, take_point
)
from forebay.sync.room cimport give_way, look_for_room, make_room, may_stay_full

cdef void init_order(Order* order) noexcept nogil:
    order.clock = NULL
    order.covered = NULL
    order.null_epoch = 0
    order.elided_completed = 0
    order.elided_ordered = 0


cdef void end_order(Order* order) noexcept nogil:
    """Drop what the order still owns. The caller holds no lock, because releasing an event is a driver call."""
    cdef size_t i
    for i in range(order.markers.size()):
        release_marker(order.markers[i])
    order.markers.clear()
    release_clock(order.clock)
    order.clock = NULL
    for i in range(order.taken.size()):
        release_queue_state(order.taken[i])
    order.taken.clear()


cdef bint needs_no_wait(QueueState* queue, Clock* clock, Marker* marker, Order* order) noexcept nogil:
    """Return whether work that is ordered after ``clock`` is already ordered after the marker."""
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        order.elided_completed += 1
        return True
    if marker.queue == queue.epochs or clock_epoch(clock, marker.queue) >= marker.epoch:
        order.elided_ordered += 1
        return True
    return False


cdef Clock* joined_clock(Clock* clock, Marker* marker, bint covered) noexcept nogil:
    """Return the clock of what comes after the marker, too. Takes over the caller's reference. ``covered`` says that
    the clock covers the marker's.
    """
    cdef Clock* after
    cdef Clock* joined
    if covered:
        return raised_clock(clock, marker.queue, marker.epoch)
    after = clock_after(marker)
    joined = retain_clock(after) if covers(after, clock) else merged(clock, after)
    release_clock(clock)
    return joined


cdef void add_wait(Order* order, Marker* marker) noexcept nogil:
    """Add the marker to the order, which takes over the caller's reference."""
    cdef bint covered = marker.clock == order.covered or covers(order.clock, marker.clock)
    order.markers.push_back(marker)
    if covered:
        order.covered = marker.clock
    order.clock = joined_clock(order.clock, marker, covered)


cdef void put_back(Order* order) noexcept nogil:
    """Return the queues that a failed command took off the list, each with the list's reference."""
    cdef size_t i
    cdef QueueState* queue
    for i in range(order.taken.size()):
        queue = order.taken[i]
        queue.lock.lock()
        if queue.listed:  # another command has entered it again meanwhile
            queue.lock.unlock()
            release_queue_state(queue)
        else:
            push_on_list(queue)
            queue.lock.unlock()
    order.taken.clear()


cdef void take_list(DeviceState* device, vector[QueueState*]& queues) noexcept nogil:
    """Take the whole list of the null queue, with the list's references. The null queue is locked."""
    cdef QueueState* queue = device.listed.exchange(NULL, memory_order_acq_rel)
    # Read the whole chain first: the next command of an unlisted queue may enter it again and rewrite its link.
    while queue != NULL:
        queues.push_back(queue)
        queue = queue.next_listed


cdef Status gather_blocking(QueueState* null_queue, Order* order) noexcept nogil:
    """Make the null queue wait for the new work of every blocking queue. The null queue is locked.

    Queues that are idle, and queues whose work the null queue is already ordered after, need no wait.
    """
    cdef QueueState* queue
    cdef Marker* marker
    cdef Status status = 0
    cdef size_t i
    take_list(null_queue.device, order.taken)
    for i in range(order.taken.size()):
        queue = order.taken[i]
        marker = NULL
        queue.lock.lock()
        queue.listed = queue.settled = False
        if status != 0:
            pass  # an earlier queue failed: only unlist this one, as `put_back` returns them all
        elif is_idle(queue):
            order.elided_completed += 1
        elif not queue.adopted and clock_epoch(order.clock, queue.epochs) >= submitted_epoch(queue.epochs):
            order.elided_ordered += 1
        else:
            status = take_marker(queue, FOR_DEVICE, &marker)
        if queue.adopted and not is_closed(queue) and status == 0:
            push_on_list(retain_queue_state(queue))  # it may get new work at any time, and forebay does not see it
        queue.lock.unlock()
        if marker != NULL and marker.event == NULL:  # it became idle after `is_idle`: no lock prevents that
            order.elided_completed += 1
            release_marker(marker)
        elif marker != NULL:
            add_wait(order, marker)
    return status


cdef void unlist_idle(DeviceState* device) noexcept nogil:
    """Take idle queues off the null queue's list, which keeps closed queues alive.

    Without this, a program that never uses the null queue would keep every blocking queue it ever made. It does nothing
    while another thread submits to the null queue: that may take long, and a later call does the same work.
    """
    cdef QueueState* null_queue = device.null_queue
    cdef vector[QueueState*] listed
    cdef vector[QueueState*] idle
    cdef size_t i
    if null_queue == NULL or not null_queue.lock.try_lock():
        return
    take_list(device, listed)
    for i in range(listed.size()):
        if not listed[i].lock.try_lock():  # another thread's call may block; nobody else touches its place in the list
            push_on_list(listed[i])
            continue
        if is_idle(listed[i]):
            listed[i].listed = listed[i].settled = False
            idle.push_back(listed[i])
        else:
            push_on_list(listed[i])
        listed[i].lock.unlock()
    null_queue.lock.unlock()
    for i in range(idle.size()):
        release_queue_state(idle[i])


cdef void dissolve_list(DeviceState* device) noexcept nogil:
    """Drop the list of a null queue that has ended: no command comes any more that would take the queues off it."""
    cdef vector[QueueState*] listed
    cdef size_t i
    take_list(device, listed)
    for i in range(listed.size()):
        listed[i].lock.lock()
        listed[i].listed = listed[i].settled = False
        listed[i].lock.unlock()
        release_queue_state(listed[i])


cdef Status take_null_marker(QueueState* queue, Marker** marker, Order* order) noexcept nogil:
    """Give the null-queue marker that this blocking queue, not locked, must wait for. ``marker`` stays NULL if none."""
    cdef QueueState* null_queue = queue.device.null_queue
    cdef uint64_t epoch = submitted_epoch(null_queue.epochs)
    cdef bint ordered
    cdef Status status
    order.null_epoch = epoch
    if queue.null_seen.load(memory_order_relaxed) == epoch:
        return 0
    if completed_epoch(null_queue.epochs) >= epoch:
        order.elided_completed += 1
        return 0
    queue.lock.lock()
    ordered = clock_epoch(queue.clock, null_queue.epochs) >= epoch
    queue.lock.unlock()
    if ordered:
        order.elided_ordered += 1
        return 0
    null_queue.lock.lock()
    status = take_marker(null_queue, FOR_DEVICE, marker)
    null_queue.lock.unlock()
    if status == 0:
        order.null_epoch = marker[0].epoch
    return status


cdef Status gather(QueueState* queue, Order* order) noexcept nogil:
    """Lock the queue and gather the waits of its next command. On failure the queue is unlocked and unchanged."""
    cdef Marker* null_marker = NULL
    cdef Status status
    init_order(order)
    if queue.blocking and not queue.is_null:
        status = take_null_marker(queue, &null_marker, order)
        if status != 0:
            return status
    queue.lock.lock()
    submit_collected(queue)
    order.clock = retain_clock(queue.clock)
    status = refusal(queue)
    if status == 0 and queue.is_null:
        status = gather_blocking(queue, order)
    if null_marker != NULL:
        if status != 0 or needs_no_wait(queue, order.clock, null_marker, order):
            release_marker(null_marker)
        else:
            add_wait(order, null_marker)
    if status != 0:
        abort_command(queue, order)
    return status


cdef bint settles_with_null(QueueState* queue, Order* order) noexcept nogil:
    """Return whether every null-queue command is ordered against this queue's next command. The queue is locked.

    A null-queue command that comes later finds this queue in the list and waits for its lock. One that took the list
    earlier, and is not in ``order``, still holds the null queue's lock or has advanced the null queue's epoch. So this
    function enters the list first and checks the null queue second. The null queue works in the opposite order, so one
    of the two always sees the other.
    """
    cdef QueueState* null_queue = queue.device.null_queue
    if queue.settled or not queue.blocking or queue.is_null:
        return True
    enter_list(queue)
    if not null_queue.lock.try_lock():
        return False
    null_queue.lock.unlock()
    queue.settled = submitted_epoch(null_queue.epochs) == order.null_epoch
    return queue.settled


cdef Status begin_command(QueueState* queue, Order* order) noexcept nogil:
    """Lock the queue and gather the waits of its next command. On failure the queue is unlocked and unchanged.

    Another thread that uses the null queue sees nothing of the command until the queue is unlocked, and then all of it.
    While the queue may be full behind a host function, this waits for room, with no lock held.
    """
    cdef Status status
    give_way(queue)
    status = begin_at_once(queue, order)
    if status == 0:
        status = look_for_room(queue)
        if status != 0:
            abort_command(queue, order)
    while status == 0 and may_stay_full(queue, 0):
        abort_command(queue, order)
        status = make_room(queue, 0)
        if status == 0:
            status = begin_at_once(queue, order)
    return status


cdef Status begin_at_once(QueueState* queue, Order* order) noexcept nogil:
    cdef QueueState* null_queue = queue.device.null_queue
    cdef Status status
    if is_memory_short():  # nothing may run out of it from here on
        return NO_MEMORY
    status = gather(queue, order)
    while status == 0 and not settles_with_null(queue, order):
        abort_command(queue, order)
        null_queue.lock.lock()  # once we hold this, its command is submitted
        null_queue.lock.unlock()
        status = gather(queue, order)
    if status == 0 and not order.markers.empty() and closed_gates(queue.device) != 0:
        status = mark_before_hold(queue)
        if status != 0:
            abort_command(queue, order)
    return status


cdef Waits waits_of(QueueState* queue, Order* order) noexcept nogil:
    """List the events that the next command waits for: of the pending waits and of the gathered ones."""
    cdef Waits waits
    cdef size_t i
    order.events.clear()
    for i in range(queue.pending.size()):
        order.events.push_back(queue.pending[i].event)
    for i in range(order.markers.size()):
        order.events.push_back(order.markers[i].event)
    waits.count = <unsigned int> order.events.size()
    waits.events = order.events.data()
    return waits


cdef void settle(QueueState* queue, Order* order) noexcept nogil:
    """Count the dropped waits, and remember how far the null queue needs no more waits. The queue is locked."""
    queue.counts.waits_elided_completed += order.elided_completed
    queue.counts.waits_elided_ordered += order.elided_ordered
    if order.null_epoch > queue.null_seen.load(memory_order_relaxed):
        queue.null_seen.store(order.null_epoch, memory_order_relaxed)


cdef void join_gathered(QueueState* queue, Order* order) noexcept nogil:
    """Order the queue after all gathered markers, from the epoch that is counted next. The queue is locked."""
    cdef Clock* clock = queue.clock
    queue.counts.waits_made += order.markers.size()
    queue.clock = order.clock
    order.clock = clock  # released with the order, after unlocking


cdef void apply_command(QueueState* queue, Order* order) noexcept nogil:
    drop_pending(queue)
    join_gathered(queue, order)
    settle(queue, order)
    count_command(queue)


cdef void leave_waits(QueueState* queue, Order* order) noexcept nogil:
    """Count a command of waits alone. The queue's next command, or whoever asks for a marker, carries them to the
    driver. The queue is locked.
    """
    cdef size_t i
    for i in range(order.markers.size()):
        add_pending(queue, retain_marker(order.markers[i]))
    join_gathered(queue, order)
    settle(queue, order)
    count_command(queue)


cdef void commit_command(QueueState* queue, Order* order) noexcept nogil:
    """Advance epoch, clock and list after the driver took the command and its waits. Unlocks."""
    apply_command(queue, order)
    queue.lock.unlock()
    end_order(order)


cdef void abort_command(QueueState* queue, Order* order) noexcept nogil:
    """Undo the gathering of a command that was not submitted: no epoch advances, no clock joins. Unlocks.

    The null queue stays locked until its list has its queues back. Otherwise another null-queue command could find the
    list empty.
    """
    put_back(order)
    forget_hold(queue)
    queue.lock.unlock()
    end_order(order)


cdef Status end_command(QueueState* queue, Order* order, Status status) noexcept nogil:
    """Commit or abort a command by the status of its driver call, and return that status. Unlocks."""
    if status == 0:
        commit_command(queue, order)
    else:
        abort_command(queue, order)
    return status


cdef Status end_parted_command(QueueState* queue, Order* order, Status status) noexcept nogil:
    """Commit a command that can be several commands to the driver: a marker, a gate, a host function. Unlocks.

    When it fails, nobody knows which of these the driver has. They are work of the queue, which must not end before
    them, so that a command counts; and as the waits may be missing, the next one carries them.
    """
    if status == 0:
        commit_command(queue, order)
        return 0
    leave_waits(queue, order)
    queue.lock.unlock()
    end_order(order)
    return status


cdef Status submit_waits(QueueState* queue, Order* order) noexcept nogil:
    """Order the queue after the gathered markers. Submits a command only when there are any. Unlocks."""
    if order.markers.empty():
        conclude(queue, order)
        return 0
    return end_command(queue, order, queue.driver.barrier(queue.handle, waits_of(queue, order)))


cdef void conclude(QueueState* queue, Order* order) noexcept nogil:
    """End an order that needed no wait and no command. Unlocks."""
    settle(queue, order)
    queue.lock.unlock()
    end_order(order)


cdef Status gather_ahead(QueueState* queue) noexcept nogil:
    """Gather the waits of the queue's next command, for that command to carry. They count as a command of their own:
    that one may be refused, and the queue is not empty before what it has joined is done.
    """
    cdef Order order
    cdef Status status = begin_at_once(queue, &order)
    if status != 0:
        return status
    if order.markers.empty():
        conclude(queue, &order)
        return 0
    leave_waits(queue, &order)
    queue.lock.unlock()
    end_order(&order)
    return 0


cdef bint drops_wait(QueueState* queue, Marker* marker) noexcept nogil:
    cdef Order order
    init_order(&order)
    if not needs_no_wait(queue, queue.clock, marker, &order):
        return False
    settle(queue, &order)
    return True


cdef Status add_marker(QueueState* queue, Marker* marker, Order* order) noexcept nogil:
    """Add a wait for a marker. The caller keeps its reference.

    A marker of another context is waited for through a bridge event of this context.
    """
    cdef void* bridged = NULL
    cdef Marker* bridge
    cdef Status status
    if marker.context == queue.device.context:
        add_wait(order, retain_marker(marker))
        return 0
    status = queue.driver.bridge(queue.device.context, marker.event, &bridged)
    if status == 0:
        queue.counts.events_made += 1
        bridge = new_marker(
            marker.queue, marker.epoch, marker.clock, bridged, queue.driver, queue.device.context, FOR_DEVICE)
        note_bridge(queue.device, bridge)
        add_wait(order, bridge)
    return status


cdef bint may_be_held(QueueState* queue, Marker* marker) noexcept nogil:
    """Return whether a wait for the marker may take until a gate is opened or a host function returns."""
    return marker.adopted or marker.context != queue.device.context or closed_gates(queue.device) != 0


cdef Status wait_for_marker(QueueState* queue, Marker* marker) noexcept nogil:
    """Add an edge from the marker to the queue's next command. A dropped wait changes nothing but a counter.

    A wait that is not dropped counts as a command at once, though a later command carries it. Otherwise a host thread
    could see the queue as empty while the edge is outstanding.
    """
    cdef Order order
    cdef Status status
    cdef bint dropped, covered
    queue.lock.lock()
    status = refusal(queue)
    dropped = status == 0 and drops_wait(queue, marker)
    queue.lock.unlock()
    if status != 0 or dropped:
        return status
    status = begin_at_once(queue, &order)
    if status != 0:
        return status
    covered = needs_no_wait(queue, order.clock, marker, &order)
    if covered and order.markers.empty():  # the producer finished, or another thread waited, since `drops_wait`
        conclude(queue, &order)
        return 0
    if not covered:
        if may_be_held(queue, marker):
            status = mark_before_hold(queue)
        if status == 0:
            status = add_marker(queue, marker, &order)
        if status != 0:
            abort_command(queue, &order)
            return status
    leave_waits(queue, &order)
    if marker.context != queue.device.context:
        # The producer's device does not know of this wait, and a driver may need the producer queue until it is done.
        retire_marker(queue, retain_marker(marker))
    queue.lock.unlock()
    end_order(&order)
    return 0


cdef bint wait_at_once(QueueState* queue, Marker* marker) noexcept nogil:
    """Add the edge if that blocks nobody and calls no driver. Return False where nothing was done."""
    if is_memory_short() or not queue.lock.try_lock():
        return False
    if not gathers_nothing(queue) or marker.context != queue.device.context or may_be_held(queue, marker):
        queue.lock.unlock()
        return False
    if not drops_wait(queue, marker):
        add_pending(queue, retain_marker(marker))
        queue.clock = joined_clock(queue.clock, marker, covers(queue.clock, marker.clock))
        queue.counts.waits_made += 1
        count_command(queue)
    queue.lock.unlock()
    return True


cdef Status wait_keeping_gil(QueueState* queue, Marker* marker) noexcept:
    cdef Status status
    if wait_at_once(queue, marker):
        return 0
    retain_marker(marker)  # without the GIL an event may be recorded again
    with nogil:
        status = wait_for_marker(queue, marker)
        release_marker(marker)
    return status


cdef Status wait_for_point(QueueState* queue, uint64_t producer, uint64_t epoch) noexcept nogil:
    """Add an edge from an epoch of another queue, by its id, and from nothing later that can be held up. The queue may
    be closed, or gone because it is done.
    """
    cdef QueueState* state
    cdef Marker* marker = NULL
    cdef Status status = 0
    cdef bint ordered
    if producer == queue.epochs.queue_id:
        return 0
    state = find_queue(queue.device, producer)
    if state == NULL:
        return 0
    queue.lock.lock()
    ordered = clock_epoch(queue.clock, state.epochs) >= epoch
    queue.lock.unlock()
    if not ordered:
        state.lock.lock()
        status = take_point(state, epoch, FOR_DEVICE, &marker)
        state.lock.unlock()
        if marker != NULL:
            status = wait_for_marker(queue, marker)
            release_marker(marker)
    release_queue_state(state)
    return status


cdef Status record_marker(QueueState* queue, int use, Marker** marker) noexcept nogil:
    """Return a new reference to the marker of this point. A record is a command and obeys the null-queue rules.

    It shares the queue's marker when nothing was submitted since that marker was made and there is no new wait. A timed
    record is always its own command.
    """
    cdef Order order
    cdef void* event = NULL
    cdef Status status = begin_command(queue, &order)
    if status != 0:
        return status
    if not use & TIMED and order.markers.empty():
        status = take_marker(queue, use, marker)
        if status == 0:
            conclude(queue, &order)
        else:
            abort_command(queue, &order)
        return status
    status = queue.driver.marker(queue.handle, waits_of(queue, &order), use, &event)
    if status != 0:
        return end_parted_command(queue, &order, status)
    apply_command(queue, &order)
    keep_marker(queue, event, use)
    marker[0] = retain_marker(queue.marker)
    queue.lock.unlock()
    end_order(&order)
    return 0


cdef Status record_keeping_gil(QueueState* queue, int use, Marker** marker) noexcept:
    cdef Status status
    if not use & TIMED and not is_memory_short() and queue.lock.try_lock():
        if gathers_nothing(queue):
            status = take_marker(queue, use, marker)
            queue.lock.unlock()
            return status
        queue.lock.unlock()
    with nogil:
        status = record_marker(queue, use, marker)
    return status
