"""Copies and memsets, of bytes, of rows and planes, of arrays and of the variables of modules.

Sizes are in bytes, and checked where something knows better; a NumPy array cannot be overrun. Those of memsets are in
elements but for `hipMemset`, whose elements are bytes, and those of arrays in bytes and rows, unless HIP says
otherwise.

In C++ a symbol is the variable itself, which the compiler has registered. A Python program has compiled its kernels at
run time, so it has no such symbols: it gets a pointer from `hipModuleGetGlobal`, and gives that as the symbol.
"""

from __future__ import annotations

import ctypes
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forebay.core.process import refuse_on_host_thread
from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation, Place
from forebay.hip.compiled import commands
from forebay.hip.compiled.calls import Address
from forebay.hip.devices import device_number, device_of, number_of
from forebay.hip.errors import (
    HipError,
    HipFunction,
    api,
    check_params,
    define,
    enumerator,
    invalid,
    listed,
    made,
    named,
    size_of,
)
from forebay.hip.facts import (
    Record,
    hipError_t,
    hipExtent,
    hipMemcpy3DParms,
    hipMemcpyKind,
    hipPitchedPtr,
    hipPos,
)
from forebay.hip.memory import allocate, pointer_to
from forebay.hip.pointers import DeviceArray, Pointer, address_of, host_view
from forebay.hip.streams import hipStreamPerThread, queue_of
from forebay.hip.textures import array_of, hipArray
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.memory.shapes import whole_number
from forebay.queues.queue import Queue

Kind = hipMemcpyKind
NEVER = "Does not block."
BLOCKS = object()  # in place of a stream: the null stream, and the caller waits for it where HIP says so


def begin(stream: Any, what: str) -> Queue:
    """Return the queue of a stream, or the null queue for `BLOCKS`, unless a synchronous call is refused now."""
    if stream is not BLOCKS:
        return queue_of(stream)
    refuse_synchronous(what)
    return queue_of(None)


def in_order(name: str, function: Any, blocks: str = "", **renamed: str) -> HipFunction:
    """Return HIP's function of this name, which does in the order of a stream what that without Async does."""
    given = listed(renamed.get(each, each) for each in list(inspect.signature(function).parameters)[:-1])
    does = re.sub(",? on the null stream$", "", function.__doc__.partition("; ``")[0])
    does += "," * ("," in does)
    doc = f"""{does} in the order of the stream; ``(hipError_t,)``. See `{name.removesuffix("Async")}`.

    {given} as there; `stream` is a stream, None or 0. {blocks or "Blocks only where `hipMemcpyAsync` does."}"""
    return define(name, function, doc, 0, **renamed)


def blocking(function: Any, name: str = "", waits: bool = True, on: Any = None) -> HipFunction:
    """Return HIP's function, which does on the null stream what this function does on that it ends with.

    It has the name of the function, or this one, and does it on the stream `on` if that is given. It blocks until all
    is done; without `waits`, the function decides: it gets `BLOCKS` for a stream.
    """

    def call(*args: Any) -> None:
        if not waits:
            function(*args, BLOCKS)
            return
        refuse_synchronous(name or function.__name__)
        function(*args, on)
        queue_of(on).finish()

    *parameters, _ = inspect.signature(function).parameters.values()
    return made(name or function.__name__, parameters, function.__doc__, call, like=function)


def check_kind(kind: Any) -> tuple[bool, bool]:
    """Return whether destination and source have to be the device's; hipErrorInvalidMemcpyDirection for no kind."""
    known = enumerator(Kind, kind, "no kind of copy", hipError_t.hipErrorInvalidMemcpyDirection)
    bits = Kind.hipMemcpyDeviceToDevice if known == Kind.hipMemcpyDeviceToDeviceNoCU else known
    return bool(bits & 1), bool(bits & 2)


def places(dst: Any, src: Any, nbytes: int, kind: Any) -> tuple[Place, Place]:
    """Return where a copy of this many bytes goes, and where it comes from.

    hipErrorInvalidValue when memory is not what `kind` says, or there is less; hipErrorInvalidMemcpyDirection.
    """
    to_device, from_device = check_kind(kind)
    if dst is None or src is None:
        raise invalid("a copy to or from a null pointer")
    to, source = Place(dst, nbytes, "dst"), Place(src, nbytes, "src")
    if nbytes and ((to_device and to.buffer is None) or (from_device and source.buffer is None)):
        side = "dst" if to_device and to.buffer is None else "src"
        raise invalid(f"{side} is not memory of a device, as {Kind(kind).name} requires")
    if to.buffer is None and isinstance(to.host, np.ndarray) and not to.host.flags.writeable:
        raise invalid("dst cannot be written to")
    return to, source


