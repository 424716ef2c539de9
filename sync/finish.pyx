"""Finishing a queue or a device takes one host synchronize, or none when its work is known to be done.

No lock is held while the host waits, because a host function that the queue waits for may submit to that same queue.
"""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_DEVICE, FOR_HOST, INTERRUPTED, NOT_YET, Answer, Status, Waits
from forebay.core.vector_clock cimport advance_submitted, completed_epoch, is_empty, submitted_epoch
from forebay.core.state cimport (
    BY_CLOSING, DeviceState, Marker, QueueState, busy_queues, is_closed, note_done, poll_marker, refusal,
    registered_queues, release_marker, release_queue_state, retain_queue_state
)
from forebay.core.process cimport interrupted
from forebay.sync.host_waits cimport wait_on_host
from forebay.sync.ordering cimport (
    Order, ask_queue, await_event, begin_command, carry_pending, submit_waits, take_marker
)

cdef enum:
    ASKS_OF_COPY = 24  # some 1 to 2 us


cdef Status lock_with_waits(QueueState* queue) noexcept nogil:
    """Lock the queue and submit all its waits. On failure the queue is not locked."""
    cdef Status status
    queue.lock.lock()
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # for the commands that it got from outside forebay
    status = carry_pending(queue)
    if status != 0:
        queue.lock.unlock()
    return status


cdef Status order_after_blocking(QueueState* null_queue) noexcept nogil:
    """Order the null queue after the blocking queues, because it speaks for them."""
    cdef Order order
    cdef Status status = begin_command(null_queue, &order)
    return submit_waits(null_queue, &order) if status == 0 else status


cdef Status query_one(QueueState* queue, int* reached) noexcept nogil:
    cdef Marker* marker = NULL
    cdef Answer answer
    cdef Status status
    cdef bint done
    if queue.driver.poll != NULL:
        status = lock_with_waits(queue)
        if status == 0:
            done = is_empty(queue.epochs)
            if not done:
                status = ask_queue(queue, &done)
            queue.lock.unlock()
            reached[0] = done
        return status
    queue.lock.lock()
    status = take_marker(queue, FOR_HOST, &marker)
    queue.lock.unlock()
    if status == 0:
        answer = poll_marker(marker)
        release_marker(marker)
        if answer > DONE:
            return answer
        reached[0] = <int> answer
    return status


cdef void queues_spoken_for(QueueState* queue, vector[QueueState*]& queues) noexcept nogil:
    """Append the queue, and for the null queue the blocking queues with work; each retained."""
    cdef vector[QueueState*] all
    cdef size_t i
    queues.push_back(retain_queue_state(queue))
    if not queue.is_null:
        return
    busy_queues(queue.device, 0, all)
    for i in range(all.size()):
        if all[i].blocking and all[i] != queue:
            queues.push_back(all[i])
        else:
            release_queue_state(all[i])


cdef Status refusal_of(QueueState* queue) noexcept nogil:
    cdef Status status
    queue.lock.lock()
    status = refusal(queue)
    queue.lock.unlock()
    return status


cdef Status query_queue(QueueState* queue, int* reached) noexcept nogil:
    """Set ``reached`` to 1 when everything that the queue speaks for is done, else to 0. Orders nothing.

    A negative value is the error that a command failed with on the device.
    """
    cdef vector[QueueState*] queues
    cdef Status status = refusal_of(queue)
    cdef int one
    cdef size_t i
    reached[0] = 1
    if status != 0:
        return status
    queues_spoken_for(queue, queues)
    for i in range(queues.size()):
        if status == 0 and reached[0] == 1:
            one = 0
            status = query_one(queues[i], &one)
            reached[0] = one
        release_queue_state(queues[i])
    return tell_failures(queue) if status == 0 and reached[0] == 1 else status


cdef Status tell_failures(QueueState* queue) noexcept nogil:
    """Tell a failure of what the queue speaks for, all of which is done: there may be no marker after it to tell it."""
    if queue.driver.tell_failure == NULL:
        return 0
    return tell_failures_of(queue.device, 0, True) if queue.is_null else queue.driver.tell_failure(queue.handle)


