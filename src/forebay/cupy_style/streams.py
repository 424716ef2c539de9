"""Which queue a kernel runs on: ``stream=``, or the current one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forebay.core.errors import ArgumentTypeError
from forebay.hiprtc.current import current_device
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue

__all__ = ["check_stream", "queue_for"]


def check_stream(what: str, stream: Any) -> None:
    """Refuse what is no Queue. Raises `ArgumentTypeError`."""
    if stream is not None and not isinstance(stream, Queue):
        raise ArgumentTypeError(f"{what}: stream is a Queue (device.queue()), not {type(stream).__name__}")


def queue_for(what: str, arguments: Sequence[Any], stream: Any) -> Queue:
    """Return the queue of a launch."""
    check_stream(what, stream)
    if isinstance(stream, Queue):
        return stream
    first = next((each for each in arguments if isinstance(each, Buffer)), None)
    return (current_device() if first is None else first.device).current_queue
