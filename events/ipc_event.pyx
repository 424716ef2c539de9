"""Events that processes share. Nobody here knows what the others record, so the driver is asked each time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uintptr_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.driver cimport DONE, Answer, Status, Waits
from forebay.core.process cimport is_forked
from forebay.core.state cimport DeviceState, QueueState, release_device_state
from forebay.races.checker cimport drop_point, is_checked, note_point, reached, wait_for_point
from forebay.sync.ordering cimport Order, begin_command, end_parted_command, note_hold, waits_of

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.core.process import closed_error, refuse_on_host_thread

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any
    from typing_extensions import Never
    from forebay.queues.device import Device

SHORTEST, LONGEST = 20e-6, 5e-3  # seconds between two questions


async def until(done: Callable[[], bool]) -> None:
    """Return once ``done()`` is true. The pause grows with the time waited, so a wait ends about a tenth later at most,
    and never more than `LONGEST`.
    """
    import asyncio

    pause = 0.0  # first let the loop's other tasks run, which may be all that is needed
    while not done():
        await asyncio.sleep(pause)
        pause = min(max(pause * 1.1, SHORTEST), LONGEST)


cdef IpcEvent new_ipc_event(object device, DeviceState* state, size_t handle, bytes ipc_handle):
    """Take over a handle of the driver."""
    cdef IpcEvent event = IpcEvent.__new__(IpcEvent)
    state.references.fetch_add(1, memory_order_relaxed)
    event.state = state
    event.device = device
    event.handle = <void*> <uintptr_t> handle
    event.ipc_handle = ipc_handle
    return event


cdef int check_device(object queue, QueueState* state, object capture, IpcEvent event, str what) except -1:
    queue._check_open()
    if is_forked():
        raise closed_error(event)
    if event.state != state.device:
        raise InvalidArgumentError(f"{what}: this IpcEvent belongs to {event.device.name}, {queue!r} does not")
    if capture is not None:
        capture.wait_outside(queue, repr(event))
    return 0


cdef int record_shared(object queue, QueueState* state, object capture, IpcEvent event) except -1:
    """Implement `Queue.record` of an event that processes share."""
    cdef Order order
    cdef Status status
    cdef Waits waits
    check_device(queue, state, capture, event, "record")
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            waits = waits_of(state, &order)
            if waits.count:
                status = state.driver.barrier(state.handle, waits)
            if status == 0:
                status = state.driver.record_shared(state.handle, event.handle)
            end_parted_command(state, &order, status)
    if status != 0:
        queue._raise(status, "record")
    if is_checked(state):
        return note_point(queue, state, &event.seen)
    drop_point(&event.seen)
    return 0


cdef int wait_for_shared(object queue, QueueState* state, object capture, IpcEvent event) except -1:
    """Implement `Queue.wait` for an event that processes share. The driver is told at once: a record that comes before
    the queue's next command is another point, which may wait for that command.
    """
    cdef Order order
    cdef Status status
    cdef Waits waits, shared
    check_device(queue, state, capture, event, "wait")
    if event.query():
        return 0
    shared.count = 1
    shared.events = &event.handle
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            status = note_hold(state)  # who waits for what is before must not wait for another process
            if status == 0:
                waits = waits_of(state, &order)
                if waits.count:
                    status = state.driver.barrier(state.handle, waits)
            if status == 0:
                status = state.driver.barrier(state.handle, shared)
            end_parted_command(state, &order, status)
    if status != 0:
        queue._raise(status, "wait")
    if is_checked(state):
        wait_for_point(queue, state, event.seen)
    return 0


cdef class IpcEvent:
    """A point in a queue that other processes see. It is done when everything submitted before the last record is done.

    `Device.ipc_event` makes one, `Device.open_ipc_event` opens it in another process. Every process that has it may
    record it, and ask and wait for it. `Queue.record` and `Queue.wait` take it. One that was never recorded counts as
    done; that a record has taken place must be told otherwise (CUDA, cuIpcGetEventHandle).

    It keeps the process that made it from nothing: as long as others use it, it must be kept there.

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
        drop_point(&self.seen)
        with nogil:
            self.state.driver.release_event(self.handle)
        release_device_state(self.state)

    def query(self) -> bool:
        """Return whether the point of the last record, of whatever process, has been reached. Never blocks.

        Raises
        ------
        DriverError
            When the driver reports that an earlier command failed.
        """
        cdef Answer answer
        if is_forked():
            raise closed_error(self)
        with nogil:
            answer = self.state.driver.event_status(self.handle)
        if answer > DONE:
            self.device._raise(answer, repr(self))
        if answer < 0:
            self.device._raise_execution_error(answer, repr(self))
        if answer == DONE:
            reached(self.seen)
        return answer == DONE

    @property
    def done(self) -> bool:
        """The same as `query()`."""
        return self.query()

    def wait(self) -> None:
        """Block until the point of the last record, of whatever process, has been reached.

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
