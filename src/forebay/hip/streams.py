"""Streams: each is a `forebay.Queue`; 0 or None is the null queue of the current device. Events: `forebay.Event`.

Callbacks are plain Python callables with any object, or pointers to C functions. They run on forebay's host thread, one
at a time, and hold their stream until they return. They may launch work, but not wait for any: HIP forbids its calls in
callbacks, and a wait there gets hipErrorNotSupported. What a Python callable raises is raised by the next synchronize
of the stream, of an event recorded on it later, or of the device.

Streams wait for a value in memory, or write one. A write is a fill of 4 or 8 bytes; in memory of the host that the
device cannot map, the host writes it. Only HIP's own driver has a command for a wait. A kernel that spins would keep
the other streams of a CPU from writing the value. So forebay holds the stream. When the stream gets there, a thread of
the host reads the value again and again, and then releases the stream: up to a millisecond after the write.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.core.errors import ArgumentTypeError, Error, InvalidArgumentError
from forebay.core.process import Numbers
from forebay.events.event import Event, IpcEvent
from forebay.hip import facts
from forebay.hip.allocations import Place
from forebay.hip.compiled import calls, commands
from forebay.hip.compiled.calls import Address, Handle, count_changes, note_own
from forebay.hip.compiled.commands import EventHandle
from forebay.hip.devices import Handles, current_device, current_number, number_of, on_reset
from forebay.hip.errors import (
    HipError,
    HipFunction,
    RaisedInCallback,
    api,
    asserting,
    check_assertions,
    define,
    invalid,
)
from forebay.hip.facts import flags_of, hipError_t
from forebay.hip.pointers import Number, address_of, handle_number
from forebay.queues.graphs.executable import Work, make_list
from forebay.queues.graphs.step import Step
from forebay.queues.queue import Queue, note_unseen_wait, stop_checking

LEGACY, PER_THREAD = 1, 2
FIRST_STREAM = 1 << 60  # no address of any device or host


class ihipStream_t(Number, Handle):
    """A stream; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
        self.flags: int = 0
        self.device: int = -1
        known = _streams.get(self.address)
        if known is not None:
            self.queue: Queue | None = known.queue
            self.flags, self.device = known.flags, known.device

    def as_c_void_p(self) -> ctypes.c_void_p:
        """Return its number as a ctypes.c_void_p."""
        return ctypes.c_void_p(self.address)


_streams: Handles[ihipStream_t] = Handles("a stream", hipError_t.hipErrorContextIsDestroyed)
_steps: dict[int, Step] = {}  # by the queue's id
_lock = threading.Lock()
hipStreamLegacy: ihipStream_t = ihipStream_t(LEGACY)
hipStreamPerThread: ihipStream_t = ihipStream_t(PER_THREAD)
hipStream_t = ihipStream_t


@on_reset
def _close_steps(_: int) -> None:
    for queue_id in [queue_id for queue_id, step in _steps.items() if step.queue.closed]:
        _steps.pop(queue_id).close()


def queue_of(stream: Any) -> Queue:
    """Return the queue that a stream stands for now; None, 0 and `hipStreamLegacy` are the null queue.

    hipErrorContextIsDestroyed for what is no stream: it was destroyed, or never was one (HIP's own tests).
    """
    if stream is None:
        return current_device().null_queue
    if isinstance(stream, Queue):
        return stream
    if isinstance(stream, Handle) and stream.queue is not None:
        if not stream.queue.closed:
            return stream.queue
        raise HipError(hipError_t.hipErrorContextIsDestroyed)
    address = handle_number(stream, "a stream")
    if address in (0, LEGACY):
        return current_device().null_queue
    if address == PER_THREAD:
        as_of = count_changes()
        queue = current_device().per_thread_queue
        note_own(queue, as_of)
        return queue
    known = _streams.find(address)
    assert known.queue is not None
    return known.queue


calls.connect_streams(ihipStream_t, queue_of)
commands.connect(asserting)


def handle_of(stream: Any) -> ihipStream_t:
    """Return the object for a stream that was given as any of what `queue_of` takes."""
    if isinstance(stream, ihipStream_t):
        return stream
    if isinstance(stream, Queue):
        return _streams.get(FIRST_STREAM + 16 * stream.id) or ihipStream_t()
    return ihipStream_t(handle_number(stream, "a stream"))


