"""Copies. Sizes are in bytes, and checked where something knows better; a NumPy array cannot be overrun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forebay.core.errors import InvalidArgumentError
from forebay.core.process import refuse_on_host_thread
from forebay.hip.allocations import Place
from forebay.hip.compiled import copies as compiled
from forebay.hip.devices import device_number, device_of, number_of
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t, hipMemcpyKind
from forebay.hip.memory import size_of
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue

Kind = hipMemcpyKind
# Which of destination and source have to be memory of the device.
DEVICE_SIDES = {
    Kind.hipMemcpyHostToHost: (False, False),
    Kind.hipMemcpyHostToDevice: (True, False),
    Kind.hipMemcpyDeviceToHost: (False, True),
    Kind.hipMemcpyDeviceToDevice: (True, True),
    Kind.hipMemcpyDeviceToDeviceNoCU: (True, True),
    Kind.hipMemcpyDefault: (False, False),
}


def check_kind(kind: Any) -> tuple[bool, bool]:
    """Return whether destination and source have to be the device's; hipErrorInvalidMemcpyDirection for no kind."""
    try:
        return DEVICE_SIDES[Kind(kind)]
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidMemcpyDirection, f"no kind of copy: {kind!r}") from None


def places(dst: Any, src: Any, nbytes: int, kind: Any) -> tuple[Place, Place]:
    """Return where a copy of this many bytes goes, and where it comes from.

    Raises
    ------
    HipError
        hipErrorInvalidValue when memory is not what `kind` says, or there is less; hipErrorInvalidMemcpyDirection.
    """
    to_device, from_device = check_kind(kind)
    if dst is None or src is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "a copy to or from a null pointer")
    try:
        to, source = Place(dst, nbytes, "dst"), Place(src, nbytes, "src")
    except InvalidArgumentError as error:
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error
    if nbytes and ((to_device and to.buffer is None) or (from_device and source.buffer is None)):
        side = "dst" if to_device and to.buffer is None else "src"
        raise HipError(
            hipError_t.hipErrorInvalidValue, f"{side} is not memory of a device, as {Kind(kind).name} requires"
        )
    if to.buffer is None and isinstance(to.host, np.ndarray) and not to.host.flags.writeable:
        raise HipError(hipError_t.hipErrorInvalidValue, "dst cannot be written to")
    return to, source


