"""Memory of the device, of the host and of both: allocated, registered, freed, and from pools; what an address says.

Hints about managed memory are remembered. Prefetches go to the driver where it takes them (CUDA); of advice no driver
is informed, and memory moves as drivers see fit. Processes of one machine share memory and events on CUDA.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, NotSupportedError
from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation, Place, found_at, write
from forebay.hip.compiled import commands, known
from forebay.hip.devices import current_device, current_number, device_number, device_of, infos, number_of
from forebay.hip.errors import (
    HipError,
    HipFunction,
    Result,
    alias,
    api,
    check_params,
    enumerator,
    invalid,
    raised_as,
    size_of,
)
from forebay.hip.facts import (
    Opaque,
    flags_of,
    hipError_t,
    hipIpcEventHandle_st,
    hipIpcMemHandle_st,
    hipMemAccessFlags,
    hipMemLocation,
    hipMemoryAdvise,
    hipMemoryType,
    hipMemPoolAttr,
    hipMemRangeAttribute,
    hipPointer_attribute,
    hipPointerAttribute_t,
    words,
)
from forebay.hip.pointers import DeviceArray, HostArray, Number, Pointer, address_of, handle_number
from forebay.hip.streams import enter_shared, event_of, ihipEvent_t, queue_of
from forebay.queues.capture_rules import refuse_unsafe
from forebay.queues.device import Device, finish_all, give_back_shared, leave_host_memory
from forebay.queues.graphs.executable import figures_of
from forebay.queues.memory.allocation import host_empty
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.pool import MemoryPool
from forebay.queues.memory.transfers import prefetch
from forebay.queues.queue import Queue

DEVICE_FLAGS = [getattr(facts, name) for name in facts.FACTS["flags"]["hipExtMallocWithFlags"]]
HOST_FLAGS = flags_of("hipHostMalloc")


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
    if flags not in DEVICE_FLAGS or (flags == facts.hipMallocSignalMemory and nbytes != 8):
        raise invalid(f"hipExtMallocWithFlags({nbytes}, {flags!r})")
    return allocate(nbytes)


def _host_memory(device: Device, nbytes: int) -> Any:
    """Memory of the host that kernels can use as well, of the kind that the driver has; else an array for copies."""
    for usm_type in ("host", "shared"):
        with contextlib.suppress(NotSupportedError):
            return device.empty(nbytes, "u1", usm_type=usm_type)
    return host_empty(nbytes, "u1", device)


@api(outputs=1)
def hipHostMalloc(size: int, flags: int = 0) -> Any:
    """Allocate memory of the host that kernels can use too; ``(hipError_t, pointer)``.

    ``numpy.asarray(pointer)`` is an array on it. The flags make no difference. Some devices cannot map such memory
    (hipDeviceAttributeCanMapHostMemory is 0: OpenCL without fine-grained SVM). There it is pinned and good for copies
    only, which are not staged then; kernels, memsets and values that streams wait for or write get
    hipErrorNotSupported. A null pointer for 0 bytes; hipErrorInvalidValue for unknown flags.
    """
    nbytes = size_of(size)
    if flags & ~HOST_FLAGS or (flags & facts.hipHostMallocCoherent and flags & facts.hipHostMallocNonCoherent):
        raise invalid(f"hipHostMalloc has no flags {flags!r}")
    if nbytes == 0:
        return HostArray(None, (0,))
    return hand_out(HostArray, _host_memory(current_device(), nbytes), hipMemoryType.hipMemoryTypeHost, flags)


hipHostAlloc: HipFunction = alias(hipHostMalloc, "hipHostAlloc", ", under its newer name")


@api(outputs=1)
def hipMallocHost(size: int) -> Any:
    """Do what `hipHostMalloc` does, without flags."""
    return hipHostMalloc.__wrapped__(size)  # type: ignore[attr-defined]


hipMemAllocHost: HipFunction = alias(hipMallocHost, "hipMemAllocHost")


@api(outputs=1)
def hipMallocManaged(size: int, flags: int = facts.hipMemAttachGlobal) -> Any:
    """Allocate memory that host and device use in turn; ``(hipError_t, pointer)``.

    hipErrorInvalidValue for 0 bytes and for flags other than hipMemAttachGlobal and hipMemAttachHost,
    hipErrorNotSupported where the device has no such memory.
    """
    nbytes = size_of(size)
    if nbytes == 0 or flags not in (facts.hipMemAttachGlobal, facts.hipMemAttachHost):
        raise invalid(f"hipMallocManaged({nbytes}, {flags!r})")
    buffer = current_device().empty(nbytes, "u1", usm_type="shared")
    return hand_out(HostArray, buffer, hipMemoryType.hipMemoryTypeManaged, flags)


def _take(ptr: Any, *kinds: hipMemoryType) -> Allocation | None:
    """Return the allocation that begins there; None for a null pointer."""
    address, _ = address_of(ptr)
    if address == 0:
        return None
    allocation = allocations.peek(address)
    if allocation is None or allocation.kind not in kinds:
        raise invalid(f"no allocation of this kind begins at {address:#x}")
    if allocation.variable:
        raise invalid(f"a variable begins at {address:#x}: its module frees it")
    if allocation.registered:
        raise invalid(f"the program's own memory begins at {address:#x}")
    if allocation.opened:
        raise invalid("memory of another process: hipIpcCloseMemHandle")
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
        raise invalid("another thread has just freed it")
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

    `ptr` is what `hipMalloc`, `hipMallocAsync` or `hipMallocManaged` returned, or None. hipErrorInvalidValue when no
    allocation of the device begins there, when it was freed before, or when it is memory of a graph and not in use.
    """
    _free(ptr, hipMemoryType.hipMemoryTypeDevice, hipMemoryType.hipMemoryTypeManaged)


