"""Finishing a queue or a device takes one host synchronize, or none when its work is known to be done.

No lock is held while the host waits, because a host function that the queue waits for may submit to that same queue.
"""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.clock cimport Clock, complete_clock, release_clock, retain_clock
from forebay.core.driver cimport FOR_DEVICE, FOR_HOST, Status, Waits
from forebay.core.epochs cimport advance_submitted, completed_epoch, is_empty, raise_completed, submitted_epoch
from forebay.core.marker cimport Marker, note_done, poll_marker, release_marker, retain_marker
from forebay.core.state cimport BY_CLOSING, DeviceState, QueueState, is_closed, registered_queues, release_queue_state
from forebay.sync.ordering cimport Order, begin_command, carry_pending, record_marker, submit_waits, take_marker


cdef Status look(QueueState* queue, bint* done) noexcept nogil:
    """Ask the driver whether everything submitted is done. The queue is locked and its driver has `poll`."""
    cdef Status status = queue.driver.poll(queue.handle, done)
    if done[0]:
        raise_completed(queue.epochs, submitted_epoch(queue.epochs))
        complete_clock(queue.clock)
    return status


cdef Status lock_with_waits(QueueState* queue) noexcept nogil:
    """Lock the queue and submit all its waits. On failure the queue is not locked.

    The null queue speaks for the blocking queues too, so it is first ordered after them.
    """
    cdef Order order
    cdef Status status
    if queue.is_null:
        status = begin_command(queue, &order)
        if status != 0:
            return status
        status = submit_waits(queue, &order)
        if status != 0:
            return status
    queue.lock.lock()
    if queue.adopted:
        advance_submitted(queue.epochs)  # for the commands that it got from outside forebay
    status = carry_pending(queue)
    if status != 0:
        queue.lock.unlock()
    return status


cdef Status query_queue(QueueState* queue, int* reached) noexcept nogil:
    """Set ``reached`` to 1 when everything that the queue speaks for is done, else to 0.

    A negative value is the error that a command failed with on the device.
    """
    cdef Marker* marker = NULL
    cdef Status status
    cdef bint done = False
    reached[0] = 0
    if queue.driver.poll != NULL:
        status = lock_with_waits(queue)
        if status == 0:
            done = is_empty(queue.epochs)
            if not done:
                status = look(queue, &done)
            queue.lock.unlock()
            reached[0] = done
        return status
    if queue.is_null:
        status = record_marker(queue, FOR_HOST, &marker)
    else:
        queue.lock.lock()
        status = take_marker(queue, FOR_HOST, &marker)
        queue.lock.unlock()
    if status == 0:
        reached[0] = poll_marker(marker)
        release_marker(marker)
    return status


cdef Status finish_queue(QueueState* queue) noexcept nogil:
    """Block until everything submitted to the queue so far is done.

    It takes one host synchronize, or none when the queue is known to be empty. Epoch and clock are read together and
    `completed` rises to that epoch, so a command submitted during the wait is not mistaken for done.
    """
    cdef Status status
    cdef uint64_t epoch
    cdef Clock* clock
    cdef Marker* marker = NULL
    cdef bint done = False
    status = lock_with_waits(queue)
    if status != 0:
        return status
    epoch = submitted_epoch(queue.epochs)
    if completed_epoch(queue.epochs) >= epoch:
        queue.lock.unlock()
        return 0
    queue.counts.host_syncs += 1
    if queue.driver.poll != NULL:
        status = look(queue, &done)
        if status != 0 or done:
            queue.lock.unlock()
            return status
    if queue.driver.finish == NULL:
        status = take_marker(queue, FOR_HOST, &marker)
        queue.lock.unlock()
        if status == 0:
            status = await_event(queue.device, marker)
            release_marker(marker)
        return status
    clock = retain_clock(queue.clock)
    queue.lock.unlock()
    status = queue.driver.finish(queue.handle)
    if status == 0:
        raise_completed(queue.epochs, epoch)
        complete_clock(clock)
    release_clock(clock)
    return status


cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil:
    cdef Waits waits
    cdef Status status
    cdef void* event = marker.event
    if event == NULL:
        return 0
    waits.count = 1
    waits.events = &event
    status = marker.driver.wait_events(device.context, waits)
    if status == 0:
        note_done(marker)
    return status


cdef void count_synchronize(DeviceState* device) noexcept nogil:
    device.registry_lock.lock()
    device.host_syncs += 1
    device.registry_lock.unlock()


cdef Status wait_on_host(DeviceState* device, Marker* marker) noexcept nogil:
    """Block until the marker is reached. Takes one host synchronize, or none when it is known to be reached."""
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        return 0
    count_synchronize(device)
    return await_event(device, marker)


cdef Status wait_on_host_for_all(DeviceState* device, vector[Marker*]& markers) noexcept nogil:
    """Block until all markers are reached, with one host synchronize. They belong to this device and are for the host.
    """
    cdef vector[void*] events
    cdef Status status
    cdef size_t i
    for i in range(markers.size()):
        if markers[i].event != NULL and markers[i].epoch > completed_epoch(markers[i].queue):
            events.push_back(markers[i].event)
    if events.empty():
        return 0
    count_synchronize(device)
    status = device.driver.wait_events(device.context, Waits(<unsigned int> events.size(), events.data()))
    if status == 0:
        for i in range(markers.size()):
            note_done(markers[i])
    return status


cdef void finish_each(vector[QueueState*]& queues) noexcept nogil:
    """Finish each queue after a command failed. The driver may not have waited for the others, nor does it say which
    command failed.
    """
    cdef size_t i
    for i in range(queues.size()):
        finish_queue(queues[i])


cdef Status finish_device(DeviceState* device) noexcept nogil:
    """Block until every queue of the device is done. Takes a marker of each queue with work, and one host synchronize.
    """
    cdef vector[QueueState*] queues
    cdef vector[Marker*] markers
    cdef vector[void*] events
    cdef Marker* marker
    cdef Waits waits
    cdef Status status = 0
    cdef size_t i
    registered_queues(device, queues)
    for i in range(queues.size()):
        if status == 0 and (not is_empty(queues[i].epochs) or queues[i].adopted and not is_closed(queues[i])):
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
        status = device.driver.wait_events(device.context, waits)
        if status != 0:
            finish_each(queues)
    for i in range(markers.size()):
        if status == 0:
            note_done(markers[i])
        release_marker(markers[i])
    for i in range(queues.size()):
        release_queue_state(queues[i])
    return status


cdef void close_locked(QueueState* queue) noexcept nogil:
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # for commands from outside forebay so far; later ones are not our concern
    queue.barred |= BY_CLOSING


cdef Status mark_for_closing(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. Outstanding work gets a marker if the driver cannot be polled without one."""
    cdef Marker* marker = NULL
    cdef Status status
    queue.lock.lock()
    close_locked(queue)
    if queue.driver.poll != NULL:
        status = carry_pending(queue)
    else:
        status = take_marker(queue, FOR_HOST, &marker)
    queue.lock.unlock()
    if marker != NULL:
        release_marker(marker)
    return status


cdef void notice_end(QueueState* queue) noexcept nogil:
    """Ask the driver whether a closed queue is done. The null queue may be gathering it meanwhile."""
    cdef Marker* marker = NULL
    cdef bint done = False
    queue.lock.lock()
    close_locked(queue)
    if is_empty(queue.epochs):
        pass
    elif queue.driver.poll != NULL:
        if carry_pending(queue) == 0:  # on failure the next call tries again
            look(queue, &done)
    elif queue.marker != NULL and queue.marker.epoch == submitted_epoch(queue.epochs):
        marker = retain_marker(queue.marker)
    else:
        take_marker(queue, FOR_HOST, &marker)
    queue.lock.unlock()
    if marker != NULL:
        poll_marker(marker)
        release_marker(marker)
