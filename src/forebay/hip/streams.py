"""Streams: each is a `forebay.Queue`; 0 or None is the null queue of the current device."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from forebay.hip.compiled import handles
from forebay.hip.compiled import streams as compiled
from forebay.hip.compiled.handles import Handle, count_changes, note_own
from forebay.hip.devices import _on_reset, current_device, current_number, number_of
from forebay.hip.errors import HipError, api, asserting, check_assertions
from forebay.hip.facts import hipError_t, hipStreamNonBlocking
from forebay.hip.pointers import Number, handle_number
from forebay.queues.graphs.step import Step
from forebay.queues.queue import Queue

LEGACY, PER_THREAD = 1, 2
FIRST_HANDLE = 1 << 60  # no address of any device or host


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


_streams: dict[int, ihipStream_t] = {}
_steps: dict[int, Step] = {}  # by the queue's id
_lock = threading.Lock()
hipStreamLegacy: ihipStream_t = ihipStream_t(LEGACY)
hipStreamPerThread: ihipStream_t = ihipStream_t(PER_THREAD)
hipStream_t = ihipStream_t


def _forget(number: int) -> None:
    for stream in list(_streams.values()):
        if stream.device == number:
            _streams.pop(stream.address, None)
    for queue_id in [queue_id for queue_id, step in _steps.items() if step.queue.closed]:
        _steps.pop(queue_id).close()


_on_reset.append(_forget)


def queue_of(stream: Any) -> Queue:
    """Return the queue that a stream stands for now; None, 0 and `hipStreamLegacy` are the null queue.

    Raises
    ------
    HipError
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
    known = _streams.get(address)
    if known is None or known.queue is None:
        raise HipError(hipError_t.hipErrorContextIsDestroyed, f"stream {address:#x} is destroyed, or never was one")
    return known.queue


handles.connect_streams(ihipStream_t, queue_of)
compiled.connect(asserting)


def handle_of(stream: Any) -> ihipStream_t:
    """Return the object for a stream that was given as any of what `queue_of` takes."""
    if isinstance(stream, ihipStream_t):
        return stream
    if isinstance(stream, Queue):
        return _streams.get(FIRST_HANDLE + 16 * stream.id) or ihipStream_t()
    return ihipStream_t(handle_number(stream, "a stream"))


def _create(flags: int, priority: int) -> ihipStream_t:
    if flags not in (0, hipStreamNonBlocking):
        raise HipError(hipError_t.hipErrorInvalidValue, f"a stream has no flags {flags!r}")
    device = current_device()
    stream = ihipStream_t()
    stream.queue = device.queue(blocking=not flags, priority=priority)
    stream.flags, stream.device = flags, current_number()
    stream.address = FIRST_HANDLE + 16 * stream.queue.id
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
        _streams.pop(FIRST_HANDLE + 16 * queue.id, None)
        step = _steps.pop(queue.id, None)
        if step is not None:
            step.close()  # which ends it if it is open
        queue.close()


@compiled.hipStreamQuery
@api()
def hipStreamQuery(stream: Any) -> None:
    """Ask whether everything submitted is done; ``(hipError_t,)``: hipErrorNotReady if not. Never blocks.

    For the null stream, "everything" includes the blocking streams.
    """
    if not queue_of(stream).query():
        raise HipError(hipError_t.hipErrorNotReady)


@compiled.hipStreamSynchronize
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


@api()
def hipStreamStepBegin(stream: Any) -> None:
    """Begin a step: a stretch of the program that repeats, until `hipStreamStepEnd`; ``(hipError_t,)``.

    Not of HIP: forebay's own. A stream has one step, which compares the launches with those of the last time, and on
    Level Zero submits them by one driver call; see `forebay.Queue.step`, which makes as many steps as you like.

    hipErrorIllegalState while this thread has a step open, or the stream is in one or is captured. Does not block.
    """
    queue = queue_of(stream)
    with _lock:
        step = _steps.get(queue.id)
        if step is None:
            step = _steps[queue.id] = queue.step()
    step.__enter__()


@api()
def hipStreamStepEnd(stream: Any) -> None:
    """End the step of the stream, and submit what it has collected; ``(hipError_t,)``. Not of HIP: forebay's own.

    hipErrorIllegalState when the stream's step is not open. An error of the driver in a launch that was collected is
    returned here. Does not wait for the device.
    """
    queue = queue_of(stream)
    step = _steps.get(queue.id)
    if step is None or queue._step is not step:
        raise HipError(hipError_t.hipErrorIllegalState, "the stream has no open step")
    step.__exit__(None, None, None)


@api(outputs=1)
def hipStreamGetFlags(stream: Any) -> int:
    """Return ``(hipError_t, flags)`` as the stream was made with; hipStreamDefault for the default streams."""
    return 0 if queue_of(stream).blocking else hipStreamNonBlocking


@api(outputs=1)
def hipStreamGetPriority(stream: Any) -> int:
    """Return ``(hipError_t, priority)``, as it was clamped.

    `stream` is a stream, None or 0; hipErrorContextIsDestroyed for what is no stream.
    """
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
