"""Waits for what uses a piece of memory. Methods of a Buffer that were given no queue come after that.

What reads to the host makes the host wait, so no queue is tied to another by it. What only submits a command orders
that command's queue.
"""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.vector_clock cimport clock_epoch, completed_epoch, retain_epochs
from forebay.core.driver cimport FOR_HOST, Status
from forebay.core.state cimport (
    FOLLOWING, DeviceState, Marker, QueueState, captures_under_way, find_queue, refusal, release_marker,
    release_queue_state, users_of_all
)
from forebay.core.uses cimport Point, Uses, points_of, release_points, writers_of
from forebay.events.event cimport reach
from forebay.queues.memory.allocation cimport Allocation
from forebay.races.checker cimport come_after_past, is_checked, past_of_uses, waited_for_past
from forebay.races.engine cimport Past
from forebay.sync.ordering cimport take_point, wait_for_point

from forebay.core.process import refuse_on_host_thread
from forebay.queues.capture_rules import refuse_unsafe


cdef void add_followers(DeviceState* device, vector[Point]& points) noexcept nogil:
    """Append the last launches that follow pointers: they may have used any memory."""
    cdef vector[QueueState*] users
    cdef QueueState* queue
    cdef uint64_t epoch
    if device.resident.all_users.empty():  # may race: a launch that another thread is making is not submitted yet
        return
    users_of_all(device, users)
    for queue in users:
        epoch = queue.resident.all_used.load()
        if epoch == FOLLOWING:  # of another thread, at the same time as this call; those before it count
            epoch = queue.resident.all_used_before
        if epoch > completed_epoch(queue.epochs):
            points.push_back(Point(retain_epochs(queue.epochs), epoch))
        release_queue_state(queue)


cdef void writers_to_wait_for(DeviceState* device, Uses* uses, vector[Point]& points) noexcept nogil:
    """Append the points after which nothing that is submitted writes to the memory. Each is retained."""
    writers_of(uses, points)
    add_followers(device, points)


cdef void users_to_wait_for(DeviceState* device, Uses* uses, vector[Point]& points) noexcept nogil:
    """Append the points after which nothing that is submitted uses the memory. Each is retained."""
    points_of(uses, points)
    add_followers(device, points)


cdef bint comes_after(QueueState* queue, QueueState* producer, uint64_t epoch) noexcept nogil:
    """Return whether the next command of a queue will come after this epoch of another. The queue is locked."""
    if queue == producer or clock_epoch(queue.order.clock, producer.epochs) >= epoch:
        return True
    return queue.is_null and producer.blocking or producer.is_null and queue.blocking


cdef Status take_points(
    DeviceState* device, vector[Point]& points, QueueState* reader, vector[Marker*]& markers
) noexcept nogil:
    """Append markers of these points, for the host, but of those that the reader comes after anyway; NULL for none."""
    cdef QueueState* queue
    cdef Marker* marker
    cdef Status status = 0
    cdef bint ordered = False
    cdef size_t i
    for i in range(points.size()):
        queue = find_queue(device, points[i].queue.queue_id) if status == 0 else NULL
        if queue == NULL:
            continue
        if reader != NULL:
            reader.lock.lock()
            # A queue that takes no command has nothing to come after: the copy will say why.
            ordered = refusal(reader) != 0 or comes_after(reader, queue, points[i].epoch)
            reader.lock.unlock()
        if not ordered:
            queue.lock.lock()
            status = take_point(queue, points[i].epoch, FOR_HOST, &marker)
            queue.lock.unlock()
            if marker != NULL:
                markers.push_back(marker)
        release_queue_state(queue)
    return status


cdef int wait_for_points(Allocation allocation, vector[Point]& points, QueueState* reader) except -1:
    """Block until the points are reached that the reader does not come after, and release all."""
    cdef vector[Marker*] markers
    cdef Status status
    cdef size_t i
    if points.empty():
        return 0
    try:
        with nogil:
            status = take_points(allocation.state, points, reader, markers)
            release_points(points)
        if not markers.empty():
            refuse_on_host_thread("A wait for the uses of a Buffer")
            if captures_under_way():
                refuse_unsafe("waiting for the uses of a Buffer")
        if status != 0:
            allocation.device._raise(status, "wait for the uses of a Buffer")
        reach(allocation.device, allocation.state, markers, "wait for the uses of a Buffer")
    finally:
        for i in range(markers.size()):
            release_marker(markers[i])
    return 0


cdef int wait_for_uses(Allocation allocation) except -1:
    """Block until everything submitted by now that uses the memory is done, and nothing that comes later."""
    cdef vector[Point] points
    cdef Past past
    refuse_on_host_thread("A wait for the uses of a Buffer")
    if captures_under_way():
        refuse_unsafe("waiting for the uses of a Buffer")
    if allocation.state.checked:
        past = past_of_uses(allocation.uses, False)
    with nogil:
        users_to_wait_for(allocation.state, allocation.uses, points)
    wait_for_points(allocation, points, NULL)
    waited_for_past(past)
    return 0


cdef int wait_for_writers(Allocation allocation, QueueState* reader) except -1:
    """Block until all writes that are submitted are done, but for those that the reader's next command comes after.

    Refused, where there is something to wait for, on the host thread and beside captures.
    """
    cdef vector[Point] points
    cdef Past past
    if allocation.state.checked:
        past = past_of_uses(allocation.uses, True)
    with nogil:
        writers_to_wait_for(allocation.state, allocation.uses, points)
    wait_for_points(allocation, points, reader)
    waited_for_past(past)
    return 0


cdef int order_after(object queue, QueueState* state, vector[Point]& points) except -1:
    """Let the next command of a queue come after these points, and release them. Does not block."""
    cdef QueueState* producer
    cdef Status status = 0
    cdef bint ordered
    cdef size_t i
    if points.empty():
        return 0
    with nogil:
        for i in range(points.size()):
            producer = find_queue(state.device, points[i].queue.queue_id) if status == 0 else NULL
            if producer == NULL:
                continue
            state.lock.lock()
            ordered = refusal(state) != 0 or comes_after(state, producer, points[i].epoch)
            state.lock.unlock()
            release_queue_state(producer)
            if not ordered:
                status = wait_for_point(state, points[i].queue.queue_id, points[i].epoch)
        release_points(points)
    if status != 0:
        queue._raise(status, "wait")
    return 0


cdef int order_after_writers(object queue, QueueState* state, Allocation allocation) except -1:
    """Let the next command of a queue come after all writes that are submitted. Does not block."""
    cdef vector[Point] points
    cdef Past past
    if allocation.state != state.device:
        return 0  # the command will be refused, or goes through the host
    if is_checked(state):
        past = past_of_uses(allocation.uses, True)
    with nogil:
        writers_to_wait_for(state.device, allocation.uses, points)
    order_after(queue, state, points)
    if is_checked(state):
        come_after_past(queue, state, past)
    return 0


cdef int order_after_uses(object queue, QueueState* state, Allocation allocation) except -1:
    """Let the next command of a queue come after all uses that are submitted. Does not block."""
    cdef vector[Point] points
    cdef Past past
    if allocation.state != state.device:
        return 0
    if is_checked(state):
        past = past_of_uses(allocation.uses, False)
    with nogil:
        users_to_wait_for(state.device, allocation.uses, points)
    order_after(queue, state, points)
    if is_checked(state):
        come_after_past(queue, state, past)
    return 0
