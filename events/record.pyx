"""Recording points of queues. Waiting for them: on other queues, and with a timeout on the host."""

import time

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_DEVICE, FOR_HOST, TIMED, Answer, Status
from forebay.core.epochs cimport Epochs, advance_submitted, new_epochs, release_epochs
from forebay.core.marker cimport Marker, new_marker, poll_marker, release_marker
from forebay.core.state cimport QueueState
from forebay.events.event cimport Event, captured_point, new_event, set_captured, set_marker
from forebay.events.ipc_event cimport IpcEvent, record_shared, wait_for_shared
from forebay.lifetimes.collection cimport collect_device
from forebay.races.checker cimport come_after_queue, drop_point, is_checked, note_point, wait_for_point
from forebay.sync.finish cimport mark_ends, tell_failures, write_printed
from forebay.sync.ordering cimport record_keeping_gil, wait_keeping_gil

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, TimeoutError


# What to do instead.
ADVICE = {
    "list": ": one call for each",
    "tuple": ": one call for each",
    "NoneType": "; finish() is what makes the host wait for this queue",
    "int": "; finish(timeout=seconds) is what makes the host wait for this queue",
    "float": "; finish(timeout=seconds) is what makes the host wait for this queue",
}


cdef object record(object queue, QueueState* state, object device, object capture, object given, bint timing):
    """Implement `Queue.record`, of a queue with this device and capture."""
    cdef Marker* marker = NULL
    cdef Status status
    cdef Event event
    if given is None:
        event = new_event(device, state.device, timing)
    elif isinstance(given, Event):
        event = <Event> given
        if event.state != state.device:
            raise InvalidArgumentError(f"record: this Event belongs to {given.device.name}, {queue!r} does not")
    elif isinstance(given, IpcEvent):
        if timing:
            raise InvalidArgumentError("record with timing of an IpcEvent: no other process can ask for its time")
        record_shared(queue, state, capture, <IpcEvent> given)
        return given
    else:
        raise ArgumentTypeError(f"record() needs an Event, not {type(given).__name__}")
    if capture is not None:
        queue._check_open()
        point = capture.fork(queue)
        if point is not None:
            set_captured(event, point)
            return event
    timing = timing or event.timing
    if timing and not state.timing:
        raise InvalidArgumentError(
            f"record with timing on {queue!r}: it was made without; use Device.queue(timing=True)")
    status = record_keeping_gil(state, FOR_HOST | TIMED if timing else FOR_HOST, &marker)
    if status != 0:
        queue._raise(status, "record")
    set_marker(event, marker, timing, queue)
    if state.barred != 0 or event.seen != NULL:
        note_record(queue, state, event)
    return event


cdef int note_record(object queue, QueueState* state, Event event) except -1:
    """Tell the checker of races what an event was recorded for."""
    if is_checked(state):
        return note_point(queue, state, &event.seen)
    drop_point(&event.seen)
    return 0


cdef int wait_for_event(object queue, QueueState* state, object capture, Event event) except -1:
    """Implement `Queue.wait` for an event, of a queue with this capture."""
    captured = captured_point(event)
    if captured is not None:
        captured[0].wait(queue, captured[1])
        return 0
    if event.marker == NULL:
        return 0
    if capture is not None:
        capture.wait_outside(queue, repr(event))
    if event.state.driver != state.driver:
        raise InvalidArgumentError("wait: the event belongs to another driver's device")
    wait_for(queue, state, event.marker)
    if is_checked(state):
        wait_for_point(queue, state, event.seen)
    return 0


cdef int wait_for_queue(
    object queue, QueueState* state, object capture, object producer, QueueState* producer_state,
    object producer_capture
) except -1:
    """Implement `Queue.wait` for another queue, of queues with these captures."""
    cdef Marker* marker = NULL
    cdef Status status
    if producer_capture is not None:
        captured = producer_capture.fork(producer)
        if captured is not None:
            captured[0].wait(queue, captured[1])
            return 0
    if capture is not None:
        capture.wait_outside(queue, repr(producer))
    if producer_state.driver != state.driver:
        raise InvalidArgumentError("wait: the queue belongs to another driver's device")
    status = record_keeping_gil(
        producer_state, FOR_DEVICE if producer_state.device == state.device else FOR_HOST, &marker)
    if status != 0:
        producer._raise(status, "wait")
    wait_and_release(queue, state, marker)
    if is_checked(state) and is_checked(producer_state):
        come_after_queue(queue, state, producer, producer_state)
    return 0


