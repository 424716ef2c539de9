"""Memory of the device, of the host and of both; what a pointer points to."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

from forebay.core.errors import ArgumentTypeError, NotSupportedError
from forebay.hip import allocations
from forebay.hip.allocations import Allocation
from forebay.hip.compiled import known
from forebay.hip.devices import current_device, current_number, device_of, infos
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    hipDeviceMallocDefault,
    hipDeviceMallocFinegrained,
    hipDeviceMallocUncached,
    hipError_t,
    hipHostMallocCoherent,
    hipHostMallocMapped,
    hipHostMallocNonCoherent,
    hipHostMallocNumaUser,
    hipHostMallocPortable,
    hipHostMallocWriteCombined,
    hipMallocSignalMemory,
    hipMemAttachGlobal,
    hipMemAttachHost,
    hipMemoryType,
)
from forebay.hip.pointers import DeviceArray, HostArray, address_of
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import refuse_unsafe
from forebay.queues.device import Device, finish_all, give_back_shared
from forebay.queues.graphs.executable import figures_of
from forebay.queues.memory.allocation import host_empty
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue

DEVICE_FLAGS = (
    hipDeviceMallocDefault,
    hipDeviceMallocFinegrained,
    hipDeviceMallocUncached,
    hipMallocSignalMemory,
)
HOST_FLAGS: int = (
    hipHostMallocPortable
    | hipHostMallocMapped
    | hipHostMallocWriteCombined
    | hipHostMallocNumaUser
    | hipHostMallocCoherent
    | hipHostMallocNonCoherent
)


def size_of(size: Any) -> int:
    """Check a number of bytes."""
    try:
        nbytes = operator.index(size)
    except TypeError:
        raise ArgumentTypeError(f"a size is an int, not {type(size).__name__}") from None
    if nbytes < 0:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a size of {nbytes} bytes")
    return nbytes


def hand_out(kind: type[Any], memory: Any, where: hipMemoryType, flags: int = 0, pooled: bool = False) -> Any:
    """Make memory known by its addresses, and return the pointer to it."""
    allocation = Allocation(memory, where, current_number(), flags, pooled)
    allocations.enter(allocation)
    pointer = kind(allocation.base, (allocation.nbytes,))
    pointer.buffer = memory if isinstance(memory, Buffer) else None
    pointer._owner = allocation
    return pointer


def pointer_to(allocation: Allocation) -> DeviceArray:
    """Return a pointer to memory of the device that is already known."""
    pointer = DeviceArray(allocation.base, (allocation.nbytes,))
    pointer.buffer, pointer._owner = allocation.memory, allocation
    return pointer


def allocate(nbytes: int) -> DeviceArray:
    """Allocate memory of the current device; a null pointer for 0 bytes."""
    if nbytes == 0:
        return DeviceArray(None, (0,))
    device = current_device()
    memory = device.empty(nbytes, "u1", ipc_enabled=device.driver.has_ipc)
    result: DeviceArray = hand_out(DeviceArray, memory, hipMemoryType.hipMemoryTypeDevice)
    return result


@api(outputs=1)
def hipMalloc(size: int) -> DeviceArray:
    """Allocate memory of the current device; ``(hipError_t, pointer)``.

    `size` is in bytes.

    A null pointer for 0 bytes; hipErrorOutOfMemory when there is not enough.
    """
    return allocate(size_of(size))


@api(outputs=1)
def hipExtMallocWithFlags(sizeBytes: int, flags: int) -> DeviceArray:
    """Do what `hipMalloc` does; the flags of HIP make no difference.

    `sizeBytes` is what is allocated. Returns ``(hipError_t, pointer)``.

    hipErrorInvalidValue for others, and for hipMallocSignalMemory with other than 8 bytes.
    """
    nbytes = size_of(sizeBytes)
    if flags not in DEVICE_FLAGS or (flags == hipMallocSignalMemory and nbytes != 8):
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipExtMallocWithFlags({nbytes}, {flags!r})")
    return allocate(nbytes)


def _host_memory(device: Device, nbytes: int) -> Any:
    """Memory of the host that kernels can use as well, of the kind that the driver has; else an array for copies."""
    for usm_type in ("host", "shared"):
        with contextlib.suppress(NotSupportedError):
            return device.empty(nbytes, "u1", usm_type=usm_type)
    return host_empty(nbytes, "u1", device)


def _host_malloc(size: int, flags: int) -> Any:
    nbytes = size_of(size)
    if flags & ~HOST_FLAGS or (flags & hipHostMallocCoherent and flags & hipHostMallocNonCoherent):
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipHostMalloc has no flags {flags!r}")
    if nbytes == 0:
        return HostArray(None, (0,))
    return hand_out(HostArray, _host_memory(current_device(), nbytes), hipMemoryType.hipMemoryTypeHost, flags)


@api(outputs=1)
def hipHostMalloc(size: int, flags: int = 0) -> Any:
    """Allocate memory of the host that kernels can use too; ``(hipError_t, pointer)``.

    `size` is in bytes.

    ``numpy.asarray(pointer)`` is an array on it. The flags make no difference. Some devices cannot map such memory
    (hipDeviceAttributeCanMapHostMemory is 0: OpenCL without fine-grained SVM). There it is pinned and good for copies
    only, which are not staged then; kernels, memsets and values that streams wait for or write get
    hipErrorNotSupported. A null pointer for 0 bytes; hipErrorInvalidValue for unknown flags.
    """
    return _host_malloc(size, flags)


@api(outputs=1)
def hipHostAlloc(size: int, flags: int = 0) -> Any:
    """Do what `hipHostMalloc` does, under its newer name.

    `size` is in bytes, `flags` as there. Returns ``(hipError_t, pointer)``.
    """
    return _host_malloc(size, flags)


@api(outputs=1)
def hipMallocHost(size: int) -> Any:
    """Do what `hipHostMalloc` does, without flags.

    `size` is in bytes. Returns ``(hipError_t, pointer)``.
    """
    return _host_malloc(size, 0)


@api(outputs=1)
def hipMemAllocHost(size: int) -> Any:
    """Do what `hipHostMalloc` does, without flags.

    `size` is in bytes. Returns ``(hipError_t, pointer)``.
    """
    return _host_malloc(size, 0)


@api(outputs=1)
def hipMallocManaged(size: int, flags: int = hipMemAttachGlobal) -> Any:
    """Allocate memory that host and device use in turn; ``(hipError_t, pointer)``.

    `size` is in bytes.

    hipErrorInvalidValue for 0 bytes and for flags other than hipMemAttachGlobal and hipMemAttachHost,
    hipErrorNotSupported where the device has no such memory.
    """
    nbytes = size_of(size)
    if nbytes == 0 or flags not in (hipMemAttachGlobal, hipMemAttachHost):
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipMallocManaged({nbytes}, {flags!r})")
    buffer = current_device().empty(nbytes, "u1", usm_type="shared")
    return hand_out(HostArray, buffer, hipMemoryType.hipMemoryTypeManaged, flags)


def _take(ptr: Any, *kinds: hipMemoryType) -> Allocation | None:
    """Return the allocation that begins there; None for a null pointer."""
    address, _ = address_of(ptr)
    if address == 0:
        return None
    allocation = allocations.peek(address)
    if allocation is None or allocation.kind not in kinds:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no allocation of this kind begins at {address:#x}")
    if allocation.variable:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a variable begins at {address:#x}: its module frees it")
    if allocation.registered:
        raise HipError(hipError_t.hipErrorInvalidValue, f"the program's own memory begins at {address:#x}")
    if allocation.opened:
        raise HipError(hipError_t.hipErrorInvalidValue, "memory of another process: hipIpcCloseMemHandle")
    return allocation


def _free(ptr: Any, *kinds: hipMemoryType) -> None:
    allocation = _take(ptr, *kinds)
    if allocation is None:
        return
    device = device_of(allocation.device)
    refuse_unsafe("hipFree")
    finish_all(device)
    if allocation.graph_memory is not None:
        _free_in_order(allocation, device.null_queue)
        return
    if allocations.take(allocation.base) is not allocation:
        raise HipError(hipError_t.hipErrorInvalidValue, "another thread has just freed it")
    if allocation.pooled:
        device.null_queue.free(allocation.memory)
    else:
        allocation.close()
        give_back_shared(device)


def _free_in_order(allocation: Allocation, queue: Queue) -> None:
    """Free memory of a graph, which stays known for its next launch; in a capture that becomes a node."""
    queue.free(allocation.memory)
    allocation.forget_unused()


@api()
def hipFree(ptr: Any) -> None:
    """Give memory back, after everything submitted to its device is done; ``(hipError_t,)``. Blocks for that.

    `ptr` is what `hipMalloc`, `hipMallocAsync` or `hipMallocManaged` returned.

    None is accepted. hipErrorInvalidValue when no allocation of the device begins there, when it was freed before, or
    when it is memory of a graph and not in use.
    """
    _free(ptr, hipMemoryType.hipMemoryTypeDevice, hipMemoryType.hipMemoryTypeManaged)


@api()
def hipHostFree(ptr: Any) -> None:
    """Give memory of `hipHostMalloc` back, as `hipFree` does its own; ``(hipError_t,)``.

    `ptr` is what `hipHostMalloc` returned, or None. Blocks, and fails, as `hipFree`.
    """
    _free(ptr, hipMemoryType.hipMemoryTypeHost)


@api()
def hipFreeHost(ptr: Any) -> None:
    """Do what `hipHostFree` does, under its older name.

    `ptr` is what `hipHostMalloc` returned. Blocks. Returns ``(hipError_t,)``.
    """
    _free(ptr, hipMemoryType.hipMemoryTypeHost)


@known.hipMallocAsync
@api(outputs=1)
def hipMallocAsync(size: int, stream: Any = None) -> DeviceArray:
    """Allocate memory for what comes later on the stream; ``(hipError_t, pointer)``. Does not block.

    `size` is in bytes; `stream` is a stream, None or 0.

    From the device's memory pool, see `forebay.Queue.alloc`. A null pointer for 0 bytes. In a capture it becomes a
    node, see `hipGraphAddMemAllocNode`.
    """
    nbytes = size_of(size)
    queue = queue_of(stream)
    if nbytes == 0:
        return DeviceArray(None, (0,))
    buffer = queue.alloc(nbytes, "u1")
    result: DeviceArray = hand_out(DeviceArray, buffer, hipMemoryType.hipMemoryTypeDevice, pooled=True)
    return result


@known.hipFreeAsync
@api()
def hipFreeAsync(dev_ptr: Any, stream: Any = None) -> None:
    """Give memory back in the order of the stream, after everything submitted to it; ``(hipError_t,)``.

    `dev_ptr` is what `hipMallocAsync` or `hipMalloc` returned; `stream` is a stream, None or 0.

    Memory of `hipMalloc` is freed when everything submitted to its device so far is done. Does not block.
    hipErrorInvalidValue for a null pointer (unlike `hipFree`), when no allocation begins there, or it was freed before.
    In a capture it becomes a node, see `hipGraphAddMemFreeNode`; only memory that a graph allocates can be freed there.
    """
    allocation = _take(dev_ptr, hipMemoryType.hipMemoryTypeDevice, hipMemoryType.hipMemoryTypeManaged)
    if allocation is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "hipFreeAsync: the pointer is null")
    queue = queue_of(stream)
    if allocation.graph_memory is not None or queue.capturing:
        _free_in_order(allocation, queue)
        return
    if allocations.take(allocation.base) is not allocation:
        raise HipError(hipError_t.hipErrorInvalidValue, "another thread has just freed it")
    if not allocation.pooled:
        allocation.close()
        return
    try:
        queue.free(allocation.memory)
    except BaseException:
        allocations.enter(allocation)
        raise


known.connect(Allocation, hipMemoryType.hipMemoryTypeDevice, hipMemoryType.hipMemoryTypeManaged)


@api(outputs=2)
def hipMemGetInfo() -> tuple[int, int]:
    """Return ``(hipError_t, free, total)`` bytes of the current device.

    Free is the total, less what this process has allocated and what its memory pool and its graphs have reserved.
    Drivers do not report what other processes use.
    """
    device = current_device()
    total = infos()[current_number()].memory
    T = hipMemoryType
    of_the_device = T.hipMemoryTypeDevice, T.hipMemoryTypeManaged, T.hipMemoryTypeArray
    there = allocations.all_of(current_number())
    own = [a for a in there if not (a.pooled or a.variable or a.opened) and a.kind in of_the_device]
    used = sum(a.nbytes for a in own) + device.pool.reserved + figures_of(device).reserved
    return max(total - used, 0), total
