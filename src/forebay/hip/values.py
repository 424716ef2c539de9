"""Streams that wait for a value in memory, or write one.

A write is a fill of 4 or 8 bytes; in memory of the host that the device cannot map, the host writes it. Only HIP's own
driver has a command for a wait. A kernel that spins would keep the other streams of a CPU from writing the value. So
forebay holds the stream. When the stream gets there, a thread of the host reads the value again and again, and then
releases the stream: up to a millisecond after the write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.core.errors import Error
from forebay.hip.allocations import Place
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    hipError_t,
    hipStreamWaitValueAnd,
    hipStreamWaitValueEq,
    hipStreamWaitValueGte,
    hipStreamWaitValueNor,
)
from forebay.hip.streams import queue_of
from forebay.queues.queue import note_unseen_wait, stop_checking

SHORTEST, LONGEST = 20e-6, 1e-3  # seconds between two looks

# `value` is under the mask for the last one only (HIP, hipStreamWaitValue32); all bits.
CONDITIONS: dict[int, Callable[[int, int, int, int], bool]] = {
    hipStreamWaitValueGte: lambda there, value, mask, bits: there & mask >= value,
    hipStreamWaitValueEq: lambda there, value, mask, bits: there & mask == value,
    hipStreamWaitValueAnd: lambda there, value, mask, bits: there & mask & value != 0,
    hipStreamWaitValueNor: lambda there, value, mask, bits: bits & ~(there & mask | value & mask) != 0,
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
        raise HipError(hipError_t.hipErrorInvalidValue, "the pointer is None")
    place = Place(ptr, element.itemsize, "ptr")
    if place.allocation is None:
        place.for_device()
    return place


def _wait(stream: Any, ptr: Any, value: int, flags: int, mask: int | None, dtype: str) -> None:
    element = np.dtype(dtype)
    bits = (1 << 8 * element.itemsize) - 1
    queue = queue_of(stream)
    place = _place(ptr, element)
    if flags not in CONDITIONS:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no comparison: flags {flags}")
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


@api()
def hipStreamWaitValue32(stream: Any, ptr: Any, value: int, flags: int, mask: int | None = None) -> None:
    """Hold the stream until the 32 bits at `ptr` meet the condition; ``(hipError_t,)``. Does not block.

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
    _wait(stream, ptr, value, flags, mask, "u4")


@api()
def hipStreamWaitValue64(stream: Any, ptr: Any, value: int, flags: int, mask: int | None = None) -> None:
    """Hold the stream until the 64 bits at `ptr` meet the condition; see `hipStreamWaitValue32`.

    `value`, `flags` and `mask` as there, of 64 bits; `stream` is a stream, None or 0. Returns ``(hipError_t,)``. Does
    not block.
    """
    _wait(stream, ptr, value, flags, mask, "u8")


def _write(stream: Any, ptr: Any, value: int, flags: int, dtype: str) -> None:
    element = np.dtype(dtype)
    queue = queue_of(stream)
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"flags have to be 0, not {flags}")
    place, number = _place(ptr, element), value & ((1 << 8 * element.itemsize) - 1)
    if place.buffer is not None:
        queue.fill(place.buffer.view(element), number)
        return
    there = place.bytes().view(element)

    def write() -> None:
        there[0] = number

    queue.host(write)


@api()
def hipStreamWriteValue32(stream: Any, ptr: Any, value: int, flags: int = 0) -> None:
    """Write 32 bits when the stream gets there; ``(hipError_t,)``: hipErrorInvalidValue without memory, or for flags.

    `value` goes to `ptr`; `flags` have to be 0, and `stream` is a stream, None or 0.

    In memory of the host that the device cannot map, the host writes it, and the stream waits for that. Does not block.
    """
    _write(stream, ptr, value, flags, "u4")


@api()
def hipStreamWriteValue64(stream: Any, ptr: Any, value: int, flags: int = 0) -> None:
    """Write 64 bits when the stream gets there; see `hipStreamWriteValue32`.

    `ptr`, `value` and `flags` as there. Returns ``(hipError_t,)``.
    """
    _write(stream, ptr, value, flags, "u8")