@api()
def hipHostFree(ptr: Any) -> None:
    """Give memory of `hipHostMalloc` back, as `hipFree` does its own; ``(hipError_t,)``.

    `ptr` is what `hipHostMalloc` returned, or None. Blocks, and fails, as `hipFree`.
    """
    _free(ptr, hipMemoryType.hipMemoryTypeHost)


hipFreeHost: HipFunction = alias(hipHostFree, "hipFreeHost", ", under its older name")


@commands.ordinary
@api(outputs=1)
def hipMallocAsync(size: int, stream: Any = None) -> DeviceArray:
    """Allocate memory for what comes later on the stream; ``(hipError_t, pointer)``. Does not block.

    From the device's memory pool, see `forebay.Queue.alloc`. A null pointer for 0 bytes. In a capture it becomes a
    node, see `hipGraphAddMemAllocNode`.
    """
    return _allocate_on(queue_of(stream), size_of(size))


def _allocate_on(queue: Queue, nbytes: int) -> DeviceArray:
    if nbytes == 0:
        return DeviceArray(None, (0,))
    made: DeviceArray = hand_out(DeviceArray, queue.alloc(nbytes, "u1"), hipMemoryType.hipMemoryTypeDevice, pooled=True)
    return made


@commands.ordinary
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
        raise invalid("hipFreeAsync: the pointer is null")
    queue = queue_of(stream)
    if allocation.graph_memory is not None or queue.capturing:
        _free_in_order(allocation, queue)
        return
    if allocations.take(allocation.base) is not allocation:
        raise invalid("another thread has just freed it")
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


# -- the program's own memory


REGISTER_FLAGS = flags_of("hipHostRegister")


def _found_on_host(ptr: Any) -> tuple[Allocation, int]:
    allocation, offset = found_at(ptr)
    if allocation.kind != hipMemoryType.hipMemoryTypeHost:
        raise invalid("this memory is neither from hipHostMalloc nor registered")
    return allocation, offset


@api()
def hipHostRegister(hostPtr: Any, sizeBytes: int, flags: int = 0) -> None:
    """Make the program's own memory known, for copies and where it can be for kernels; ``(hipError_t,)``.

    `sizeBytes` bytes from `hostPtr` on.

    Parameters
    ----------
    hostPtr : address, or object with the buffer protocol
        It is not kept alive: unregister it before it goes.
    flags : int
        Make no difference.

    Kernels can use it on CPUs with OpenCL and on CUDA, where it is pinned. Elsewhere it is for copies only, as memory
    of `hipHostMalloc` may be: `hipHostGetDevicePointer` returns hipErrorNotSupported then.

    hipErrorInvalidValue for a null pointer, 0 bytes, more bytes than the object has, memory that cannot be written to
    and unknown flags; hipErrorHostMemoryAlreadyRegistered when any of it is known already. In a capture it is refused
    as `hipMalloc` is.
    """
    nbytes = size_of(sizeBytes)
    address, owner = address_of(hostPtr)
    if address == 0 or nbytes == 0 or flags & ~REGISTER_FLAGS:
        raise invalid(f"hipHostRegister: {nbytes} bytes at {address:#x}, {flags!r}")
    if isinstance(owner, np.ndarray) and (owner.nbytes < nbytes or not owner.flags.writeable):
        raise invalid(f"hipHostRegister: {owner.nbytes} bytes that can be written to")
    refuse_unsafe("hipHostRegister")
    device = current_device()
    if allocations.overlaps(address, nbytes):
        raise HipError(
            hipError_t.hipErrorHostMemoryAlreadyRegistered, f"there is memory in the {nbytes} bytes at {address:#x}"
        )
    memory: Any = device._over_host_memory(address, nbytes)
    if memory is None:
        memory = np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(address)), np.uint8)
    allocation = Allocation(memory, hipMemoryType.hipMemoryTypeHost, current_number(), flags)
    allocation.registered = True
    allocations.enter(allocation)


