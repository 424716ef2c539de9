"""Copies to and from arrays. Widths and offsets are in bytes and rows, unless HIP says otherwise."""

from __future__ import annotations

from typing import Any

from forebay.hip.arrays import array_of, hipArray
from forebay.hip.copies import check_kind, enqueue
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    hipError_t,
    hipExtent,
    hipMemcpy3DParms,
    hipMemcpyKind,
    hipPitchedPtr,
    hipPos,
)
from forebay.hip.memory import size_of
from forebay.hip.streams import hipStreamPerThread, queue_of
from forebay.hip.transfers_volumes import Box
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.queue import Queue

Kind = hipMemcpyKind


def _side(array: hipArray, x: Any, y: Any, width: int, height: int) -> tuple[hipPitchedPtr, hipPos]:
    """One end of a copy: the array, and where in it."""
    at = size_of(x), size_of(y), 0
    array.check_part(at, (width, height, 1))
    return hipPitchedPtr(array.pointer(), array.row, array.row, array.rows), hipPos(*at)


def _memory(pointer: Any, pitch: Any, height: int) -> tuple[hipPitchedPtr, hipPos]:
    return hipPitchedPtr(pointer, size_of(pitch), size_of(pitch), height), hipPos()


def _copy(
    dst: tuple[hipPitchedPtr, hipPos],
    src: tuple[hipPitchedPtr, hipPos],
    width: int,
    height: int,
    kind: Any,
    queue: Queue,
) -> Queue:
    extent = hipExtent(width, height, 1)
    box = Box(hipMemcpy3DParms(None, src[1], src[0], None, dst[1], dst[0], extent, kind))
    if not box.is_empty:
        enqueue(queue, *box.places(), box.spans)
    return queue


def _check_pitch(pitch: Any, width: int) -> None:
    if size_of(pitch) < width:
        raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {width} bytes, {pitch} apart")


def _to(dst: Any, x: Any, y: Any, src: Any, pitch: Any, width: Any, height: Any, kind: Any, stream: Any) -> Queue:
    columns, rows, queue = size_of(width), size_of(height), queue_of(stream)
    check_kind(kind)
    array = array_of(dst)
    _check_pitch(pitch, columns)
    return _copy(_side(array, x, y, columns, rows), _memory(src, pitch, rows), columns, rows, kind, queue)


def _from(dst: Any, pitch: Any, src: Any, x: Any, y: Any, width: Any, height: Any, kind: Any, stream: Any) -> Queue:
    columns, rows, queue = size_of(width), size_of(height), queue_of(stream)
    check_kind(kind)
    array = array_of(src)
    _check_pitch(pitch, columns)
    return _copy(_memory(dst, pitch, rows), _side(array, x, y, columns, rows), columns, rows, kind, queue)


@api()
def hipMemcpy2DToArray(
    dst: Any, wOffset: int, hOffset: int, src: Any, spitch: int, width: int, height: int, kind: int
) -> None:
    """Copy `height` rows of `width` bytes, `spitch` apart, into an array; ``(hipError_t,)``. Blocks.

    `src` and `kind` as for `hipMemcpy`.

    Parameters
    ----------
    dst : hipArray
    wOffset, hOffset : int
        Bytes into a row of the array, and rows.

    hipErrorInvalidHandle for a null array, hipErrorContextIsDestroyed for one that was freed, hipErrorInvalidPitchValue
    for a pitch below the width, hipErrorInvalidValue for rows that are not all in the array; otherwise as
    `hipMemcpy2D`.
    """
    refuse_synchronous("hipMemcpy2DToArray")
    _to(dst, wOffset, hOffset, src, spitch, width, height, kind, None).finish()


@api()
def hipMemcpy2DToArrayAsync(
    dst: Any, wOffset: int, hOffset: int, src: Any, spitch: int, width: int, height: int, kind: int, stream: Any = None
) -> None:
    """Copy rows into an array in the order of the stream; ``(hipError_t,)``. See `hipMemcpy2DToArray`.

    `dst`, `wOffset`, `hOffset`, `src`, `spitch`, `width`, `height` and `kind` as there; `stream` is a stream, None or
    0. Blocks only where `hipMemcpyAsync` does.
    """
    _to(dst, wOffset, hOffset, src, spitch, width, height, kind, stream)


@api()
def hipMemcpy2DFromArray(
    dst: Any, dpitch: int, src: Any, wOffset: int, hOffset: int, width: int, height: int, kind: int
) -> None:
    """Copy rows from an array; ``(hipError_t,)``. Blocks. See `hipMemcpy2DToArray`.

    `height` rows of `width` bytes, from `wOffset` bytes and `hOffset` rows into `src` to `dst`, there `dpitch` bytes
    apart. `kind` as for `hipMemcpy`.
    """
    refuse_synchronous("hipMemcpy2DFromArray")
    _from(dst, dpitch, src, wOffset, hOffset, width, height, kind, None).finish()


