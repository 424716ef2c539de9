"""What nodes of graphs do, made from HIP's structures."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from forebay.hip.allocations import Place
from forebay.hip.callbacks import host_call
from forebay.hip.copies import CopyOnHost, places
from forebay.hip.enums import hipError_t
from forebay.hip.errors import HipError
from forebay.hip.graphs.handles import invalid_values
from forebay.hip.graphs.params import (
    check_params,
    extents_of,
    hipExtent,
    hipHostNodeParams,
    hipKernelNodeParams,
    hipMemcpy3DParms,
    hipMemsetParams,
    hipPitchedPtr,
    hipPos,
)
from forebay.hip.launch import Address, kernel_arguments
from forebay.hip.memory import size_of
from forebay.hip.modules import function_of
from forebay.hip.pointers import Pointer, host_view
from forebay.queues.graphs.work import Work, make_copy, make_fill, make_host, make_kernel, make_list
from forebay.queues.memory.shapes import whole_number

ELEMENTS = {1: "u1", 2: "u2", 4: "u4"}


def invalid(message: str) -> HipError:
    """Return what ends a call with hipErrorInvalidValue."""
    return HipError(hipError_t.hipErrorInvalidValue, message)


def kernel_work(device: Any, params: Any) -> Work:
    """Return the launch that a hipKernelNodeParams describes."""
    check_params(params, hipKernelNodeParams)
    if params.func is None:
        raise invalid("the function is None")
    try:
        function = function_of(params.func)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, str(error)) from error
    with invalid_values():
        arguments = kernel_arguments(function, params.sharedMemBytes, params.kernelParams, params.extra)
        return make_kernel(
            device, function.kernel, extents_of(params.gridDim), extents_of(params.blockDim), tuple(arguments)
        )


def host_work(params: Any) -> Work:
    """Return the call that a hipHostNodeParams describes."""
    check_params(params, hipHostNodeParams)
    return make_host(host_call(params.fn, params.userData))


def copy_params(dst: Any, src: Any, count: Any, kind: Any) -> hipMemcpy3DParms:
    """Return the structure for so many bytes in one row.

    Raises
    ------
    HipError
        hipErrorInvalidValue for 0 bytes.
    """
    nbytes = size_of(count)
    if nbytes == 0:
        raise invalid("a copy of 0 bytes")
    dst_ptr, src_ptr = (hipPitchedPtr(ptr, nbytes, nbytes, 1) for ptr in (dst, src))
    return hipMemcpy3DParms(dstPtr=dst_ptr, srcPtr=src_ptr, extent=hipExtent(nbytes, 1, 1), kind=kind)


def has_rows(params: Any) -> bool:
    """Whether a structure is about more than one row."""
    if isinstance(params, hipMemsetParams):
        return params.height > 1
    return bool(params.extent.height > 1 or params.extent.depth > 1)


def copy_work(device: Any, params: Any) -> Work:
    """Return the copy that a hipMemcpy3DParms describes: row by row, or in one piece if there are no gaps."""
    check_params(params, hipMemcpy3DParms)
    if params.srcArray is not None or params.dstArray is not None:
        raise invalid("forebay has no arrays in texture memory")
    width, height, depth = (size_of(each) for each in (params.extent.width, params.extent.height, params.extent.depth))
    if 0 in (width, height, depth):
        raise invalid(f"a copy of {width} bytes in {height} rows and {depth} planes")
    several = height > 1 or depth > 1
    pitches = []
    for ptr in (params.dstPtr, params.srcPtr):
        if several and ptr.pitch < width:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {width} bytes, {ptr.pitch} apart")
        if depth > 1 and ptr.ysize < height:
            raise invalid(f"planes of {height} rows, {ptr.ysize} apart")
        pitches.append((ptr.pitch, ptr.pitch * ptr.ysize))
    rows = [(y, z) for z in range(depth) for y in range(height)]
    spans = [(y * pitches[0][0] + z * pitches[0][1], y * pitches[1][0] + z * pitches[1][1], width) for y, z in rows]
    if all(at == of == i * width for i, (at, of, _) in enumerate(spans)):
        spans = [(0, 0, width * len(spans))]
    begins = []
    for ptr, pos, what in ((params.dstPtr, params.dstPos, "dst"), (params.srcPtr, params.srcPos, "src")):
        if ptr.ptr is None:
            raise invalid(f"{what} is a null pointer")
        begins.append(_moved(ptr.ptr, _at(ptr, pos)))
    ends = [max(span[i] for span in spans) + spans[0][2] for i in range(2)]
    places(begins[0], begins[1], width, params.kind)
    return _copies(device, Place(begins[0], ends[0], "dst"), Place(begins[1], ends[1], "src"), spans)


def _copies(device: Any, to: Place, source: Place, spans: Sequence[tuple[int, int, int]]) -> Work:
    """Copy rows, each given by where it begins in either place and how long it is."""
    with invalid_values():
        if to.buffer is None and source.buffer is None:
            return make_host(CopyOnHost(to, source, spans))
        if spans == [(0, 0, nbytes := spans[0][2])] and all(_size(place) == nbytes for place in (to, source)):
            return make_copy(device, to.end, source.end)
        ends: list[Any] = [place.end if place.buffer is not None else place.bytes() for place in (to, source)]
        rows = [make_copy(device, ends[0][at : at + n], ends[1][of : of + n]) for at, of, n in spans]
    return rows[0] if len(rows) == 1 else make_list("copy", rows)


def _size(place: Place) -> int:
    return place.buffer.nbytes if place.buffer is not None else place.bytes().nbytes


def _at(ptr: hipPitchedPtr, pos: hipPos) -> int:
    """Where a copy begins."""
    return int(pos.z * ptr.ysize * ptr.pitch + pos.y * ptr.pitch + pos.x)


def _moved(pointer: Any, nbytes: int) -> Any:
    """Return a place so many bytes further on, with its size if that is known."""
    if nbytes == 0:
        return pointer
    view = None if isinstance(pointer, (Address, int, ctypes.c_void_p)) else host_view(pointer)
    return Pointer(pointer) + nbytes if view is None else view[nbytes:]


def memset_work(device: Any, params: Any) -> Work:
    """Return the fill that a hipMemsetParams describes: row by row, or in one piece if there are no gaps."""
    check_params(params, hipMemsetParams)
    if params.elementSize not in ELEMENTS:
        raise invalid(f"elements of {params.elementSize} bytes")
    element = np.dtype(ELEMENTS[params.elementSize])
    height, row = size_of(params.height), size_of(params.width) * element.itemsize
    pitch = size_of(params.pitch) if height > 1 else row
    if row == 0 or height == 0 or pitch < row:
        raise invalid(f"{height} rows of {row} bytes, {pitch} apart")
    buffer = Place(params.dst, pitch * height if height > 1 else row, "dst").for_device()
    value = whole_number(params.value) & ((1 << 8 * element.itemsize) - 1)
    parts = [(0, row * height)] if pitch == row else [(i * pitch, i * pitch + row) for i in range(height)]
    with invalid_values():
        rows = [make_fill(device, buffer[at:end].view(element), value) for at, end in parts]
    return rows[0] if len(rows) == 1 else make_list("fill", rows)