@api()
def hipHostUnregister(hostPtr: Any) -> None:
    """Forget memory of `hipHostRegister`, once everything submitted to its device is done; ``(hipError_t,)``. Blocks.

    hipErrorInvalidValue for a null pointer, hipErrorHostMemoryNotRegistered when none that is registered begins there.
    """
    address, _ = address_of(hostPtr)
    if address == 0:
        raise invalid("hipHostUnregister: the pointer is null")
    allocation = allocations.peek(address)
    if allocation is None or not allocation.registered:
        raise HipError(hipError_t.hipErrorHostMemoryNotRegistered, f"no registered memory begins at {address:#x}")
    refuse_unsafe("hipHostUnregister")
    device = device_of(allocation.device)
    finish_all(device)
    if allocations.take(address) is allocation and isinstance(allocation.memory, Buffer):
        leave_host_memory(device, allocation.memory)


@api(outputs=1)
def hipHostGetDevicePointer(hstPtr: Any, flags: int = 0) -> Pointer:
    """Return ``(hipError_t, pointer)`` for kernels to memory of `hipHostMalloc` or `hipHostRegister`: the same address.

    `hstPtr` may point anywhere into it, and `flags` have to be 0.

    hipErrorInvalidValue for other memory, hipErrorNotSupported where the device cannot map it.
    """
    allocation, offset = _found_on_host(hstPtr)
    if flags:
        raise invalid(f"hipHostGetDevicePointer: flags have to be 0, not {flags}")
    if not isinstance(allocation.memory, Buffer):
        raise allocation.for_copies_only()
    return Pointer(allocation.base + offset)


@api(outputs=1)
def hipHostGetFlags(hostPtr: Any) -> int:
    """Return ``(hipError_t, flags)`` that the memory was allocated or registered with; else hipErrorInvalidValue.

    `hostPtr` points into memory of `hipHostMalloc` or `hipHostRegister`.
    """
    return _found_on_host(hostPtr)[0].flags


# -- the pool of each device


FIRST_POOL = 1 << 62
Attr = hipMemPoolAttr
# HIP's attributes are forebay's: the name there, the type of HIP's value, and whether it can be set.
POOL_ATTRIBUTES: dict[hipMemPoolAttr, tuple[str, Any, bool]] = {
    attribute: (name, ctypes.c_int if name.startswith("reuse") else ctypes.c_uint64, name not in ("reserved", "used"))
    for name, attribute in words(Attr).items()
}


class ihipMemPoolHandle_t(Number):
    """A memory pool; compares, hashes and converts like its number."""

    @property
    def pool(self) -> MemoryPool:
        """The `forebay.MemoryPool`."""
        return device_of(self.address - FIRST_POOL).pool


hipMemPool_t = ihipMemPoolHandle_t


def _pool_of(mem_pool: Any) -> MemoryPool:
    if isinstance(mem_pool, MemoryPool):
        return mem_pool
    address = handle_number(mem_pool, "a memory pool")
    if address < FIRST_POOL:
        raise invalid(f"no memory pool: {mem_pool!r}")
    return device_of(device_number(address - FIRST_POOL)).pool


def _pool_attribute(attr: Any) -> tuple[str, Any, bool]:
    return POOL_ATTRIBUTES[enumerator(Attr, attr, "a memory pool has no attribute")]


