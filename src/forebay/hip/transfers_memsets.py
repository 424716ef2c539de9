"""Setting memory to one value; sizes in elements but for `hipMemset`, whose elements are bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.hip.allocations import Place
from forebay.hip.compiled import copies as compiled
from forebay.hip.copies import rows_of
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t
from forebay.hip.memory import size_of
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.memory.shapes import whole_number


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


@compiled.hipMemset
@api()
def hipMemset(dst: Any, value: int, sizeBytes: int) -> None:
    """Set bytes to the low byte of `value`, on the null stream; ``(hipError_t,)``.

    `sizeBytes` bytes from `dst` on.

    Does not block for memory of the device, and blocks until it is done for memory that the host can read, as HIP's.
    hipErrorInvalidValue for memory that is not from here, or more bytes than there are, hipErrorNotSupported for memory
    of the host that the device cannot map.
    """
    _set(dst, value, sizeBytes, "u1", None, True)


@compiled.hipMemsetAsync
@api()
def hipMemsetAsync(dst: Any, value: int, sizeBytes: int, stream: Any = None) -> None:
    """Set bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset`.

    `dst`, `value` and `sizeBytes` as there; `stream` is a stream, None or 0. Does not block.
    """
    _set(dst, value, sizeBytes, "u1", stream, False)


@api()
def hipMemsetD8(dest: Any, value: int, count: int) -> None:
    """Set bytes, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `count` bytes from `dest` on, to the low 8 bits of `value`. Blocks only where `hipMemset` does.
    """
    _set(dest, value, count, "u1", None, True)


@api()
def hipMemsetD8Async(dest: Any, value: int, count: int, stream: Any = None) -> None:
    """Set bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset`.

    `count` bytes from `dest` on, to the low 8 bits of `value`; `stream` is a stream, None or 0. Does not block.
    """
    _set(dest, value, count, "u1", stream, False)


@api()
def hipMemsetD16(dest: Any, value: int, count: int) -> None:
    """Set words of 16 bits, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `count` words from `dest` on, to the low 16 bits of `value`. Blocks only where `hipMemset` does.
    """
    _set(dest, value, count, "u2", None, True)


@api()
def hipMemsetD16Async(dest: Any, value: int, count: int, stream: Any = None) -> None:
    """Set words of 16 bits in the order of the stream; ``(hipError_t,)``. See `hipMemset`.

    `count` words from `dest` on, to the low 16 bits of `value`; `stream` is a stream, None or 0. Does not block.
    """
    _set(dest, value, count, "u2", stream, False)


@api()
def hipMemsetD32(dest: Any, value: int, count: int) -> None:
    """Set words of 32 bits, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `count` words from `dest` on, to the low 32 bits of `value`. Blocks only where `hipMemset` does.
    """
    _set(dest, value, count, "u4", None, True)


@api()
def hipMemsetD32Async(dst: Any, value: int, count: int, stream: Any = None) -> None:
    """Set words of 32 bits in the order of the stream; ``(hipError_t,)``. See `hipMemset`.

    `count` words from `dst` on, to the low 32 bits of `value`; `stream` is a stream, None or 0. Does not block.
    """
    _set(dst, value, count, "u4", stream, False)


def set_rows(
    dst: Any, pitches: tuple[int, int], value: Any, extent: tuple[Any, Any, Any], dtype: str, stream: Any, blocks: bool
) -> None:
    """Set planes of rows of elements; the pitches are those of rows and planes in bytes, the extent's width elements.

    One command for each row, or one for all that have no gaps between them.

    Raises
    ------
    HipError
        hipErrorInvalidValue when rows or planes overlap, and as for `hipMemset`.
    """
    element = np.dtype(dtype)
    columns, height, depth = map(size_of, extent)
    width = columns * element.itemsize
    queue = queue_of(stream)
    if 0 in (width, height, depth):
        return
    if (height > 1 or depth > 1) and (width > pitches[0] or pitches[0] % element.itemsize):
        raise HipError(
            hipError_t.hipErrorInvalidValue,
            f"rows of {columns} elements of {element.itemsize} bytes, {pitches[0]} bytes apart",
        )
    if depth > 1 and pitches[1] < pitches[0] * height:
        raise HipError(hipError_t.hipErrorInvalidValue, f"planes of {height} rows, {pitches[1]} bytes apart")
    place = Place(dst, (depth - 1) * pitches[1] + (height - 1) * pitches[0] + width, "dst")
    buffer = place.for_device()
    if blocks:
        refuse_synchronous("a synchronous memset")
    pattern = whole_number(value) & ((1 << 8 * element.itemsize) - 1)
    for at, _, nbytes in rows_of(width, height, depth, pitches, pitches):
        queue.fill(buffer[at : at + nbytes].view(element), pattern)
    if blocks and place.in_host_memory:
        queue.finish()


def _set_2d(dst: Any, pitch: Any, value: Any, width: Any, height: Any, stream: Any, blocks: bool) -> None:
    gap = size_of(pitch)
    if size_of(width) > gap:
        raise HipError(hipError_t.hipErrorInvalidValue, f"rows of {width} bytes, {gap} apart")
    set_rows(dst, (gap, 0), value, (width, height, 1), "u1", stream, blocks)


@api()
def hipMemset2D(dst: Any, pitch: int, value: int, width: int, height: int) -> None:
    """Set `height` rows of `width` bytes, `pitch` apart, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `dst` is where the first row begins; the low byte of `value` counts. hipErrorInvalidValue for a pitch below the
    width. Blocks only where `hipMemset` does.
    """
    _set_2d(dst, pitch, value, width, height, None, True)


@api()
def hipMemset2DAsync(dst: Any, pitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set rows in the order of the stream; ``(hipError_t,)``. See `hipMemset2D`.

    `dst`, `pitch`, `value`, `width` and `height` as there; `stream` is a stream, None or 0. Does not block.
    """
    _set_2d(dst, pitch, value, width, height, stream, False)