def rows_of(
    width: int, height: int, depth: int, to: tuple[int, int], source: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Return rows as `enqueue` takes them, those without gaps between them as one.

    Parameters
    ----------
    to, source : (int, int)
        Bytes from one row to the next, and from one plane to the next.
    """
    if to[0] == source[0] == width:
        width, height = width * height, 1
        if height == 1 and to[1] == source[1] == width:
            width, depth = width * depth, 1
    return [(z * to[1] + y * to[0], z * source[1] + y * source[0], width) for z in range(depth) for y in range(height)]


class CopyOnHost:
    """Rows between two places in memory of the host, which is no command of a queue."""

    def __init__(self, to: Place, source: Place, spans: Sequence[tuple[int, int, int]]) -> None:
        self._to, self._source, self._spans = to, source, spans

    def __call__(self) -> None:
        """Copy them now."""
        to, source = self._to.bytes(), self._source.bytes()
        for at, of, nbytes in self._spans:
            to[at : at + nbytes] = source[of : of + nbytes]


def _on_host(queue: Queue, copy: CopyOnHost) -> None:
    """Everything before is done, and the bytes are copied here and now; in a capture, by the host thread each time."""
    if queue.capturing:
        queue.host(copy)
    else:
        queue.finish()
        copy()


def parts_of(to: Place, source: Place, spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[Any, Any]]:
    """Yield the two ends of each row, as `Queue.copy` takes them: whole places where one row is all there is."""
    if spans == [(0, 0, nbytes := spans[0][2])] and to.nbytes == source.nbytes == nbytes:
        yield to.end, source.end
        return
    ends: list[Any] = [place.end if place.buffer is not None else place.bytes() for place in (to, source)]
    for at, of, nbytes in spans:
        yield ends[0][at : at + nbytes], ends[1][of : of + nbytes]


def enqueue(
    queue: Queue,
    to: Place,
    source: Place,
    spans: Sequence[tuple[int, int, int]] | None = None,
    will_finish: bool = False,
) -> None:
    """Submit a copy; from the memory of another device in the order of the queue as well.

    With pageable memory at either end, the host may read the result when this returns (HIP, hipMemcpyAsync). What a
    captured queue copies is there when the graph has run.

    Parameters
    ----------
    spans : sequence of (int, int, int), optional
        Rows: where each begins in either place, and its bytes. All of both places, in one.
    will_finish : bool
        Whether the caller waits for the queue.
    """
    device = queue.device
    waits = not will_finish and to.in_host_memory and (to.is_pageable(device) or source.is_pageable(device))
    if waits and not queue.capturing:
        refuse_on_host_thread("A copy to pageable memory")
        _submit(queue, to, source, spans)
        queue.record().wait()  # not `finish`, which would also disturb the captures of other queues
    else:
        _submit(queue, to, source, spans)


def _submit(queue: Queue, to: Place, source: Place, spans: Sequence[tuple[int, int, int]] | None) -> None:
    if spans is None:
        spans = [(0, 0, to.nbytes)]
    if to.buffer is None and source.buffer is None:
        _on_host(queue, CopyOnHost(to, source, spans))
        return
    if all(place.buffer is None or place.buffer.device._context is queue.device._context for place in (to, source)):
        for at, of in parts_of(to, source, spans):
            queue.copy(at, of)
        return
    other = _peer(to.buffer if to.buffer is not None else source.buffer)
    if source.buffer is not None and source.buffer.device._context is not other.device._context:
        source.buffer.device.null_queue.wait(queue)
    other.wait(queue)
    for at, of in parts_of(to, source, spans):
        other.copy(at, of)
    queue.wait(other)


def _peer(buffer: Buffer | None) -> Queue:
    assert buffer is not None
    return buffer.device.null_queue


def _copy(dst: Any, src: Any, size: Any, kind: Any, stream: Any, blocks: bool) -> None:
    nbytes = size_of(size)
    queue = queue_of(stream)
    if nbytes == 0:
        check_kind(kind)
        return
    to, source = places(dst, src, nbytes, kind)
    if blocks:
        refuse_synchronous("a synchronous copy")
    enqueue(queue, to, source, will_finish=blocks)
    # hipMemcpy between memory of devices returns at once (HIP): what comes after it on the null stream is ordered
    if blocks and (to.in_host_memory or source.in_host_memory):
        queue.finish()


@compiled.hipMemcpy
@api()
def hipMemcpy(dst: Any, src: Any, sizeBytes: int, kind: int) -> None:
    """Copy on the null stream; ``(hipError_t,)``. Blocks until it is done, unless both are memory of devices.

    `sizeBytes` bytes from `src` to `dst`.

    Parameters
    ----------
    dst, src : object
        Pointer objects, addresses, or for memory of the host anything with the buffer protocol: `array.array`, NumPy
        arrays, ctypes arrays, bytes.
    kind : hipMemcpyKind
        What it calls a device has to be memory that was allocated here. hipMemcpyDefault finds out.

    hipErrorInvalidValue for null pointers, and for more bytes than there are; hipErrorInvalidMemcpyDirection for
    another kind.
    """
    _copy(dst, src, sizeBytes, kind, None, True)


@compiled.hipMemcpyAsync
@api()
def hipMemcpyAsync(dst: Any, src: Any, sizeBytes: int, kind: int, stream: Any = None) -> None:
    """Copy in the order of the stream, otherwise as `hipMemcpy` does; ``(hipError_t,)``.

    `dst`, `src`, `sizeBytes` and `kind` as for `hipMemcpy`. `stream` is a stream, None or 0.

    Does not wait for a copy between memory of the device and pinned memory: of `hipHostMalloc`, `hipMallocManaged` and
    `hipHostRegister`. With any other memory of the host, which is pageable, the source may be reused and memory of the
    host holds the result when this returns. So a copy to pageable memory blocks until it is done; in a callback it gets
    hipErrorNotSupported. In a capture it does not block, and host memory is read and written when the graph runs.
    """
    _copy(dst, src, sizeBytes, kind, stream, False)


@api()
def hipMemcpyWithStream(dst: Any, src: Any, sizeBytes: int, kind: int, stream: Any) -> None:
    """Copy in the order of the stream, and block until it is done; ``(hipError_t,)``. See `hipMemcpy`.

    `dst`, `src`, `sizeBytes` and `kind` as for `hipMemcpy`.
    """
    _copy(dst, src, sizeBytes, kind, stream, False)
    queue_of(stream).finish()


@api()
def hipMemcpyHtoD(dst: Any, src: Any, sizeBytes: int) -> None:
    """Copy from the host to the device on the null stream; ``(hipError_t,)``. Blocks. See `hipMemcpy`.

    `sizeBytes` bytes from `src` to `dst`.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyHostToDevice, None, True)


@api()
def hipMemcpyDtoH(dst: Any, src: Any, sizeBytes: int) -> None:
    """Copy from the device to the host on the null stream; ``(hipError_t,)``. Blocks. See `hipMemcpy`.

    `sizeBytes` bytes from `src` to `dst`.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyDeviceToHost, None, True)


@api()
def hipMemcpyDtoD(dst: Any, src: Any, sizeBytes: int) -> None:
    """Copy within the device on the null stream; ``(hipError_t,)``. Does not block. See `hipMemcpy`.

    `sizeBytes` bytes from `src` to `dst`.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyDeviceToDevice, None, True)