@api(outputs=1)
def hipDeviceGetDefaultMemPool(device: int) -> ihipMemPoolHandle_t:
    """Return ``(hipError_t, pool)`` of the device; hipErrorInvalidDevice for an unknown device."""
    return ihipMemPoolHandle_t(FIRST_POOL + device_number(device))


hipDeviceGetMemPool: HipFunction = alias(
    hipDeviceGetDefaultMemPool, "hipDeviceGetMemPool", ": `hipMallocAsync` uses it"
)


@api(outputs=1)
def _get(mem_pool: Any, attr: int) -> int:
    return int(getattr(_pool_of(mem_pool), _pool_attribute(attr)[0]))


@api()
def _get_into(mem_pool: Any, attr: int, value: Any) -> None:
    name, c_type, _ = _pool_attribute(attr)
    write(value, c_type(int(getattr(_pool_of(mem_pool), name))), "value")


_NOWHERE = object()


def hipMemPoolGetAttribute(mem_pool: Any, attr: int, value: Any = _NOWHERE) -> Result:
    """Read an attribute of a memory pool.

    Parameters
    ----------
    mem_pool : ihipMemPoolHandle_t
    attr : hipMemPoolAttr
    value : object, optional
        Where to write it, as in HIP: a ctypes.c_int for the three settings, a ctypes.c_uint64 for sizes, or anything
        else with the buffer protocol or an address of this many bytes.

    Returns
    -------
    tuple
        ``(hipError_t,)``, or ``(hipError_t, int)`` without `value`. hipErrorInvalidValue for another pool or attribute.
    """
    return _get(mem_pool, attr) if value is _NOWHERE else _get_into(mem_pool, attr, value)


@api()
def hipMemPoolSetAttribute(mem_pool: Any, attr: int, value: Any) -> None:
    """Change an attribute of a memory pool, a hipMemPoolAttr; ``(hipError_t,)``.

    `value` is read from where it is, as in HIP: pass a ctypes.c_int or ctypes.c_uint64, or a pointer to one. An int is
    an address, as everywhere in this interface. hipErrorInvalidValue for an `attr` that cannot be set, and for a peak
    set to anything but 0.
    """
    name, c_type, can_be_set = _pool_attribute(attr)
    pool = _pool_of(mem_pool)
    if not can_be_set:
        raise invalid(f"{Attr(attr).name} cannot be set")
    number = int(c_type.from_buffer_copy(Place(value, ctypes.sizeof(c_type), "value").bytes()).value)
    setattr(pool, name, bool(number) if c_type is ctypes.c_int else number)


@api()
def hipMemPoolTrimTo(mem_pool: Any, min_bytes_to_hold: int) -> None:
    """Free unused memory down to this many reserved bytes; ``(hipError_t,)``. See `forebay.MemoryPool.trim`.

    `mem_pool` is the pool, and `min_bytes_to_hold` a number of bytes; hipErrorInvalidValue for what is no pool. Waits
    for nothing.
    """
    pool = _pool_of(mem_pool)
    if not isinstance(min_bytes_to_hold, int):
        raise ArgumentTypeError(f"min_bytes_to_hold is an int, not {type(min_bytes_to_hold).__name__}")
    pool.trim(size_of(min_bytes_to_hold))


@api()
def hipDeviceSetMemPool(device: int, mem_pool: Any) -> None:
    """Accept the one pool that a device has; ``(hipError_t,)``: hipErrorInvalidDevice for another device's.

    `device` is a device's number, and `mem_pool` what `hipDeviceGetDefaultMemPool` returned for it;
    hipErrorInvalidValue for what is no pool.
    """
    number = device_number(device)
    if _pool_of(mem_pool) is not device_of(number).pool:
        raise HipError(hipError_t.hipErrorInvalidDevice, f"this is not the pool of device {number}")


@api(outputs=1)
def hipMallocFromPoolAsync(size: int, mem_pool: Any, stream: Any = None) -> DeviceArray:
    """Do what `hipMallocAsync` does, with the pool of the stream's device; hipErrorInvalidValue for another pool.

    `size` is in bytes, and `mem_pool` what `hipDeviceGetDefaultMemPool` returned. Returns ``(hipError_t, pointer)``.
    """
    nbytes, pool, queue = size_of(size), _pool_of(mem_pool), queue_of(stream)
    if pool is not queue.device.pool:
        raise invalid("the pool and the stream are of two devices")
    return _allocate_on(queue, nbytes)


