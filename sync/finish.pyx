"""Waits of the host: finish, timeouts, Ctrl-C, and waits for the uses of memory.

A wait takes one host synchronize, or none when the work is known to be done. No lock is held meanwhile, because a host
function that the queue waits for may submit to that same queue.
"""

import time

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t, uint64_t
from libcpp.utility cimport move
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_DEVICE, FOR_HOST, INTERRUPTED, NOT_YET, Answer, Status, Waits
from forebay.core.ownership cimport Guard, Ref, Refs
from forebay.core.process cimport interrupted
from forebay.core.state cimport (
    DeviceState, Marker, QueueState, captures_under_way, closed_gates, find_queue, is_closed, note_done,
    points_of_indirect_uses, poll_marker, refusal, registered_queues
)
from forebay.core.usage cimport Usage, points_of
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, ClockRef, advance_submitted, clock_epoch, completed_epoch, is_empty, list_entries,
    submitted_epoch
)
from forebay.lifetimes.deferred cimport collect_device, collect_queue, collect_reached
from forebay.races.checker cimport BLOCKING, is_checked, order_of, races, reach
from forebay.sync.ordering cimport (
    ask_queue, await_event, carry_pending, check_status, first_gate_epoch, submit_waits, take_marker, take_point,
    wait_for_point, wait_on_host
)

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, TimeoutError
from forebay.core.process import refuse_on_host_thread
from forebay.queues.capture_rules import refuse_unsafe


cdef bint wait_checked(object queue, QueueState* state, bint asks, object timeout) except -1:
    cdef Ref[Clock] past = races.past_of(state.epochs.queue_id, BLOCKING)
    if asks and not query_queue(queue, state):
        return False
    if not asks:
        finish_queue(queue, state, timeout)
    reach(past.get())
    return True


cdef int finish_queue(object queue, QueueState* state, object timeout) except -1:
    """Implement `Queue.finish`: block until all submitted work that the queue speaks for is done."""
    cdef Status status = 0
    cdef bint timed = timeout is not None
    if timed:
        poll_until_done(queue, state, timeout)
    with nogil:
        if state.is_null and not timed:
            status = submit_waits(state)  # for the blocking queues that it speaks for
        if status == 0 and not timed:
            status = finish_own(state)
        if status == 0:
            status = tell_failures(state)
        write_printed(state.device)
    check_status(queue, status, "finish")
    collect_queue(state)
    collect_device(state.device)
    return 0


cdef enum:
    ASKS_OF_COPY = 24  # some 1 to 2 us


cdef Status submit_pending(QueueState* queue) noexcept nogil:  # the queue is locked
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # for commands from outside forebay
    return carry_pending(queue)


cdef Status finish_own(QueueState* queue) noexcept nogil:
    """Block until the work submitted so far to the queue itself is done: one host synchronize, or none if it is known.
    Epoch and clock are read together, and `completed` rises to that epoch, so later commands are not taken for done.
    """
    cdef Status status
    cdef uint64_t epoch
    cdef Ref[Marker] marker
    cdef bint done = False
    cdef uint32_t asks = queue.driver.asks_of_finish
    cdef Guard guard
    guard.take(queue.lock)
    status = submit_pending(queue)
    epoch = submitted_epoch(queue.epochs)
    if status != 0 or completed_epoch(queue.epochs) >= epoch:
        return status
    queue.counts.host_syncs += 1
    # If the last poll found outstanding work, a second call is likely to be wasted: a marker says the same.
    if asks == 0 and queue.driver.poll != NULL and not queue.in_flight.found_busy:
        asks = 1
    for _ in range(asks):
        status = ask_queue(queue, &done)
        if status != 0 or done:
            return status
        if queue.lock.is_wanted():  # what other threads submit must come after the marker
            break
    if queue.order.copied.get() != NULL and queue.order.copied.get().epoch == epoch:
        marker = move(queue.order.copied)  # released right after the wait
        guard.leave()
        return await_copy(queue.device, marker.get())
    status = take_marker(queue, FOR_HOST, marker)
    guard.leave()
    return await_event(queue.device, marker.get()) if status == 0 else status


cdef Status await_copy(DeviceState* device, Marker* marker) noexcept nogil:
    """Block until a copy is done. On CPUs polls of a small copy take less time than waking the thread. NVIDIA's OpenCL
    begins a copy when it is waited for, so there polls would lose time.
    """
    cdef Answer answer
    for _ in range(ASKS_OF_COPY if device.in_flight.waits_starve else 0):  # that is, on CPUs
        answer = poll_marker(marker)
        if answer == DONE:
            return 0
        if answer != NOT_YET:
            break  # the wait returns the failure
    return await_event(device, marker)


