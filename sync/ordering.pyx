"""The wait rules: HIP's legacy null stream, and waits that are dropped because they order nothing.

Lock order: a command holds its own queue's lock. Only the null queue takes a second one, that of each blocking queue in
turn, while it gathers; any other second lock is only tried. Every other waiter takes the producer's marker, unlocks the
producer and then locks itself, so two queues that wait for each other from two threads cannot deadlock.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic, memory_order_acq_rel, memory_order_acquire, memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.utility cimport move
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    DONE, FOR_DEVICE, FOR_HOST, NO_MEMORY, NOT_NOW, TIMED, Driver, Interrupted, Status, Waits, no_waits
)
from forebay.core.ownership cimport Guard, Lock, Ref, Refs, retain
from forebay.core.process cimport interrupted, is_memory_short, on_host_thread
from forebay.core.state cimport (
    UNLIMITED, DeviceState, Marker, OpenStep, QueueState, Quota, capacity_with, closed_gates, find_queue, is_closed,
    new_marker, note_done, poll_marker, refusal, room_with, states, states_lock, submit_collected
)
from forebay.core.usage cimport Moment, is_created
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, ClockRef, Epochs, advance_submitted, clock_epoch, completed_epoch, covers, is_empty, merge_clock,
    note_reached, raise_clock, submitted_epoch, swap_clocks
)

cdef enum:
    WAYS = 32  # polls of a full queue while as many commands as it takes are submitted


cdef int raise_status(object owner, Status status, str what) except -1:
    owner._raise(status, what)
    return 0


cdef Waits waits_of_pending(QueueState* queue, vector[void*]& events) noexcept nogil:  # the queue is locked
    for marker in queue.order.pending:
        events.push_back(marker.event)
    return Waits(<uint32_t> events.size(), events.data())


cdef void drop_pending(QueueState* queue) noexcept nogil:  # the queue is locked
    queue.order.pending.clear()
    queue.order.clock_before = NULL


cdef void thin_pending(QueueState* queue) noexcept nogil:  # the queue is locked
    """Prune waits that are done or covered by a later one, when their number has doubled: a wait's cost is constant."""
    cdef unordered_map[uint64_t, size_t] newest
    cdef Refs[Marker] kept
    cdef Marker* marker
    cdef size_t i
    for i in range(queue.order.pending.size()):
        newest[queue.order.pending[i].queue.queue_id] = i
    for i in range(queue.order.pending.size()):
        marker = queue.order.pending[i]
        if marker.epoch > completed_epoch(marker.queue) and newest[marker.queue.queue_id] == i:
            kept.share(marker)
    queue.order.pending.swap(kept)
    queue.order.prune_at = max(<size_t> 8, 2 * queue.order.pending.size())


cdef void add_pending(QueueState* queue, Marker* marker) noexcept nogil:  # the queue is locked
    if queue.order.pending.empty():
        queue.order.before_pending = submitted_epoch(queue.epochs)
        queue.order.clock_before = <Clock*> queue.order.clock
    elif queue.order.pending.size() >= queue.order.prune_at:
        thin_pending(queue)
    queue.order.pending.share(marker)


cdef Status carry_pending(QueueState* queue) noexcept nogil:  # the queue is locked
    cdef vector[void*] events
    cdef Status status
    submit_collected(queue)
    if queue.order.pending.empty():
        return 0
    status = queue.driver.barrier(queue.handle, waits_of_pending(queue, events))
    if status == 0:
        drop_pending(queue)
    return status


cdef void renew_marker(Marker* marker, uint64_t epoch, Clock* clock, void* event, int use) noexcept nogil:
    """Reuse, for a later epoch of its queue, a marker that only the caller has: `new_marker` without an allocation."""
    if marker.event != NULL:
        marker.driver.destroy_event(marker.event)
    marker.epoch = epoch
    marker.clock = clock
    marker.after.clear()
    marker.event = event
    marker.use = use if marker.driver.scopes_matter else use | FOR_HOST


cdef inline void replace_marker(QueueState* queue, Ref[Marker]& marker, void* event, int use) noexcept nogil:
    """Set a marker of the queue's newest epoch, with this event. The queue is locked."""
    cdef uint64_t epoch = submitted_epoch(queue.epochs)
    # If the queue has the only reference, no other code can get one
    if marker.get() != NULL and marker.get().references.load(memory_order_acquire) == 1:
        renew_marker(marker.get(), epoch, queue.order.clock, event, use)
        return
    marker = new_marker(queue.device, queue.epochs, epoch, queue.order.clock, event, use)
    marker.get().adopted = queue.adopted


cdef void keep_marker(QueueState* queue, void* event, int use) noexcept nogil:  # the queue is locked
    """Make the event the queue's newest marker; NULL when nothing is outstanding."""
    if event != NULL:
        queue.counts.markers_made += 1
        queue.counts.events_made += 1
    replace_marker(queue, queue.order.marker, event, use)


# A finish right after a copy waits for the copy's own event: NVIDIA's OpenCL takes up to 8 us for a marker after one.
# No other code gets that event, because it is not flushed, as events for other queues and for polls must be.


cdef void keep_copied(QueueState* queue, void* event) noexcept nogil:  # the queue is locked
    """Keep the event of the copy that was counted last."""
    queue.counts.events_made += 1
    replace_marker(queue, queue.order.copied, event, FOR_HOST)


cdef bint is_idle(QueueState* queue) noexcept nogil:
    """Return whether nothing is outstanding. An open adopted queue never is: only the driver knows."""
    return is_empty(queue.epochs) and (not queue.adopted or is_closed(queue))


cdef Status take_marker(QueueState* queue, int use, Ref[Marker]& marker) noexcept nogil:
    """Give the marker of everything submitted to this queue so far. The queue is locked. An epoch has at most one
    marker, or two if the first was for the device alone and the host asks later. Without outstanding work no driver
    event is needed. An adopted queue may have commands that forebay did not see, so each call counts as a command, and
    its markers are never shared.
    """
    submit_collected(queue)
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)
    cdef Marker* newest = queue.order.marker.get()
    cdef void* event = NULL
    cdef vector[void*] events
    cdef Status status
    if newest != NULL and newest.epoch == submitted_epoch(queue.epochs) and (
        newest.event == NULL or use & ~newest.use == 0
    ):
        if newest.event != NULL:
            queue.counts.markers_shared += 1
    else:
        if not is_empty(queue.epochs):
            status = queue.driver.marker(queue.handle, waits_of_pending(queue, events), use, &event)
            if status != 0:
                return status
            if not events.empty():
                drop_pending(queue)
        keep_marker(queue, event, use)
    marker = Ref[Marker].share(queue.order.marker.get())
    return 0