cdef int wait_for_foreign(object queue, QueueState* state, object thing, uint64_t number) except -1:
    """Implement `Queue.wait` for an event of another package: the only point of a queue nobody sees, with this id."""
    cdef Epochs* epochs
    cdef Marker* marker
    cdef uintptr_t handle
    cdef Answer reached
    if isinstance(thing, IpcEvent):
        wait_for_shared(queue, state, queue._capture, <IpcEvent> thing)
        return 0
    adopted = queue.device.driver.adopt_event(thing)
    if adopted is None:
        kind = f"{type(thing).__module__.partition('.')[0]}.{type(thing).__name__}".removeprefix("builtins.")
        advice = ADVICE.get(kind, f": {queue.device.name} waits for no such event" if kind.endswith("Event") else "")
        raise ArgumentTypeError(f"wait() needs an Event or a Queue to come after, not {kind}{advice}")
    handle = adopted
    epochs = new_epochs(number)
    if epochs == NULL:
        raise MemoryError
    advance_submitted(epochs)
    marker = new_marker(epochs, 1, NULL, <void*> handle, state.driver, state.device.context, FOR_DEVICE)
    marker.adopted = True
    release_epochs(epochs)
    with nogil:
        reached = poll_marker(marker)
    try:
        if queue._capture is not None and reached != DONE:
            queue._capture.wait_outside(queue, repr(thing))
    except BaseException:
        release_marker(marker)
        raise
    return wait_and_release(queue, state, marker)


cdef int wait_for(object queue, QueueState* state, Marker* marker) except -1:
    cdef Status status = wait_keeping_gil(state, marker)
    if status != 0:
        queue._raise(status, "wait")
    if marker.context != state.device.context:  # it is kept for this queue, which nobody may ever finish or ask
        collect_device(state.device)
    return 0


cdef int wait_and_release(object queue, QueueState* state, Marker* marker) except -1:
    try:
        return wait_for(queue, state, marker)
    finally:
        release_marker(marker)


cdef int finish_within(object queue, QueueState* state, object timeout) except -1:
    """Implement `Queue.finish` with a timeout. Waits for what was submitted by now, and leaves nothing in the queue."""
    cdef vector[Marker*] markers
    cdef Status status
    cdef Answer reached = DONE
    cdef size_t i
    if not hasattr(timeout, "__float__"):
        raise ArgumentTypeError(f"finish: timeout is a number of seconds, not {type(timeout).__name__}")
    timeout = float(timeout)
    if timeout != timeout:
        raise InvalidArgumentError("finish: timeout is nan, which never comes")
    end = time.monotonic() + timeout
    pause = 20e-6
    with nogil:
        status = mark_ends(state, markers)
    try:
        if status != 0:
            queue._raise(status, "finish")
        while True:
            with nogil:
                while not markers.empty():
                    reached = poll_marker(markers.back())
                    if reached != DONE:
                        break
                    release_marker(markers.back())
                    markers.pop_back()
            if reached > DONE:
                queue._raise(reached, "finish")
            if reached < 0:
                queue.device._raise_execution_error(reached, repr(queue))
            if markers.empty():
                with nogil:
                    status = tell_failures(state)
                    write_printed(state.device)
                if status != 0:
                    queue._raise(status, "finish")
                return 0
            PyErr_CheckSignals()
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{queue!r} is not done after {timeout} s")
            time.sleep(min(pause, left))  # not every driver has timed waits, and a signal handler must get its turn
            pause = min(2 * pause, 1e-3)
    finally:
        for i in range(markers.size()):
            release_marker(markers[i])