@api(outputs=1)
def hipMemPoolGetAccess(mem_pool: Any, location: Any) -> hipMemAccessFlags:
    """Return ``(hipError_t, hipMemAccessFlags)`` for a hipMemLocation: kernels of the pool's own device read and write.

    `mem_pool` is the pool, and `location` a device's.

    hipErrorInvalidValue for another pool and for anything but a device.
    """
    pool = _pool_of(mem_pool)
    check_params(location, hipMemLocation)
    with raised_as(hipError_t.hipErrorInvalidValue, HipError):
        own = device_of(device_number(location.id)).pool is pool
    return hipMemAccessFlags.hipMemAccessFlagsProtReadWrite if own else hipMemAccessFlags.hipMemAccessFlagsProtNone


# -- what is known of memory by its address


@api(outputs=2)
def hipMemGetAddressRange(dptr: Any) -> tuple[Pointer, int]:
    """Return ``(hipError_t, base, bytes)`` of the allocation that the pointer is in."""
    allocation, _ = found_at(dptr)
    return Pointer(allocation.base), allocation.nbytes


@api(outputs=1)
def hipMemPtrGetInfo(ptr: Any) -> int:
    """Return ``(hipError_t, bytes)`` of the allocation that the pointer is in."""
    return found_at(ptr)[0].nbytes


def _describe(ptr: Any) -> hipPointerAttribute_t:
    allocation, offset = found_at(ptr)
    address, attributes = allocation.base + offset, hipPointerAttribute_t()
    attributes.type, attributes.device = allocation.kind, allocation.device
    attributes.isManaged = int(allocation.kind == hipMemoryType.hipMemoryTypeManaged)
    attributes.allocationFlags = allocation.flags
    attributes.devicePointer = Pointer(address if isinstance(allocation.memory, Buffer) else None)
    on_device = allocation.kind == hipMemoryType.hipMemoryTypeDevice
    attributes.hostPointer = Pointer(None if on_device else address)
    return attributes


@api(outputs=1)
def hipPointerGetAttributes(ptr: Any) -> hipPointerAttribute_t:
    """Find out what a pointer points to; ``(hipError_t, hipPointerAttribute_t)``."""
    return _describe(ptr)


# What C writes for each, and where its value is found.
ATTRIBUTES: dict[hipPointer_attribute, tuple[Any, Callable[[Allocation, hipPointerAttribute_t], int]]] = {
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: (ctypes.c_uint32, lambda a, p: int(p.type)),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: (ctypes.c_uint64, lambda a, p: int(p.devicePointer)),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_HOST_POINTER: (ctypes.c_uint64, lambda a, p: int(p.hostPointer)),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: (ctypes.c_int, lambda a, p: 0),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_BUFFER_ID: (ctypes.c_uint64, lambda a, p: a.base),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_IS_MANAGED: (ctypes.c_bool, lambda a, p: p.isManaged),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: (ctypes.c_int, lambda a, p: a.device),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: (ctypes.c_uint64, lambda a, p: a.base),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_RANGE_SIZE: (ctypes.c_uint64, lambda a, p: a.nbytes),
    hipPointer_attribute.HIP_POINTER_ATTRIBUTE_MAPPED: (ctypes.c_bool, lambda a, p: isinstance(a.memory, Buffer)),
}


@api()
def hipPointerGetAttribute(data: Any, attribute: int, ptr: Any) -> None:
    """Write one attribute of a pointer to `data`, as C does; ``(hipError_t,)``.

    Parameters
    ----------
    data : ctypes value, or memory of the host
        uint32 for MEMORY_TYPE; uint64 for DEVICE_POINTER, HOST_POINTER, BUFFER_ID, RANGE_START_ADDR and RANGE_SIZE; int
        for DEVICE_ORDINAL and SYNC_MEMOPS; bool for IS_MANAGED and MAPPED.
    attribute : hipPointer_attribute

    hipErrorInvalidValue for other attributes and for memory that is not from here.
    """
    made = _describe(ptr)
    try:
        c_type, find = ATTRIBUTES[hipPointer_attribute(attribute)]
    except (KeyError, ValueError):
        raise invalid(f"a pointer has no attribute {attribute!r} here") from None
    write(data, c_type(find(found_at(ptr)[0], made)), "data")