cdef Status tell_failures(QueueState* queue) noexcept nogil:
    """Report a failure of finished work that the queue speaks for: there may be no marker after it to report it."""
    if queue.driver.tell_failure == NULL:
        return 0
    return tell_failures_of(queue.device, 0, True) if queue.is_null else queue.driver.tell_failure(queue.handle)


cdef Status tell_failures_of(DeviceState* device, uint64_t owner, bint blocking) noexcept nogil:
    """Likewise for all queues; with an owner, for its queues; for blocking ones only. Always for the null queue."""
    cdef Refs[QueueState] queues
    cdef Status status = 0
    if device.driver.tell_failure == NULL:
        return 0
    registered_queues(device, queues)
    for each in queues:
        if status == 0 and (each.is_null or (owner in (0, each.owner) and (each.blocking or not blocking))):
            status = device.driver.tell_failure(each.handle)
    return status


cdef void write_printed(DeviceState* device) noexcept nogil:
    """Call this at the end of each wait of the host: drivers print in a wait, and polls may have replaced it."""
    if device.driver.write_printed != NULL:
        device.driver.write_printed(device.context)


# -- with a timeout: markers are polled, so Ctrl-C is delivered at once


cdef int poll_until_done(object queue, QueueState* state, object timeout) except -1:
    """Finish with a timeout: wait for what was submitted by now, and leave nothing in the queue."""
    cdef Refs[QueueState] queues
    cdef Refs[Marker] markers
    cdef Status status
    cdef Answer answer = DONE
    if not hasattr(timeout, "__float__"):
        raise ArgumentTypeError(f"finish: timeout is a number of seconds, not {type(timeout).__name__}")
    timeout = float(timeout)
    if timeout != timeout:
        raise InvalidArgumentError("finish: timeout is nan, which never comes")
    end = time.monotonic() + timeout
    pause = 20e-6
    with nogil:
        status = queues_spoken_for(state, queues)
        queues.share(state)
        if status == 0:
            status = take_marker_of_each(queues, FOR_HOST, markers)
        queues.clear()
    check_status(queue, status, "finish")
    while True:
        with nogil:
            while not markers.empty():
                answer = poll_marker(markers.back())
                if answer != DONE:
                    break
                markers.pop_back()
        if answer > DONE:
            queue._raise(answer, "finish")
        if answer < 0:
            queue.device._raise_execution_error(answer, repr(queue))
        if markers.empty():
            return 0
        PyErr_CheckSignals()
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{queue!r} is not done after {timeout} s")
        time.sleep(min(pause, left))  # not every driver has timed waits, and signal handlers must run
        pause = min(2 * pause, 1e-3)


cdef Status take_marker_of_each(Refs[QueueState]& queues, int use, Refs[Marker]& markers) noexcept nogil:
    """Append a marker of all work of each queue; after a failure, of the queues before it. None is locked."""
    cdef Ref[Marker] marker
    cdef Status status
    cdef Guard guard
    for queue in queues:
        guard.take(queue.lock)
        status = take_marker(queue, use, marker)
        guard.leave()
        if status != 0:
            return status
        markers.push_back(move(marker))
    return 0


cdef void busy_queues(DeviceState* device, uint64_t owner, Refs[QueueState]& into) noexcept nogil:
    """Append the adopted queues and those with work not known to be done; with an owner, its and the null queue."""
    cdef Guard guard
    guard.take(device.registry.lock)
    for each in device.registry.queues:
        if is_empty(each.epochs) and not (each.adopted and not is_closed(each.queue)):
            continue
        if owner == 0 or each.queue.owner == owner or each.queue.is_null:
            into.share(each.queue)


cdef Status queues_spoken_for(QueueState* queue, Refs[QueueState]& queues) noexcept nogil:
    """Append the other queues that this one speaks for: for the null queue, the blocking queues with work. Return the
    status that refuses commands of the queue, with nothing appended.
    """
    cdef Refs[QueueState] busy
    cdef Status status
    cdef Guard guard
    guard.take(queue.lock)
    status = refusal(queue)
    guard.leave()
    if status == 0 and queue.is_null:
        busy_queues(queue.device, 0, busy)
    for each in busy:
        if each.blocking and each != queue:
            queues.share(each)
    return status


