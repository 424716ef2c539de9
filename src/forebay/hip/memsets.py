"""Setting memory to one value; sizes in elements but for `hipMemset`, whose elements are bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.hip.allocations import Place
from forebay.hip.enums import hipError_t
from forebay.hip.errors import HipError, api
from forebay.hip.memory import size_of
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.memory.shapes import whole_number

__all__ = [
    "hipMemset",
    "hipMemset2D",
    "hipMemset2DAsync",
    "hipMemsetAsync",
    "hipMemsetD8",
    "hipMemsetD8Async",
    "hipMemsetD16",
    "hipMemsetD16Async",
    "hipMemsetD32",
    "hipMemsetD32Async",
]


def _set(dst: Any, value: Any, count: Any, dtype: str, stream: Any, blocks: bool) -> None:
    element = np.dtype(dtype)
    nbytes = size_of(count) * element.itemsize
    pattern = whole_number(value) & ((1 << 8 * element.itemsize) - 1)
    queue = queue_of(stream)
    if nbytes == 0:
        return
    place = Place(dst, nbytes, "dst")
    buffer = place.for_device()
    if blocks:
        refuse_synchronous("a synchronous memset")
    queue.fill(buffer.view(element), pattern)
    if blocks and place.in_host_memory:
        queue.finish()


@api()
def hipMemset(dst: Any, value: int, sizeBytes: int) -> None:
    """Set bytes to the low byte of `value`, on the null stream; ``(hipError_t,)``.

    Does not block for memory of the device, and blocks until it is done for memory that the host can read, as HIP's.
    hipErrorInvalidValue for memory that is not from here, or more bytes than there are, hipErrorNotSupported for memory
    of the host that the device cannot map.
    """
    _set(dst, value, sizeBytes, "u1", None, True)


@api()
def hipMemsetAsync(dst: Any, value: int, sizeBytes: int, stream: Any = None) -> None:
    """Set bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dst, value, sizeBytes, "u1", stream, False)


@api()
def hipMemsetD8(dest: Any, value: int, count: int) -> None:
    """Set bytes, on the null stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dest, value, count, "u1", None, True)


@api()
def hipMemsetD8Async(dest: Any, value: int, count: int, stream: Any = None) -> None:
    """Set bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dest, value, count, "u1", stream, False)


@api()
def hipMemsetD16(dest: Any, value: int, count: int) -> None:
    """Set words of 16 bits, on the null stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dest, value, count, "u2", None, True)


@api()
def hipMemsetD16Async(dest: Any, value: int, count: int, stream: Any = None) -> None:
    """Set words of 16 bits in the order of the stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dest, value, count, "u2", stream, False)


@api()
def hipMemsetD32(dest: Any, value: int, count: int) -> None:
    """Set words of 32 bits, on the null stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dest, value, count, "u4", None, True)


@api()
def hipMemsetD32Async(dst: Any, value: int, count: int, stream: Any = None) -> None:
    """Set words of 32 bits in the order of the stream; ``(hipError_t,)``. See `hipMemset`."""
    _set(dst, value, count, "u4", stream, False)


def _set_2d(dst: Any, pitch: Any, value: Any, width: Any, height: Any, stream: Any, blocks: bool) -> None:
    gap, columns, rows = map(size_of, (pitch, width, height))
    queue = queue_of(stream)
    if columns > gap:
        raise HipError(hipError_t.hipErrorInvalidValue, f"rows of {columns} bytes, {gap} apart")
    if columns == 0 or rows == 0:
        return
    place = Place(dst, (rows - 1) * gap + columns, "dst")
    buffer = place.for_device()
    if blocks:
        refuse_synchronous("hipMemset2D")
    byte = whole_number(value) & 0xFF
    if gap == columns:
        queue.fill(buffer, byte)
    else:
        for row in range(rows):
            queue.fill(buffer[row * gap : row * gap + columns], byte)
    if blocks and place.in_host_memory:
        queue.finish()


@api()
def hipMemset2D(dst: Any, pitch: int, value: int, width: int, height: int) -> None:
    """Set `height` rows of `width` bytes, `pitch` apart, on the null stream; ``(hipError_t,)``. See `hipMemset`."""
    _set_2d(dst, pitch, value, width, height, None, True)


@api()
def hipMemset2DAsync(dst: Any, pitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set rows in the order of the stream; ``(hipError_t,)``. See `hipMemset2D`."""
    _set_2d(dst, pitch, value, width, height, stream, False)
