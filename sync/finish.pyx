"""One host synchronize for a queue, one for a device, and none for what is known to be done.

No lock is held while the host waits: a host function that the queue waits for may submit to that very queue.
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
    """Ask a driver that can tell without a marker whether everything submitted is done. The queue is locked."""
    cdef Status status = queue.driver.poll(queue.handle, done)
    if done[0]:
        raise_completed(queue.epochs, submitted_epoch(queue.epochs))
        complete_clock(queue.clock)
    return status


cdef Status lock_with_waits(QueueState* queue) noexcept nogil:
    """Lock the queue, with all its waits submitted. On failure it is not locked.

    The null queue speaks for the blocking queues too, so it is ordered after them first.
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
        advance_submitted(queue.epochs)  # for what it got that was not seen here
    status = carry_pending(queue)
    if status != 0:
        queue.lock.unlock()
    return status


cdef Status query_queue(QueueState* queue, int* reached) noexcept nogil:
    """Is everything that the queue speaks for done? 1, 0, or negative: what a command on the device failed with."""
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
    """Block until everything submitted to the queue so far is done; one host synchronize, none when known empty.

    Epoch and clock are taken together and `completed` rises to that epoch: a command submitted while this waits is not
    taken for done.
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
    """Block until the marker is reached; one host synchronize, none when it is known to be."""
    if marker.event == NULL or marker.epoch <= completed_epoch(marker.queue):
        return 0
    count_synchronize(device)
    return await_event(device, marker)


cdef Status wait_on_host_for_all(DeviceState* device, vector[Marker*]& markers) noexcept nogil:
    """Block until all are reached, with one host synchronize. They are of this device, and for the host."""
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
    """After a command failed: the driver need not have waited for the others, and does not say which it was."""
    cdef size_t i
    for i in range(queues.size()):
        finish_queue(queues[i])


cdef Status finish_device(DeviceState* device) noexcept nogil:
    """Block until every queue of the device is done: a marker of each that has work, and one host synchronize for
    all.
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
        advance_submitted(queue.epochs)  # for what it got that was not seen here; what comes now is not our concern
    queue.barred |= BY_CLOSING


cdef Status mark_for_closing(QueueState* queue) noexcept nogil:
    """No command comes after this. What is outstanding gets a marker, if it takes one to notice its end without a
    sync.
    """
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
    """Ask the driver whether a queue that gets no more commands is done. The null queue may be gathering it
    meanwhile.
    """
    cdef Marker* marker = NULL
    cdef bint done = False
    queue.lock.lock()
    close_locked(queue)
    if is_empty(queue.epochs):
        pass
    elif queue.driver.poll != NULL:
        if carry_pending(queue) == 0:  # if that fails the next look tries again
            look(queue, &done)
    elif queue.marker != NULL and queue.marker.epoch == submitted_epoch(queue.epochs):
        marker = retain_marker(queue.marker)
    else:
        take_marker(queue, FOR_HOST, &marker)
    queue.lock.unlock()
    if marker != NULL:
        poll_marker(marker)
        release_marker(marker)
