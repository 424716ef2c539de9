"""Copies and memsets of rows and planes, and memory that they are easy on."""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.hip.allocations import Place
from forebay.hip.arrays import array_of
from forebay.hip.compiled.handles import Address
from forebay.hip.copies import (
    check_kind,
    enqueue,
    places,
    rows_of,
)
from forebay.hip.devices import device_number, device_of
from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    HIP_MEMCPY3D,
    hip_Memcpy2D,
    hipError_t,
    hipExtent,
    hipMemcpy3DParms,
    hipMemcpy3DPeerParms,
    hipMemcpyKind,
    hipMemoryType,
    hipPitchedPtr,
    hipPos,
)
from forebay.hip.memory import allocate, size_of
from forebay.hip.pointers import DeviceArray, Pointer, host_view
from forebay.hip.streams import queue_of
from forebay.hip.transfers_memsets import set_rows
from forebay.queues.capture_rules import refuse_synchronous
from forebay.queues.queue import Queue

PITCH = 256  # bytes; a row begins where the widest vectors of any device may begin


def _invalid(message: str) -> HipError:
    return HipError(hipError_t.hipErrorInvalidValue, message)


# -- memory


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
        raise _invalid(f"hipMemAllocPitch: {height} rows of {widthInBytes} bytes, elements of {elementSizeBytes}")
    return _malloc_rows(widthInBytes, height)


@api(outputs=1)
def hipMalloc3D(extent: Any) -> hipPitchedPtr:
    """Allocate planes of rows on the current device; ``(hipError_t, hipPitchedPtr)``. See `hipMallocPitch`.

    Parameters
    ----------
    extent : hipExtent
        The width in bytes.
    """
    check_params(extent, hipExtent)
    pointer, pitch = _malloc_rows(extent.width, extent.height, extent.depth)
    return hipPitchedPtr(pointer, pitch, extent.width, extent.height)


# -- copies


class Box:
    """What a hipMemcpy3DParms describes.

    Attributes
    ----------
    spans : list of (int, int, int)
        Rows: where each begins in the two places, and its bytes.

    Raises
    ------
    HipError
        hipErrorInvalidPitchValue for a pitch below the width; hipErrorInvalidValue for planes that overlap, null
        pointers, an array together with a pointer, rows that are not all in an array, and arrays of other elements;
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
            raise _invalid(f"elements of {sizes} bytes in two arrays")
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
            raise _invalid(f"{what} is an array and a pointer")
        array = array_of(given)
        return array, hipPitchedPtr(array.pointer(), array.row, array.row, array.rows), pos, what, array.format.nbytes

    def _pitches(self, pointer: hipPitchedPtr) -> tuple[int, int]:
        pitch, rows = size_of(pointer.pitch), size_of(pointer.ysize)
        if (self.height > 1 or self.depth > 1) and pitch < self.width:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {self.width} bytes, {pitch} apart")
        if self.depth > 1 and rows < self.height:
            raise _invalid(f"planes of {self.height} rows, {rows} apart")
        return pitch, pitch * rows

    def _begin(self, pointer: hipPitchedPtr, pos: hipPos, what: str, size: int) -> Any:
        if pointer.ptr is None:
            raise _invalid(f"{what} is a null pointer")
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


def _copy(params: hipMemcpy3DParms, stream: Any) -> Queue:
    queue = queue_of(stream)
    check_kind(params.kind)
    box = Box(params)
    if not box.is_empty:
        enqueue(queue, *box.places(), box.spans)
    return queue


@api()
def hipMemcpy3D(p: Any) -> None:
    """Copy rows and planes on the null stream; ``(hipError_t,)``. Blocks until it is done.

    Parameters
    ----------
    p : hipMemcpy3DParms

    One command for each row, or one for all that have no gaps between them. hipErrorInvalidPitchValue for a pitch below
    the width, hipErrorInvalidValue for rows that are not all in an array, and as for `hipMemcpy`.
    """
    check_params(p, hipMemcpy3DParms)
    refuse_synchronous("hipMemcpy3D")
    _copy(p, None).finish()


@api()
def hipMemcpy3DAsync(p: Any, stream: Any = None) -> None:
    """Copy rows and planes in the order of the stream; ``(hipError_t,)``. See `hipMemcpy3D` and `hipMemcpyAsync`.

    `p` is a hipMemcpy3DParms; `stream` is a stream, None or 0. Blocks only where `hipMemcpyAsync` does.
    """
    check_params(p, hipMemcpy3DParms)
    _copy(p, stream)


def _pointer(given: Any, side: str) -> Any:
    """Return the pointer of one side of a structure of the driver's functions."""
    kind = given[f"{side}MemoryType"]
    member = "Host" if kind == hipMemoryType.hipMemoryTypeHost else "Device"
    if kind == hipMemoryType.hipMemoryTypeUnregistered:
        raise _invalid(f"{side}MemoryType is not set")
    return given[f"{side}{member}"]