cdef bint query_queue(object queue, QueueState* state) except -1:
    """Implement `Queue.query`: return whether all that the queue speaks for is done. Orders nothing."""
    cdef Refs[QueueState] queues
    cdef Status status
    cdef Answer answer = DONE
    with nogil:
        status = queues_spoken_for(state, queues)
        if status == 0:
            status = query_one(state, &answer)
        for each in queues:
            if status == 0 and answer == DONE:
                status = query_one(each, &answer)
        queues.clear()
        if status == 0 and answer == DONE:
            status = tell_failures(state)
    if status != 0 or answer > DONE:
        queue._raise(status if status != 0 else answer, "query")
    if answer < 0:
        queue.device._raise_execution_error(answer, repr(queue))
    if answer != DONE:
        return False
    collect_queue(state)
    return True


cdef Status query_one(QueueState* queue, Answer* answer) noexcept nogil:
    cdef Ref[Marker] marker
    cdef Status status
    cdef bint done
    cdef Guard guard
    guard.take(queue.lock)
    if queue.driver.poll != NULL:
        status = submit_pending(queue)
        if status == 0:
            done = is_empty(queue.epochs)
            if not done:
                status = ask_queue(queue, &done)
            answer[0] = done
        return status
    status = take_marker(queue, FOR_HOST, marker)
    guard.leave()
    if status == 0:
        answer[0] = poll_marker(marker.get())
    return status


# -- a device, and points of its queues


cdef Status finish_device(DeviceState* device, uint64_t owner) noexcept nogil:
    """Block until every queue is done; with an owner, its queues and the null queue. Takes a marker of each queue with
    work, and one host synchronize; a single queue with work is finished as it is. The null queue speaks for itself
    alone: blocking queues with work are here too, or another owner's.
    """
    cdef Refs[QueueState] queues
    cdef Refs[Marker] markers
    cdef Status status = 0
    busy_queues(device, owner, queues)
    if queues.size() == 1:
        status = finish_own(queues[0])
    else:
        status = take_marker_of_each(queues, FOR_DEVICE, markers)
        if status == 0:
            status = synchronize(device, markers)
            if status != 0 and status != INTERRUPTED:
                # Finish each: the driver may not have waited for the others, nor say which command failed. A signal
                # handler that raises ends the wait at once, before the failure, which the next finish reports again.
                for queue in queues:
                    if status != INTERRUPTED and finish_own(queue) == INTERRUPTED:
                        status = INTERRUPTED
    markers.clear()
    if status == 0:
        status = tell_failures_of(device, owner, False)
    write_printed(device)
    return status


cdef Status synchronize(DeviceState* device, Refs[Marker]& markers) noexcept nogil:
    """Block until all markers of the device are reached: one host synchronize, or none if it is known."""
    cdef vector[void*] events
    cdef Status status
    cdef Guard guard
    for marker in markers:
        if marker.event != NULL and marker.epoch > completed_epoch(marker.queue):
            events.push_back(marker.event)
    if events.empty():
        return 0
    guard.take(device.registry.lock)
    device.host_syncs += 1
    guard.leave()
    status = wait_on_host(device, Waits(<unsigned int> events.size(), events.data()), interrupted)
    if status == 0:
        for marker in markers:
            note_done(marker)
    return status


cdef int wait_for_markers(object device, DeviceState* state, Refs[Marker]& markers, object what) except -1:
    """`synchronize`, and release the markers and what the queues have done. Each wait of the host for events, copies
    and uses of memory ends here: a program may never call `finish`.
    """
    cdef Status status
    with nogil:
        status = synchronize(state, markers)
        write_printed(state)
    if status == 0:
        for marker in markers:
            collect_reached(state, marker)
    markers.clear()
    return 0 if status == 0 else device._raise(status, str(what))


# -- uses of memory, on any queue. A method that reads to the host makes the host wait, so it orders no queue after
# another. A method that only submits a command orders that command's queue.


cdef int wait_for_uses(object device, DeviceState* state, Usage* uses, bint writers_only, QueueState* reader) except -1:
    """Block until all uses of memory that are submitted by now, or all writes, are done. What the next command of
    `reader`, if any, comes after anyway is not waited for. Refused on the host thread and beside captures; for writers
    only, if there is something to wait for.
    """
    cdef vector[ClockEntry] points
    cdef Refs[Marker] markers
    cdef Ref[Clock] past
    cdef Status status
    if not writers_only:
        check_may_wait()
    if state.checked:
        past = races.past_of_uses(uses, writers_only)
    with nogil:
        points_of(uses, writers_only, points)
        points_of_indirect_uses(state, False, points)
        status = take_points(state, points, reader, &markers)
    if not markers.empty():
        check_may_wait()
    check_status(device, status, "wait for the uses of a Buffer")
    if not markers.empty():
        wait_for_markers(device, state, markers, "wait for the uses of a Buffer")
    reach(past.get())
    return 0


cdef int check_may_wait() except -1:
    refuse_on_host_thread("A wait for the uses of a Buffer")
    if captures_under_way():
        refuse_unsafe("waiting for the uses of a Buffer")
    return 0


