"""Full queues: a driver's call may block as long as a host function runs, which may want the lock that is held then."""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic

from forebay.core.driver cimport FOR_HOST, Status, Waits
from forebay.core.epochs cimport completed_epoch, submitted_epoch
from forebay.core.marker cimport Marker, note_done, release_marker
from forebay.core.process cimport interrupted
from forebay.core.state cimport DeviceState, QueueState, closed_gates, in_flight_of_all
from forebay.sync.points cimport take_marker

cdef extern from *:
    """
    namespace forebay {
    static thread_local bool is_host_thread = false;
    }
    """
    bint is_host_thread "forebay::is_host_thread"


cdef atomic[int32_t] host_functions


cdef void be_host_thread() noexcept nogil:
    global is_host_thread
    is_host_thread = True


cdef void begin_host_function(DeviceState* device) noexcept nogil:
    host_functions.fetch_add(1)
    device.host_functions.fetch_add(1)  # before `open_holds`, or it could be taken for a gate
    device.open_holds.fetch_add(1)


cdef void end_host_function(DeviceState* device) noexcept nogil:
    device.open_holds.fetch_sub(1)
    device.host_functions.fetch_sub(1)
    host_functions.fetch_sub(1)


cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil:
    """Where graphs are launched, twice as much: CUDA changes channels at a host function and after such a launch."""
    return queue.driver.room_of_host_function * (2 if queue.counts.graph_launches else 1)


cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil:
    """Return whether the driver's call for one more command may block until a host function returns. It is locked.

    That may be one of any device, because one thread runs them all. One that is submitted later holds up nothing that
    this queue waits for. The host thread never waits for room, because what it waits for could be the function that it
    is in. Nor does anybody while a gate of the device is closed: it could be this thread that opens it.
    """
    cdef uint64_t in_flight = submitted_epoch(queue.epochs) - completed_epoch(queue.epochs)
    if in_flight == 0 or in_flight + more < queue.device.keeps_gil_below:
        return False
    return (
        host_functions.load() != 0 and closed_gates(queue.device) <= queue.device.host_functions.load()
        and not is_host_thread
        # To wait without need is to wait for ever where a host function waits for what this thread does next. Queues
        # that share their room have little each where there are many, but most may have nothing in flight.
        and in_flight_of_all(queue.device) + more >= queue.device.shared_room
    )


cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil:
    """Block until the marker is reached."""
    cdef Waits waits
    cdef Status status
    cdef void* event = marker.event
    if event == NULL:
        return 0
    waits.count = 1
    waits.events = &event
    status = marker.driver.wait_events(device.context, waits, interrupted)
    if status == 0:
        note_done(marker)
    return status


cdef Status make_room(QueueState* queue, uint64_t more) noexcept nogil:
    """Block while the queue may be full behind a host function. That function, and others, can submit meanwhile."""
    cdef Marker* marker = NULL
    cdef Status status
    cdef bint full
    while True:
        queue.lock.lock()
        status = 0
        full = may_stay_full(queue, more)
        if full:
            status = take_marker(queue, FOR_HOST, &marker)  # one command more, and all who wait here share it
        queue.lock.unlock()
        if not full or status != 0:
            return status
        status = await_event(queue.device, marker)
        release_marker(marker)
        if status != 0:
            return status