cdef Status ask_queue(QueueState* queue, bint* done) noexcept nogil:
    """Ask the driver whether everything submitted is done. The queue is locked and its driver has `poll`."""
    cdef Status status = queue.driver.poll(queue.handle, done)
    queue.in_flight.found_busy = not done[0]
    if done[0]:
        note_reached(queue.epochs, submitted_epoch(queue.epochs), queue.order.clock)
    return status


# -- points: epochs that can be waited for without waiting for what comes after them


cdef Status mark_for_host(QueueState* queue, uint64_t epoch, Clock* clock, Ref[Marker]& marker) noexcept nogil:
    """Make a marker for the host, without waits. The queue is locked."""
    cdef void* event = NULL
    cdef Status status = queue.driver.marker(queue.handle, no_waits(), FOR_HOST, &event)
    if status == 0:
        queue.counts.markers_made += 1
        queue.counts.events_made += 1
        marker = new_marker(queue.device, queue.epochs, epoch, clock, event, FOR_HOST)
    return status


cdef Status mark_before(QueueState* queue, uint64_t epoch, Clock* clock, Ref[Marker]& marker) noexcept nogil:
    """Mark for the host what the driver has: `epoch`. All since is pending or collected. The queue is locked."""
    cdef Marker* newest = queue.order.marker.get()
    if newest != NULL and newest.epoch == epoch and newest.use & FOR_HOST:
        marker = Ref[Marker].share(queue.order.marker.get())
        return 0
    return mark_for_host(queue, epoch, clock, marker)


cdef Status mark_alone(QueueState* queue, Ref[Marker]& marker) noexcept nogil:  # the queue is locked
    """Give a marker for the host of the queue's own work, without its waits, for a caller whose marker failed: a marker
    fails when something that the queue waits for has failed, and all share it until something else is submitted.
    """
    cdef uint64_t epoch
    submit_collected(queue)
    epoch = submitted_epoch(queue.epochs) if queue.order.pending.empty() else queue.order.before_pending
    return mark_for_host(queue, epoch, NULL, marker)


cdef Status mark_early(QueueState* queue, Ref[Marker]& marker) noexcept nogil:
    """Give a marker of all that was submitted before the pending waits. The queue is locked."""
    if queue.order.pending.empty():
        return take_marker(queue, FOR_HOST, marker)
    return mark_before(queue, queue.order.before_pending, queue.order.clock_before, marker)


cdef void take_done_checkpoints(QueueState* queue, Refs[Marker]* markers) noexcept nogil:  # the queue is locked
    """Take the checkpoints that are done. The caller releases `markers` after it has unlocked the queue; with NULL they
    are released at once, and nothing is allocated, as the submission of a command needs.
    """
    cdef uint64_t done = completed_epoch(queue.epochs)
    while not queue.order.checkpoints.empty() and queue.order.checkpoints.front().get().epoch <= done:
        if markers != NULL:
            markers.push_back(move(queue.order.checkpoints.front()))
        queue.order.checkpoints.pop_front()
        queue.order.has_checkpoints = not queue.order.checkpoints.empty()


cdef void take_markers(QueueState* queue, Refs[Marker]& markers) noexcept nogil:  # the queue is locked
    """Take the markers of a queue whose work is done: the null queue's list may keep its state for long."""
    for marker in queue.order.checkpoints:
        markers.push_back(marker)
    queue.order.checkpoints.clear()
    queue.order.has_checkpoints = False
    markers.push_back(move(queue.order.marker))
    markers.push_back(move(queue.order.copied))


cdef Status add_checkpoint(QueueState* queue, uint64_t apart) noexcept nogil:  # the queue is locked
    """Mark what precedes the pending waits, if that is at least `apart` commands after the last checkpoint."""
    cdef Ref[Marker] marker
    cdef uint64_t epoch = submitted_epoch(queue.epochs) if queue.order.pending.empty() else queue.order.before_pending
    cdef uint64_t marked = completed_epoch(queue.epochs)
    cdef Status status
    if not queue.order.checkpoints.empty():
        marked = max(marked, queue.order.checkpoints.back().get().epoch)
    if epoch < marked + apart:
        return 0
    status = mark_early(queue, marker)
    if status == 0:
        queue.order.checkpoints.push_back(move(marker))
        queue.order.has_checkpoints = True
    return status


cdef Status add_checkpoint_before_gate(QueueState* queue) noexcept nogil:  # the queue is locked
    """Mark this point before a host function, a gate or a wait for a held queue, so that waits for it exclude these."""
    take_done_checkpoints(queue, NULL)
    if queue.order.checkpoints.size() >= 8 and poll_marker(queue.order.checkpoints.front().get()) == DONE:
        take_done_checkpoints(queue, NULL)  # no other code may ever poll it
    return add_checkpoint(queue, 1)


