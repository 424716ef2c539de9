"""What cannot be done while queues are captured, by HIP's rules; and how careful each thread has to be.

`forebay.queues.graphs.capture` makes captures. What is below it asks here.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from forebay.core.errors import CaptureImplicitError, CaptureUnsupportedError, InvalidArgumentError

if TYPE_CHECKING:
    from forebay.queues.graphs.capture import Capture

MODES = ("global", "thread_local", "relaxed")

active: WeakSet[Capture] = WeakSet()  # captures that have not ended
lock = threading.RLock()  # guards all captures: a queue joins and leaves one at a time


class _ThreadMode(threading.local):
    """How careful a thread has to be while others capture (HIP, hipThreadExchangeStreamCaptureMode)."""

    mode = "global"


_thread = _ThreadMode()


def check_mode(mode: Any) -> None:
    """Raise when there is no such mode."""
    if mode not in MODES:
        raise InvalidArgumentError(f"capture: mode is one of {', '.join(MODES)}, not {mode!r}")


def thread_mode() -> str:
    """Return how careful the calling thread has to be."""
    return _thread.mode


def exchange_thread_mode(mode: str) -> str:
    """Set how careful the calling thread has to be, and return how careful it had to be (HIP,
    hipThreadExchangeStreamCaptureMode).

    Parameters
    ----------
    mode : "global", "thread_local" or "relaxed"
        Whether what might wait for a captured queue is an error in this thread while any thread has a capture of mode
        "global" under way, which is how a thread begins; only while this thread has one that is not relaxed; or never.
    """
    check_mode(mode)
    before, _thread.mode = _thread.mode, mode
    return before


def refuse_unsafe(what: str) -> None:
    """Something that might wait for a captured queue: allowed while only relaxed captures, or other threads' own, are
    under way. Invalidates the others, as in HIP.
    """
    here, careful = threading.get_ident(), _thread.mode
    if careful == "relaxed":
        return
    with lock:
        disturbed = [
            capture
            for capture in active
            if (capture.mode == "global" and careful == "global")
            or (capture.mode != "relaxed" and capture.thread == here)
        ]
        for capture in disturbed:
            capture.invalidate(what)
    if disturbed:
        raise CaptureUnsupportedError(
            f"{what} while {disturbed[0].origin!r} is captured with mode {disturbed[0].mode!r}; "
            "the capture is invalid now"
        )


def refuse_synchronize(device: Any, what: str) -> None:
    """Waiting for all queues of a device would be waiting for captured ones, whatever the mode."""
    refuse_unsafe(what)
    with lock:
        disturbed = [capture for capture in active if capture.graph.device is device]
        for capture in disturbed:
            capture.invalidate(what)
    if disturbed:
        raise CaptureUnsupportedError(f"{what} while {disturbed[0].origin!r} is captured; the capture is invalid now")


def captures_that_bar_null(device: Any) -> list[Capture]:
    """Those with a blocking queue of the device."""
    with lock:
        return [
            capture
            for capture in active
            if capture.graph.device is device and any(queue.blocking for queue in capture._ends)
        ]


def refuse_synchronous(what: str) -> None:
    """HIP's calls that are synchronous on the null queue are refused while anything is captured, in whatever mode."""
    if not active:
        return
    with lock:
        disturbed = list(active)
        for capture in disturbed:
            capture.invalidate(what)
    if disturbed:
        raise CaptureImplicitError(f"{what} while {disturbed[0].origin!r} is captured; the capture is invalid now")


def refuse_null(device: Any, what: str) -> None:
    """A command of the null queue would wait for blocking queues that are captured."""
    with lock:
        for capture in captures_that_bar_null(device):
            capture.invalidate(f"{what}: implicitly ordered after what is captured")
    raise CaptureImplicitError(
        f"{what}: the null queue is ordered after the blocking queues, and one is captured; its capture is invalid now"
    )


def abandon_captures(device: Any) -> None:
    """The device is closed."""
    with lock:
        for capture in [capture for capture in active if capture.graph.device is device]:
            capture.invalidate("the device was closed")
            capture.abandon()
            capture.graph.close()
