"""What is known of memory by its address: attributes of pointers, hints, and what processes share.

Hints about managed memory are remembered. Prefetches go to the driver where it takes them (CUDA); of advice no driver
is informed, and memory moves as drivers see fit. Processes of one machine share memory and events on CUDA.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from forebay.core.errors import InvalidArgumentError
from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation, Place, found_at
from forebay.hip.devices import current_device, current_number, device_number, device_of, number_of
from forebay.hip.errors import HipError, api, check_params, enumerator, invalid
from forebay.hip.events import enter_shared, event_of, ihipEvent_t
from forebay.hip.facts import (
    Opaque,
    hipError_t,
    hipIpcEventHandle_st,
    hipIpcMemHandle_st,
    hipMemLocation,
    hipMemLocationType,
    hipMemoryAdvise,
    hipMemoryType,
    hipMemRangeAttribute,
    hipMemRangeCoherencyMode,
    hipPointer_attribute,
    hipPointerAttribute_t,
)
from forebay.hip.memory import hand_out, size_of
from forebay.hip.pointers import DeviceArray, Pointer, address_of
from forebay.hip.streams import queue_of
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.transfers import prefetch


@api(outputs=2)
def hipMemGetAddressRange(dptr: Any) -> tuple[Pointer, int]:
    """Return ``(hipError_t, base, bytes)`` of the allocation that the pointer is in.

    `dptr` points anywhere into it; hipErrorInvalidValue for memory that is not from here.
    """
    allocation, _ = found_at(dptr)
    return Pointer(allocation.base), allocation.nbytes


@api(outputs=1)
def hipMemPtrGetInfo(ptr: Any) -> int:
    """Return ``(hipError_t, bytes)`` of the allocation that the pointer is in.

    `ptr` points anywhere into it; hipErrorInvalidValue for memory that is not from here.
    """
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
    """Find out what a pointer points to; ``(hipError_t, hipPointerAttribute_t)``.

    `ptr` points anywhere into an allocation; hipErrorInvalidValue for memory that is not from here.
    """
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

    `ptr` points anywhere into an allocation.

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
    to = Place(data, ctypes.sizeof(c_type), "data").bytes()
    to[:] = bytearray(c_type(find(found_at(ptr)[0], made)))


@api()
def hipPointerSetAttribute(value: Any, attribute: int, ptr: Any) -> None:
    """Accept HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, which makes no difference; ``(hipError_t,)``.

    `attribute` is a hipPointer_attribute, and `ptr` points anywhere into an allocation.

    hipErrorInvalidValue for other attributes, without a value, and for memory that is not from here.
    """
    found_at(ptr)
    if attribute != hipPointer_attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS or value is None:
        raise invalid(f"the attribute {attribute!r} cannot be set to {value!r}")


# -- hints


class Hints:
    """What a program has said of an allocation; as in HIP it counts for all of it."""

    def __init__(self) -> None:
        self.read_mostly = False
        self.coarse = False
        self.preferred: int = facts.hipInvalidDeviceId
        self.prefetched: int = facts.hipInvalidDeviceId
        self.accessed_by: list[int] = []


def _range(ptr: Any, count: Any, what: str) -> Hints:
    nbytes = size_of(count)
    allocation, offset = found_at(ptr)
    if allocation.kind != hipMemoryType.hipMemoryTypeManaged or nbytes == 0 or offset + nbytes > allocation.nbytes:
        raise invalid(f"{what}: these {nbytes} bytes are not memory of hipMallocManaged")
    return _hints_of(allocation)


def _hints_of(allocation: Allocation) -> Hints:
    if allocation.hints is None:
        allocation.hints = Hints()
    hints: Hints = allocation.hints
    return hints


def _place(device: Any) -> int:
    return facts.hipCpuDeviceId if device == facts.hipCpuDeviceId else device_number(device)


def _place_of(location: Any) -> int:
    """Return the number of a hipMemLocation's device, or hipCpuDeviceId."""
    check_params(location, hipMemLocation)
    if location.type == hipMemLocationType.hipMemLocationTypeDevice:
        return device_number(location.id)
    if location.type == hipMemLocationType.hipMemLocationTypeInvalid:
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
    hints.prefetched = place


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
    known = enumerator(hipMemoryAdvise, advice, "no advice")
    if known in (hipMemoryAdvise.hipMemAdviseSetReadMostly, hipMemoryAdvise.hipMemAdviseUnsetReadMostly):
        hints.read_mostly = known == hipMemoryAdvise.hipMemAdviseSetReadMostly
    elif known in (hipMemoryAdvise.hipMemAdviseSetCoarseGrain, hipMemoryAdvise.hipMemAdviseUnsetCoarseGrain):
        hints.coarse = known == hipMemoryAdvise.hipMemAdviseSetCoarseGrain
    elif known == hipMemoryAdvise.hipMemAdviseSetPreferredLocation:
        hints.preferred = place
    elif known == hipMemoryAdvise.hipMemAdviseUnsetPreferredLocation:
        hints.preferred = facts.hipInvalidDeviceId
    elif known == hipMemoryAdvise.hipMemAdviseSetAccessedBy:
        hints.accessed_by = [*(each for each in hints.accessed_by if each != place), place]
    else:
        hints.accessed_by = [each for each in hints.accessed_by if each != place]


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