@api()
def hipPointerSetAttribute(value: Any, attribute: int, ptr: Any) -> None:
    """Accept HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, which makes no difference; ``(hipError_t,)``.

    hipErrorInvalidValue for another `attribute`, which is a hipPointer_attribute, and without a value.
    """
    found_at(ptr)
    if attribute != hipPointer_attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS or value is None:
        raise invalid(f"the attribute {attribute!r} cannot be set to {value!r}")


# -- hints


COHERENCY = facts.hipMemRangeCoherencyMode
NOWHERE: int = facts.hipInvalidDeviceId
FINE, COARSE = int(COHERENCY.hipMemRangeCoherencyModeFineGrain), int(COHERENCY.hipMemRangeCoherencyModeCoarseGrain)
# What a program has said of an allocation, at first, by the ends of HIP's names; as in HIP it counts for all of it.
HINTS: dict[str, Any] = {
    "ReadMostly": 0, "PreferredLocation": NOWHERE, "AccessedBy": [], "LastPrefetchLocation": NOWHERE,
    "CoherencyMode": FINE,
}  # fmt: skip


def _range(ptr: Any, count: Any, what: str) -> dict[str, Any]:
    nbytes = size_of(count)
    allocation, offset = found_at(ptr)
    if allocation.kind != hipMemoryType.hipMemoryTypeManaged or nbytes == 0 or offset + nbytes > allocation.nbytes:
        raise invalid(f"{what}: these {nbytes} bytes are not memory of hipMallocManaged")
    if allocation.hints is None:
        allocation.hints = dict(HINTS)
    hints: dict[str, Any] = allocation.hints
    return hints


def _place(device: Any) -> int:
    return facts.hipCpuDeviceId if device == facts.hipCpuDeviceId else device_number(device)


def _place_of(location: Any) -> int:
    """Return the number of a hipMemLocation's device, or hipCpuDeviceId."""
    check_params(location, hipMemLocation)
    if location.type == facts.hipMemLocationType.hipMemLocationTypeDevice:
        return device_number(location.id)
    if location.type == facts.hipMemLocationType.hipMemLocationTypeInvalid:
        raise invalid("the location is nowhere: its type is not set")
    return facts.hipCpuDeviceId


def _prefetch(ptr: Any, count: Any, place: int, stream: Any) -> None:
    hints = _range(ptr, count, "hipMemPrefetchAsync")
    queue = queue_of(stream)
    queue._refuse_in_capture("hipMemPrefetchAsync")
    buffer = Place(ptr, size_of(count), "dev_ptr").buffer
    if (
        buffer is not None
        and buffer.device is queue.device
        and place in (facts.hipCpuDeviceId, number_of(queue.device))
    ):
        prefetch(queue, buffer, place == facts.hipCpuDeviceId)
    hints["LastPrefetchLocation"] = place


@api()
def hipMemPrefetchAsync(dev_ptr: Any, count: int, device: int, stream: Any = None) -> None:
    """Say where managed memory is wanted next; ``(hipError_t,)``. Does not block.

    `count` bytes from `dev_ptr` on; `stream` is a stream, None or 0.

    On CUDA the memory moves, in the order of the stream, between the host and the stream's device. Elsewhere this is
    remembered, and moves nothing.

    Parameters
    ----------
    device : int
        Or hipCpuDeviceId.

    hipErrorInvalidValue for other memory and for more bytes than there are, hipErrorInvalidDevice for an unknown
    device. Not in a capture.
    """
    _prefetch(dev_ptr, count, _place(device), stream)


@api()
def hipMemPrefetchAsync_v2(dev_ptr: Any, count: int, location: Any, flags: int = 0, stream: Any = None) -> None:
    """Do what `hipMemPrefetchAsync` does, for a hipMemLocation; the flags have to be 0.

    `dev_ptr`, `count` and `stream` as there; `location` is that structure. hipErrorInvalidValue for flags. Returns
    ``(hipError_t,)``.
    """
    if flags:
        raise invalid(f"hipMemPrefetchAsync_v2: flags have to be 0, not {flags}")
    _prefetch(dev_ptr, count, _place_of(location), stream)


def _advise(ptr: Any, count: Any, advice: Any, place: int) -> None:
    hints = _range(ptr, count, "hipMemAdvise")
    name = enumerator(hipMemoryAdvise, advice, "no advice").name.removeprefix("hipMemAdvise")
    sets, what = name.startswith("Set"), name.removeprefix("Unset").removeprefix("Set")
    if what == "ReadMostly":
        hints[what] = int(sets)
    elif what == "PreferredLocation":
        hints[what] = place if sets else NOWHERE
    elif what == "CoarseGrain":
        hints["CoherencyMode"] = COARSE if sets else FINE
    else:
        hints[what] = [each for each in hints[what] if each != place] + [place] * sets