cdef Status add_checkpoints(QueueState* queue) noexcept nogil:  # the queue is locked
    """Mark and poll a queue that may be full, because a program that never waits would not learn of its progress. While
    the device keeps up, there is one poll and one marker for each capacity; commands in between keep the GIL.
    """
    take_done_checkpoints(queue, NULL)
    # A poll takes the driver as long as a launch, so it is rare where the device does not keep up.
    if not queue.order.checkpoints.empty() and (
        submitted_epoch(queue.epochs) % max(queue.in_flight.room // WAYS, <uint64_t> 8) == 0
    ):
        if poll_marker(queue.order.checkpoints.front().get()) == DONE:
            take_done_checkpoints(queue, NULL)
    return add_checkpoint(queue, max(queue.in_flight.room // 2, <uint64_t> 1))


cdef uint64_t first_gate_epoch(QueueState* queue) noexcept nogil:  # the queue is locked
    """Return the epoch of the first gate or host function that may not be over; 0 for none."""
    while not queue.order.gate_epochs.empty() and queue.order.gate_epochs.front() <= completed_epoch(queue.epochs):
        queue.order.gate_epochs.pop_front()
    return 0 if queue.order.gate_epochs.empty() else queue.order.gate_epochs.front()


cdef Status note_gate_epoch(QueueState* queue) noexcept nogil:  # the queue is locked
    """Note that the queue's next command is a gate or a host function."""
    cdef Status status = add_checkpoint_before_gate(queue)
    if status == 0:
        first_gate_epoch(queue)  # forgets those that are over
        queue.order.gate_epochs.push_back(submitted_epoch(queue.epochs) + 1)
    return status


cdef Status take_point(QueueState* queue, uint64_t epoch, int use, Ref[Marker]& marker) noexcept nogil:
    """Give the earliest marker that shows this epoch; NULL if it is known to be reached. The queue is locked."""
    cdef Marker* newest = queue.order.marker.get()
    cdef size_t i
    marker.clear()
    if epoch <= completed_epoch(queue.epochs):
        return 0
    if queue.adopted and not is_closed(queue):
        return take_marker(queue, use, marker)
    take_done_checkpoints(queue, NULL)
    for i in range(queue.order.checkpoints.size()):
        if queue.order.checkpoints[i].get().epoch >= epoch:
            marker = Ref[Marker].share(queue.order.checkpoints[i].get())
            return 0
    if newest != NULL and newest.epoch >= epoch and newest.event != NULL and use & ~newest.use == 0:
        queue.counts.markers_shared += 1
        marker = Ref[Marker].share(queue.order.marker.get())
        return 0
    if not queue.order.pending.empty() and epoch <= queue.order.before_pending:
        return mark_early(queue, marker)
    return take_marker(queue, use, marker)


cdef enum:
    COLLECTS = 64  # of 64 commands that cannot borrow, one reclaims unused quota
    WORTH_MARKING = 64  # with less room in a queue, markers cost as much as they save
    PAUSES = 10000  # some 1.5 s: the most that a command is delayed while its queue makes no progress
    PAUSES_BESIDE_GATES = 500  # likewise while a gate of the device is closed, which this thread may be about to open


cdef atomic[int32_t] host_functions
cdef Lock quotas_lock
cdef vector[Quota*] quotas


cdef void begin_hold(DeviceState* device, bint calls) noexcept nogil:
    if calls:
        host_functions.fetch_add(1)
        device.gates.host_functions.fetch_add(1)  # before `gates.closed`, or it would count as a gate
    device.gates.closed.fetch_add(1)


cdef void end_hold(DeviceState* device, bint called) noexcept nogil:
    device.gates.closed.fetch_sub(1)
    if called:
        device.gates.host_functions.fetch_sub(1)
        host_functions.fetch_sub(1)


cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil:
    """Where graphs are launched, twice as much: CUDA changes channels at a host function and after a graph launch."""
    return queue.driver.room_of_host_function * (2 if queue.counts.graph_launches else 1)


cdef void renew_rooms(DeviceState* device) noexcept nogil:  # the registry is locked
    for each in device.registry.queues:
        each.queue.in_flight.room = room_with(device, each.queue.in_flight.lent)


cdef void count_calls(DeviceState* device, uint32_t calls) noexcept nogil:
    """Note how many driver calls each command makes at most: more than one while it is traced."""
    cdef Guard guard
    guard.take(device.registry.lock)
    device.in_flight.calls = calls
    renew_rooms(device)


cdef void share_out(Quota* quota) noexcept nogil:  # the quota is locked, no registry is
    """Set each queue's own limit: 1 while the quota is overdrawn, because no queue then surely takes one more."""
    cdef uint64_t most = quota.each if quota.left >= 0 else 1
    cdef Guard of_states, guard
    of_states.take(states_lock)
    for device in states:
        if device.in_flight.quota == quota and device.in_flight.keeps_gil_below != most:
            guard.take(device.registry.lock)
            device.in_flight.keeps_gil_below = most
            renew_rooms(device)
            guard.leave()


cdef void divide_capacity(DeviceState* device, uint64_t most) noexcept nogil:
    """Lower the in-flight limits for one queue more, of all queues that share the quota, also on private Devices. What
    a queue has in flight beyond its own limit is charged to the quota.
    """
    cdef Quota* quota = device.in_flight.quota
    cdef QueueState* queue
    cdef uint64_t in_flight
    cdef Guard guard, of_states, of_registry
    if quota == NULL:
        return
    guard.take(quota.lock)
    if quota.each == most:
        return
    quota.each = most
    of_states.take(states_lock)
    for each in states:
        if each.in_flight.quota != quota:
            continue
        of_registry.take(each.registry.lock)
        for entry in each.registry.queues:
            in_flight = submitted_epoch(entry.epochs) - completed_epoch(entry.epochs)
            queue = entry.queue
            if in_flight > most and in_flight - most > queue.in_flight.lent:
                quota.borrowers.insert(queue)
                quota.left -= <int64_t> (in_flight - most - queue.in_flight.lent)
                queue.in_flight.lent = in_flight - most
        of_registry.leave()
    of_states.leave()
    share_out(quota)


cdef void lend_quota(QueueState* queue, uint64_t lent) noexcept nogil:
    cdef Guard guard
    guard.take(queue.device.registry.lock)
    queue.in_flight.lent = lent
    queue.in_flight.room = room_with(queue.device, lent)


cdef void join_quota(DeviceState* device, uint64_t shared) noexcept nogil:
    """Let a new Device use the shared quota of its driver context; `shared` is 0 if there is none."""
    cdef Quota* quota
    cdef Guard guard
    if shared == 0:
        return
    guard.take(quotas_lock)
    for quota in quotas:
        if quota.context == device.context:
            device.in_flight.quota = quota
    if device.in_flight.quota == NULL:
        device.in_flight.quota = new Quota()
        device.in_flight.quota.context = device.context
        device.in_flight.quota.left = <int64_t> shared
        device.in_flight.quota.most_lent = shared * 3 // 4
        device.in_flight.quota.each = device.in_flight.keeps_gil_below
        quotas.push_back(device.in_flight.quota)
    guard.take(device.in_flight.quota.lock)
    device.in_flight.keeps_gil_below = device.in_flight.quota.each if device.in_flight.quota.left >= 0 else 1


cdef bint borrow_quota(QueueState* queue, uint64_t more) noexcept nogil:
    cdef Quota* quota = queue.device.in_flight.quota
    cdef Guard guard
    if quota == NULL or queue.device.in_flight.calls > 1:
        return False
    guard.take(quota.lock)
    if <int64_t> more > quota.left or queue.in_flight.lent + more > quota.most_lent:
        return False
    more = min(max(more, <uint64_t> quota.left // 2), quota.most_lent - queue.in_flight.lent)
    quota.left -= <int64_t> more
    quota.borrowers.insert(queue)
    lend_quota(queue, queue.in_flight.lent + more)
    return True


cdef void return_quota(QueueState* queue, uint64_t in_flight) noexcept nogil:
    """Return the queue's share of the quota, but for what this many commands need. The queue is locked."""
    cdef Quota* quota = queue.device.in_flight.quota
    cdef uint64_t used = 0
    cdef Guard guard
    if queue.in_flight.lent == 0:
        return
    guard.take(quota.lock)
    if in_flight > quota.each:
        used = min(in_flight - quota.each, queue.in_flight.lent)
    quota.left += <int64_t> (queue.in_flight.lent - used)
    lend_quota(queue, used)
    if used == 0:
        quota.borrowers.erase(queue)


cdef uint64_t in_flight_of(QueueState* queue) noexcept nogil:
    return submitted_epoch(queue.epochs) - completed_epoch(queue.epochs)


cdef void reclaim_quota(Quota* quota) noexcept nogil:
    """Reclaim unused quota. Polls the borrowers whose lock is free, because no other thread may ever poll them."""
    cdef Refs[QueueState] borrowers
    cdef QueueState* queue
    cdef OpenStep* step
    cdef bint done
    cdef Guard guard
    guard.take(quota.lock)
    for queue in quota.borrowers:
        borrowers.share(queue)
    guard.leave()
    for queue in borrowers:
        if guard.try_take(queue.lock):
            step = <OpenStep*> queue.open_step.lane
            if (  # the last two: the driver has all that counts as submitted
                queue.driver.poll != NULL and not is_empty(queue.epochs) and queue.order.pending.empty()
                and (step == NULL or step.waiting == 0)
            ):
                ask_queue(queue, &done)  # after a failure, its commands count as in flight
            return_quota(queue, in_flight_of(queue))
    guard.take(quota.lock)
    share_out(quota)  # others may have returned quota that was overdrawn


cdef bint has_capacity(QueueState* queue, uint64_t more) noexcept nogil:
    """Return whether the driver surely takes one more command, and `more` beside it. The queue is locked."""
    cdef uint64_t in_flight = in_flight_of(queue)
    cdef uint64_t capacity = capacity_with(queue.device, queue.in_flight.lent)
    if in_flight == 0 or in_flight + more < capacity:
        return True
    return borrow_quota(queue, in_flight + more + 1 - capacity)


cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil:  # the queue is locked
    """Return whether the driver's call for one more command may block until a host function returns.

    That function may be of any device, because one thread runs them all; a later one holds up nothing that this queue
    waits for. The host thread never waits for capacity: it could wait for the function that it runs. Nor does any
    thread while a gate of the device is closed: it could be the one that opens it.
    """
    if has_capacity(queue, more):
        return False
    return (
        host_functions.load() != 0 and closed_gates(queue.device) <= queue.device.gates.host_functions.load()
        and not on_host_thread()
    )


cdef bint ask_first_checkpoint(QueueState* queue) noexcept nogil:  # no lock is held
    """Poll by a checkpoint, made if needed: launches of graphs make none. Return False if there is still none."""
    cdef Guard guard
    if not guard.try_take(queue.lock):
        return True
    take_done_checkpoints(queue, NULL)
    if queue.order.checkpoints.empty() and refusal(queue) == 0:
        add_checkpoints(queue)
    if queue.order.checkpoints.empty():
        return False
    poll_marker(queue.order.checkpoints.front().get())
    return True


cdef void give_way(QueueState* queue) noexcept nogil:  # no lock is held
    """Sleep while the watcher's limit below allows the queue no command, so that waits of the host end.

    What the queue waits for may depend on this thread's next call: on a gate, memory that a kernel polls, an event of
    another package. So the thread goes on if its queue makes no progress, soon if a gate is closed or a host function
    has not returned, and sleeps again after some progress. The host thread never sleeps here.
    """
    cdef uint64_t limit, completed, before = UNLIMITED
    cdef int pauses = 0, most
    cdef bint stalled, held
    while True:
        limit = queue.device.in_flight.limit.load()
        completed = completed_epoch(queue.epochs)
        if limit == UNLIMITED or on_host_thread() or in_flight_of(queue) < limit:
            return
        stalled = stalled_at(queue.epochs.queue_id)[0] == completed + 1
        held = closed_gates(queue.device) != 0
        if stalled and held or not ask_first_checkpoint(queue):
            return
        if stalled:
            pause()  # else this thread submits faster than the device executes, for as long as its turn does not come
            return
        most = PAUSES_BESIDE_GATES if held else PAUSES
        if pauses >= most:
            stalled_at(queue.epochs.queue_id)[0] = completed + 1
            return
        pauses = pauses + 1 if completed == before else 0
        before = completed
        pause()


cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil:
    cdef Status status
    cdef void* event = marker.event
    if event == NULL:
        return 0
    status = wait_on_host(device, Waits(1, &event), interrupted)
    if status == 0:
        note_done(marker)
    return status


cdef Status await_capacity(QueueState* queue, uint64_t more) noexcept nogil:
    """Block while the queue may be full behind a host function. Host functions, and other threads, may submit then."""
    cdef Ref[Marker] marker
    cdef Status status
    cdef bint collected = queue.device.in_flight.quota == NULL
    cdef Guard guard
    give_way(queue)
    while True:
        guard.take(queue.lock)
        if not may_stay_full(queue, more):
            return 0
        status = take_marker(queue, FOR_HOST, marker) if collected else 0  # shared by all threads that wait here
        guard.leave()
        if status != 0:
            return status
        if not collected:
            # A needless wait would never end if a host function waits for this thread's next call.
            reclaim_quota(queue.device.in_flight.quota)
            collected = True
            continue
        status = await_event(queue.device, marker.get())
        marker.clear()
        if status != 0:
            return status


cdef void init_order(Order* order) noexcept nogil:
    order.clock = NULL
    order.covered = NULL
    order.null_epoch = 0
    order.elided_completed = 0
    order.elided_ordered = 0


cdef bint needs_no_wait(QueueState* queue, Clock* clock, Marker* marker, Order* order) noexcept nogil:
    """Return whether work that is ordered after `clock` is already ordered after the marker."""
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        order.elided_completed += 1
        return True
    if marker.queue == queue.epochs or clock_epoch(clock, marker.queue) >= marker.epoch:
        order.elided_ordered += 1
        return True
    return False


cdef void join_marker(ClockRef& clock, Marker* marker, bint covered) noexcept nogil:
    """Order the clock after the marker, too. `covered`: it already covers the marker's clock."""
    cdef Clock* after
    if covered:
        raise_clock(clock, marker.queue, marker.epoch)
        return
    after = marker.after.raised(marker.clock, marker.queue, marker.epoch)
    if covers(after, clock):
        clock = after
    else:
        merge_clock(clock, after)


cdef void add_wait(Order* order, Ref[Marker] reference) noexcept nogil:
    cdef Marker* marker = reference.get()
    cdef bint covered = marker.clock == order.covered or covers(order.clock, marker.clock)
    order.markers.push_back(move(reference))
    if covered:
        order.covered = <Clock*> marker.clock
    join_marker(order.clock, marker, covered)


cdef void take_list(DeviceState* device, Refs[QueueState]& queues) noexcept nogil:
    """Take the whole list of the null queue, with its references. The null queue is locked."""
    cdef QueueState* queue = device.null_order.pending.exchange(NULL, memory_order_acq_rel)
    # Read the whole chain first: the next command of an unlisted queue may enter it again and rewrite its link.
    while queue != NULL:
        queues.adopt(queue)
        queue = queue.order.next_listed


cdef Status gather_blocking(QueueState* null_queue, Order* order) noexcept nogil:  # the null queue is locked
    """Make the null queue wait for all new work of blocking queues that it is not yet ordered after."""
    cdef Ref[Marker] marker
    cdef Status status = 0
    cdef Guard guard
    take_list(null_queue.device, order.taken)
    for queue in order.taken:
        marker.clear()
        guard.take(queue.lock)
        queue.order.null_pending = queue.order.null_ordered = False
        if status != 0:
            pass  # after a failure only unlist the others, as `abort_command` returns them all
        elif is_idle(queue):
            order.elided_completed += 1
        elif not queue.adopted and clock_epoch(order.clock, queue.epochs) >= submitted_epoch(queue.epochs):
            order.elided_ordered += 1
        else:
            status = take_marker(queue, FOR_DEVICE, marker)
        if queue.adopted and not is_closed(queue) and status == 0:  # forebay does not see when it gets new work
            queue.order.null_pending = True
            push_on_list(retain(queue))
        guard.leave()
        if marker.get() != NULL and marker.get().event == NULL:  # idle since `is_idle`: no lock prevents that
            order.elided_completed += 1
        elif marker.get() != NULL:
            add_wait(order, move(marker))
    return status


cdef bint note_listed_end(DeviceState* device) noexcept nogil:  # the registry is locked
    """Count a queue that ended while on the null queue's list. Return whether `unlist_idle` is due."""
    device.null_order.listed_ended += 1
    if device.null_order.listed_ended <= 64 + device.registry.queues.size() // 4:
        return False
    device.null_order.listed_ended = 0
    return True


cdef void unlist_idle(DeviceState* device) noexcept nogil:
    """Take idle queues off the null queue's list, which keeps closed queues alive. Once the null queue has ended, take
    all off, because no command of it will. Without this, a program that never uses the null queue would keep every
    blocking queue it ever made. Does nothing while another thread submits to the null queue, which may take long; a
    later call does the same work.
    """
    cdef Ref[QueueState] null_queue
    cdef Refs[QueueState] listed
    cdef Guard of_null, guard
    guard.take(device.registry.lock)
    if device.null_queue != NULL:  # which another thread may end now
        null_queue = Ref[QueueState].share(device.null_queue)
    guard.leave()
    if null_queue.get() != NULL and not of_null.try_take(null_queue.get().lock):
        return
    take_list(device, listed)
    for queue in listed:
        if null_queue.get() == NULL:
            guard.take(queue.lock)
        # Else another thread's driver call may block under the lock; without it only the link is changed
        if null_queue.get() == NULL or guard.try_take(queue.lock) and is_idle(queue):
            queue.order.null_pending = queue.order.null_ordered = False
        else:
            push_on_list(retain(queue))


cdef Status take_null_marker(QueueState* queue, Ref[Marker]& marker, Order* order) noexcept nogil:
    """Give the null-queue marker that this blocking queue, not locked, must wait for; NULL for none."""
    cdef QueueState* null_queue = queue.device.null_queue
    cdef uint64_t epoch = submitted_epoch(null_queue.epochs)
    cdef Status status
    cdef Guard guard
    order.null_epoch = epoch
    if queue.order.null_seen.load(memory_order_relaxed) == epoch:
        return 0
    if completed_epoch(null_queue.epochs) >= epoch:
        order.elided_completed += 1
        return 0
    guard.take(queue.lock)
    if clock_epoch(queue.order.clock, null_queue.epochs) >= epoch:
        order.elided_ordered += 1
        return 0
    guard.take(null_queue.lock)
    status = take_marker(null_queue, FOR_DEVICE, marker)
    if status == 0:
        order.null_epoch = marker.get().epoch
    return status


cdef Status gather(QueueState* queue, Order* order) noexcept nogil:
    """Lock the queue and gather the waits of its next command. On failure the queue is unlocked and unchanged."""
    cdef Ref[Marker] null_marker
    cdef Status status
    init_order(order)
    if queue.blocking and not queue.is_null:
        status = take_null_marker(queue, null_marker, order)
        if status != 0:
            return status
    order.locked.take(queue.lock)
    submit_collected(queue)
    order.clock = <Clock*> queue.order.clock
    status = refusal(queue)
    if status == 0 and queue.is_null:
        status = gather_blocking(queue, order)
    if null_marker.get() != NULL and status == 0 and not needs_no_wait(queue, order.clock, null_marker.get(), order):
        add_wait(order, move(null_marker))
    if status != 0:
        abort_command(queue, order)
    return status


cdef bint settles_with_null(QueueState* queue, Order* order) noexcept nogil:
    """Return whether every null-queue command is ordered against this queue's next command. The queue is locked.

    A later null-queue command finds this queue in the list and waits for its lock. One that took the list earlier, and
    is not in `order`, still holds the null queue's lock or has advanced its epoch. So this function enters the list
    before it checks the null queue. The null queue works in the opposite order, so one of them always sees the other.
    """
    cdef QueueState* null_queue = queue.device.null_queue
    cdef Guard guard
    if queue.order.null_ordered or not queue.blocking or queue.is_null:
        return True
    enter_list(queue)
    if not guard.try_take(null_queue.lock):
        return False
    guard.leave()
    queue.order.null_ordered = submitted_epoch(null_queue.epochs) == order.null_epoch
    return queue.order.null_ordered


cdef Status begin_command(QueueState* queue, Order* order) noexcept nogil:
    """Like `gather`, but wait for capacity, with no lock held, while the queue may be full behind a host function. A
    thread that uses the null queue sees nothing of the command until the queue is unlocked, and then all of it.
    """
    cdef Status status
    if queue.device.in_flight.limit.load() != UNLIMITED:
        give_way(queue)
    status = begin_at_once(queue, order)
    if status != 0 or has_capacity(queue, 0) and in_flight_of(queue) < queue.device.in_flight.limit.load():
        return status
    # The queue may be full: poll, so that its progress is soon known
    if queue.device.in_flight.quota != NULL and submitted_epoch(queue.epochs) % COLLECTS == 0:
        reclaim_quota(queue.device.in_flight.quota)
    if queue.in_flight.room >= WORTH_MARKING or queue.device.in_flight.limit.load() != UNLIMITED:
        status = add_checkpoints(queue)
    if status != 0:
        abort_command(queue, order)
    while status == 0 and may_stay_full(queue, 0):
        abort_command(queue, order)
        status = await_capacity(queue, 0)
        if status == 0:
            status = begin_at_once(queue, order)
    return status


cdef Status begin_at_once(QueueState* queue, Order* order) noexcept nogil:
    cdef Status status
    cdef Guard guard
    if is_memory_short():  # from here on nothing may run out of host memory
        return NO_MEMORY
    status = gather(queue, order)
    while status == 0 and not settles_with_null(queue, order):
        abort_command(queue, order)
        guard.take(queue.device.null_queue.lock)  # with this lock, its command is submitted
        guard.leave()
        status = gather(queue, order)
    if status == 0 and not order.markers.empty() and closed_gates(queue.device) != 0:
        status = add_checkpoint_before_gate(queue)
        if status != 0:
            abort_command(queue, order)
    return status


cdef Waits waits_of(QueueState* queue, Order* order) noexcept nogil:  # the queue is locked
    order.events.clear()
    waits_of_pending(queue, order.events)
    for marker in order.markers:
        order.events.push_back(marker.event)
    return Waits(<uint32_t> order.events.size(), order.events.data())


cdef void settle(QueueState* queue, Order* order) noexcept nogil:
    """Count the dropped waits, and note the null queue's epoch up to which none is needed. The queue is locked."""
    queue.counts.waits_elided_completed += order.elided_completed
    queue.counts.waits_elided_ordered += order.elided_ordered
    if order.null_epoch > queue.order.null_seen.load(memory_order_relaxed):
        queue.order.null_seen.store(order.null_epoch, memory_order_relaxed)


cdef void count_gathered(QueueState* queue, Order* order) noexcept nogil:
    """Count a command, and order the queue after all that was gathered. The queue is locked."""
    queue.counts.waits_made += order.markers.size()
    swap_clocks(queue.order.clock, order.clock)  # the old one is released with the order, after unlocking
    settle(queue, order)
    count_command(queue)


cdef void leave_waits(QueueState* queue, Order* order) noexcept nogil:  # the queue is locked
    """Count a command of waits alone, which the queue's next command or marker carries to the driver."""
    for marker in order.markers:
        add_pending(queue, marker)
    count_gathered(queue, order)


cdef void abort_command(QueueState* queue, Order* order) noexcept nogil:
    """Undo the gathering for a command that was not submitted: no epoch advances, no clock joins. Unlocks. The null
    queue stays locked until its list has its queues back, so that none of its commands finds the list empty.
    """
    cdef Guard guard
    for taken in order.taken:
        guard.take(taken.lock)
        if not taken.order.null_pending:  # else another command has entered it again
            taken.order.null_pending = True
            push_on_list(retain(taken))
    guard.leave()
    # Noted by `note_gate_epoch`
    while not queue.order.gate_epochs.empty() and queue.order.gate_epochs.back() > submitted_epoch(queue.epochs):
        queue.order.gate_epochs.pop_back()
    order.locked.leave()  # first, because the releases below call the driver
    order.markers.clear()
    order.clock = NULL
    order.taken.clear()


# -- submits commands


cdef void commit_order(QueueState* queue, Command* command) noexcept nogil:  # the queue is locked
    drop_pending(queue)
    count_gathered(queue, command.order)


cdef void count_failed(QueueState* queue, Command* command) noexcept nogil:  # the queue is locked
    if command.began or command.order == NULL:
        count_command(queue)
    else:
        leave_waits(queue, command.order)
    command.began = True


cdef Status submit(QueueState* queue, Command* command) noexcept nogil:
    cdef Order order
    cdef Status status = 0
    if command.writes != NULL:
        status = wait_for_creation(queue, command.writes)
    if command.reads != NULL and status == 0:
        status = wait_for_creation(queue, command.reads)
    if status == 0:
        status = begin_at_once(queue, &order) if command.at_once else begin_command(queue, &order)
    if status != 0:
        return status
    if command.holds:
        status = note_gate_epoch(queue)
    if status == 0:
        command.order = &order
        status = command.call(queue, command, waits_of(queue, &order))
        if status != 0 and command.parted:
            count_failed(queue, command)
        command.order = NULL
    if command.began:
        return status
    if status != 0 or not order.markers.empty():
        abort_command(queue, &order)
    else:  # it needed no wait and no command
        settle(queue, &order)
    return status


cdef bint comes_after_creations(QueueState* queue, const Command* command) noexcept nogil:  # the queue is locked
    cdef Moment moment = moment_of(queue, queue.order.clock)
    return (command.writes == NULL or is_created(command.writes, &moment)) and (
        command.reads == NULL or is_created(command.reads, &moment))


cdef Status submit_after_pending(QueueState* queue, Command* command) noexcept nogil:  # the queue is locked
    cdef vector[void*] events
    cdef Status status
    if is_memory_short():
        return NOT_NOW
    for marker in queue.order.pending:
        if may_be_held(queue, marker):
            return NOT_NOW
    status = command.call(queue, command, waits_of_pending(queue, events))
    if command.began:
        drop_pending(queue)
    return status


cdef Status call_waits(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Status status = 0
    if queue.adopted:
        advance_submitted(queue.epochs)  # for commands from outside forebay
    if not command.order.markers.empty():
        status = queue.driver.barrier(queue.handle, waits)
        if status == 0:
            commit(queue, command)
    return status


cdef Status submit_waits(QueueState* queue) noexcept nogil:
    cdef Command command
    init_command(&command, call_waits)
    return submit(queue, &command)


cdef bint drops_wait(QueueState* queue, Marker* marker) noexcept nogil:  # the queue is locked
    cdef Order order
    init_order(&order)
    if not needs_no_wait(queue, queue.order.clock, marker, &order):
        return False
    settle(queue, &order)
    return True


cdef Status add_marker(QueueState* queue, Marker* marker, Order* order) noexcept nogil:
    """Add a wait for a marker, by a bridge event if it is of another context. The caller keeps its reference."""
    cdef void* bridged = NULL
    cdef Ref[Marker] bridge
    cdef Status status
    cdef Guard guard
    if marker.context == queue.device.context:
        add_wait(order, Ref[Marker].share(marker))
        return 0
    status = queue.driver.bridge(queue.device.context, marker.event, &bridged)
    if status == 0:
        queue.counts.events_made += 1
        bridge = new_marker(queue.device, marker.queue, marker.epoch, marker.clock, bridged, FOR_DEVICE)
        if queue.driver.gates_forbid_releases:  # for the driver it is a closed gate until its event is over
            guard.take(queue.device.registry.lock)
            queue.device.gates.bridges.share(bridge.get())
            queue.device.gates.closed_bridges.fetch_add(1)
            guard.leave()
        add_wait(order, move(bridge))
    return status


cdef bint may_be_held(QueueState* queue, Marker* marker) noexcept nogil:
    return marker.adopted or marker.device != queue.device or closed_gates(queue.device) != 0


cdef Status wait_for_marker(QueueState* queue, Marker* marker) noexcept nogil:
    """Add an edge from the marker to the queue's next command; with NULL, add only the waits that it would gather.

    A dropped wait changes nothing but a counter. Any other counts as a command at once, though a later command carries
    it: otherwise a host thread could see the queue as empty with the edge outstanding, and that command may be refused.
    """
    cdef Order order
    cdef Status status = 0
    cdef bint covered
    cdef Guard guard
    if marker != NULL:
        guard.take(queue.lock)
        status = refusal(queue)
        if status != 0 or drops_wait(queue, marker):
            return status
        guard.leave()
    status = begin_at_once(queue, &order)
    if status != 0:
        return status
    covered = marker == NULL or needs_no_wait(queue, order.clock, marker, &order)
    if covered and order.markers.empty():  # the producer finished, or another thread waited, since `drops_wait`
        settle(queue, &order)
        return 0
    if not covered:
        if may_be_held(queue, marker):
            status = add_checkpoint_before_gate(queue)
        if status == 0:
            status = add_marker(queue, marker, &order)
        if status != 0:
            abort_command(queue, &order)
            return status
    leave_waits(queue, &order)
    return 0


cdef bint wait_at_once(QueueState* queue, Marker* marker) noexcept nogil:
    """Add the edge if that blocks no thread and calls no driver; otherwise do nothing and return False."""
    cdef Guard guard
    if is_memory_short() or not guard.try_take(queue.lock):
        return False
    if not gathers_nothing(queue) or marker.context != queue.device.context or may_be_held(queue, marker):
        return False
    if not drops_wait(queue, marker):
        add_pending(queue, marker)
        join_marker(queue.order.clock, marker, covers(queue.order.clock, marker.clock))
        queue.counts.waits_made += 1
        count_command(queue)
    return True


cdef Status wait_keeping_gil(QueueState* queue, Marker* marker) noexcept:
    cdef Ref[Marker] kept
    cdef Status status
    if wait_at_once(queue, marker):
        return 0
    kept = Ref[Marker].share(marker)  # without the GIL an event may be recorded again
    with nogil:
        status = wait_for_marker(queue, marker)
        kept.clear()
    return status


cdef Status wait_for_point(QueueState* queue, uint64_t producer, uint64_t epoch) noexcept nogil:
    """Order the queue after an epoch of another, which may have ended, and after nothing later that can be held up."""
    cdef Ref[QueueState] found
    if producer == queue.epochs.queue_id:
        return 0
    found = find_queue(queue.device, producer)
    return 0 if found.get() == NULL else wait_for_epoch(queue, found.get(), epoch)


cdef Status wait_for_creator(QueueState* queue, const ClockEntry& creation) noexcept nogil:
    """Add an edge from the creation of memory, on a queue of any Device, to the queue's next command."""
    cdef Ref[QueueState] found
    cdef Guard guard
    guard.take(states_lock)
    for device in states:
        if found.get() == NULL:
            found = find_queue(device, creation.queue.queue_id)
    guard.leave()
    if found.get() == NULL:  # it has ended, and so all its work is done
        note_reached(creation.queue, creation.epoch, NULL)
        return 0
    return wait_for_epoch(queue, found.get(), creation.epoch)


cdef Status wait_for_epoch(QueueState* queue, QueueState* producer, uint64_t epoch) noexcept nogil:
    cdef Ref[Marker] marker
    cdef Status status = 0
    cdef Guard guard
    guard.take(queue.lock)
    if clock_epoch(queue.order.clock, producer.epochs) >= epoch:
        return 0
    guard.take(producer.lock)
    status = take_point(producer, epoch, FOR_DEVICE, marker)
    guard.leave()
    if marker.get() != NULL:
        status = wait_for_marker(queue, marker.get())
    return status


cdef cppclass Record(Command):
    int use
    Ref[Marker]* marker


cdef Status call_record(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Record* record = <Record*> command
    cdef void* event = NULL
    cdef Status status
    if not record.use & TIMED and command.order.markers.empty():
        return take_marker(queue, record.use, record.marker[0])
    status = queue.driver.marker(queue.handle, waits, record.use, &event)
    if status != 0:
        count_failed(queue, command)
        return status
    commit(queue, command)
    keep_marker(queue, event, record.use)
    record.marker[0] = Ref[Marker].share(queue.order.marker.get())
    return 0


cdef Status record_keeping_gil(QueueState* queue, int use, Ref[Marker]& marker) noexcept:
    """Give the marker of this point, by a command that obeys the null-queue rules. It is the queue's marker if nothing
    was submitted since and there is no new wait. A timed record is always a command of its own.
    """
    cdef Record record
    cdef Status status
    cdef Guard guard
    if not use & TIMED and not is_memory_short() and guard.try_take(queue.lock) and gathers_nothing(queue):
        return take_marker(queue, use, marker)
    guard.leave()
    init_command(&record, call_record)
    record.use = use
    record.marker = &marker
    with nogil:
        status = submit(queue, &record)
    return status


# -- waits of the host that end although other threads go on submitting
#
# On some drivers such waits starve (`waits_starve`): on Intel's CPU runtime a waiting thread executes commands of any
# queue of the process, and returns only when it finds none. So a watcher, a native thread, looks at all such waits
# every few milliseconds, and limits what each queue may have in flight:
#
# - Once other threads submit during a wait, each queue may have a few milliseconds of work in flight, until a second
#   after the last such submission was seen.
# - Once a wait has lasted for long beside such threads, queues drain now and then. The runtime's threads, and waiting
#   ones, stay with a queue until it is empty. So they may never come to the queue that is waited for, or never return.
#   A starving wait looks like one for much work, so queues are held for a fifth of the time at most.
#
# The limit is part of a queue's `room`, so the launch path is not longer; `give_way` obeys it. A wait that no other
# thread disturbs costs its registration. Without waits the watcher ends.

cdef extern from *:
    """
    #include <atomic>
    #include <chrono>
    #include <condition_variable>
    #include <cstdint>
    #include <mutex>
    #include <system_error>
    #include <thread>
    #include <unordered_map>
    #ifndef _WIN32
    #include <signal.h>
    #endif

    namespace forebay {
    static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

    // The epoch of a queue, plus one, at which this thread last gave up waiting, because the queue made no progress
    static std::uint64_t *stalled_at(std::uint64_t queue) {
        static thread_local std::unordered_map<std::uint64_t, std::uint64_t> known;
        if (known.size() > 1024) known.clear();  // most of these queues are gone
        return &known[queue];
    }

    static std::uint64_t microseconds() {
        return std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    /* A native thread without a Python thread state. It calls `look` again after as many microseconds as that returns,
       and ends after 0. */
    class Watcher {
        std::mutex mutex;
        std::condition_variable ending;
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
            while (woken && !ended) {
                woken = false;
                lock.unlock();
                while (std::uint64_t pause = ended ? 0 : look())
                    std::this_thread::sleep_for(std::chrono::microseconds(pause));
                lock.lock();
            }
            running = false;
            ending.notify_all();
        }

    public:
        explicit Watcher(std::uint64_t (*look)()) : look(look) {}

        bool wake() {  // false when the system has no thread
            std::lock_guard<std::mutex> lock(mutex);
            woken = true;
            if (running || ended) return true;
            try {
                std::thread(&Watcher::run, this).detach();
            } catch (const std::system_error &) {
                return false;
            }
            return running = true;
        }

        void end() {
            std::unique_lock<std::mutex> lock(mutex);
            ended = true;
            ending.wait(lock, [this] { return !running; });
        }
    };
    }
    """
    void pause "forebay::pause"() nogil
    uint64_t* stalled_at "forebay::stalled_at"(uint64_t queue) nogil
    uint64_t microseconds "forebay::microseconds"() nogil

    cdef cppclass Watcher "forebay::Watcher":
        Watcher(uint64_t (*look)() noexcept nogil)
        bint wake() nogil
        void end() nogil


cdef enum:
    FIRST_BACKLOG = 32  # commands of a queue in flight, until their rate is known
    LEAST_BACKLOG = 4  # a queue with long commands drains soon, and the device is still busy
    MOST_BACKLOG = 512  # a GPU's driver also takes some hundreds before a launch blocks
    IDLE_LOOKS = 250  # looks without a wait, before the watcher ends
    # All in microseconds
    PAUSE = 4000  # between two looks
    PAUSE_IN_WAIT = 2000  # the same, while a wait lasts
    PAUSE_TO_COMPARE = 500  # under the limit waits are short, but submissions during one must be seen
    CALM = 1000000  # without a submission during a wait, before the limit ends
    WORK_IN_FLIGHT = 4000  # of a queue, under the limit
    RATED = 32000  # period for the rate of commands
    STARVED = 20000  # length of a wait that counts as starving
    LEAST_DRAIN = 4000  # how long queues are held to drain; doubled each time that they did not
    MOST_DRAIN = 8000000  # commands may take seconds
    MOST_BESIDE_GATES = 512000  # a queue that is held does not drain


cdef Lock waits_lock  # guards the next four
# Waits under way: when the watcher first saw each, or 0. Never deleted: daemon threads may wait at exit
cdef unordered_map[uint64_t, uint64_t]* host_waits = new unordered_map[uint64_t, uint64_t]()
cdef uint64_t waits_begun = 0
cdef bint awake = False  # the watcher
cdef bint begun = False  # whether a wait began since the last look

# The watcher's own; times are in microseconds
cdef uint32_t idle_looks = 0
cdef bint contended = False  # whether other threads submitted during a wait in the last second
cdef bint gate_closed = False  # of any device, at the last look
cdef uint64_t contended_at = 0  # when that was last seen
cdef uint64_t backlog = FIRST_BACKLOG
cdef uint64_t last_submitted = UNLIMITED
cdef uint64_t rated_at = 0, completed_then = 0
cdef uint64_t drain_length = LEAST_DRAIN, drain_begins = 0, drain_ends = 0  # the last is 0 while not draining

cdef Watcher* watcher = new Watcher(look)  # never deleted either


cdef Status wait_watched(const Driver* driver, void* context, Waits events, Interrupted ask) noexcept nogil:
    """Wait for events where other threads can starve the wait, which is registered with the watcher."""
    global awake, begun, waits_begun
    cdef uint64_t number
    cdef bint asleep
    cdef Status status
    cdef Guard guard
    guard.take(waits_lock)
    waits_begun += 1
    number = waits_begun
    host_waits[0][number] = 0
    asleep = not awake
    awake = begun = True
    guard.leave()
    if asleep and not watcher.wake():
        guard.take(waits_lock)
        awake = False  # the next wait tries again
        guard.leave()
    status = driver.wait_events(context, events, ask)
    guard.take(waits_lock)
    host_waits.erase(number)
    return status


cdef Status wait_on_host(DeviceState* device, Waits events, Interrupted ask) noexcept nogil:
    if device.in_flight.waits_starve:
        return wait_watched(device.driver, device.context, events, ask)
    return device.driver.wait_events(device.context, events, ask)


cdef uint64_t note_progress(uint64_t now, bint disturbed) noexcept nogil:
    """Note whether other threads have submitted since the last look, if a wait lasted all the while, and the limit for
    commands in flight beside waits. Return how many the fullest queue has in flight.
    """
    global backlog, completed_then, contended, contended_at, gate_closed, last_submitted, rated_at
    cdef uint64_t submitted = 0, completed = 0, most = 0
    cdef Epochs* epochs
    cdef Guard of_states, guard
    of_states.take(states_lock)
    gate_closed = False
    for device in states:
        gate_closed = gate_closed or device.gates.closed.load() != 0
        if device.in_flight.waits_starve:
            guard.take(device.registry.lock)
            for each in device.registry.queues:
                epochs = each.epochs
                completed += completed_epoch(epochs)
                submitted += submitted_epoch(epochs)
                most = max(most, submitted_epoch(epochs) - completed_epoch(epochs))
    guard.leave()
    of_states.leave()
    # Under the limit a lack of submissions proves nothing; full queues do, unless they are held by a gate
    if disturbed and (submitted > last_submitted or contended and most >= backlog and not gate_closed):
        contended = True
        contended_at = now
    last_submitted = submitted
    if now >= rated_at + RATED:
        if contended and completed > completed_then:  # lower, when a queue has gone
            backlog = (completed - completed_then) * WORK_IN_FLIGHT // (now - rated_at)
            backlog = min(max(backlog, <uint64_t> LEAST_BACKLOG), <uint64_t> MOST_BACKLOG)
        rated_at = now
        completed_then = completed
    return most


cdef bint is_draining(uint64_t now, bint starved, bint drained) noexcept nogil:
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
        drain_length = min(2 * drain_length, <uint64_t> (MOST_BESIDE_GATES if gate_closed else MOST_DRAIN))
    drain_begins = now + 4 * drain_length
    drain_ends = 0
    return False


cdef void limit_in_flight(uint64_t limit) noexcept nogil:
    cdef Guard of_states, guard
    of_states.take(states_lock)
    for device in states:
        if device.in_flight.waits_starve and device.in_flight.limit.load() != limit:
            guard.take(device.registry.lock)
            device.in_flight.limit.store(limit)
            renew_rooms(device)


cdef uint64_t look() noexcept nogil:
    """Look at the waits under way. Return the microseconds until the next look."""
    global awake, backlog, begun, contended, idle_looks
    cdef bint lasting = False, starved = False, waited, keeps_on
    cdef uint64_t now = microseconds(), most = 0
    cdef uint64_t* since
    cdef Guard guard
    guard.take(waits_lock)
    waited = not host_waits.empty()
    for each in host_waits[0]:
        since = &host_waits[0][each.first]
        lasting = lasting or since[0] != 0
        starved = starved or since[0] != 0 and now > since[0] + STARVED
        if since[0] == 0:
            since[0] = now
    idle_looks = 0 if waited or begun else idle_looks + 1
    begun = False
    awake = keeps_on = idle_looks < IDLE_LOOKS
    guard.leave()
    if waited:
        most = note_progress(now, lasting)
    if not keeps_on or contended and now > contended_at + CALM:
        contended = False
        backlog = FIRST_BACKLOG
    if is_draining(now, contended and starved, most <= 1):
        limit_in_flight(1)
    else:
        limit_in_flight(backlog if contended else UNLIMITED)
    if not keeps_on:
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
