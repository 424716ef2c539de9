"""Memory of the host for kernels and copies: of `hipHostMalloc`, or the program's own once it is registered."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from forebay.hip import allocations
from forebay.hip.addresses import found_at
from forebay.hip.allocations import Allocation
from forebay.hip.devices import current_device, current_number, device_of
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    hipError_t,
    hipHostRegisterIoMemory,
    hipHostRegisterMapped,
    hipHostRegisterPortable,
    hipHostRegisterReadOnly,
    hipMemoryType,
)
from forebay.hip.memory import size_of
from forebay.hip.pointers import Pointer, address_of
from forebay.queues.capture_rules import refuse_unsafe
from forebay.queues.device import finish_all, leave_host_memory
from forebay.queues.memory.buffer import Buffer

FLAGS: int = hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | hipHostRegisterReadOnly


def _host_memory(ptr: Any) -> tuple[Allocation, int]:
    allocation, offset = found_at(ptr)
    if allocation.kind != hipMemoryType.hipMemoryTypeHost:
        raise HipError(hipError_t.hipErrorInvalidValue, "this memory is neither from hipHostMalloc nor registered")
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
    if address == 0 or nbytes == 0 or flags & ~FLAGS:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipHostRegister: {nbytes} bytes at {address:#x}, {flags!r}")
    if isinstance(owner, np.ndarray) and (owner.nbytes < nbytes or not owner.flags.writeable):
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipHostRegister: {owner.nbytes} bytes that can be written to")
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

    `hostPtr` is what was registered.

    hipErrorInvalidValue for a null pointer, hipErrorHostMemoryNotRegistered when none that is registered begins there.
    """
    address, _ = address_of(hostPtr)
    if address == 0:
        raise HipError(hipError_t.hipErrorInvalidValue, "hipHostUnregister: the pointer is null")
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
    allocation, offset = _host_memory(hstPtr)
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipHostGetDevicePointer: flags have to be 0, not {flags}")
    if not isinstance(allocation.memory, Buffer):
        raise allocation.for_copies_only()
    return Pointer(allocation.base + offset)


@api(outputs=1)
def hipHostGetFlags(hostPtr: Any) -> int:
    """Return ``(hipError_t, flags)`` that the memory was allocated or registered with; else hipErrorInvalidValue.

    `hostPtr` points into memory of `hipHostMalloc` or `hipHostRegister`.
    """
    return _host_memory(hostPtr)[0].flags