def _parms(given: Any) -> hipMemcpy3DParms:
    """Return the structure of the runtime's functions for one of the driver's."""
    made = hipMemcpy3DParms(kind=hipMemcpyKind.hipMemcpyDefault)
    volume = isinstance(given, HIP_MEMCPY3D)
    made.extent = hipExtent(given["WidthInBytes"], given["Height"], given["Depth"] if volume else 1)
    for side in ("src", "dst"):
        position = given[f"{side}XInBytes"], given[f"{side}Y"], given[f"{side}Z"] if volume else 0
        setattr(made, f"{side}Pos", hipPos(*position))
        if given[f"{side}MemoryType"] == hipMemoryType.hipMemoryTypeArray:
            array = array_of(given[f"{side}Array"])
            extent = made.extent
            x, y, z = map(size_of, position)
            width, height, depth = map(size_of, (extent.width, extent.height, extent.depth))
            array.check_part((x, y, z), (width, height, depth))
            setattr(made, f"{side}Ptr", hipPitchedPtr(array.pointer(), array.row, array.row, array.rows))
            continue
        pitch = given[f"{side}Pitch"] or size_of(given["WidthInBytes"])
        rows = (given[f"{side}Height"] if volume else 0) or given["Height"]
        setattr(made, f"{side}Ptr", hipPitchedPtr(_pointer(given, side), pitch, pitch, rows))
        if size_of(given["WidthInBytes"]) + position[0] > pitch:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"{side}Pitch is {pitch} bytes, below the width")
    return made


@api()
def hipMemcpyParam2D(pCopy: Any) -> None:
    """Copy rows, as a `hip_Memcpy2D` says, on the null stream; ``(hipError_t,)``. Blocks. See `hipMemcpy3D`.

    `pCopy` is that structure.
    """
    check_params(pCopy, hip_Memcpy2D)
    refuse_synchronous("hipMemcpyParam2D")
    _copy(_parms(pCopy), None).finish()


@api()
def hipMemcpyParam2DAsync(pCopy: Any, stream: Any = None) -> None:
    """Copy rows, as a `hip_Memcpy2D` says, in the order of the stream; ``(hipError_t,)``. See `hipMemcpy3DAsync`.

    `pCopy` is that structure; `stream` is a stream, None or 0. Blocks only where `hipMemcpyAsync` does.
    """
    check_params(pCopy, hip_Memcpy2D)
    _copy(_parms(pCopy), stream)


@api()
def hipDrvMemcpy2DUnaligned(pCopy: Any) -> None:
    """Do what `hipMemcpyParam2D` does: any alignment will do there.

    `pCopy` is a `hip_Memcpy2D`. Blocks. Returns ``(hipError_t,)``.
    """
    check_params(pCopy, hip_Memcpy2D)
    refuse_synchronous("hipDrvMemcpy2DUnaligned")
    _copy(_parms(pCopy), None).finish()