@api()
def hipMemAdvise(dev_ptr: Any, count: int, advice: int, device: int) -> None:
    """Remember how managed memory is used, a hipMemoryAdvise; ``(hipError_t,)``. It counts for the whole allocation.

    `count` bytes from `dev_ptr` on, and `device` a number or hipCpuDeviceId.

    `hipMemRangeGetAttribute` returns it, and nothing else depends on it. hipErrorInvalidValue for other memory and
    another advice, hipErrorInvalidDevice for an unknown device. Does not block.
    """
    _advise(dev_ptr, count, advice, _place(device))


@api()
def hipMemAdvise_v2(dev_ptr: Any, count: int, advice: int, location: Any) -> None:
    """Do what `hipMemAdvise` does, for a hipMemLocation.

    `dev_ptr`, `count` and `advice` as there; `location` is that structure. Returns ``(hipError_t,)``.
    """
    _advise(dev_ptr, count, advice, _place_of(location))


@api()
def hipMemRangeGetAttribute(data: Any, data_size: int, attribute: int, dev_ptr: Any, count: int) -> None:
    """Write what was said of managed memory to `data`; ``(hipError_t,)``.

    It is of `count` bytes from `dev_ptr` on, in one allocation of `hipMallocManaged`. Does not block.

    Parameters
    ----------
    data : ctypes value, or memory of the host
        An int32; for AccessedBy as many as fit, those that are left hipInvalidDeviceId.
    data_size : int
        Bytes of `data`: 4, for AccessedBy a multiple.
    attribute : hipMemRangeAttribute

    hipErrorInvalidValue for other memory, sizes and attributes.
    """
    nbytes = size_of(data_size)
    hints = _range(dev_ptr, count, "hipMemRangeGetAttribute")
    name = enumerator(hipMemRangeAttribute, attribute, "memory has no attribute").name
    said = hints[name.removeprefix("hipMemRangeAttribute")]
    several = isinstance(said, list)
    if nbytes == 0 or nbytes % 4 or (nbytes != 4 and not several):
        raise invalid(f"{name} does not have {nbytes} bytes")
    count = nbytes // 4
    words = [*said, *[NOWHERE] * count][:count] if several else [said]
    write(data, (ctypes.c_int32 * count)(*words), "data")


@api()
def hipStreamAttachMemAsync(stream: Any, dev_ptr: Any, length: int = 0, flags: int = facts.hipMemAttachSingle) -> None:
    """Accept which stream uses managed memory, which makes no difference; ``(hipError_t,)``. Does not block.

    `dev_ptr` is what `hipMallocManaged` returned, `length` 0 or all of the allocation, and `flags` are hipMemAttach…:
    hipErrorInvalidValue for others.
    """
    queue = queue_of(stream)
    allocation, offset = found_at(dev_ptr)
    managed = allocation.kind == hipMemoryType.hipMemoryTypeManaged and offset == 0
    known = flags in (facts.hipMemAttachGlobal, facts.hipMemAttachHost, facts.hipMemAttachSingle)
    if not managed or not known or size_of(length) not in (0, allocation.nbytes):
        raise invalid(
            f"hipStreamAttachMemAsync takes all of an allocation of hipMallocManaged, not {length} bytes; {flags=}"
        )
    queue._refuse_in_capture("hipStreamAttachMemAsync")


# -- other processes


HANDLE_BYTES = 64

_opening = threading.Lock()  # also of the counts of what is open


def _read_handle(handle: Any, kind: type[Opaque]) -> bytes:
    if isinstance(handle, Opaque):
        if not isinstance(handle, kind):
            raise invalid(f"a {kind.__name__} is needed, not {handle!r}")
        handle = bytes(handle)
    if not isinstance(handle, (bytes, bytearray, memoryview)) or len(handle) != HANDLE_BYTES:
        raise invalid(f"a {kind.__name__} is {HANDLE_BYTES} bytes, not {handle!r}")
    return bytes(handle)


