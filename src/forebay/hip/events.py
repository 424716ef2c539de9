"""Events: each is a `forebay.Event`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from forebay.core.process import Numbers
from forebay.events.event import Event, IpcEvent
from forebay.hip import facts
from forebay.hip.compiled import commands
from forebay.hip.compiled.commands import EventHandle
from forebay.hip.devices import current_device, current_number, on_reset
from forebay.hip.errors import HipError, api, asserting, check_assertions, invalid
from forebay.hip.facts import hipError_t
from forebay.hip.pointers import Number, handle_number
from forebay.hip.streams import queue_of
from forebay.queues.queue import Queue

FLAGS: int = (
    facts.hipEventBlockingSync
    | facts.hipEventDisableTiming
    | facts.hipEventInterprocess
    | facts.hipEventReleaseToDevice
    | facts.hipEventReleaseToSystem
)
BOTH_RELEASES: int = facts.hipEventReleaseToDevice | facts.hipEventReleaseToSystem
FIRST_HANDLE = 1 << 61

_numbers = Numbers()
_events: dict[int, ihipEvent_t] = {}
_lock = threading.Lock()


class ihipEvent_t(Number, EventHandle):
    """An event; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)
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


hipEvent_t = ihipEvent_t


@on_reset
def _forget(number: int) -> None:
    for event in list(_events.values()):
        if event.device == number:
            _events.pop(event.address, None)
            event.event = event.shared = None


def event_of(event: Any) -> ihipEvent_t:
    """Return the event of this object or number.

    hipErrorInvalidHandle for None or what never was an event, hipErrorContextIsDestroyed for one that was
    destroyed.
    """
    if isinstance(event, ihipEvent_t) and event.event is not None and event.address in _events:
        return event
    address = handle_number(event, "an event")
    known = _events.get(address)
    if known is None:
        destroyed = FIRST_HANDLE < address < FIRST_HANDLE + (1 << 40)
        raise HipError(
            hipError_t.hipErrorContextIsDestroyed if destroyed else hipError_t.hipErrorInvalidHandle,
            f"event {address:#x} is destroyed, or never was one",
        )
    return known


def _create(flags: int) -> ihipEvent_t:
    interprocess = flags & facts.hipEventInterprocess
    if (
        flags & ~FLAGS
        or flags & BOTH_RELEASES == BOTH_RELEASES
        or (interprocess and not flags & facts.hipEventDisableTiming)
    ):
        raise invalid(f"an event cannot have the flags {flags!r}")
    if interprocess:
        return enter_shared(current_device().ipc_event(), flags)
    return _enter(current_device().event(timing=not flags & facts.hipEventDisableTiming), flags)


def _enter(event: Event | None, flags: int, shared: IpcEvent | None = None) -> ihipEvent_t:
    made = ihipEvent_t(FIRST_HANDLE + 16 * next(_numbers))
    made.event, made.shared = event, shared
    made.flags, made.device = flags, current_number()
    _events[made.address] = made
    return made


def enter_shared(event: IpcEvent, flags: int) -> ihipEvent_t:
    """Make an event that processes share known."""
    return _enter(None, flags, event)


@api(outputs=1)
def hipEventCreate() -> ihipEvent_t:
    """Make an event with timing on the current device; ``(hipError_t, event)``."""
    return _create(0)


@api(outputs=1)
def hipEventCreateWithFlags(flags: int) -> ihipEvent_t:
    """Make an event; ``(hipError_t, event)``.

    hipEventDisableTiming spares each record a command; hipEventBlockingSync changes nothing, because waits never spin
    here. hipErrorInvalidValue for flags that do not go together, hipErrorNotSupported for hipEventInterprocess where
    processes share no events: all but CUDA.
    """
    return _create(flags)


@api()
def hipEventDestroy(event: Any) -> None:
    """Destroy an event; waits for it are not affected; ``(hipError_t,)``. Does not block.

    hipErrorInvalidHandle for None, hipErrorContextIsDestroyed for one that was destroyed before.
    """
    known = event_of(event)
    with _lock:
        if _events.pop(known.address, None) is None:
            raise HipError(hipError_t.hipErrorContextIsDestroyed)
    known.event = known.shared = None


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


_make_work: Callable[[str, ihipEvent_t], Any]


def connect(make_work: Callable[[str, ihipEvent_t], Any]) -> None:
    """Set what makes the work of a node that does something ("record", "wait") with an event: `graphs`."""
    global _make_work
    _make_work = make_work


def _captured(what: str, event: ihipEvent_t, queue: Queue) -> bool:
    """Add a node for an event to a queue's capture; False when there is none."""
    capture = queue._capture
    return capture is not None and capture.add(queue, _make_work(what, event)) is not None


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

    `event` and `stream` as there.

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

    `start` and `stop` are the events.

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

    `flags` are 0 or hipEventWaitExternal.

    Nothing is waited for if the event was never recorded. hipErrorInvalidHandle without an event, hipErrorInvalidValue
    for unknown flags. With hipEventWaitExternal a capture gets a node that waits for the event whenever the graph runs,
    see `hipGraphAddEventWaitNode`; elsewhere the flag changes nothing. Does not block.
    """
    queue = queue_of(stream)
    recorded = event_of(event)
    if flags not in (0, facts.hipEventWaitExternal):
        raise invalid(f"hipStreamWaitEvent: flags {flags!r}")
    point = recorded.point
    if flags == facts.hipEventWaitExternal and isinstance(point, Event) and _captured("wait", recorded, queue):
        return
    queue.wait(point)