cdef Status tell_failures_of(DeviceState* device, uint64_t owner, bint blocking) noexcept nogil:
    """The same of all queues; with an owner, of its queues; of blocking ones only. And of the null queue."""
    cdef vector[QueueState*] queues
    cdef Status status = 0
    if device.driver.tell_failure == NULL:
        return 0
    registered_queues(device, queues)
    for each in queues:
        if status == 0 and (each.is_null or (owner in (0, each.owner) and (each.blocking or not blocking))):
            status = device.driver.tell_failure(each.handle)
        release_queue_state(each)
    return status


cdef Status mark_ends(QueueState* queue, vector[Marker*]& markers) noexcept nogil:
    """Append markers of everything submitted so far that the queue speaks for, for the host; each retained."""
    cdef vector[QueueState*] queues
    cdef Marker* marker
    cdef Status status = refusal_of(queue)
    cdef size_t i
    if status != 0:
        return status
    queues_spoken_for(queue, queues)
    for i in range(queues.size()):
        if status == 0:
            queues[i].lock.lock()
            status = take_marker(queues[i], FOR_HOST, &marker)
            queues[i].lock.unlock()
            if status == 0:
                markers.push_back(marker)
        release_queue_state(queues[i])
    return status


cdef Status finish_queue(QueueState* queue) noexcept nogil:
    """Block until everything that the queue speaks for and that was submitted so far is done."""
    cdef Status status = order_after_blocking(queue) if queue.is_null else 0
    if status == 0:
        status = finish_own(queue)
    if status == 0:
        status = tell_failures(queue)
    write_printed(queue.device)
    return status


cdef Status await_copy(DeviceState* device, Marker* marker) noexcept nogil:
    """Block until a copy is done. Small ones take a CPU less time than to wake the thread that waits for them. On
    NVIDIA's OpenCL, which begins a copy when it is waited for, asking would be time lost.
    """
    cdef Answer answer
    for _ in range(ASKS_OF_COPY if device.in_flight.waits_starve else 0):  # that is, on CPUs
        answer = poll_marker(marker)
        if answer == DONE:
            return 0
        if answer != NOT_YET:
            break  # the wait tells what it is
    return await_event(device, marker)


cdef Status finish_own(QueueState* queue) noexcept nogil:
    """Block until everything submitted to the queue itself so far is done.

    It takes one host synchronize, or none when the queue is known to be empty. Epoch and clock are read together and
    `completed` rises to that epoch, so a command submitted during the wait is not mistaken for done.
    """
    cdef Status status
    cdef uint64_t epoch
    cdef Marker* marker = NULL
    cdef bint done = False
    cdef uint32_t asks = queue.driver.asks_of_finish
    status = lock_with_waits(queue)
    if status != 0:
        return status
    epoch = submitted_epoch(queue.epochs)
    if completed_epoch(queue.epochs) >= epoch:
        queue.lock.unlock()
        return 0
    queue.counts.host_syncs += 1
    # Where the last poll found work outstanding, another is likely to be one call too many: a marker says the same.
    if asks == 0 and queue.driver.poll != NULL and not queue.in_flight.found_busy:
        asks = 1
    for _ in range(asks):
        status = ask_queue(queue, &done)
        if status != 0 or done:
            queue.lock.unlock()
            return status
        if queue.lock.is_wanted():  # who submits more must come after the marker
            break
    if queue.order.copied != NULL and queue.order.copied.epoch == epoch:
        marker = queue.order.copied  # which is given back right after the wait
        queue.order.copied = NULL
        queue.lock.unlock()
        status = await_copy(queue.device, marker)
        release_marker(marker)
        return status
    status = take_marker(queue, FOR_HOST, &marker)
    queue.lock.unlock()
    if status == 0:
        status = await_event(queue.device, marker)
        release_marker(marker)
    return status


cdef void count_synchronize(DeviceState* device) noexcept nogil:
    device.registry.lock.lock()
    device.host_syncs += 1
    device.registry.lock.unlock()


