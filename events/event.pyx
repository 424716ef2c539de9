"""Events: points in queues that the host or other queues wait for."""

import time
from typing import TYPE_CHECKING

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.utility cimport move

from forebay.core.driver cimport DONE, FOR_DEVICE, FOR_HOST, TIMED, Answer, Status, Waits
from forebay.core.ownership cimport Ref, Refs
from forebay.core.process cimport is_forked
from forebay.core.state cimport DeviceState, Marker, QueueState, new_marker, poll_marker
from forebay.core.vector_clock cimport Clock, EpochsRef, advance_submitted, completed_epoch, new_epochs
from forebay.lifetimes.deferred cimport collect_device, collect_reached, retire_marker
from forebay.races.checker cimport is_checked, join, order_of, reach, record_point
from forebay.sync.finish cimport wait_for_markers
from forebay.sync.ordering cimport (
    Command, check_status, commit, init_command, record_keeping_gil, submit, wait_keeping_gil
)

from forebay.core.errors import ArgumentTypeError, CapturedEventError, InvalidArgumentError
from forebay.core.process import closed_error, refuse_on_host_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any
    from typing_extensions import Never
    from forebay.queues.device import Device


cdef Event new_event(object device, DeviceState* state, bint timing):
    cdef Event event = Event.__new__(Event)
    event.kept_state = Ref[DeviceState].share(state)
    event.state = state
    event.device = device
    event.timing = timing
    return event


cdef void set_marker(Event event, Ref[Marker]& marker, bint timed, object queue):
    """Record the event again, with the caller's reference. Earlier waiters have references to the old marker."""
    with cython.critical_section(event):
        event.marker = move(marker)
        event.timing = timed
        event.queue = PyWeakref_NewRef(queue, None)
        event.captured = None


cdef Ref[Marker] marker_of(Event event, Ref[Clock]* seen=NULL):
    """Return the marker of the last record, NULL before the first, and what the race checker knows of it."""
    cdef Ref[Marker] marker
    with cython.critical_section(event):
        marker = event.marker
        if seen != NULL:
            seen[0] = event.seen
    return move(marker)


cdef tuple captured_point(Event event):
    """Return (Capture, nodes); None unless the event was recorded in a capture that has not ended."""
    with cython.critical_section(event):
        if event.captured is not None and not event.captured[0].active:
            event.captured = None
        return event.captured


cdef object queue_of(Event event):
    """Return the queue that recorded it last. None when that is gone, and before the first record."""
    with cython.critical_section(event):
        return None if event.marker.get() == NULL else event.queue()


cdef Ref[Marker] timed_marker(Event event) except *:
    """Return the marker of the last record, which is done and timed."""
    cdef Ref[Marker] marker
    event._check_outside("elapsed()")
    with cython.critical_section(event):
        marker, timing = event.marker, event.timing
    if marker.get() == NULL:
        raise InvalidArgumentError("elapsed time of an Event that was never recorded")
    if not timing:
        raise InvalidArgumentError(
            "elapsed time of an Event that was recorded without timing: queue.record(timing=True) is one with it")
    if not ask(event, marker.get()):
        raise InvalidArgumentError("elapsed time of an Event that is not done yet: wait for it first")
    return move(marker)


cdef bint ask(Event event, Marker* marker) except -1:
    cdef bint known = marker.epoch <= completed_epoch(marker.queue)
    cdef Answer answer
    with nogil:
        answer = poll_marker(marker)
    if not is_done(event, answer):
        return False
    if not known:
        collect_reached(event.state, marker)
    return True


cdef bint is_done(object event, Answer answer) except -1:
    """Return whether the event is reached. Raises for any answer of the driver other than done or not yet."""
    if answer > DONE:
        event.device._raise(answer, repr(event))
    if answer < 0:
        event.device._raise_execution_error(answer, repr(event))
    return answer == DONE


def wait_for_all(events: Iterable[Event]) -> None:
    """Block until all these Events are done: one host synchronize a device, none if they are known to be done."""
    cdef Refs[Marker] markers
    cdef Ref[Marker] marker
    cdef Ref[Clock] seen, point
    cdef DeviceState* state
    cdef Event event
    refuse_on_host_thread("Waiting for events")
    by_device = {}
    for event in events:
        if is_forked():
            raise closed_error(event)
        by_device.setdefault(event.device._context, (event.device, []))[1].append(event)
    for device, own in by_device.values():
        for event in own:
            marker = marker_of(event, &point)
            if marker.get() != NULL:
                markers.push_back(marker)
            join(seen, point.get())
        state = event.state
        wait_for_markers(device, state, markers, f"{len(own)} events")
        reach(seen.get())