@api()
def hipMemcpy2DFromArrayAsync(
    dst: Any, dpitch: int, src: Any, wOffset: int, hOffset: int, width: int, height: int, kind: int, stream: Any = None
) -> None:
    """Copy rows from an array in the order of the stream; ``(hipError_t,)``. See `hipMemcpy2DToArray`.

    `dst`, `dpitch`, `src`, `wOffset`, `hOffset`, `width`, `height` and `kind` as for `hipMemcpy2DFromArray`; `stream`
    is a stream, None or 0. Blocks only where `hipMemcpyAsync` does.
    """
    _from(dst, dpitch, src, wOffset, hOffset, width, height, kind, stream)


@api()
def hipMemcpy2DArrayToArray(
    dst: Any, wOffsetDst: int, hOffsetDst: int, src: Any, wOffsetSrc: int, hOffsetSrc: int, width: int, height: int,
    kind: int = Kind.hipMemcpyDeviceToDevice,
) -> None:  # fmt: skip
    """Copy rows from one array to another; ``(hipError_t,)``. Blocks. See `hipMemcpy2DToArray`.

    `height` rows of `width` bytes, from `wOffsetSrc` bytes and `hOffsetSrc` rows into `src` to `wOffsetDst` bytes and
    `hOffsetDst` rows into `dst`. `kind` is DeviceToDevice or Default.
    """
    refuse_synchronous("hipMemcpy2DArrayToArray")
    columns, rows = size_of(width), size_of(height)
    to = _side(array_of(dst), wOffsetDst, hOffsetDst, columns, rows)
    source = _side(array_of(src), wOffsetSrc, hOffsetSrc, columns, rows)
    _copy(to, source, columns, rows, kind, queue_of(None)).finish()


def _linear(array: hipArray, x: Any, y: Any, nbytes: int) -> tuple[hipPitchedPtr, hipPos]:
    """One end of a copy of bytes that go on in the next row."""
    begin = size_of(y) * array.row + size_of(x)
    if begin + nbytes > array.row * array.rows:
        raise HipError(
            hipError_t.hipErrorInvalidValue,
            f"{nbytes} bytes from byte {begin} on: the array has {array.row * array.rows}",
        )
    return hipPitchedPtr(array.pointer() + begin, nbytes, nbytes, 1), hipPos()


def _copy_bytes(dst: Any, src: Any, nbytes: int, kind: Any, stream: Any) -> Queue:
    return _copy(dst, src, nbytes, 1, kind, queue_of(stream))


@api()
def hipMemcpyToArray(dst: Any, wOffset: int, hOffset: int, src: Any, count: int, kind: int) -> None:
    """Copy bytes into an array, from a byte of a row on and into the rows after it; ``(hipError_t,)``. Blocks.

    `count` bytes from `src`, to `wOffset` bytes and `hOffset` rows into `dst`; `kind` as for `hipMemcpy`.

    Errors as `hipMemcpy2DToArray`.
    """
    refuse_synchronous("hipMemcpyToArray")
    nbytes = size_of(count)
    to = _linear(array_of(dst), wOffset, hOffset, nbytes)
    _copy_bytes(to, _memory(src, nbytes, 1), nbytes, kind, None).finish()


def _from_array(dst: Any, srcArray: Any, wOffset: Any, hOffset: Any, count: Any, kind: Any, stream: Any) -> None:
    refuse_synchronous("hipMemcpyFromArray")
    nbytes = size_of(count)
    source = _linear(array_of(srcArray), wOffset, hOffset, nbytes)
    _copy_bytes(_memory(dst, nbytes, 1), source, nbytes, kind, stream).finish()


@api()
def hipMemcpyFromArray(dst: Any, srcArray: Any, wOffset: int, hOffset: int, count: int, kind: int) -> None:
    """Copy bytes from an array; ``(hipError_t,)``. Blocks. See `hipMemcpyToArray`.

    `count` bytes to `dst`, from `wOffset` bytes and `hOffset` rows into `srcArray`; `kind` as for `hipMemcpy`.
    """
    _from_array(dst, srcArray, wOffset, hOffset, count, kind, None)


@api()
def hipMemcpyFromArray_spt(dst: Any, src: Any, wOffsetSrc: int, hOffset: int, count: int, kind: int) -> None:
    """Do what `hipMemcpyFromArray` does, with `hipStreamPerThread` for the null stream. Blocks until it is done.

    `count` bytes to `dst`, from `wOffsetSrc` bytes and `hOffset` rows into `src`; `kind` as for `hipMemcpy`.
    """
    _from_array(dst, src, wOffsetSrc, hOffset, count, kind, hipStreamPerThread)