def _create(flags: int, priority: int) -> ihipStream_t:
    if flags not in (0, facts.hipStreamNonBlocking):
        raise invalid(f"a stream has no flags {flags!r}")
    device = current_device()
    stream = ihipStream_t()
    stream.queue = device.queue(blocking=not flags, priority=priority)
    stream.flags, stream.device = flags, current_number()
    stream.address = FIRST_STREAM + 16 * stream.queue.id
    _streams[stream.address] = stream
    return stream


@api(outputs=1)
def hipStreamCreate() -> ihipStream_t:
    """Make a blocking stream on the current device; ``(hipError_t, stream)``."""
    return _create(0, 0)


@api(outputs=1)
def hipStreamCreateWithFlags(flags: int) -> ihipStream_t:
    """Make a stream. With hipStreamNonBlocking, the null stream is not ordered against it.

    Returns ``(hipError_t, stream)``: hipErrorInvalidValue for other flags.
    """
    return _create(flags, 0)


@api(outputs=1)
def hipStreamCreateWithPriority(flags: int, priority: int) -> ihipStream_t:
    """Make a stream with a priority, clamped to `hipDeviceGetStreamPriorityRange`; ``(hipError_t, stream)``.

    `flags` are hipStreamDefault or hipStreamNonBlocking, hipErrorInvalidValue for others. A lower `priority` is more
    urgent.
    """
    return _create(flags, priority)


@api()
def hipStreamDestroy(stream: Any) -> None:
    """End a stream: what was submitted still completes, in order; ``(hipError_t,)``. Does not block.

    hipErrorInvalidHandle for the null stream and the per-thread one, hipErrorContextIsDestroyed for what is no stream
    (any more).
    """
    if not isinstance(stream, Queue) and handle_number(stream, "a stream") in (0, LEGACY, PER_THREAD):
        raise HipError(hipError_t.hipErrorInvalidHandle, "the default streams cannot be destroyed")
    queue = queue_of(stream)
    with _lock:
        if queue.closed:
            raise HipError(hipError_t.hipErrorContextIsDestroyed)
        _streams.pop(FIRST_STREAM + 16 * queue.id, None)
        step = _steps.pop(queue.id, None)
        if step is not None:
            step.close()  # which ends it if it is open
        queue.close()


@commands.ordinary
@api()
def hipStreamQuery(stream: Any) -> None:
    """Ask whether everything submitted is done; ``(hipError_t,)``: hipErrorNotReady if not. Never blocks.

    For the null stream, "everything" includes the blocking streams.
    """
    if not queue_of(stream).query():
        raise HipError(hipError_t.hipErrorNotReady)


@commands.ordinary
@api()
def hipStreamSynchronize(stream: Any) -> None:
    """Block until everything submitted is done; ``(hipError_t,)``. Raises what a callback of the stream raised.

    For the null stream, "everything" includes the blocking streams. hipErrorAssert when an assertion in a kernel of
    the device failed.
    """
    queue = queue_of(stream)
    queue.finish()
    if asserting:
        check_assertions(queue.device)


@api(outputs=1)
def hipStreamGetFlags(stream: Any) -> int:
    """Return ``(hipError_t, flags)`` as the stream was made with; hipStreamDefault for the default streams."""
    return 0 if queue_of(stream).blocking else facts.hipStreamNonBlocking


@api(outputs=1)
def hipStreamGetPriority(stream: Any) -> int:
    """Return ``(hipError_t, priority)``, as it was clamped."""
    return queue_of(stream).priority


@api(outputs=1)
def hipStreamGetDevice(stream: Any) -> int:
    """Return ``(hipError_t, number)`` of the stream's device."""
    return number_of(queue_of(stream).device)


@api(outputs=1)
def hipStreamGetId(stream: Any) -> int:
    """Return ``(hipError_t, id)``, a number that no other stream of this process has or will have."""
    return queue_of(stream).id


def hipGetStreamDeviceId(stream: Any) -> int:
    """Return the number of the stream's device; -1 for anything but a stream. Not a tuple, as in HIP."""
    try:
        return number_of(queue_of(stream).device)
    except HipError:
        return -1


