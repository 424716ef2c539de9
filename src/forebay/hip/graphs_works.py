"""What nodes of graphs do, made from HIP's structures."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.hip.allocations import Place
from forebay.hip.callbacks import host_call
from forebay.hip.compiled.launch import kernel_arguments
from forebay.hip.copies import CopyOnHost, parts_of
from forebay.hip.errors import HipError, check_params
from forebay.hip.facts import (
    hipError_t,
    hipExtent,
    hipHostNodeParams,
    hipKernelNodeParams,
    hipMemcpy3DParms,
    hipMemsetParams,
    hipPitchedPtr,
)
from forebay.hip.graphs import invalid_values
from forebay.hip.memory import size_of
from forebay.hip.modules import extents_of, function_of
from forebay.hip.transfers_volumes import Box
from forebay.queues.graphs.executable import Work, make_copy, make_fill, make_host, make_kernel, make_list
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
    """Return the structure for this many bytes in one row.

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
    box = Box(params)
    if box.is_empty:
        raise invalid(f"a copy of {box}")
    to, source = box.places()
    with invalid_values():
        if to.buffer is None and source.buffer is None:
            return make_host(CopyOnHost(to, source, box.spans))
        rows = [make_copy(device, at, of) for at, of in parts_of(to, source, box.spans)]
    return rows[0] if len(rows) == 1 else make_list("copy", rows)


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