@api()
def hipMemcpyHtoA(dstArray: Any, dstOffset: int, srcHost: Any, count: int) -> None:
    """Copy bytes from the host into an array, from a byte of it on; ``(hipError_t,)``. Blocks.

    `count` bytes from `srcHost`, to `dstOffset` bytes into `dstArray`. Errors as for `hipMemcpyToArray`.
    """
    refuse_synchronous("hipMemcpyHtoA")
    nbytes = size_of(count)
    to = _linear(array_of(dstArray), dstOffset, 0, nbytes)
    _copy_bytes(to, _memory(srcHost, nbytes, 1), nbytes, Kind.hipMemcpyHostToDevice, None).finish()


@api()
def hipMemcpyHtoAAsync(dstArray: Any, dstOffset: int, srcHost: Any, ByteCount: int, stream: Any = None) -> None:
    """Copy bytes from the host into an array in the order of the stream; ``(hipError_t,)``.

    `ByteCount` bytes from `srcHost`, to `dstOffset` bytes into `dstArray`; `stream` is a stream, None or 0. Errors as
    for `hipMemcpyToArray`. Blocks only where `hipMemcpyAsync` does.
    """
    nbytes = size_of(ByteCount)
    to = _linear(array_of(dstArray), dstOffset, 0, nbytes)
    _copy_bytes(to, _memory(srcHost, nbytes, 1), nbytes, Kind.hipMemcpyHostToDevice, stream)


@api()
def hipMemcpyAtoH(dst: Any, srcArray: Any, srcOffset: int, count: int) -> None:
    """Copy bytes from an array, from a byte of it on, to the host; ``(hipError_t,)``. Blocks.

    `count` bytes, from `srcOffset` bytes into `srcArray` to `dst`. Errors as for `hipMemcpyToArray`.
    """
    refuse_synchronous("hipMemcpyAtoH")
    nbytes = size_of(count)
    source = _linear(array_of(srcArray), srcOffset, 0, nbytes)
    _copy_bytes(_memory(dst, nbytes, 1), source, nbytes, Kind.hipMemcpyDeviceToHost, None).finish()


@api()
def hipMemcpyAtoHAsync(dstHost: Any, srcArray: Any, srcOffset: int, ByteCount: int, stream: Any = None) -> None:
    """Copy bytes from an array to the host in the order of the stream; ``(hipError_t,)``.

    `ByteCount` bytes, from `srcOffset` bytes into `srcArray` to `dstHost`; `stream` is a stream, None or 0. Errors as
    for `hipMemcpyToArray`. Blocks only where `hipMemcpyAsync` does.
    """
    nbytes = size_of(ByteCount)
    source = _linear(array_of(srcArray), srcOffset, 0, nbytes)
    _copy_bytes(_memory(dstHost, nbytes, 1), source, nbytes, Kind.hipMemcpyDeviceToHost, stream)


@api()
def hipMemcpyAtoD(dstDevice: Any, srcArray: Any, srcOffset: int, ByteCount: int) -> None:
    """Copy bytes from an array, from a byte of it on, to memory of the device; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes, from `srcOffset` bytes into `srcArray` to `dstDevice`. Errors as for `hipMemcpyToArray`.
    """
    refuse_synchronous("hipMemcpyAtoD")
    nbytes = size_of(ByteCount)
    source = _linear(array_of(srcArray), srcOffset, 0, nbytes)
    _copy_bytes(_memory(dstDevice, nbytes, 1), source, nbytes, Kind.hipMemcpyDeviceToDevice, None).finish()


@api()
def hipMemcpyDtoA(dstArray: Any, dstOffset: int, srcDevice: Any, ByteCount: int) -> None:
    """Copy bytes from memory of the device into an array, from a byte of it on; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes from `srcDevice`, to `dstOffset` bytes into `dstArray`. Errors as for `hipMemcpyToArray`.
    """
    refuse_synchronous("hipMemcpyDtoA")
    nbytes = size_of(ByteCount)
    to = _linear(array_of(dstArray), dstOffset, 0, nbytes)
    _copy_bytes(to, _memory(srcDevice, nbytes, 1), nbytes, Kind.hipMemcpyDeviceToDevice, None).finish()


@api()
def hipMemcpyAtoA(dstArray: Any, dstOffset: int, srcArray: Any, srcOffset: int, ByteCount: int) -> None:
    """Copy bytes from one array to another, from a byte of each on; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes, from `srcOffset` bytes into `srcArray` to `dstOffset` bytes into `dstArray`. Errors as for
    `hipMemcpyToArray`.
    """
    refuse_synchronous("hipMemcpyAtoA")
    nbytes = size_of(ByteCount)
    to = _linear(array_of(dstArray), dstOffset, 0, nbytes)
    source = _linear(array_of(srcArray), srcOffset, 0, nbytes)
    _copy_bytes(to, source, nbytes, Kind.hipMemcpyDeviceToDevice, None).finish()