# -- callbacks


hipStreamCallback_t: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
hipHostFn_t: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
hipStreamCallback_t.__doc__ = "The type of a C function for `hipStreamAddCallback`."
hipHostFn_t.__doc__ = "The type of a C function for `hipLaunchHostFunc`."


def host_call(function: Any, data: Any, prototype: Any = hipHostFn_t, before: tuple[Any, ...] = ()) -> Any:
    """Return what `Queue.host` is given for a callback and its user data.

    hipErrorInvalidValue when there is nothing to call; raises ArgumentTypeError for what cannot be called.
    """
    if function is None:
        raise invalid("there is nothing to call: None")
    call: Callable[..., Any] = function
    arguments = (*before, data)
    if isinstance(function, (int, np.integer, ctypes.c_void_p, Address)):
        call = prototype(address_of(function)[0])
    if isinstance(call, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        if not call:
            raise invalid("a callback at address 0")
        word = data
        if data is not None and not isinstance(data, (int, ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object)):
            try:
                word = ctypes.c_void_p(address_of(data)[0])
            except (ArgumentTypeError, InvalidArgumentError):
                word = ctypes.py_object(data)
        arguments = (*map(int, before), word)
    elif not callable(call):
        raise ArgumentTypeError(f"a callback is called; {type(function).__name__} cannot be")

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as error:
            raise RaisedInCallback(error) from error

    return run


@api()
def hipStreamAddCallback(stream: Any, callback: Any, userData: object = None, flags: int = 0) -> None:
    """Call ``callback(stream, hipSuccess, userData)`` when the stream gets there; ``(hipError_t,)``. Does not block.

    Parameters
    ----------
    callback : callable, ctypes function pointer, or the address of a C function
    userData : object
        A Python callable gets this very object, a C function its address.
    flags : int
        Has to be 0.

    hipErrorInvalidValue without a callback or with flags.
    """
    if flags:
        raise invalid(f"hipStreamAddCallback: flags have to be 0, not {flags}")
    if callback is None:
        raise invalid("there is nothing to call: None")
    queue = queue_of(stream)
    queue.host(host_call(callback, userData, hipStreamCallback_t, (handle_of(stream), hipError_t.hipSuccess)))


@api()
def hipLaunchHostFunc(stream: Any, fn: Any, userData: object = None) -> None:
    """Call ``fn(userData)`` when the stream gets there; ``(hipError_t,)``. Does not block. See `hipStreamAddCallback`.

    `fn` is a callable, a ctypes function pointer or the address of a C function; `userData` as there.

    hipErrorInvalidValue without a function.
    """
    call = host_call(fn, userData)
    queue_of(stream).host(call)


# -- values in memory


SHORTEST, LONGEST = 20e-6, 1e-3  # seconds between two looks

# `value` is under the mask for the last one only (HIP, hipStreamWaitValue32); all bits.
CONDITIONS: dict[int, Callable[[int, int, int, int], bool]] = {
    facts.hipStreamWaitValueGte: lambda there, value, mask, bits: there & mask >= value,
    facts.hipStreamWaitValueEq: lambda there, value, mask, bits: there & mask == value,
    facts.hipStreamWaitValueAnd: lambda there, value, mask, bits: there & mask & value != 0,
    facts.hipStreamWaitValueNor: lambda there, value, mask, bits: bits & ~(there & mask | value & mask) != 0,
}


class _Reader:
    """Reads one value, in place or with a queue of its own."""

    def __init__(self, place: Place, element: np.dtype[Any]) -> None:
        self._buffer, self._queue = place.buffer, None
        self._value: Any = np.zeros(1, element)
        if place.in_host_memory:
            self._value = place.bytes().view(element)
        elif place.buffer is not None:
            self._queue = place.buffer.device.queue(blocking=False)
            stop_checking(self._queue)  # it reads while others write, which is what it is for

    def read(self) -> int:
        if self._queue is not None and self._buffer is not None:
            self._queue.copy(self._value, self._buffer)
            self._queue.finish()
        return int(self._value[0])

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()


def _let_go(reader: _Reader, is_there: Callable[[int], bool], arrived: threading.Event, gate: Any) -> None:
    arrived.wait()
    pause = SHORTEST
    try:
        while not is_there(reader.read()):
            time.sleep(pause)  # nothing tells when a kernel writes to memory
            pause = min(2 * pause, LONGEST)
        reader.close()
    except Error:  # the device or the memory is closed: nothing can ever write the value any more
        pass
    gate.open()


def _place(ptr: Any, element: np.dtype[Any]) -> Place:
    """Return memory of the device, or of the host that was allocated or registered here."""
    if ptr is None:
        raise invalid("the pointer is None")
    place = Place(ptr, element.itemsize, "ptr")
    if place.allocation is None:
        place.for_device()
    return place


def _waiting(size: int) -> Any:
    element, bits = np.dtype(f"u{size // 8}"), (1 << size) - 1

    def wait(stream: Any, ptr: Any, value: int, flags: int, mask: int | None = None) -> None:
        queue = queue_of(stream)
        place = _place(ptr, element)
        if flags not in CONDITIONS:
            raise invalid(f"no comparison: flags {flags}")
        queue._refuse_in_capture("hipStreamWaitValue")
        under = bits if mask is None else mask & bits
        reader, holds, wanted = _Reader(place, element), CONDITIONS[flags], value & bits
        arrived = threading.Event()
        queue.host(arrived.set)
        gate = queue.gate()
        note_unseen_wait(queue)
        threading.Thread(
            target=_let_go,
            args=(reader, lambda there: holds(there, wanted, under, bits), arrived, gate),
            name="forebay wait for a value",
            daemon=True,
        ).start()

    doc = f"""Hold the stream until the {size} bits at `ptr` meet the condition; ``(hipError_t,)``. Does not block.

    `value` is what they are compared with; `stream` is a stream, None or 0.

    Parameters
    ----------
    flags : int
        hipStreamWaitValueGte, hipStreamWaitValueEq, hipStreamWaitValueAnd or hipStreamWaitValueNor.
    mask : int, optional
        Bits that count; all.

    The host looks, up to a millisecond late (see this module), also at memory of the host that the device cannot map.
    hipErrorInvalidValue without memory that is from here, or for other flags.
    """
    return define(f"hipStreamWaitValue{size}", wait, doc)


hipStreamWaitValue32: HipFunction = _waiting(32)
hipStreamWaitValue64: HipFunction = _waiting(64)


def _writing(size: int) -> Any:
    element = np.dtype(f"u{size // 8}")

    def write(stream: Any, ptr: Any, value: int, flags: int = 0) -> None:
        queue = queue_of(stream)
        if flags:
            raise invalid(f"flags have to be 0, not {flags}")
        place, number = _place(ptr, element), value & ((1 << size) - 1)
        if place.buffer is not None:
            queue.fill(place.buffer.view(element), number)
        else:
            queue.host(functools.partial(operator.setitem, place.bytes().view(element), 0, number))

    doc = f"""Write {size} bits when the stream gets there; ``(hipError_t,)``.

    `value` goes to `ptr`; `flags` have to be 0, and `stream` is a stream, None or 0.

    In memory of the host that the device cannot map, the host writes it, and the stream waits for that. Does not block.
    hipErrorInvalidValue without memory, or for flags.
    """
    return define(f"hipStreamWriteValue{size}", write, doc)


hipStreamWriteValue32: HipFunction = _writing(32)
hipStreamWriteValue64: HipFunction = _writing(64)


# -- events


EVENT_FLAGS = flags_of("hipEventCreateWithFlags")
BOTH_RELEASES: int = facts.hipEventReleaseToDevice | facts.hipEventReleaseToSystem
FIRST_EVENT = 1 << 61

_numbers = Numbers()
_lock = threading.Lock()


class ihipEvent_t(Number, EventHandle):
    """An event; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        super().__init__(address)
        self.device = -1
        self.shared: IpcEvent | None = None  # in the place of `event`, which is never recorded then

    @property
    def point(self) -> Event | IpcEvent:
        """What is recorded and waited for.

        hipErrorContextIsDestroyed when another thread destroyed it since `event_of` found it.
        """
        shared, event = self.shared, self.event
        if shared is not None:
            return shared
        if event is None:
            raise HipError(hipError_t.hipErrorContextIsDestroyed, f"event {self.address:#x} is destroyed")
        return event

    def forget(self) -> None:
        """Release the event, although a program may keep its handle."""
        self.event = self.shared = None


hipEvent_t = ihipEvent_t
_events: Handles[ihipEvent_t] = Handles("an event", hipError_t.hipErrorInvalidHandle, end=ihipEvent_t.forget)


def event_of(event: Any) -> ihipEvent_t:
    """Return the event of this object or number.

    hipErrorInvalidHandle for None or what never was an event, hipErrorContextIsDestroyed for one that was
    destroyed.
    """
    if isinstance(event, ihipEvent_t) and event.event is not None and event.address in _events:
        return event
    address = handle_number(event, "an event")
    destroyed = FIRST_EVENT < address < FIRST_EVENT + (1 << 40)
    return _events.find(address, hipError_t.hipErrorContextIsDestroyed if destroyed else None)


def _create_event(flags: int) -> ihipEvent_t:
    interprocess = flags & facts.hipEventInterprocess
    if (
        flags & ~EVENT_FLAGS
        or flags & BOTH_RELEASES == BOTH_RELEASES
        or (interprocess and not flags & facts.hipEventDisableTiming)
    ):
        raise invalid(f"an event cannot have the flags {flags!r}")
    if interprocess:
        return enter_shared(current_device().ipc_event(), flags)
    return _enter_event(current_device().event(timing=not flags & facts.hipEventDisableTiming), flags)


def _enter_event(event: Event | None, flags: int, shared: IpcEvent | None = None) -> ihipEvent_t:
    made = ihipEvent_t(FIRST_EVENT + 16 * next(_numbers))
    made.event, made.shared = event, shared
    made.flags, made.device = flags, current_number()
    _events[made.address] = made
    return made


def enter_shared(event: IpcEvent, flags: int) -> ihipEvent_t:
    """Make an event that processes share known."""
    return _enter_event(None, flags, event)


@api(outputs=1)
def hipEventCreate() -> ihipEvent_t:
    """Make an event with timing on the current device; ``(hipError_t, event)``."""
    return _create_event(0)


@api(outputs=1)
def hipEventCreateWithFlags(flags: int) -> ihipEvent_t:
    """Make an event; ``(hipError_t, event)``.

    hipEventDisableTiming spares each record a command; hipEventBlockingSync changes nothing, because waits never spin
    here. hipErrorInvalidValue for flags that do not go together, hipErrorNotSupported for hipEventInterprocess where
    processes share no events: all but CUDA.
    """
    return _create_event(flags)


@api()
def hipEventDestroy(event: Any) -> None:
    """Destroy an event; waits for it are not affected; ``(hipError_t,)``. Does not block.

    hipErrorInvalidHandle for None, hipErrorContextIsDestroyed for one that was destroyed before.
    """
    known = event_of(event)
    with _lock:
        if _events.pop(known.address, None) is None:
            raise HipError(hipError_t.hipErrorContextIsDestroyed)
    known.forget()


@dataclass(frozen=True)
class Mark:
    """What a node does with an event: `kind` is "record" or "wait"."""

    kind: str
    handle: ihipEvent_t
    event: Event

    def submit(self, queue: Queue) -> None:
        """Record the event on a queue, or let it wait for the event as it was last recorded."""
        if self.kind == "record":
            queue.record(self.event)
        else:
            queue.wait(self.event)


_marks: weakref.WeakKeyDictionary[Work, Mark] = weakref.WeakKeyDictionary()


def event_work(kind: str, handle: ihipEvent_t) -> Work:
    """Return the work of a node that records an event or waits for it."""
    assert handle.event is not None
    work = make_list("empty", ())
    _marks[work] = Mark(kind, handle, handle.event)
    return work


def mark_of(work: Work) -> Mark | None:
    """Return what the work of a node does with an event; None of all others."""
    return _marks.get(work) if work.kind == "empty" else None


def record_event(event: Any, stream: Any, external: bool = False) -> None:
    """Record an event; errors as for `hipEventRecord`."""
    known = event_of(event)
    queue = queue_of(stream)
    point = known.point
    if queue.device._context is not point.device._context:
        raise HipError(hipError_t.hipErrorInvalidHandle, "the event and the stream are of two devices")
    if external and isinstance(point, Event) and _captured("record", known, queue):
        return
    queue.record(point)


def _captured(what: str, event: ihipEvent_t, queue: Queue) -> bool:
    """Add a node for an event to a queue's capture; False when there is none."""
    capture = queue._capture
    return capture is not None and capture.add(queue, event_work(what, event)) is not None


@commands.ordinary
@api()
def hipEventRecord(event: Any, stream: Any = None) -> None:
    """Mark this point of the stream, again if it was recorded before; ``(hipError_t,)``. Does not block.

    hipErrorInvalidHandle without an event, or when its device is not the stream's.
    """
    record_event(event, stream)


@api()
def hipEventRecordWithFlags(event: Any, stream: Any = None, flags: int = 0) -> None:
    """Do what `hipEventRecord` does; ``(hipError_t,)``: hipErrorInvalidValue for unknown flags.

    With hipEventRecordExternal a capture gets a node that records the event whenever the graph runs, see
    `hipGraphAddEventRecordNode`; elsewhere the flag changes nothing.
    """
    if flags not in (0, facts.hipEventRecordExternal):
        raise invalid(f"hipEventRecordWithFlags: flags {flags!r}")
    record_event(event, stream, external=flags == facts.hipEventRecordExternal)


@commands.ordinary
@api()
def hipEventQuery(event: Any) -> None:
    """Ask whether its point is reached; ``(hipError_t,)``: hipErrorNotReady if not. One never recorded is done.

    Never blocks. hipErrorInvalidHandle for None, hipErrorContextIsDestroyed for one that was destroyed.
    """
    if not event_of(event).point.query():
        raise HipError(hipError_t.hipErrorNotReady)


@commands.ordinary
@api()
def hipEventSynchronize(event: Any) -> None:
    """Block until its point is reached; ``(hipError_t,)``. Raises what a callback before it raised.

    hipErrorInvalidHandle for None, hipErrorContextIsDestroyed for one that was destroyed.

    hipErrorAssert when an assertion in a kernel of the device failed.
    """
    known = event_of(event).point
    known.wait()
    if asserting:
        check_assertions(known.device)


@api(outputs=1)
def hipEventElapsedTime(start: Any, stop: Any) -> float:
    """Return ``(hipError_t, milliseconds)`` between two events.

    hipErrorInvalidHandle when one is None, was made with hipEventDisableTiming or was never recorded, or when they are
    of two devices; hipErrorNotReady when one is not reached yet.
    """
    first, last = event_of(start).point, event_of(stop).point
    if isinstance(first, IpcEvent) or isinstance(last, IpcEvent):
        raise HipError(hipError_t.hipErrorInvalidHandle, "events that processes share have no time")
    for event in (first, last):
        event._check_outside("hipEventElapsedTime")
    timed = all(event.timing and event.recorded for event in (first, last))
    if not timed or first.device._context is not last.device._context:
        raise HipError(
            hipError_t.hipErrorInvalidHandle, "both have to be recorded with timing, and on one and the same device"
        )
    if not (first.query() and last.query()):
        raise HipError(hipError_t.hipErrorNotReady)
    return last.elapsed(first)


@commands.ordinary
@api()
def hipStreamWaitEvent(stream: Any, event: Any, flags: int = 0) -> None:
    """Let what comes next on the stream wait for the event as it was last recorded; ``(hipError_t,)``.

    Nothing is waited for if the event was never recorded. hipErrorInvalidHandle without an event, hipErrorInvalidValue
    for other `flags` than 0 and hipEventWaitExternal. With that a capture gets a node that waits for the event whenever
    the graph runs, see `hipGraphAddEventWaitNode`; elsewhere it changes nothing. Does not block.
    """
    queue = queue_of(stream)
    recorded = event_of(event)
    if flags not in (0, facts.hipEventWaitExternal):
        raise invalid(f"hipStreamWaitEvent: flags {flags!r}")
    point = recorded.point
    if flags == facts.hipEventWaitExternal and isinstance(point, Event) and _captured("wait", recorded, queue):
        return
    queue.wait(point)
