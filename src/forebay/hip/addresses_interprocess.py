"""Memory and events that processes share: on CUDA, between processes of one machine."""

from __future__ import annotations

import threading
from typing import Any

from forebay.core.errors import InvalidArgumentError
from forebay.hip import allocations
from forebay.hip.addresses import found_at
from forebay.hip.devices import current_device, current_number, device_of
from forebay.hip.errors import HipError, api
from forebay.hip.events import enter_shared, event_of, ihipEvent_t
from forebay.hip.facts import (
    Opaque,
    hipError_t,
    hipEventDisableTiming,
    hipEventInterprocess,
    hipIpcEventHandle_st,
    hipIpcMemHandle_st,
    hipIpcMemLazyEnablePeerAccess,
    hipMemoryType,
)
from forebay.hip.memory import hand_out
from forebay.hip.pointers import DeviceArray, address_of

HANDLE_BYTES = 64

_opening = threading.Lock()  # also of the counts of what is open


def _read(handle: Any, kind: type[Opaque]) -> bytes:
    if isinstance(handle, Opaque):
        if not isinstance(handle, kind):
            raise HipError(hipError_t.hipErrorInvalidValue, f"a {kind.__name__} is needed, not {handle!r}")
        handle = bytes(handle)
    if not isinstance(handle, (bytes, bytearray, memoryview)) or len(handle) != HANDLE_BYTES:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a {kind.__name__} is {HANDLE_BYTES} bytes, not {handle!r}")
    return bytes(handle)


@api(outputs=1)
def hipIpcGetMemHandle(devPtr: Any) -> hipIpcMemHandle_st:
    """Return ``(hipError_t, hipIpcMemHandle_t)`` by which another process opens memory of `hipMalloc`. Does not block.

    `devPtr` points anywhere into it: the handle is always of the whole. It must not be freed before it is closed there.

    hipErrorInvalidValue for other memory, hipErrorNotSupported where processes share none: all but CUDA.
    """
    allocation, _ = found_at(devPtr)
    if allocation.kind != hipMemoryType.hipMemoryTypeDevice or allocation.pooled or allocation.opened:
        raise HipError(hipError_t.hipErrorInvalidValue, f"the memory at {allocation.base:#x} is not of hipMalloc")
    handle = allocation.memory.ipc_handle
    allocation.ipc_handle = handle
    return hipIpcMemHandle_st(handle)


@api(outputs=1)
def hipIpcOpenMemHandle(handle: Any, flags: int = hipIpcMemLazyEnablePeerAccess) -> DeviceArray:
    """Open memory of another process on the current device; ``(hipError_t, pointer)``.

    `flags` have to be hipIpcMemLazyEnablePeerAccess. Opened again, it is the same pointer, to be closed as often.

    Blocks until nothing runs on the GPU if such memory was closed before. hipErrorInvalidContext for a handle of this
    process, hipErrorInvalidHandle for one that opens nothing, hipErrorInvalidValue for what is none and for other
    flags, hipErrorNotSupported where processes share no memory: all but CUDA.
    """
    raw = _read(handle, hipIpcMemHandle_st)
    if flags != hipIpcMemLazyEnablePeerAccess:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipIpcOpenMemHandle: flags {flags!r}")
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
            raise HipError(hipError_t.hipErrorInvalidValue, f"no memory of another process begins at {address:#x}")
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
        raise HipError(hipError_t.hipErrorInvalidValue, "this event was made without hipEventInterprocess")
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
    return enter_shared(event, hipEventInterprocess | hipEventDisableTiming)
