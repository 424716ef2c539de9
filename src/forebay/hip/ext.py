"""What programs of HIP can have of forebay that HIP does not have: steps. All of `forebay.hip` itself is HIP's."""

from __future__ import annotations

from typing import Any

from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t
from forebay.hip.streams import _lock, _steps, queue_of

__all__ = ["hipStreamStepBegin", "hipStreamStepEnd"]


@api()
def hipStreamStepBegin(stream: Any) -> None:
    """Begin a step: a stretch of the program that repeats, until `hipStreamStepEnd`; ``(hipError_t,)``.

    A stream has one step, which compares the launches with those of the last time, and on
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
    """End the step of the stream, and submit what it has collected; ``(hipError_t,)``.

    hipErrorIllegalState when the stream's step is not open. An error of the driver in a launch that was collected is
    returned here. Does not wait for the device.
    """
    queue = queue_of(stream)
    step = _steps.get(queue.id)
    if step is None or queue._step is not step:
        raise HipError(hipError_t.hipErrorIllegalState, "the stream has no open step")
    step.__exit__(None, None, None)