def rows_of(
    width: int, height: int, depth: int, to: tuple[int, int], source: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Return rows as `enqueue` takes them, those without gaps between them as one.

    `to` and `source` are the bytes from one row to the next, and from one plane to the next.
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

    With pageable memory at either end, the host may read the result when this returns (HIP, hipMemcpyAsync), unless the
    caller will finish the queue. What a captured queue copies is there when the graph has run. The spans are rows:
    where each begins in either place, and its bytes; without them it is all of both places.
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
        copy = CopyOnHost(to, source, spans)
        if queue.capturing:
            queue.host(copy)  # the host thread copies, each time
        else:
            queue.finish()
            copy()
        return
    if all(place.buffer is None or place.buffer.device._context is queue.device._context for place in (to, source)):
        for at, of in parts_of(to, source, spans):
            queue.copy(at, of)
        return
    other = next(place.buffer.device.null_queue for place in (to, source) if place.buffer is not None)
    if source.buffer is not None and source.buffer.device._context is not other.device._context:
        source.buffer.device.null_queue.wait(queue)
    other.wait(queue)
    for at, of in parts_of(to, source, spans):
        other.copy(at, of)
    queue.wait(other)


def _copy(dst: Any, src: Any, size: Any, kind: Any, stream: Any) -> None:
    blocks = stream is BLOCKS
    nbytes = size_of(size)
    queue = queue_of(None if blocks else stream)
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


@commands.ordinary
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
    _copy(dst, src, sizeBytes, kind, BLOCKS)


@commands.ordinary
@api()
def hipMemcpyAsync(dst: Any, src: Any, sizeBytes: int, kind: int, stream: Any = None) -> None:
    """Copy in the order of the stream, otherwise as `hipMemcpy` does; ``(hipError_t,)``.

    `dst`, `src`, `sizeBytes` and `kind` as for `hipMemcpy`. `stream` is a stream, None or 0.

    Does not wait for a copy between memory of the device and pinned memory: of `hipHostMalloc`, `hipMallocManaged` and
    `hipHostRegister`. With any other memory of the host, which is pageable, the source may be reused and memory of the
    host holds the result when this returns. So a copy to pageable memory blocks until it is done; in a callback it gets
    hipErrorNotSupported. In a capture it does not block, and host memory is read and written when the graph runs.
    """
    _copy(dst, src, sizeBytes, kind, stream)


@api()
def hipMemcpyWithStream(dst: Any, src: Any, sizeBytes: int, kind: int, stream: Any) -> None:
    """Copy in the order of the stream, and block until it is done; ``(hipError_t,)``. See `hipMemcpy`.

    `dst`, `src`, `sizeBytes` and `kind` as for `hipMemcpy`.
    """
    _copy(dst, src, sizeBytes, kind, stream)
    queue_of(stream).finish()


def _one_way(kind: Kind, way: str) -> Any:
    def copy(dst: Any, src: Any, sizeBytes: int, stream: Any = None) -> None:
        _copy(dst, src, sizeBytes, kind, stream)

    blocks = "Does not block." if kind == Kind.hipMemcpyDeviceToDevice else "Blocks."
    copy.__doc__ = f"""Copy {way} on the null stream; ``(hipError_t,)``. {blocks} See `hipMemcpy`.

    `sizeBytes` bytes from `src` to `dst`."""
    return copy


_htod = _one_way(Kind.hipMemcpyHostToDevice, "from the host to the device")
_dtoh = _one_way(Kind.hipMemcpyDeviceToHost, "from the device to the host")
_dtod = _one_way(Kind.hipMemcpyDeviceToDevice, "within the device")
hipMemcpyHtoD: HipFunction = blocking(_htod, "hipMemcpyHtoD", waits=False)
hipMemcpyHtoDAsync: HipFunction = in_order("hipMemcpyHtoDAsync", _htod)
hipMemcpyDtoH: HipFunction = blocking(_dtoh, "hipMemcpyDtoH", waits=False)
hipMemcpyDtoHAsync: HipFunction = in_order("hipMemcpyDtoHAsync", _dtoh)
hipMemcpyDtoD: HipFunction = blocking(_dtod, "hipMemcpyDtoD", waits=False)
hipMemcpyDtoDAsync: HipFunction = in_order("hipMemcpyDtoDAsync", _dtod, NEVER)


def _copy_peer(dst: Any, dstDeviceId: int, src: Any, srcDeviceId: int, sizeBytes: int, stream: Any = None) -> None:
    """Copy from one device's memory to another's, through the host if they have no link; ``(hipError_t,)``.

    `sizeBytes` bytes from `src` on device `srcDeviceId` to `dst` on device `dstDeviceId`. Does not block.
    hipErrorInvalidValue for memory of another device.

    On the null stream of the current device. hipErrorInvalidDevice for an unknown device.
    """
    queue, nbytes = begin(stream, "hipMemcpyPeer"), size_of(sizeBytes)
    for number in (dstDeviceId, srcDeviceId):
        device_of(device_number(number))
    if nbytes == 0:
        return
    both = places(dst, src, nbytes, Kind.hipMemcpyDeviceToDevice)
    for place, number in zip(both, (dstDeviceId, srcDeviceId), strict=True):
        if place.buffer is None or number_of(place.buffer.device) != number:
            raise invalid(f"this memory is not device {number}'s")
    enqueue(queue, *both)


hipMemcpyPeer: HipFunction = blocking(_copy_peer, "hipMemcpyPeer", waits=False)
hipMemcpyPeerAsync: HipFunction = in_order("hipMemcpyPeerAsync", _copy_peer, NEVER, srcDeviceId="srcDevice")


def _copy_2d(
    dst: Any, dpitch: int, src: Any, spitch: int, width: int, height: int, kind: int, stream: Any = None
) -> None:
    """Copy `height` rows of `width` bytes, the pitches apart; ``(hipError_t,)``. Blocks, see `hipMemcpy`.

    `dst`, `src` and `kind` as for `hipMemcpy`; `dpitch` and `spitch` are the bytes from a row to the next.

    One command for each row, or one for all when neither side has gaps. hipErrorInvalidPitchValue for a pitch below
    the width.
    """
    to_pitch, source_pitch, columns, rows = map(size_of, (dpitch, spitch, width, height))
    queue = queue_of(stream)
    check_kind(kind)
    _check_pitch(min(to_pitch, source_pitch), columns)
    if columns == 0 or rows == 0:
        return
    extents = [(rows - 1) * pitch + columns for pitch in (to_pitch, source_pitch)]
    places(dst, src, columns, kind)
    spans = rows_of(columns, rows, 1, (to_pitch, 0), (source_pitch, 0))
    enqueue(queue, Place(dst, extents[0], "dst"), Place(src, extents[1], "src"), spans)


hipMemcpy2D: HipFunction = blocking(_copy_2d, "hipMemcpy2D")
hipMemcpy2DAsync: HipFunction = in_order("hipMemcpy2DAsync", _copy_2d)


# -- memsets


def set_rows(
    dst: Any, pitches: tuple[int, int], value: Any, extent: tuple[Any, Any, Any], dtype: str, stream: Any
) -> None:
    """Set planes of rows of elements; the pitches are those of rows and planes in bytes, the extent's width elements.

    One command for each row, or one for all that have no gaps between them.

    hipErrorInvalidValue when rows or planes overlap, and as for `hipMemset`.
    """
    blocks = stream is BLOCKS
    element = np.dtype(dtype)
    columns, height, depth = map(size_of, extent)
    width = columns * element.itemsize
    pattern = whole_number(value) & ((1 << 8 * element.itemsize) - 1)
    queue = queue_of(None if blocks else stream)
    if 0 in (width, height, depth):
        return
    if (height > 1 or depth > 1) and (width > pitches[0] or pitches[0] % element.itemsize):
        raise invalid(f"rows of {columns} elements of {element.itemsize} bytes, {pitches[0]} bytes apart")
    if depth > 1 and pitches[1] < pitches[0] * height:
        raise invalid(f"planes of {height} rows, {pitches[1]} bytes apart")
    place = Place(dst, (depth - 1) * pitches[1] + (height - 1) * pitches[0] + width, "dst")
    buffer = place.for_device()
    if blocks:
        refuse_synchronous("a synchronous memset")
    for at, _, nbytes in rows_of(width, height, depth, pitches, pitches):
        part = buffer if nbytes == buffer.nbytes else buffer[at : at + nbytes]
        queue.fill(part.view(element), pattern)
    if blocks and place.in_host_memory:
        queue.finish()


@commands.ordinary
@api()
def hipMemset(dst: Any, value: int, sizeBytes: int) -> None:
    """Set bytes to the low byte of `value`, on the null stream; ``(hipError_t,)``.

    `sizeBytes` bytes from `dst` on.

    Does not block for memory of the device, and blocks until it is done for memory that the host can read, as HIP's.
    hipErrorInvalidValue for memory that is not from here, or more bytes than there are, hipErrorNotSupported for memory
    of the host that the device cannot map.
    """
    set_rows(dst, (0, 0), value, (sizeBytes, 1, 1), "u1", BLOCKS)


@commands.ordinary
@api()
def hipMemsetAsync(dst: Any, value: int, sizeBytes: int, stream: Any = None) -> None:
    """Set bytes in the order of the stream; ``(hipError_t,)``. See `hipMemset`.

    `dst`, `value` and `sizeBytes` as there; `stream` is a stream, None or 0. Does not block.
    """
    set_rows(dst, (0, 0), value, (sizeBytes, 1, 1), "u1", stream)


def _words(bits: int) -> str:
    return "bytes" if bits == 8 else f"words of {bits} bits"


def _memset(bits: int) -> Any:
    def memset(dest: Any, value: int, count: int, stream: Any = None) -> None:
        set_rows(dest, (0, 0), value, (count, 1, 1), f"u{bits // 8}", stream)

    memset.__doc__ = f"""Set {_words(bits)}, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `count` {_words(bits).split()[0]} from `dest` on, to the low {bits} bits of `value`. Blocks only where `hipMemset`
    does."""
    return memset


hipMemsetD8: HipFunction = blocking(_memset(8), "hipMemsetD8", waits=False)
hipMemsetD8Async: HipFunction = in_order("hipMemsetD8Async", _memset(8), NEVER)
hipMemsetD16: HipFunction = blocking(_memset(16), "hipMemsetD16", waits=False)
hipMemsetD16Async: HipFunction = in_order("hipMemsetD16Async", _memset(16), NEVER)
hipMemsetD32: HipFunction = blocking(_memset(32), "hipMemsetD32", waits=False)
hipMemsetD32Async: HipFunction = in_order("hipMemsetD32Async", _memset(32), NEVER, dest="dst")


def _set_2d(dst: Any, pitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
    """Set `height` rows of `width` bytes, `pitch` apart, on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `dst` is where the first row begins; the low byte of `value` counts. hipErrorInvalidValue for a pitch below the
    width. Blocks only where `hipMemset` does.
    """
    gap = size_of(pitch)
    if size_of(width) > gap:
        raise invalid(f"rows of {width} bytes, {gap} apart")
    set_rows(dst, (gap, 0), value, (width, height, 1), "u1", stream)


def _memset_of_rows(bits: int) -> Any:
    def memset(dst: Any, dstPitch: int, value: int, width: int, height: int, stream: Any = None) -> None:
        set_rows(dst, (size_of(dstPitch), 0), value, (width, height, 1), f"u{bits // 8}", stream)

    does = f"Set `height` rows of `width` {_words(bits)} on the null stream"
    memset.__doc__ = f"""{does}; ``(hipError_t,)``. See `hipMemset2D`.

    From `dst` on, `dstPitch` bytes from a row to the next; the low {bits} bits of `value` count. Blocks only where
    `hipMemset` does."""
    return memset


hipMemset2D: HipFunction = blocking(_set_2d, "hipMemset2D", waits=False)
hipMemset2DAsync: HipFunction = in_order("hipMemset2DAsync", _set_2d, NEVER)
hipMemsetD2D8: HipFunction = blocking(_memset_of_rows(8), "hipMemsetD2D8", waits=False)
hipMemsetD2D8Async: HipFunction = in_order("hipMemsetD2D8Async", _memset_of_rows(8), NEVER)
hipMemsetD2D16: HipFunction = blocking(_memset_of_rows(16), "hipMemsetD2D16", waits=False)
hipMemsetD2D16Async: HipFunction = in_order("hipMemsetD2D16Async", _memset_of_rows(16), NEVER)
hipMemsetD2D32: HipFunction = blocking(_memset_of_rows(32), "hipMemsetD2D32", waits=False)
hipMemsetD2D32Async: HipFunction = in_order("hipMemsetD2D32Async", _memset_of_rows(32), NEVER)


# -- rows and planes


PITCH = 256  # bytes; a row begins where the widest vectors of any device may begin


def _malloc_rows(width: Any, height: Any, depth: Any = 1) -> tuple[DeviceArray, int]:
    columns, rows, planes = size_of(width), size_of(height), size_of(depth)
    pitch = -(-columns // PITCH) * PITCH
    return allocate(pitch * rows * planes), pitch


@api(outputs=2)
def hipMallocPitch(width: int, height: int) -> tuple[DeviceArray, int]:
    """Allocate `height` rows of `width` bytes on the current device; ``(hipError_t, pointer, pitch)``.

    The pitch, the bytes from one row to the next, is a multiple of 256. A null pointer when there is nothing in it;
    hipErrorOutOfMemory when there is not enough.
    """
    return _malloc_rows(width, height)


@api(outputs=2)
def hipMemAllocPitch(widthInBytes: int, height: int, elementSizeBytes: int) -> tuple[DeviceArray, int]:
    """Do what `hipMallocPitch` does; hipErrorInvalidValue for no bytes, and for elements of other than 4, 8 or 16.

    `height` rows of `widthInBytes` bytes, with elements of `elementSizeBytes` bytes.
    """
    if elementSizeBytes not in (4, 8, 16) or not (size_of(widthInBytes) and size_of(height)):
        raise invalid(f"hipMemAllocPitch: {height} rows of {widthInBytes} bytes, elements of {elementSizeBytes}")
    return _malloc_rows(widthInBytes, height)


@api(outputs=1)
def hipMalloc3D(extent: Any) -> hipPitchedPtr:
    """Allocate planes of rows on the current device; ``(hipError_t, hipPitchedPtr)``. See `hipMallocPitch`.

    `extent` is a hipExtent: the width in bytes.
    """
    check_params(extent, hipExtent)
    pointer, pitch = _malloc_rows(extent.width, extent.height, extent.depth)
    return hipPitchedPtr(pointer, pitch, extent.width, extent.height)


class Box:
    """What a hipMemcpy3DParms describes. Its spans are rows: where each begins in the two places, and its bytes.

    hipErrorInvalidPitchValue for a pitch below the width; hipErrorInvalidValue for planes that overlap, null pointers,
    an array together with a pointer, rows that are not all in an array, and arrays of other elements;
    hipErrorContextIsDestroyed for an array that was freed.
    """

    def __init__(self, params: hipMemcpy3DParms) -> None:
        extent = params.extent
        self.width: int
        self.height: int
        self.depth: int
        self.width, self.height, self.depth = map(size_of, (extent.width, extent.height, extent.depth))
        self.kind: Any = params.kind
        self.spans: list[tuple[int, int, int]] = []
        sides = [self._side(params, side) for side in ("dst", "src")]
        sizes = {size for *_, size in sides if size}
        if len(sizes) > 1:
            raise invalid(f"elements of {sizes} bytes in two arrays")
        self.width *= max(sizes, default=1)
        if self.is_empty:
            return
        for array, _, pos, _, size in sides:
            if array is not None:
                position = pos.x * size, pos.y, pos.z
                array.check_part(position, (self.width, self.height, self.depth))
        pitches = [self._pitches(pointer) for _, pointer, *_ in sides]
        self.spans = rows_of(self.width, self.height, self.depth, *pitches)
        self._begins = [self._begin(pointer, pos, what, size) for _, pointer, pos, what, size in sides]

    def _side(self, params: hipMemcpy3DParms, what: str) -> tuple[Any, hipPitchedPtr, hipPos, str, int]:
        """Return an array or None, the pointer, the position, the side's name, and the bytes of an array's element."""
        given, pointer, pos = params[f"{what}Array"], params[f"{what}Ptr"], params[f"{what}Pos"]
        if given is None:
            return None, pointer, pos, what, 0
        if pointer.ptr is not None:
            raise invalid(f"{what} is an array and a pointer")
        array = array_of(given)
        return array, hipPitchedPtr(array.pointer(), array.row, array.row, array.rows), pos, what, array.format.nbytes

    def _pitches(self, pointer: hipPitchedPtr) -> tuple[int, int]:
        pitch, rows = size_of(pointer.pitch), size_of(pointer.ysize)
        if (self.height > 1 or self.depth > 1) and pitch < self.width:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {self.width} bytes, {pitch} apart")
        if self.depth > 1 and rows < self.height:
            raise invalid(f"planes of {self.height} rows, {rows} apart")
        return pitch, pitch * rows

    def _begin(self, pointer: hipPitchedPtr, pos: hipPos, what: str, size: int) -> Any:
        if pointer.ptr is None:
            raise invalid(f"{what} is a null pointer")
        x, y, z = map(size_of, (pos.x, pos.y, pos.z))
        return _moved(pointer.ptr, (z * pointer.ysize + y) * pointer.pitch + x * max(size, 1))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to copy."""
        return 0 in (self.width, self.height, self.depth)

    def places(self) -> tuple[Place, Place]:
        """Return where the copy goes, and where it comes from; errors as for `hipMemcpy`."""
        dst, src = self._begins
        places(dst, src, self.width, self.kind)
        ends = [max(span[side] + span[2] for span in self.spans) for side in (0, 1)]
        return Place(dst, ends[0], "dst"), Place(src, ends[1], "src")

    def __str__(self) -> str:
        return f"{self.width} bytes in {self.height} rows and {self.depth} planes"


def _moved(pointer: Any, nbytes: int) -> Any:
    """Return a place this many bytes further on, with its size if that is known."""
    if nbytes == 0:
        return pointer
    view = None if isinstance(pointer, (Address, int, ctypes.c_void_p)) else host_view(pointer)
    return Pointer(pointer) + nbytes if view is None else view[nbytes:]


def _copy_box(params: hipMemcpy3DParms, stream: Any) -> None:
    queue = queue_of(stream)
    check_kind(params.kind)
    box = Box(params)
    if not box.is_empty:
        enqueue(queue, *box.places(), box.spans)


def _copy_3d(p: Any, stream: Any = None) -> None:
    """Copy rows and planes on the null stream; ``(hipError_t,)``. Blocks until it is done.

    `p` is a hipMemcpy3DParms.

    One command for each row, or one for all that have no gaps between them. hipErrorInvalidPitchValue for a pitch below
    the width, hipErrorInvalidValue for rows that are not all in an array, and as for `hipMemcpy`.
    """
    check_params(p, hipMemcpy3DParms)
    _copy_box(p, stream)


hipMemcpy3D: HipFunction = blocking(_copy_3d, "hipMemcpy3D")
hipMemcpy3DAsync: HipFunction = in_order("hipMemcpy3DAsync", _copy_3d)


def _side(array: hipArray, position: tuple[Any, ...], extent: hipExtent) -> tuple[hipPitchedPtr, hipPos]:
    """One end of a copy: the array, and the byte, row and plane in it."""
    x, y, z = map(size_of, position)
    array.check_part((x, y, z), (size_of(extent.width), size_of(extent.height), size_of(extent.depth)))
    return hipPitchedPtr(array.pointer(), array.row, array.row, array.rows), hipPos(x, y, z)


def _parms(given: Any) -> hipMemcpy3DParms:
    """Return the structure of the runtime's functions for one of the driver's."""
    made = hipMemcpy3DParms(kind=hipMemcpyKind.hipMemcpyDefault)
    volume = isinstance(given, facts.HIP_MEMCPY3D)
    made.extent = hipExtent(given["WidthInBytes"], given["Height"], given["Depth"] if volume else 1)
    for side in ("src", "dst"):
        position = given[f"{side}XInBytes"], given[f"{side}Y"], given[f"{side}Z"] if volume else 0
        setattr(made, f"{side}Pos", hipPos(*position))
        memory = given[f"{side}MemoryType"]
        if memory == facts.hipMemoryType.hipMemoryTypeUnregistered:
            raise invalid(f"{side}MemoryType is not set")
        if memory == facts.hipMemoryType.hipMemoryTypeArray:
            setattr(made, f"{side}Ptr", _side(array_of(given[f"{side}Array"]), position, made.extent)[0])
            continue
        pitch = given[f"{side}Pitch"] or size_of(given["WidthInBytes"])
        rows = (given[f"{side}Height"] if volume else 0) or given["Height"]
        pointer = given[f"{side}Host" if memory == facts.hipMemoryType.hipMemoryTypeHost else f"{side}Device"]
        setattr(made, f"{side}Ptr", hipPitchedPtr(pointer, pitch, pitch, rows))
        if size_of(given["WidthInBytes"]) + position[0] > pitch:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"{side}Pitch is {pitch} bytes, below the width")
    return made


def _copy_as(kind: type[Record], what: str) -> Any:
    def copy(pCopy: Any, stream: Any = None) -> None:
        check_params(pCopy, kind)
        _copy_box(_parms(pCopy), stream)

    does = f"Copy {what}, as a `{kind.__name__}` says, on the null stream"
    copy.__doc__ = f"""{does}; ``(hipError_t,)``. Blocks. See `hipMemcpy3D`.

    `pCopy` is that structure."""
    return copy


_rows, _unaligned = _copy_as(facts.hip_Memcpy2D, "rows"), _copy_as(facts.hip_Memcpy2D, "rows of any alignment")
_planes = _copy_as(facts.HIP_MEMCPY3D, "rows and planes")
hipMemcpyParam2D: HipFunction = blocking(_rows, "hipMemcpyParam2D")
hipMemcpyParam2DAsync: HipFunction = in_order("hipMemcpyParam2DAsync", _rows)
hipDrvMemcpy2DUnaligned: HipFunction = blocking(_unaligned, "hipDrvMemcpy2DUnaligned")
hipDrvMemcpy3D: HipFunction = blocking(_planes, "hipDrvMemcpy3D")
hipDrvMemcpy3DAsync: HipFunction = in_order("hipDrvMemcpy3DAsync", _planes)


def _copy_3d_peer(p: Any, stream: Any = None) -> None:
    """Copy rows and planes from one device's memory to another's, as a `hipMemcpy3DPeerParms` says; ``(hipError_t,)``.

    `p` is that structure. Does not block. Errors as for `hipMemcpy3D`.

    On the null stream of the current device; through the host, as `hipMemcpyPeer`. hipErrorInvalidDevice for an unknown
    device.
    """
    queue = begin(stream, "hipMemcpy3DPeer")
    check_params(p, facts.hipMemcpy3DPeerParms)
    for number in (p.srcDevice, p.dstDevice):
        device_of(device_number(number))
    members = {name: p[name] for name in p.PROPERTIES() if not name.endswith("Device")}
    _copy_box(hipMemcpy3DParms(**members, kind=hipMemcpyKind.hipMemcpyDeviceToDevice), queue)


hipMemcpy3DPeer: HipFunction = blocking(_copy_3d_peer, "hipMemcpy3DPeer", waits=False)
hipMemcpy3DPeerAsync: HipFunction = in_order("hipMemcpy3DPeerAsync", _copy_3d_peer, NEVER)


def _set_3d(pitchedDevPtr: Any, value: int, extent: Any, stream: Any = None) -> None:
    """Set bytes of rows and planes on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `value` is the byte: the low 8 bits count. Blocks only where `hipMemset` does.

    Parameters
    ----------
    pitchedDevPtr : hipPitchedPtr
    extent : hipExtent
        The width in bytes.

    hipErrorInvalidValue for a pitch below the width, and planes that overlap.
    """
    check_params(pitchedDevPtr, hipPitchedPtr)
    check_params(extent, hipExtent)
    pitch, rows = size_of(pitchedDevPtr.pitch), size_of(pitchedDevPtr.ysize)
    size = extent.width, extent.height, extent.depth
    if size_of(extent.width) > pitch:
        raise invalid(f"rows of {extent.width} bytes, {pitch} apart")
    set_rows(pitchedDevPtr.ptr, (pitch, pitch * rows), value, size, "u1", stream)


hipMemset3D: HipFunction = blocking(_set_3d, "hipMemset3D", waits=False)
hipMemset3DAsync: HipFunction = in_order("hipMemset3DAsync", _set_3d, NEVER)


# -- arrays


def _memory(pointer: Any, pitch: Any, height: int) -> tuple[hipPitchedPtr, hipPos]:
    return hipPitchedPtr(pointer, size_of(pitch), size_of(pitch), height), hipPos()


def _copy_between(
    dst: tuple[hipPitchedPtr, hipPos],
    src: tuple[hipPitchedPtr, hipPos],
    width: int,
    height: int,
    kind: Any,
    queue: Queue,
) -> None:
    extent = hipExtent(width, height, 1)
    box = Box(hipMemcpy3DParms(None, src[1], src[0], None, dst[1], dst[0], extent, kind))
    if not box.is_empty:
        enqueue(queue, *box.places(), box.spans)


def _check_pitch(pitch: Any, width: int) -> None:
    if size_of(pitch) < width:
        raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {width} bytes, {pitch} apart")


def _copy_2d_to_array(
    dst: Any, wOffset: int, hOffset: int, src: Any, spitch: int, width: int, height: int, kind: int, stream: Any = None
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
    columns, rows, queue = size_of(width), size_of(height), queue_of(stream)
    check_kind(kind)
    array = array_of(dst)
    _check_pitch(spitch, columns)
    to = _side(array, (wOffset, hOffset, 0), hipExtent(columns, rows, 1))
    _copy_between(to, _memory(src, spitch, rows), columns, rows, kind, queue)


hipMemcpy2DToArray: HipFunction = blocking(_copy_2d_to_array, "hipMemcpy2DToArray")
hipMemcpy2DToArrayAsync: HipFunction = in_order("hipMemcpy2DToArrayAsync", _copy_2d_to_array)


def _copy_2d_from_array(
    dst: Any, dpitch: int, src: Any, wOffset: int, hOffset: int, width: int, height: int, kind: int, stream: Any = None
) -> None:
    """Copy rows from an array; ``(hipError_t,)``. Blocks. See `hipMemcpy2DToArray`.

    `height` rows of `width` bytes, from `wOffset` bytes and `hOffset` rows into `src` to `dst`, there `dpitch` bytes
    apart. `kind` as for `hipMemcpy`.
    """
    columns, rows, queue = size_of(width), size_of(height), queue_of(stream)
    check_kind(kind)
    array = array_of(src)
    _check_pitch(dpitch, columns)
    source = _side(array, (wOffset, hOffset, 0), hipExtent(columns, rows, 1))
    _copy_between(_memory(dst, dpitch, rows), source, columns, rows, kind, queue)


hipMemcpy2DFromArray: HipFunction = blocking(_copy_2d_from_array, "hipMemcpy2DFromArray")
hipMemcpy2DFromArrayAsync: HipFunction = in_order("hipMemcpy2DFromArrayAsync", _copy_2d_from_array)


@blocking
def hipMemcpy2DArrayToArray(
    dst: Any, wOffsetDst: int, hOffsetDst: int, src: Any, wOffsetSrc: int, hOffsetSrc: int, width: int, height: int,
    kind: int = Kind.hipMemcpyDeviceToDevice, stream: Any = None,
) -> None:  # fmt: skip
    """Copy rows from one array to another; ``(hipError_t,)``. Blocks. See `hipMemcpy2DToArray`.

    `height` rows of `width` bytes, from `wOffsetSrc` bytes and `hOffsetSrc` rows into `src` to `wOffsetDst` bytes and
    `hOffsetDst` rows into `dst`. `kind` is DeviceToDevice or Default.
    """
    columns, rows = size_of(width), size_of(height)
    to = _side(array_of(dst), (wOffsetDst, hOffsetDst, 0), hipExtent(columns, rows, 1))
    source = _side(array_of(src), (wOffsetSrc, hOffsetSrc, 0), hipExtent(columns, rows, 1))
    _copy_between(to, source, columns, rows, kind, queue_of(stream))


def _linear(array: hipArray, x: Any, y: Any, nbytes: int) -> tuple[hipPitchedPtr, hipPos]:
    """One end of a copy of bytes that go on in the next row."""
    begin = size_of(y) * array.row + size_of(x)
    if begin + nbytes > array.row * array.rows:
        raise invalid(f"{nbytes} bytes from byte {begin} on: the array has {array.row * array.rows}")
    return hipPitchedPtr(array.pointer() + begin, nbytes, nbytes, 1), hipPos()


def _copy_to_array(dst: Any, wOffset: int, hOffset: int, src: Any, count: int, kind: int, stream: Any = None) -> None:
    """Copy bytes into an array, from a byte of a row on and into the rows after it; ``(hipError_t,)``. Blocks.

    `count` bytes from `src`, to `wOffset` bytes and `hOffset` rows into `dst`; `kind` as for `hipMemcpy`.

    Errors as `hipMemcpy2DToArray`.
    """
    nbytes = size_of(count)
    to = _linear(array_of(dst), wOffset, hOffset, nbytes)
    _copy_between(to, _memory(src, nbytes, 1), nbytes, 1, kind, queue_of(stream))


def _copy_from_array(
    dst: Any, srcArray: Any, wOffset: int, hOffset: int, count: int, kind: int, stream: Any = None
) -> None:
    """Copy bytes from an array; ``(hipError_t,)``. Blocks. See `hipMemcpyToArray`.

    `count` bytes to `dst`, from `wOffset` bytes and `hOffset` rows into `srcArray`; `kind` as for `hipMemcpy`.
    """
    nbytes = size_of(count)
    source = _linear(array_of(srcArray), wOffset, hOffset, nbytes)
    _copy_between(_memory(dst, nbytes, 1), source, nbytes, 1, kind, queue_of(stream))


hipMemcpyToArray: HipFunction = blocking(_copy_to_array, "hipMemcpyToArray")
hipMemcpyFromArray: HipFunction = blocking(_copy_from_array, "hipMemcpyFromArray")


_from_array_spt = named(
    _copy_from_array,
    "hipMemcpyFromArray_spt",
    """Do what `hipMemcpyFromArray` does, with `hipStreamPerThread` for the null stream. Blocks until it is done.

    `count` bytes to `dst`, from `wOffsetSrc` bytes and `hOffset` rows into `src`; `kind` as for `hipMemcpy`.""",
    srcArray="src",
    wOffset="wOffsetSrc",
)
hipMemcpyFromArray_spt: HipFunction = blocking(_from_array_spt, "hipMemcpyFromArray_spt", on=hipStreamPerThread)


def _copy_htoa(dstArray: Any, dstOffset: int, srcHost: Any, count: int, stream: Any = None) -> None:
    """Copy bytes from the host into an array, from a byte of it on; ``(hipError_t,)``. Blocks.

    `count` bytes from `srcHost`, to `dstOffset` bytes into `dstArray`. Errors as for `hipMemcpyToArray`.
    """
    _copy_to_array(dstArray, dstOffset, 0, srcHost, count, Kind.hipMemcpyHostToDevice, stream)


def _copy_atoh(dst: Any, srcArray: Any, srcOffset: int, count: int, stream: Any = None) -> None:
    """Copy bytes from an array, from a byte of it on, to the host; ``(hipError_t,)``. Blocks.

    `count` bytes, from `srcOffset` bytes into `srcArray` to `dst`. Errors as for `hipMemcpyToArray`.
    """
    _copy_from_array(dst, srcArray, srcOffset, 0, count, Kind.hipMemcpyDeviceToHost, stream)


@blocking
def hipMemcpyAtoD(dstDevice: Any, srcArray: Any, srcOffset: int, ByteCount: int, stream: Any = None) -> None:
    """Copy bytes from an array, from a byte of it on, to memory of the device; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes, from `srcOffset` bytes into `srcArray` to `dstDevice`. Errors as for `hipMemcpyToArray`.
    """
    _copy_from_array(dstDevice, srcArray, srcOffset, 0, ByteCount, Kind.hipMemcpyDeviceToDevice, stream)


@blocking
def hipMemcpyDtoA(dstArray: Any, dstOffset: int, srcDevice: Any, ByteCount: int, stream: Any = None) -> None:
    """Copy bytes from memory of the device into an array, from a byte of it on; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes from `srcDevice`, to `dstOffset` bytes into `dstArray`. Errors as for `hipMemcpyToArray`.
    """
    _copy_to_array(dstArray, dstOffset, 0, srcDevice, ByteCount, Kind.hipMemcpyDeviceToDevice, stream)


@blocking
def hipMemcpyAtoA(
    dstArray: Any, dstOffset: int, srcArray: Any, srcOffset: int, ByteCount: int, stream: Any = None
) -> None:
    """Copy bytes from one array to another, from a byte of each on; ``(hipError_t,)``. Blocks.

    `ByteCount` bytes, from `srcOffset` bytes into `srcArray` to `dstOffset` bytes into `dstArray`. Errors as for
    `hipMemcpyToArray`.
    """
    nbytes = size_of(ByteCount)
    to = _linear(array_of(dstArray), dstOffset, 0, nbytes)
    source = _linear(array_of(srcArray), srcOffset, 0, nbytes)
    _copy_between(to, source, nbytes, 1, Kind.hipMemcpyDeviceToDevice, queue_of(stream))


hipMemcpyHtoA: HipFunction = blocking(_copy_htoa, "hipMemcpyHtoA")
hipMemcpyHtoAAsync: HipFunction = in_order("hipMemcpyHtoAAsync", _copy_htoa, count="ByteCount")
hipMemcpyAtoH: HipFunction = blocking(_copy_atoh, "hipMemcpyAtoH")
hipMemcpyAtoHAsync: HipFunction = in_order("hipMemcpyAtoHAsync", _copy_atoh, dst="dstHost", count="ByteCount")


# -- variables of modules


TO = (Kind.hipMemcpyHostToDevice, Kind.hipMemcpyDeviceToDevice, Kind.hipMemcpyDefault)
FROM = (Kind.hipMemcpyDeviceToHost, Kind.hipMemcpyDeviceToDevice, Kind.hipMemcpyDefault)


def variable_of(symbol: Any) -> Allocation:
    """Return the variable that begins where `hipModuleGetGlobal` said.

    hipErrorInvalidSymbol for anything else.
    """
    address, _ = address_of(symbol)
    found = allocations.peek(address) if address else None
    if found is None or not found.variable:
        raise HipError(
            hipError_t.hipErrorInvalidSymbol,
            f"no variable of a module begins at {address:#x}; a symbol is the pointer that hipModuleGetGlobal returns",
        )
    return found


def within(symbol: Any, offset: Any) -> Pointer:
    """Return the pointer to a byte of a variable. A copy finds out whether the variable has as many from there on."""
    return pointer_to(variable_of(symbol)) + size_of(offset)


def check_symbol_kind(kind: Any, kinds: tuple[Kind, ...]) -> None:
    """Raise for a kind of copy that is not for symbols, or goes the other way; hipErrorInvalidMemcpyDirection."""
    if kind not in kinds:
        raise HipError(hipError_t.hipErrorInvalidMemcpyDirection, f"a copy of a symbol cannot be of kind {kind!r}")


def _copy_symbol(
    symbol: Any, other: Any, size: Any, offset: Any, kind: Any, kinds: tuple[Kind, ...], stream: Any
) -> None:
    nbytes = size_of(size)
    inside = within(symbol, offset)
    check_symbol_kind(kind, kinds)
    queue = queue_of(stream)
    if nbytes:
        dst, src = (inside, other) if kinds is TO else (other, inside)
        enqueue(queue, *places(dst, src, nbytes, kind))


@api(outputs=1)
def hipGetSymbolAddress(symbol: Any) -> DeviceArray:
    """Return ``(hipError_t, pointer)`` of a variable: what `hipModuleGetGlobal` returned, which is given.

    hipErrorInvalidSymbol for anything else.
    """
    return pointer_to(variable_of(symbol))


@api(outputs=1)
def hipGetSymbolSize(symbol: Any) -> int:
    """Return ``(hipError_t, bytes)`` of a variable; hipErrorInvalidSymbol as for `hipGetSymbolAddress`."""
    return variable_of(symbol).nbytes


def _copy_to_symbol(
    symbol: Any, src: Any, sizeBytes: int, offset: int = 0, kind: int = Kind.hipMemcpyHostToDevice, stream: Any = None
) -> None:
    """Copy into a variable of a module on the null stream; ``(hipError_t,)``. Blocks until it is done.

    `sizeBytes` bytes from `src`.

    Parameters
    ----------
    symbol : pointer
        What `hipModuleGetGlobal` returned.
    offset : int
        Bytes into the variable.
    kind : hipMemcpyKind
        HostToDevice, DeviceToDevice or Default.

    hipErrorInvalidSymbol for anything but a variable, hipErrorInvalidValue beyond its end,
    hipErrorInvalidMemcpyDirection for other kinds. See `hipMemcpy`.
    """
    _copy_symbol(symbol, src, sizeBytes, offset, kind, TO, stream)


def _copy_from_symbol(
    dst: Any, symbol: Any, sizeBytes: int, offset: int = 0, kind: int = Kind.hipMemcpyDeviceToHost, stream: Any = None
) -> None:
    """Copy from a variable of a module on the null stream; ``(hipError_t,)``. Blocks until it is done.

    `sizeBytes` bytes to `dst`, from `offset` bytes into the variable `symbol` on.

    The kind is DeviceToHost, DeviceToDevice or Default; otherwise as `hipMemcpyToSymbol`.
    """
    _copy_symbol(symbol, dst, sizeBytes, offset, kind, FROM, stream)


hipMemcpyToSymbol: HipFunction = blocking(_copy_to_symbol, "hipMemcpyToSymbol")
hipMemcpyToSymbolAsync: HipFunction = in_order("hipMemcpyToSymbolAsync", _copy_to_symbol)
hipMemcpyFromSymbol: HipFunction = blocking(_copy_from_symbol, "hipMemcpyFromSymbol")
hipMemcpyFromSymbolAsync: HipFunction = in_order("hipMemcpyFromSymbolAsync", _copy_from_symbol)