@api()
def hipMemsetD2D8(dst: Any, dstPitch: int, value: int, width: int, height: int) -> None:
    """Set `height` rows of `width` bytes on the null stream; ``(hipError_t,)``. See `hipMemset2D`.

    From `dst` on, `dstPitch` bytes from a row to the next; the low 8 bits of `value` count. Blocks only where
    `hipMemset` does.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u1", None, True)


@api()
def hipMemsetD2D8Async(dst: Any, dstPitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set `height` rows of `width` bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset2D`.

    `dst`, `dstPitch`, `value`, `width` and `height` as for `hipMemsetD2D8`; `stream` is a stream, None or 0. Does not
    block.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u1", stream, False)


@api()
def hipMemsetD2D16(dst: Any, dstPitch: int, value: int, width: int, height: int) -> None:
    """Set `height` rows of `width` words of 16 bits on the null stream; ``(hipError_t,)``. See `hipMemset2D`.

    From `dst` on, `dstPitch` bytes from a row to the next; the low 16 bits of `value` count. Blocks only where
    `hipMemset` does.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u2", None, True)


@api()
def hipMemsetD2D16Async(dst: Any, dstPitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set rows of words of 16 bits in the order of the stream; ``(hipError_t,)``. See `hipMemsetD2D16`.

    `dst`, `dstPitch`, `value`, `width` and `height` as for `hipMemsetD2D16`; `stream` is a stream, None or 0. Does not
    block.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u2", stream, False)


@api()
def hipMemsetD2D32(dst: Any, dstPitch: int, value: int, width: int, height: int) -> None:
    """Set `height` rows of `width` words of 32 bits on the null stream; ``(hipError_t,)``. See `hipMemset2D`.

    From `dst` on, `dstPitch` bytes from a row to the next; the low 32 bits of `value` count. Blocks only where
    `hipMemset` does.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u4", None, True)


@api()
def hipMemsetD2D32Async(dst: Any, dstPitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set rows of words of 32 bits in the order of the stream; ``(hipError_t,)``. See `hipMemsetD2D32`.

    `dst`, `dstPitch`, `value`, `width` and `height` as for `hipMemsetD2D32`; `stream` is a stream, None or 0. Does not
    block.
    """
    set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), "u4", stream, False)