@api(outputs=1)
def hipIpcGetMemHandle(devPtr: Any) -> hipIpcMemHandle_st:
    """Return ``(hipError_t, hipIpcMemHandle_t)`` by which another process opens memory of `hipMalloc`. Does not block.

    `devPtr` points anywhere into it: the handle is always of the whole. It must not be freed before it is closed there.

    hipErrorInvalidValue for other memory, hipErrorNotSupported where processes share none: all but CUDA.
    """
    allocation, _ = found_at(devPtr)
    if allocation.kind != hipMemoryType.hipMemoryTypeDevice or allocation.pooled or allocation.opened:
        raise invalid(f"the memory at {allocation.base:#x} is not of hipMalloc")
    handle = allocation.memory.ipc_handle
    allocation.ipc_handle = handle
    return hipIpcMemHandle_st(handle)


@api(outputs=1)
def hipIpcOpenMemHandle(handle: Any, flags: int = facts.hipIpcMemLazyEnablePeerAccess) -> DeviceArray:
    """Open memory of another process on the current device; ``(hipError_t, pointer)``.

    `flags` have to be hipIpcMemLazyEnablePeerAccess. Opened again, it is the same pointer, to be closed as often.

    Blocks until nothing runs on the GPU if such memory was closed before. hipErrorInvalidContext for a handle of this
    process, hipErrorInvalidHandle for one that opens nothing, hipErrorInvalidValue for what is none and for other
    flags, hipErrorNotSupported where processes share no memory: all but CUDA.
    """
    raw = _read_handle(handle, hipIpcMemHandle_st)
    if flags != facts.hipIpcMemLazyEnablePeerAccess:
        raise invalid(f"hipIpcOpenMemHandle: flags {flags!r}")
    device = current_device()
    with _opening:
        for each in allocations.all_of(current_number()):
            if each.ipc_handle == raw and not each.opened:
                raise HipError(hipError_t.hipErrorInvalidContext, "this memory is of this process: only others open it")
            if each.ipc_handle == raw:
                each.opened += 1
                return pointer_to(each)
        with raised_as(hipError_t.hipErrorInvalidHandle, InvalidArgumentError):
            memory = device.open_ipc_memory(raw)
        pointer: DeviceArray = hand_out(DeviceArray, memory, hipMemoryType.hipMemoryTypeDevice)
        pointer._owner.opened, pointer._owner.ipc_handle = 1, raw
        return pointer


@api()
def hipIpcCloseMemHandle(devPtr: Any) -> None:
    """Close memory of another process, after everything submitted to its device is done; ``(hipError_t,)``. Blocks.

    `devPtr` is what `hipIpcOpenMemHandle` returned. The last close of it also waits until nothing else runs on the GPU.

    hipErrorInvalidValue when no such memory begins there.
    """
    address, _ = address_of(devPtr)
    with _opening:
        allocation = allocations.peek(address) if address else None
        if allocation is None or not allocation.opened:
            raise invalid(f"no memory of another process begins at {address:#x}")
        if allocation.opened > 1:
            allocation.opened -= 1
            return
        allocations.take(address)
    device_of(allocation.device).close_ipc_memory(allocation.memory)


@api(outputs=1)
def hipIpcGetEventHandle(event: Any) -> hipIpcEventHandle_st:
    """Return ``(hipError_t, hipIpcEventHandle_t)`` by which another process opens an event. Does not block.

    `event` was made with hipEventInterprocess and hipEventDisableTiming, and must not be destroyed before it is there.

    hipErrorInvalidValue for another one, hipErrorInvalidHandle for None, hipErrorContextIsDestroyed for one that was
    destroyed.
    """
    known = event_of(event)
    if known.shared is None:
        raise invalid("this event was made without hipEventInterprocess")
    return hipIpcEventHandle_st(known.shared.ipc_handle)


@api(outputs=1)
def hipIpcOpenEventHandle(handle: Any) -> ihipEvent_t:
    """Open an event of another process on the current device; ``(hipError_t, event)``. Does not block.

    hipErrorInvalidHandle for a handle that opens nothing here, and one of this process; hipErrorInvalidValue for what
    is no handle; hipErrorNotSupported where processes share no events: all but CUDA.
    """
    raw = _read_handle(handle, hipIpcEventHandle_st)
    with raised_as(hipError_t.hipErrorInvalidHandle, InvalidArgumentError):
        event = current_device().open_ipc_event(raw)
    return enter_shared(event, facts.hipEventInterprocess | facts.hipEventDisableTiming)