@cython.freelist(64)
cdef class Event:
    """A point in a queue. It is done when everything submitted to the queue before the record is done.

    `Queue.record` and `Device.event` make events; calling the class raises. An event may be recorded again, on any
    queue of its device, while earlier waits keep their point (HIP, hipEventRecord). An event that was never recorded
    counts as done (HIP, hipStreamWaitEvent and hipEventQuery).

    Attributes
    ----------
    device : Device
    timing : bool
        Whether `elapsed` takes it: it was made with timing, or last recorded with it.
    """

    device: Device

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("an Event is made by Queue.record or Device.event")

    @property
    def recorded(self) -> bool:
        """Whether it was recorded at least once."""
        return marker_of(self).get() != NULL

    def query(self) -> bool:
        """Return whether the point has been reached. Never blocks.

        Raises
        ------
        DriverError
            When the driver reports that an earlier command failed.
        """
        cdef Marker* known
        cdef Ref[Marker] marker
        cdef Ref[Clock] seen
        with cython.critical_section(self):
            known = self.marker.get()
            if known != NULL and known.epoch <= completed_epoch(known.queue) and self.captured is None and not (
                self.state.lost or is_forked() or self.seen.get() != NULL
            ):
                return True
        self._check_outside("query()")
        marker = marker_of(self, &seen)
        if marker.get() != NULL and not ask(self, marker.get()):
            return False
        reach(seen.get())
        return True

    def wait(self) -> None:
        """Block until the point has been reached. Takes one host synchronize, or none if it is known to be reached.

        Raises
        ------
        DriverError
            When an earlier command failed.
        Exception
            Whatever a host function of its queue raised meanwhile.
        """
        cdef Refs[Marker] markers
        cdef Ref[Marker] marker
        cdef Ref[Clock] seen
        self._check_outside("wait()")
        with cython.critical_section(self):
            marker, seen, queue = self.marker, self.seen, queue_of(self)
        if marker.get() == NULL:
            return
        refuse_on_host_thread("Event.wait()")
        markers.push_back(marker)
        wait_for_markers(self.device, self.state, markers, self)
        reach(seen.get())
        collect_device(self.state)
        self.device._give_back_memory()
        if queue is not None:  # what host functions raised keeps their queue
            self.device._host_errors.raise_first(queue)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in an event loop of asyncio: ``await event``. The loop's other tasks go on, and no thread waits.

        Raises what `wait` raises. Cancelling the task leaves the event as it is.
        """
        return self._reached().__await__()

    async def _reached(self) -> None:
        await until(self.query)
        self.wait()  # it is done: this only raises errors of host functions, and releases memory

    def elapsed(self, start: Event) -> float:
        """Return the milliseconds from `start` to this event, as a float.

        Both events must be recorded with timing, and be done. The resolution is 0.5 µs or better on the known drivers.
        The clock of some devices wraps after minutes (Level Zero: 2 to the power of the valid bits, six minutes at 12
        MHz); times longer than half of that are wrong.

        Raises
        ------
        InvalidArgumentError
            When either has no timing, was never recorded, or is not done, and when they are of two devices (HIP,
            hipEventElapsedTime).
        ArgumentTypeError
            For a `start` that is no event.
        """
        if not isinstance(start, Event):
            raise ArgumentTypeError(f"elapsed() needs an Event, not {type(start).__name__}")
        if self.state != (<Event> start).state:
            raise InvalidArgumentError(
                f"elapsed time between Events of two devices, {self.device.name} and {(<Event> start).device.name}: "
                f"their clocks tell nothing of each other")
        cdef double nanoseconds = 0
        cdef Status status
        cdef Ref[Marker] end = timed_marker(self)  # other threads may record the events again meanwhile
        cdef Ref[Marker] begin = timed_marker(start)
        status = end.get().driver.elapsed(begin.get().event, end.get().event, &nanoseconds)
        if status != 0:
            self.device._raise(status, repr(self))
        return nanoseconds / 1e6

    def __sub__(self, start: Event) -> float:
        """Milliseconds: ``end - start``."""
        if not isinstance(start, Event):
            return NotImplemented
        return self.elapsed(start)

    def _check_outside(self, what: str) -> None:
        """Refuse a wait of the host for a point of a capture, which is never reached. Invalidates the capture."""
        captured = captured_point(self)
        if is_forked():
            raise closed_error(self)
        if self.device._context.lost is not None:
            raise self.device._unusable(self)
        if captured is not None:
            captured[0].invalidate(f"{what} of an Event that was recorded in it")
            raise CapturedEventError(
                f"{what} of an Event that was recorded in a capture: that is a point of a graph; "
                "the capture is invalid now")

    def __repr__(self) -> str:
        cdef Ref[Marker] kept = marker_of(self)
        cdef Marker* marker = kept.get()
        if marker == NULL:
            return f"<forebay.Event on {self.device.name}, never recorded>"
        return f"<forebay.Event at epoch {marker.epoch} of queue {marker.queue.queue_id} on {self.device.name}>"


# -- `Queue.record`, and `Queue.wait` for an event, another queue, or another package's event


ADVICE = {
    **dict.fromkeys(("list", "tuple"), ": one call for each"),
    "NoneType": "; finish() is what makes the host wait for this queue",
    **dict.fromkeys(("int", "float"), "; finish(timeout=seconds) is what makes the host wait for this queue"),
}


cdef object record(object queue, QueueState* state, object device, object capture, object given, bint timing):
    cdef Ref[Marker] marker
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
        submit_shared(queue, state, capture, <IpcEvent> given, True)
        return given
    else:
        raise ArgumentTypeError(f"record() needs an Event, not {type(given).__name__}")
    if capture is not None:
        queue._check_open()
        point = capture.fork(queue)
        if point is not None:
            with cython.critical_section(event):
                event.captured = point  # until the capture ends, which restores the earlier marker
            return event
    timing = timing or event.timing
    if timing and not state.made.timing:
        raise InvalidArgumentError(
            f"record with timing on {queue!r}: it was made without; use Device.queue(timing=True)")
    if state.slow_path == 0 and not is_seen(event):
        status = record_keeping_gil(state, FOR_HOST | TIMED if timing else FOR_HOST, marker)
    else:
        status = record_seen(queue, state, FOR_HOST | TIMED if timing else FOR_HOST, marker, event)
    check_status(queue, status, "record")
    set_marker(event, marker, timing, queue)
    return event


cdef inline bint is_seen(Event event):
    """Return whether the race checker knows anything of the point."""
    with cython.critical_section(event):
        return event.seen.get() != NULL


cdef Status record_seen(object queue, QueueState* state, int use, Ref[Marker]& marker, Event event) except? -1:
    """Record, and note what the race checker knows before: what other threads submit during the call is later."""
    cdef Ref[Clock] seen = record_point(queue)
    cdef Status status = record_keeping_gil(state, use, marker)
    if status == 0:
        with cython.critical_section(event):
            event.seen = move(seen)
    return status


cdef int wait_for_event(object queue, QueueState* state, object capture, Event event) except -1:
    cdef Ref[Marker] marker
    cdef Ref[Clock] seen
    captured = captured_point(event)
    if captured is not None:
        captured[0].wait(queue, captured[1])
        return 0
    marker = marker_of(event, &seen)
    if marker.get() == NULL:
        return 0
    if capture is not None:
        capture.wait_outside(queue, repr(event))
    if event.state.driver != state.driver:
        raise InvalidArgumentError("wait: the event belongs to another driver's device")
    wait_for(queue, state, marker.get())
    if is_checked(state):
        order_of(queue).come_after(seen.get())
    return 0


cdef int wait_for_queue(
    object queue, QueueState* state, object capture, object producer, QueueState* producer_state,
    object producer_capture
) except -1:
    cdef Ref[Marker] marker
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
    if is_checked(state):
        return wait_for_event(queue, state, None, record(producer, producer_state, producer.device, None, None, False))
    status = record_keeping_gil(
        producer_state, FOR_DEVICE if producer_state.device == state.device else FOR_HOST, marker)
    check_status(producer, status, "wait")
    return wait_for(queue, state, marker.get())


cdef int wait_for_foreign(object queue, QueueState* state, object thing, uint64_t number) except -1:
    """The event becomes the only point, with this id, of a queue that is not seen."""
    cdef EpochsRef epochs
    cdef Ref[Marker] marker
    cdef Answer answer
    if isinstance(thing, IpcEvent):
        submit_shared(queue, state, queue._capture, <IpcEvent> thing, False)
        return 0
    adopted = queue.device.driver.adopt_event(thing)
    if adopted is None:
        kind = f"{type(thing).__module__.partition('.')[0]}.{type(thing).__name__}".removeprefix("builtins.")
        advice = ADVICE.get(kind, f": {queue.device.name} waits for no such event" if kind.endswith("Event") else "")
        raise ArgumentTypeError(f"wait() needs an Event or a Queue to come after, not {kind}{advice}")
    epochs = new_epochs(number)
    advance_submitted(epochs)
    marker = new_marker(state.device, epochs, 1, NULL, <void*> <uintptr_t> adopted, FOR_DEVICE)
    marker.get().adopted = True
    with nogil:
        answer = poll_marker(marker.get())
    if queue._capture is not None and answer != DONE:
        queue._capture.wait_outside(queue, repr(thing))
    return wait_for(queue, state, marker.get())


cdef int wait_for(object queue, QueueState* state, Marker* marker) except -1:
    cdef Ref[Marker] foreign
    cdef Status status
    if marker.context != state.device.context:
        foreign = Ref[Marker].share(marker)
    status = wait_keeping_gil(state, marker)
    if foreign.get() != NULL:
        # The producer's device does not know of this wait, and a driver may need the producer's queue until it is done.
        retire_marker(state, move(foreign))
        collect_device(state.device)  # this queue may never be finished or queried
    return check_status(queue, status, "wait")


# -- events shared by processes. The driver is asked each time, because other processes may record them


SHORTEST, LONGEST = 20e-6, 5e-3  # seconds between two polls


async def until(done: Callable[[], bool]) -> None:
    """Return once ``done()`` is true: at most a tenth of the time waited later, and never more than `LONGEST` later."""
    import asyncio

    pause = 0.0  # first let the loop's other tasks run
    while not done():
        await asyncio.sleep(pause)
        pause = min(max(pause * 1.1, SHORTEST), LONGEST)


cdef IpcEvent new_ipc_event(object device, DeviceState* state, size_t handle, bytes ipc_handle):
    cdef IpcEvent event = IpcEvent.__new__(IpcEvent)
    event.kept_state = Ref[DeviceState].share(state)
    event.state = state
    event.device = device
    event.handle = <void*> <uintptr_t> handle
    event.ipc_handle = ipc_handle
    return event


cdef cppclass SharedPoint(Command):
    void* event
    bint records


cdef Status call_shared(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef SharedPoint* point = <SharedPoint*> command
    cdef Status status = 0
    if waits.count:
        status = queue.driver.barrier(queue.handle, waits)
    if status == 0 and point.records:
        status = queue.driver.record_shared(queue.handle, point.event)
    elif status == 0:
        status = queue.driver.barrier(queue.handle, Waits(1, &point.event))
    if status == 0:
        commit(queue, command)
    return status


cdef int submit_shared(object queue, QueueState* state, object capture, IpcEvent event, bint records) except -1:
    """Implement `Queue.record` and `Queue.wait` for an event shared by processes. A wait goes to the driver at once:
    after a later record it would be for another point, which may wait for the queue's next command.
    """
    cdef Ref[Clock] seen = event.seen
    cdef SharedPoint point
    cdef Status status
    cdef str what = "record" if records else "wait"
    queue._check_open()
    if is_forked():
        raise closed_error(event)
    if event.state != state.device:
        raise InvalidArgumentError(f"{what}: this IpcEvent belongs to {event.device.name}, {queue!r} does not")
    if capture is not None:
        capture.wait_outside(queue, repr(event))
    if not records and event.query():
        return 0
    init_command(&point, call_shared)
    point.parted = True
    point.holds = not records  # a wait for earlier work must not wait for another process
    point.event, point.records = event.handle, records
    if records:
        seen = record_point(queue)
    with nogil:
        status = submit(state, &point)
    check_status(queue, status, what)
    if records:
        event.seen = seen
    elif is_checked(state):
        order_of(queue).come_after(seen.get())
    return 0


cdef class IpcEvent:
    """A point in a queue that other processes see. It is done when everything submitted before the last record is done.

    `Device.ipc_event` makes one, and `Device.open_ipc_event` opens it in another process. Each of these processes may
    record it, query it and wait for it; `Queue.record` and `Queue.wait` take it. One that was never recorded counts as
    done, so the program must report by other means that it was recorded (CUDA, cuIpcGetEventHandle). Its
    use by others does not keep it alive in the process that made it: keep a reference there.

    Attributes
    ----------
    device : Device
    ipc_handle : bytes
        What `Device.open_ipc_event` takes in another process.
    """

    device: Device
    ipc_handle: bytes

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("an IpcEvent is made by Device.ipc_event or Device.open_ipc_event")

    def __dealloc__(self):
        if self.state == NULL or is_forked():
            return
        with nogil:
            self.state.driver.destroy_event(self.handle)

    def query(self) -> bool:
        """Return whether the point of the last record, by any process, has been reached. Never blocks.

        Raises
        ------
        DriverError
            When the driver reports that an earlier command failed.
        """
        cdef Answer answer
        cdef Ref[Clock] seen = self.seen
        if is_forked():
            raise closed_error(self)
        with nogil:
            answer = self.state.driver.event_status(self.handle)
        if not is_done(self, answer):
            return False
        reach(seen.get())
        return True

    def wait(self) -> None:
        """Block until the point of the last record, by any process, has been reached.

        Raises
        ------
        DriverError
            When an earlier command failed.
        """
        refuse_on_host_thread("IpcEvent.wait()")
        pause = SHORTEST
        while not self.query():
            PyErr_CheckSignals()
            time.sleep(pause)  # the driver's own wait cannot be interrupted
            pause = min(pause * 1.1, LONGEST)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in an event loop of asyncio: ``await event``. The loop's other tasks go on, and no thread waits."""
        return until(self.query).__await__()

    def __repr__(self) -> str:
        return f"<forebay.IpcEvent {self.ipc_handle[:8].hex()}… on {self.device.name}>"
