"""How many groups of a kernel a compute unit runs at once.

OpenCL and SYCL do not tell, and a CPU runs one group on each of its threads. So one is assumed there, of any size that
the kernel can have.
"""

from __future__ import annotations

from typing import Any

from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t, hipOccupancyDefault
from forebay.hip.functions import kernel_of
from forebay.hip.memory import size_of
from forebay.hip.modules import function_of
from forebay.hiprtc.clang import WARP
from forebay.queues.kernels.kernel import Kernel

DISABLE_CACHING_OVERRIDE = 1
KEPT = 128  # bytes: what local memory is dealt out in


def _kernel(f: Any) -> Kernel:
    """Return the kernel of a function, for the functions of modules; hipErrorInvalidValue for None."""
    if f is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "the function is None")
    return function_of(f).kernel


def _check_flags(flags: Any) -> None:
    if flags not in (hipOccupancyDefault, DISABLE_CACHING_OVERRIDE):
        raise HipError(hipError_t.hipErrorInvalidValue, f"flags {flags!r}")


def _dynamic_bytes(kernel: Kernel) -> int:
    return max(int(kernel.device.driver.limits.local_bytes) - kernel.static_local_bytes, 0)


def groups_per_unit(kernel: Kernel, block: int, shared: int) -> int:
    """Return how many groups of this many work-items a compute unit runs at once: 0 when it can run none.

    Raises
    ------
    HipError
        hipErrorInvalidValue for less than one work-item.
    """
    if block <= 0:
        raise HipError(hipError_t.hipErrorInvalidValue, f"groups of {block} work-items")
    if block > kernel.max_block_size or size_of(shared) > _dynamic_bytes(kernel):
        return 0
    room = kernel.device.driver.limits.unit_items // block
    return max(min(kernel.groups_at_once(block, shared) // _units(kernel), room), 1)


def _units(kernel: Kernel) -> int:
    return max(kernel.device.info.compute_units, 1)


def _block_size(kernel: Kernel, shared: Any, limit: Any) -> tuple[int, int]:
    limits = kernel.device.driver.limits
    if size_of(shared) > _dynamic_bytes(kernel):
        raise HipError(hipError_t.hipErrorInvalidValue, f"{shared} bytes of local memory")
    largest = min(kernel.max_block_size, limits.group_size[0])
    block = min(largest, limit) if limit > 0 else largest
    if block >= WARP:
        block -= block % WARP
    groups = groups_per_unit(kernel, block, shared)
    for smaller in range(block - WARP, 0, -WARP):
        more = groups_per_unit(kernel, smaller, shared)
        if more * smaller > groups * block:
            groups, block = more, smaller
    return groups * _units(kernel), block


@api(outputs=1)
def hipOccupancyMaxActiveBlocksPerMultiprocessor(f: Any, blockSize: int, dynSharedMemPerBlk: int = 0) -> int:
    """Return ``(hipError_t, groups)`` that a compute unit runs at once.

    `f` is the function, of groups of `blockSize` work-items, with `dynSharedMemPerBlk` bytes of dynamic local memory.

    CUDA's driver tells. Elsewhere it is 1. It is 0 when the kernel cannot be launched with so many work-items or so
    much local memory. hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for less than one
    work-item.
    """
    return groups_per_unit(kernel_of(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    f: Any, blockSize: int, dynSharedMemPerBlk: int = 0, flags: int = hipOccupancyDefault
) -> int:
    """Do what `hipOccupancyMaxActiveBlocksPerMultiprocessor` does; the flags are 0 or 1.

    `f`, `blockSize` and `dynSharedMemPerBlk` as there; hipErrorInvalidValue for other flags.
    """
    _check_flags(flags)
    return groups_per_unit(kernel_of(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(f: Any, blockSize: int, dynSharedMemPerBlk: int = 0) -> int:
    """Do what `hipOccupancyMaxActiveBlocksPerMultiprocessor` does; hipErrorInvalidValue for None.

    `f` is the function, of groups of `blockSize` work-items, with `dynSharedMemPerBlk` bytes of dynamic local memory.
    """
    return groups_per_unit(_kernel(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    f: Any, blockSize: int, dynSharedMemPerBlk: int = 0, flags: int = hipOccupancyDefault
) -> int:
    """Do what `hipModuleOccupancyMaxActiveBlocksPerMultiprocessor` does; the flags are 0 or 1.

    `f`, `blockSize` and `dynSharedMemPerBlk` as there; hipErrorInvalidValue for other flags.
    """
    _check_flags(flags)
    return groups_per_unit(_kernel(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipOccupancyAvailableDynamicSMemPerBlock(f: Any, numBlocks: int, blockSize: int) -> int:
    """Return ``(hipError_t, bytes)`` of dynamic local memory with which `numBlocks` groups run at once on a unit.

    `f` is the function, of groups of `blockSize` work-items.

    Groups share what there is. hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for less
    than one group or work-item, and for more work-items than the kernel can have.
    """
    kernel = kernel_of(f)
    if numBlocks <= 0 or not groups_per_unit(kernel, blockSize, 0):
        raise HipError(hipError_t.hipErrorInvalidValue, f"{numBlocks} groups of {blockSize} work-items")
    room = max(int(kernel.device.driver.limits.local_bytes) // numBlocks - kernel.static_local_bytes, 0)
    if groups_per_unit(kernel, blockSize, 0) >= numBlocks:  # a GPU keeps some for itself, of each group
        while room and groups_per_unit(kernel, blockSize, room) < numBlocks:
            room = max(room - KEPT, 0)
    return room


@api(outputs=2)
def hipOccupancyMaxPotentialBlockSize(f: Any, dynSharedMemPerBlk: int = 0, blockSizeLimit: int = 0) -> tuple[int, int]:
    """Return ``(hipError_t, gridSize, blockSize)``: the groups of which most work-items run at once, and how many do.

    `f` is the function, with `dynSharedMemPerBlk` bytes of dynamic local memory and groups of at most `blockSizeLimit`
    work-items; 0 is no limit.

    hipErrorInvalidValue without a function, and for more local memory than there is.
    """
    return _block_size(_kernel(f), dynSharedMemPerBlk, blockSizeLimit)


@api(outputs=2)
def hipModuleOccupancyMaxPotentialBlockSize(
    f: Any, dynSharedMemPerBlk: int = 0, blockSizeLimit: int = 0
) -> tuple[int, int]:
    """Do what `hipOccupancyMaxPotentialBlockSize` does.

    `f`, `dynSharedMemPerBlk` and `blockSizeLimit` as there.
    """
    return _block_size(_kernel(f), dynSharedMemPerBlk, blockSizeLimit)


@api(outputs=2)
def hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
    f: Any, dynSharedMemPerBlk: int = 0, blockSizeLimit: int = 0, flags: int = hipOccupancyDefault
) -> tuple[int, int]:
    """Do what `hipOccupancyMaxPotentialBlockSize` does; the flags are 0 or 1.

    `f`, `dynSharedMemPerBlk` and `blockSizeLimit` as there; hipErrorInvalidValue for other flags.
    """
    _check_flags(flags)
    return _block_size(_kernel(f), dynSharedMemPerBlk, blockSizeLimit)