@api()
def hipDrvMemcpy3D(pCopy: Any) -> None:
    """Copy rows and planes, as a `HIP_MEMCPY3D` says, on the null stream; ``(hipError_t,)``. See `hipMemcpy3D`.

    `pCopy` is that structure. Blocks until it is done.
    """
    check_params(pCopy, HIP_MEMCPY3D)
    refuse_synchronous("hipDrvMemcpy3D")
    _copy(_parms(pCopy), None).finish()


@api()
def hipDrvMemcpy3DAsync(pCopy: Any, stream: Any = None) -> None:
    """Copy rows and planes, as a `HIP_MEMCPY3D` says, in the order of the stream; ``(hipError_t,)``.

    `pCopy` is that structure; `stream` is a stream, None or 0. Errors as for `hipMemcpy3D`. Blocks only where
    `hipMemcpyAsync` does.
    """
    check_params(pCopy, HIP_MEMCPY3D)
    _copy(_parms(pCopy), stream)


def _copy_peer(p: Any, stream: Any) -> None:
    check_params(p, hipMemcpy3DPeerParms)
    for number in (p.srcDevice, p.dstDevice):
        device_of(device_number(number))
    members = {name: p[name] for name in p.PROPERTIES() if not name.endswith("Device")}
    _copy(hipMemcpy3DParms(**members, kind=hipMemcpyKind.hipMemcpyDeviceToDevice), stream)


@api()
def hipMemcpy3DPeer(p: Any) -> None:
    """Copy rows and planes from one device's memory to another's, as a `hipMemcpy3DPeerParms` says; ``(hipError_t,)``.

    `p` is that structure. Does not block. Errors as for `hipMemcpy3D`.

    On the null stream of the current device; through the host, as `hipMemcpyPeer`. hipErrorInvalidDevice for an unknown
    device.
    """
    refuse_synchronous("hipMemcpy3DPeer")
    _copy_peer(p, None)


@api()
def hipMemcpy3DPeerAsync(p: Any, stream: Any = None) -> None:
    """Do what `hipMemcpy3DPeer` does, in the order of the stream; ``(hipError_t,)``.

    `p` is a `hipMemcpy3DPeerParms`; `stream` is a stream, None or 0. Does not block.
    """
    _copy_peer(p, stream)


# -- memsets


def _set_3d(pointer: Any, value: Any, extent: Any, stream: Any, blocks: bool) -> None:
    check_params(pointer, hipPitchedPtr)
    check_params(extent, hipExtent)
    pitch, rows = size_of(pointer.pitch), size_of(pointer.ysize)
    size = extent.width, extent.height, extent.depth
    if size_of(extent.width) > pitch:
        raise _invalid(f"rows of {extent.width} bytes, {pitch} apart")
    set_rows(pointer.ptr, (pitch, pitch * rows), value, size, "u1", stream, blocks)


@api()
def hipMemset3D(pitchedDevPtr: Any, value: int, extent: Any) -> None:
    """Set bytes of rows and planes on the null stream; ``(hipError_t,)``. See `hipMemset`.

    `value` is the byte: the low 8 bits count. Blocks only where `hipMemset` does.

    Parameters
    ----------
    pitchedDevPtr : hipPitchedPtr
    extent : hipExtent
        The width in bytes.

    hipErrorInvalidValue for a pitch below the width, and planes that overlap.
    """
    _set_3d(pitchedDevPtr, value, extent, None, True)


@api()
def hipMemset3DAsync(pitchedDevPtr: Any, value: int, extent: Any, stream: Any = None) -> None:
    """Set bytes of rows and planes in the order of the stream; ``(hipError_t,)``. See `hipMemset3D`.

    `pitchedDevPtr`, `value` and `extent` as there; `stream` is a stream, None or 0. Does not block.
    """
    _set_3d(pitchedDevPtr, value, extent, stream, False)