def _words(hints: Hints, attribute: hipMemRangeAttribute, count: int) -> list[int]:
    if attribute == hipMemRangeAttribute.hipMemRangeAttributeAccessedBy:
        return [*hints.accessed_by[:count], *[facts.hipInvalidDeviceId] * (count - len(hints.accessed_by))]
    mode = hipMemRangeCoherencyMode
    return [
        {
            hipMemRangeAttribute.hipMemRangeAttributeReadMostly: int(hints.read_mostly),
            hipMemRangeAttribute.hipMemRangeAttributePreferredLocation: hints.preferred,
            hipMemRangeAttribute.hipMemRangeAttributeLastPrefetchLocation: hints.prefetched,
            hipMemRangeAttribute.hipMemRangeAttributeCoherencyMode: int(
                mode.hipMemRangeCoherencyModeCoarseGrain if hints.coarse else mode.hipMemRangeCoherencyModeFineGrain
            ),
        }[attribute]
    ]


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
    known = enumerator(hipMemRangeAttribute, attribute, "memory has no attribute")
    several = known == hipMemRangeAttribute.hipMemRangeAttributeAccessedBy
    if nbytes == 0 or nbytes % 4 or (nbytes != 4 and not several):
        raise invalid(f"{known.name} does not have {nbytes} bytes")
    words = _words(hints, known, nbytes // 4)
    Place(data, nbytes, "data").bytes()[:] = bytearray((ctypes.c_int32 * len(words))(*words))


@api()
def hipStreamAttachMemAsync(stream: Any, dev_ptr: Any, length: int = 0, flags: int = facts.hipMemAttachSingle) -> None:
    """Accept which stream uses managed memory, which makes no difference; ``(hipError_t,)``. Does not block.

    `dev_ptr` is what `hipMallocManaged` returned, and `flags` are hipMemAttach….

    `length` is 0 or all of the allocation. hipErrorInvalidValue for other memory, lengths and flags.
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


def _read(handle: Any, kind: type[Opaque]) -> bytes:
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
    raw = _read(handle, hipIpcMemHandle_st)
    if flags != facts.hipIpcMemLazyEnablePeerAccess:
        raise invalid(f"hipIpcOpenMemHandle: flags {flags!r}")
    device = current_device()
    with _opening:
        for each in allocations.all_of(current_number()):
            if each.ipc_handle == raw and not each.opened:
                raise HipError(hipError_t.hipErrorInvalidContext, "this memory is of this process: only others open it")
            if each.ipc_handle == raw:
                each.opened += 1
                again = DeviceArray(each.base, (each.nbytes,))
                again.buffer, again._owner = each.memory, each
                return again
        try:
            memory = device.open_ipc_memory(raw)
        except InvalidArgumentError as error:
            raise HipError(hipError_t.hipErrorInvalidHandle, str(error)) from error
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
    raw = _read(handle, hipIpcEventHandle_st)
    try:
        event = current_device().open_ipc_event(raw)
    except InvalidArgumentError as error:
        raise HipError(hipError_t.hipErrorInvalidHandle, str(error)) from error
    return enter_shared(event, facts.hipEventInterprocess | facts.hipEventDisableTiming)