cdef Status take_points(
    DeviceState* device, vector[ClockEntry]& points, QueueState* reader, Refs[Marker]* markers
) noexcept nogil:
    """Append markers for the host of these points, except those that the reader, if any, comes after anyway. If
    `markers` is NULL, let the reader wait for the points instead.
    """
    cdef Ref[QueueState] found
    cdef QueueState* queue
    cdef Ref[Marker] marker
    cdef Status status = 0
    cdef Guard guard
    for point in points:
        if status != 0:
            break
        found = find_queue(device, point.queue.queue_id)
        queue = found.get()
        if queue == NULL or reader != NULL and comes_after(reader, queue, point.epoch):
            continue
        if markers == NULL:
            status = wait_for_point(reader, point.queue.queue_id, point.epoch)
            continue
        guard.take(queue.lock)
        status = take_point(queue, point.epoch, FOR_HOST, marker)
        guard.leave()
        if marker.get() != NULL:
            markers.push_back(move(marker))
    return status


cdef bint comes_after(QueueState* queue, QueueState* producer, uint64_t epoch) noexcept nogil:
    """Return whether the queue's next command comes after this epoch of another, or is refused, which says why."""
    cdef Guard guard
    guard.take(queue.lock)
    return (
        refusal(queue) != 0 or queue == producer or clock_epoch(queue.order.clock, producer.epochs) >= epoch
        or queue.is_null and producer.blocking or producer.is_null and queue.blocking
    )


cdef int order_after_uses(object queue, QueueState* state, DeviceState* of, Usage* uses, bint writers_only) except -1:
    """Let the queue's next command come after all submitted uses of memory, or all writes. Does not block. Does nothing
    for another device's memory: that command is refused, or goes through the host.
    """
    cdef vector[ClockEntry] points
    cdef Ref[Clock] past
    cdef Status status = 0
    if of != state.device:
        return 0
    if is_checked(state):
        past = races.past_of_uses(uses, writers_only)
    with nogil:
        points_of(uses, writers_only, points)
        points_of_indirect_uses(of, False, points)
        if not points.empty():
            status = take_points(of, points, state, NULL)
    check_status(queue, status, "wait")
    if is_checked(state):
        order_of(queue).come_after(past.get())
    return 0


# -- out-of-memory recovery: waits for memory that comes free and that no gate or host function holds up


cdef Status wait_for_retired(DeviceState* device) noexcept nogil:
    """Block until all is done that retired memory waits for, except behind a gate or host function."""
    cdef Refs[QueueState] queues
    cdef Refs[Marker] markers
    cdef vector[ClockEntry] points
    cdef uint64_t epoch
    cdef Status status
    cdef Guard guard
    guard.take(device.registry.lock)
    for each in device.deferred.draining:
        queues.push_back(each)
    guard.leave()
    for queue in queues:
        epoch = submitted_epoch(queue.epochs) if closed_gates(device) == 0 else free_until(queue)
        points.push_back(ClockEntry(queue.epochs, epoch))
    status = take_points(device, points, NULL, &markers)
    if status == 0:
        status = synchronize(device, markers)
        write_printed(device)
    return status


cdef uint64_t marked_before(QueueState* queue, uint64_t held) noexcept nogil:
    """Return the last epoch before this hold that has a marker or is known to be reached. Waits submitted since are
    carried by the hold, so their marker comes behind it. The queue is locked.
    """
    cdef uint64_t marked = completed_epoch(queue.epochs)
    cdef size_t i
    for i in range(queue.order.checkpoints.size()):
        if queue.order.checkpoints[i].get().epoch < held:
            marked = max(marked, queue.order.checkpoints[i].get().epoch)
    return marked


cdef uint64_t free_until(QueueState* queue) noexcept nogil:
    """Return the epoch that the queue reaches even if no gate is opened; 0 when it is unknown."""
    cdef uint64_t held, epoch
    cdef ClockRef clock
    cdef Ref[QueueState] other
    cdef vector[ClockEntry] entries
    cdef bint free = True
    cdef Guard guard
    guard.take(queue.lock)
    held = first_gate_epoch(queue)
    epoch = submitted_epoch(queue.epochs) if held == 0 else marked_before(queue, held)
    clock = <Clock*> queue.order.clock
    guard.leave()
    list_entries(clock, entries)
    for entry in entries:
        other = find_queue(queue.device, entry.queue.queue_id)
        if other.get() == NULL:
            continue
        guard.take(other.get().lock)
        held = first_gate_epoch(other.get())
        guard.leave()
        free = free and (held == 0 or held > entry.epoch)
    return epoch if free else 0