cdef Status wait_on_host_for_all(DeviceState* device, vector[Marker*]& markers) noexcept nogil:
    """Block until all markers are reached: one host synchronize, or none when it is known. They are for the host, and
    belong to this device.
    """
    cdef vector[void*] events
    cdef Status status = 0
    cdef size_t i
    for i in range(markers.size()):
        if markers[i].event != NULL and markers[i].epoch > completed_epoch(markers[i].queue):
            events.push_back(markers[i].event)
    if not events.empty():
        count_synchronize(device)
        status = wait_on_host(
            device, device.driver, Waits(<unsigned int> events.size(), events.data()), interrupted)
        if status == 0:
            for i in range(markers.size()):
                note_done(markers[i])
    write_printed(device)
    return status


cdef bint finish_each(vector[QueueState*]& queues) noexcept nogil:
    """Finish each queue after a command failed. The driver may not have waited for the others, nor does it say which
    command failed. Return True if a signal handler has raised: that ends the wait at once.
    """
    cdef size_t i
    for i in range(queues.size()):
        if finish_own(queues[i]) == INTERRUPTED:
            return True
    return False


cdef Status finish_device(DeviceState* device, uint64_t owner) noexcept nogil:
    """Block until every queue is done; with an owner, its queues and the null queue.

    Takes a marker of each queue with work, and one host synchronize. One queue with work alone is finished as it is.
    The null queue speaks for itself alone: blocking queues with work are here too, or another owner's.
    """
    cdef vector[QueueState*] queues
    cdef QueueState* only
    cdef vector[Marker*] markers
    cdef vector[void*] events
    cdef Marker* marker
    cdef Waits waits
    cdef Status status = 0
    cdef size_t i
    busy_queues(device, owner, queues)
    if queues.size() == 1:
        only = queues[0]
        status = finish_own(only)
        release_queue_state(only)
        queues.clear()
    for i in range(queues.size()):
        if status == 0:
            queues[i].lock.lock()
            status = take_marker(queues[i], FOR_DEVICE, &marker)
            queues[i].lock.unlock()
            if status == 0:
                markers.push_back(marker)
                if marker.event != NULL:
                    events.push_back(marker.event)
    if status == 0 and not events.empty():
        waits.count = <unsigned int> events.size()
        waits.events = events.data()
        count_synchronize(device)
        status = wait_on_host(device, device.driver, waits, interrupted)
        if status != 0 and status != INTERRUPTED and finish_each(queues):
            status = INTERRUPTED  # before the failure, which the next finish reports again
    for i in range(markers.size()):
        if status == 0:
            note_done(markers[i])
        release_marker(markers[i])
    for i in range(queues.size()):
        release_queue_state(queues[i])
    if status == 0:
        status = tell_failures_of(device, owner, False)
    write_printed(device)
    return status


cdef void close_locked(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. The queue is locked."""
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # for commands from outside forebay so far; later ones are not our concern
    queue.barred |= BY_CLOSING


cdef Status mark_for_closing(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. Pending waits are submitted, because nobody will come to carry them."""
    cdef Status status
    queue.lock.lock()
    close_locked(queue)
    status = carry_pending(queue)
    queue.lock.unlock()
    return status


cdef void refuse_all(DeviceState* device) noexcept nogil:
    """Let the queues refuse commands from now on: the device is lost. Who finds that out may be a query, which waits
    for nobody: a queue that another thread is busy with asks the driver once more.
    """
    cdef vector[QueueState*] queues
    registered_queues(device, queues)
    for queue in queues:
        if queue.lock.try_lock():
            close_locked(queue)
            queue.lock.unlock()
        release_queue_state(queue)


cdef Status close_queues(DeviceState* device, uint64_t owner) noexcept nogil:
    """Close the queues of an owner; with 0 the null queue. Returns the first failure, and closes the others too."""
    cdef vector[QueueState*] queues
    cdef Status status, failed = 0
    cdef size_t i
    registered_queues(device, queues)
    for i in range(queues.size()):
        if queues[i].owner == owner:
            status = mark_for_closing(queues[i])
            failed = failed if failed != 0 else status
        release_queue_state(queues[i])
    return failed
