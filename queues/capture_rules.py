"""Operations that HIP forbids while queues are captured, and the capture mode of each thread.

`forebay.queues.graphs.capture` makes captures; modules below it ask this one about them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from forebay.core.errors import CaptureImplicitError, CaptureUnsupportedError, InvalidArgumentError

if TYPE_CHECKING:
    from forebay.queues.graphs.capture import Capture

LATER = "the host waits only after the end of a capture, for launches of its graph"
MODES = ("global", "thread_local", "relaxed")

active: WeakSet[Capture] = WeakSet()  # captures that have not ended
lock: AbstractContextManager[bool] = threading.RLock()  # guards all captures: queues join and leave one at a time


class _ThreadMode(threading.local):
    """A thread's capture mode (HIP, hipThreadExchangeStreamCaptureMode)."""

    mode = "global"


_thread = _ThreadMode()


def check_mode(mode: Any) -> None:
    """Raise InvalidArgumentError unless there is such a mode."""
    if mode not in MODES:
        raise InvalidArgumentError(f"capture: mode is one of {', '.join(MODES)}, not {mode!r}")


def thread_mode() -> str:
    """Return the calling thread's capture mode."""
    return _thread.mode


def exchange_thread_mode(mode: str) -> str:
    """Set the calling thread's capture mode, and return the old one (HIP, hipThreadExchangeStreamCaptureMode).

    It decides when an operation of this thread that might wait for a captured queue is an error. "global", the initial
    mode: while any thread has a capture of mode "global" open, or this thread one that is not relaxed. "thread_local":
    only while this thread has a capture open that is not relaxed. "relaxed": never.
    """
    check_mode(mode)
    before, _thread.mode = _thread.mode, mode
    return before


def refuse_unsafe(what: str, instead: str = LATER) -> None:
    """Refuse an operation that might wait for a captured queue. `instead`, the end of the message, says what to do.

    It is allowed if all open captures are relaxed, or belong to other threads and concern those alone. All
    other open captures are invalidated, as in HIP.
    """
    here, careful = threading.get_ident(), _thread.mode
    if careful == "relaxed":
        return
    disturbed = _invalidate(
        what,
        lambda capture: (capture.mode == careful == "global") or (capture.mode != "relaxed" and capture.thread == here),
    )
    if disturbed:
        raise CaptureUnsupportedError(
            f"{what} while {disturbed[0].origin!r} is captured with mode {disturbed[0].mode!r}; "
            f"the capture is invalid now: {instead}"
        )


def _invalidate(what: str, concerns: Callable[[Capture], bool]) -> list[Capture]:
    with lock:
        disturbed = [capture for capture in active if concerns(capture)]
        for capture in disturbed:
            capture.invalidate(what)
    return disturbed


def refuse_synchronize(device: Any, what: str) -> None:
    """Refuse to wait for all queues of a device while one is captured, in any mode. Invalidates the captures."""
    refuse_unsafe(what)
    disturbed = _invalidate(what, lambda capture: capture.graph.device._context is device._context)
    if disturbed:
        raise CaptureUnsupportedError(
            f"{what} while {disturbed[0].origin!r} is captured; the capture is invalid now: {LATER}"
        )


def refuse_synchronous(what: str) -> None:
    """Refuse a HIP call that is synchronous on the null queue while any queue is captured, in any mode."""
    disturbed = _invalidate(what, lambda capture: True) if active else ()
    if disturbed:
        raise CaptureImplicitError(f"{what} while {disturbed[0].origin!r} is captured; the capture is invalid now")


def captures_that_bar_null(device: Any) -> list[Capture]:
    """Return the captures that include a blocking queue of the device."""
    with lock:
        own = [capture for capture in active if capture.graph.device._context is device._context]
        return [capture for capture in own if any(queue.blocking for queue in capture._ends)]


def refuse_null(device: Any, what: str) -> None:
    """Refuse a null-queue command, which would wait for a captured blocking queue. Invalidates its capture."""
    _invalidate(f"{what}: implicitly ordered after what is captured", captures_that_bar_null(device).__contains__)
    raise CaptureImplicitError(
        f"{what}: the null queue is ordered after the blocking queues, and one is captured; its capture is invalid now"
    )


def abandon_captures(device: Any) -> None:
    """Invalidate and end all captures of a device that is being closed."""
    with lock:
        own = [capture for capture in active if any(queue.device is device for queue in capture._ends)]
        for capture in own:
            capture.invalidate("the device was closed")
            capture.discard()
