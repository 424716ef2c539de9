"""Other ways to launch a function than `hipModuleLaunchKernel`."""

from __future__ import annotations

import threading
from typing import Any

from forebay.hip.devices import _on_reset, number_of
from forebay.hip.errors import OK, HipError, Result, api
from forebay.hip.events import record_event
from forebay.hip.facts import hipError_t
from forebay.hip.functions import kernel_of
from forebay.hip.functions_occupancy import groups_per_unit
from forebay.hip.modules import extents_of, hipModuleLaunchKernel
from forebay.hip.streams import queue_of
from forebay.queues.queue import Queue

_lock = threading.Lock()
_queues: dict[int, Queue] = {}  # by device: its cooperative launches, one after the other


def _forget(number: int) -> None:
    _queues.pop(number, None)


_on_reset.append(_forget)


def _launch_plain(
    f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any, params: Any
) -> Result:
    (x, y, z), (width, height, depth) = grid, block
    return hipModuleLaunchKernel(f, x, y, z, width, height, depth, shared, stream, params)


def hipLaunchKernel(
    function_address: Any, numBlocks: object, dimBlocks: object, args: Any, sharedMemBytes: int = 0, stream: Any = None
) -> Result:
    """Launch a function; ``(hipError_t,)``. Does not block.

    `sharedMemBytes` and `stream` as for `hipModuleLaunchKernel`.

    Parameters
    ----------
    function_address : ihipModuleSymbol_t
        From `hipModuleGetFunction`: there is no host function that stands for a kernel.
    numBlocks, dimBlocks : dim3
        Groups, and work-items per group; or an int, or a tuple of up to three.
    args : list or tuple
        The ``kernelParams`` of `hipModuleLaunchKernel`, where the errors are.
    """
    return _launch_plain(function_address, extents_of(numBlocks), extents_of(dimBlocks), sharedMemBytes, stream, args)


@api()
def _record(event: Any, stream: Any) -> None:
    if event is not None:
        record_event(event, stream)


def hipExtLaunchKernel(
    function_address: Any,
    numBlocks: object,
    dimBlocks: object,
    args: Any,
    sharedMemBytes: int = 0,
    stream: Any = None,
    startEvent: Any = None,
    stopEvent: Any = None,
    flags: int = 0,
) -> Result:
    """Do what `hipLaunchKernel` does, and record one event before and one after it, unless they are None.

    `function_address`, `numBlocks`, `dimBlocks`, `args`, `sharedMemBytes` and `stream` as there; `startEvent` and
    `stopEvent` are the events.

    The flags make no difference. Errors as for `hipEventRecord` too; nothing is launched when the first is refused.
    """
    result = _record(startEvent, stream)
    if result[0] == OK:
        result = hipLaunchKernel(function_address, numBlocks, dimBlocks, args, sharedMemBytes, stream)
    return _record(stopEvent, stream) if result[0] == OK else result


# -- launches whose groups wait for each other


@api(outputs=1)
def _check(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any) -> Queue:
    """Check that all groups run at once, and return the queue of the stream."""
    queue, kernel = queue_of(stream), kernel_of(f)
    items, groups = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    if not groups_per_unit(kernel, items, shared):
        raise HipError(hipError_t.hipErrorInvalidConfiguration, f"groups of {items} work-items, {shared} bytes")
    most = kernel.groups_at_once(block, shared)
    if groups > most:
        raise HipError(
            hipError_t.hipErrorCooperativeLaunchTooLarge,
            f"{groups} groups that wait for each other: {kernel.device.name} runs {most} of this size at once",
        )
    return queue


@api(outputs=1)
def _begin(queue: Queue) -> Queue:
    """Return the queue for cooperative launches of its device, once it comes after this one."""
    number = number_of(queue.device)
    with _lock:
        own = _queues.get(number)
        if own is None or own.closed:
            own = _queues[number] = queue.device.queue(blocking=False)
    own.wait(queue)
    return own


@api()
def _end(queue: Queue, own: Queue) -> None:
    queue.wait(own)


def _launch(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any, params: Any) -> Result:
    code, queue = _check(f, grid, block, shared, stream)
    if code != OK:
        return (code,)
    if queue.capturing:
        return _launch_plain(f, grid, block, shared, queue, params)
    code, own = _begin(queue)  # half of the groups of two that run at once could wait for the others for ever
    if code != OK:
        return (code,)
    result = _launch_plain(f, grid, block, shared, own, params)
    return _end(queue, own) if result[0] == OK else result


def hipModuleLaunchCooperativeKernel(
    f: Any,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int = 0,
    stream: Any = None,
    kernelParams: Any = None,
) -> Result:
    """Launch a function all of whose groups run at the same time; ``(hipError_t,)``. Does not block.

    `f`, `gridDimX`, `gridDimY`, `gridDimZ`, `blockDimX`, `blockDimY`, `blockDimZ`, `sharedMemBytes`, `stream` and
    `kernelParams` as for `hipModuleLaunchKernel`.

    How many groups that can be, Level Zero's driver tells; elsewhere it is one for each compute unit, on CPUs one less.
    Such launches of a device run one after the other, as on AMD's devices, whatever their streams are; other work
    beside them only delays them. In a capture it becomes a node like that of any launch, and graphs are not ordered so.

    hipErrorCooperativeLaunchTooLarge for more groups, hipErrorInvalidDeviceFunction for anything but a function,
    hipErrorInvalidConfiguration for groups that the kernel cannot have; otherwise as `hipModuleLaunchKernel`.
    """
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    return _launch(f, grid, block, sharedMemBytes, stream, kernelParams)


def hipLaunchCooperativeKernel(
    f: Any, gridDim: object, blockDimX: object, kernelParams: Any, sharedMemBytes: int = 0, stream: Any = None
) -> Result:
    """Do what `hipModuleLaunchCooperativeKernel` does; the dimensions are `dim3`, an int or a tuple of up to three.

    `f` is the function, `gridDim` groups of `blockDimX` work-items; `kernelParams`, `sharedMemBytes` and `stream` as
    there. Does not block.
    """
    return _launch(f, extents_of(gridDim), extents_of(blockDimX), sharedMemBytes, stream, kernelParams)