@api()
def hipMemcpyHtoDAsync(dst: Any, src: Any, sizeBytes: int, stream: Any = None) -> None:
    """Copy from the host to the device in the order of the stream; ``(hipError_t,)``. See `hipMemcpyAsync`.

    `sizeBytes` bytes from `src` to `dst`; `stream` is a stream, None or 0. Blocks only where `hipMemcpyAsync` does.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyHostToDevice, stream, False)


@api()
def hipMemcpyDtoHAsync(dst: Any, src: Any, sizeBytes: int, stream: Any = None) -> None:
    """Copy from the device to the host in the order of the stream; ``(hipError_t,)``. See `hipMemcpyAsync`.

    `sizeBytes` bytes from `src` to `dst`; `stream` is a stream, None or 0. Blocks only where `hipMemcpyAsync` does.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyDeviceToHost, stream, False)


@api()
def hipMemcpyDtoDAsync(dst: Any, src: Any, sizeBytes: int, stream: Any = None) -> None:
    """Copy within the device in the order of the stream; ``(hipError_t,)``. See `hipMemcpyAsync`.

    `sizeBytes` bytes from `src` to `dst`; `stream` is a stream, None or 0. Does not block.
    """
    _copy(dst, src, sizeBytes, Kind.hipMemcpyDeviceToDevice, stream, False)


def _copy_peer(dst: Any, to: Any, src: Any, source: Any, size: Any, stream: Any) -> None:
    for number in (to, source):
        device_of(device_number(number))
    nbytes = size_of(size)
    queue = queue_of(stream)
    if nbytes == 0:
        return
    both = places(dst, src, nbytes, Kind.hipMemcpyDeviceToDevice)
    for place, number in zip(both, (to, source), strict=True):
        if place.buffer is None or number_of(place.buffer.device) != number:
            raise HipError(hipError_t.hipErrorInvalidValue, f"this memory is not device {number}'s")
    enqueue(queue, *both)


@api()
def hipMemcpyPeer(dst: Any, dstDeviceId: int, src: Any, srcDeviceId: int, sizeBytes: int) -> None:
    """Copy from one device's memory to another's, through the host if they have no link; ``(hipError_t,)``.

    `sizeBytes` bytes from `src` on device `srcDeviceId` to `dst` on device `dstDeviceId`. Does not block.
    hipErrorInvalidValue for memory of another device.

    On the null stream of the current device. hipErrorInvalidDevice for an unknown device.
    """
    refuse_synchronous("hipMemcpyPeer")
    _copy_peer(dst, dstDeviceId, src, srcDeviceId, sizeBytes, None)


@api()
def hipMemcpyPeerAsync(
    dst: Any, dstDeviceId: int, src: Any, srcDevice: int, sizeBytes: int, stream: Any = None
) -> None:
    """Copy from one device's memory to another's in the order of the stream; ``(hipError_t,)``. See `hipMemcpyPeer`.

    `sizeBytes` bytes from `src` on device `srcDevice` to `dst` on device `dstDeviceId`; `stream` is a stream, None or
    0. Does not block.
    """
    _copy_peer(dst, dstDeviceId, src, srcDevice, sizeBytes, stream)


def _copy_2d(dst: Any, dpitch: Any, src: Any, spitch: Any, width: Any, height: Any, kind: Any, stream: Any) -> Queue:
    to_pitch, source_pitch, columns, rows = map(size_of, (dpitch, spitch, width, height))
    queue = queue_of(stream)
    check_kind(kind)
    if columns > min(to_pitch, source_pitch):
        raise HipError(
            hipError_t.hipErrorInvalidPitchValue, f"rows of {columns} bytes, {min(to_pitch, source_pitch)} apart"
        )
    if columns == 0 or rows == 0:
        return queue
    extents = [(rows - 1) * pitch + columns for pitch in (to_pitch, source_pitch)]
    places(dst, src, columns, kind)
    spans = rows_of(columns, rows, 1, (to_pitch, 0), (source_pitch, 0))
    enqueue(queue, Place(dst, extents[0], "dst"), Place(src, extents[1], "src"), spans)
    return queue


@api()
def hipMemcpy2D(dst: Any, dpitch: int, src: Any, spitch: int, width: int, height: int, kind: int) -> None:
    """Copy `height` rows of `width` bytes, the pitches apart; ``(hipError_t,)``. Blocks, see `hipMemcpy`.

    `dst`, `src` and `kind` as for `hipMemcpy`; `dpitch` and `spitch` are the bytes from a row to the next.

    One command for each row, or one for all when neither side has gaps. hipErrorInvalidPitchValue for a pitch below
    the width.
    """
    refuse_synchronous("hipMemcpy2D")
    _copy_2d(dst, dpitch, src, spitch, width, height, kind, None).finish()


@api()
def hipMemcpy2DAsync(
    dst: Any, dpitch: int, src: Any, spitch: int, width: int, height: int, kind: int, stream: Any = None
) -> None:
    """Copy rows in the order of the stream; ``(hipError_t,)``. See `hipMemcpy2D` and `hipMemcpyAsync`.

    `dst`, `dpitch`, `src`, `spitch`, `width`, `height` and `kind` as there; `stream` is a stream, None or 0. Blocks
    only where `hipMemcpyAsync` does.
    """
    _copy_2d(dst, dpitch, src, spitch, width, height, kind, stream)
