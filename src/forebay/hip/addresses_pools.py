"""Memory pools: the default pool of each device, which `hipMallocAsync` takes its memory from."""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.core.errors import ArgumentTypeError
from forebay.hip.allocations import Place
from forebay.hip.devices import device_number, device_of
from forebay.hip.errors import HipError, Result, api, check_params
from forebay.hip.facts import (
    hipError_t,
    hipMemAccessFlags,
    hipMemLocation,
    hipMemoryType,
    hipMemPoolAttr,
)
from forebay.hip.memory import hand_out, size_of
from forebay.hip.pointers import DeviceArray, Number, handle_number
from forebay.hip.streams import queue_of
from forebay.queues.memory.pool import MemoryPool

FIRST_HANDLE = 1 << 62
Attr = hipMemPoolAttr
# HIP's attributes are forebay's: the name there, the type of HIP's value, and whether it can be set.
ATTRIBUTES: dict[hipMemPoolAttr, tuple[str, Any, bool]] = {
    Attr.hipMemPoolReuseFollowEventDependencies: ("reuse_follow_event_dependencies", ctypes.c_int, True),
    Attr.hipMemPoolReuseAllowOpportunistic: ("reuse_allow_opportunistic", ctypes.c_int, True),
    Attr.hipMemPoolReuseAllowInternalDependencies: ("reuse_allow_internal_dependencies", ctypes.c_int, True),
    Attr.hipMemPoolAttrReleaseThreshold: ("release_threshold", ctypes.c_uint64, True),
    Attr.hipMemPoolAttrReservedMemCurrent: ("reserved", ctypes.c_uint64, False),
    Attr.hipMemPoolAttrReservedMemHigh: ("reserved_high", ctypes.c_uint64, True),
    Attr.hipMemPoolAttrUsedMemCurrent: ("used", ctypes.c_uint64, False),
    Attr.hipMemPoolAttrUsedMemHigh: ("used_high", ctypes.c_uint64, True),
}


class ihipMemPoolHandle_t(Number):
    """A memory pool; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)

    @property
    def pool(self) -> MemoryPool:
        """The `forebay.MemoryPool`."""
        return device_of(self.address - FIRST_HANDLE).pool


hipMemPool_t = ihipMemPoolHandle_t


def _pool_of(mem_pool: Any) -> MemoryPool:
    if isinstance(mem_pool, MemoryPool):
        return mem_pool
    address = handle_number(mem_pool, "a memory pool")
    if address < FIRST_HANDLE:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no memory pool: {mem_pool!r}")
    return device_of(device_number(address - FIRST_HANDLE)).pool


def _attribute(attr: Any) -> tuple[str, Any, bool]:
    try:
        return ATTRIBUTES[Attr(attr)]
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a memory pool has no attribute {attr!r}") from None


@api(outputs=1)
def hipDeviceGetDefaultMemPool(device: int) -> ihipMemPoolHandle_t:
    """Return ``(hipError_t, pool)`` of the device; hipErrorInvalidDevice for an unknown device."""
    return ihipMemPoolHandle_t(FIRST_HANDLE + device_number(device))


@api(outputs=1)
def hipDeviceGetMemPool(device: int) -> ihipMemPoolHandle_t:
    """Return ``(hipError_t, pool)`` that `hipMallocAsync` uses: the default one.

    `device` is a device's number; hipErrorInvalidDevice for an unknown one.
    """
    return ihipMemPoolHandle_t(FIRST_HANDLE + device_number(device))


@api(outputs=1)
def _get(mem_pool: Any, attr: int) -> int:
    return int(getattr(_pool_of(mem_pool), _attribute(attr)[0]))


@api()
def _get_into(mem_pool: Any, attr: int, value: Any) -> None:
    name, c_type, _ = _attribute(attr)
    if value is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "hipMemPoolGetAttribute: nowhere to write the value")
    to = Place(value, ctypes.sizeof(c_type), "value").bytes()
    to[:] = bytearray(c_type(int(getattr(_pool_of(mem_pool), name))))


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
    """Change an attribute of a memory pool; ``(hipError_t,)``.

    `mem_pool` is the pool, and `attr` a hipMemPoolAttr.

    `value` is read from where it is, as in HIP: pass a ctypes.c_int or ctypes.c_uint64, or a pointer to one. An int is
    an address, as everywhere in this interface. hipErrorInvalidValue for an attribute that cannot be set,
    and for a peak set to anything but 0.
    """
    name, c_type, can_be_set = _attribute(attr)
    pool = _pool_of(mem_pool)
    if not can_be_set:
        raise HipError(hipError_t.hipErrorInvalidValue, f"{Attr(attr).name} cannot be set")
    number = int(c_type.from_buffer_copy(Place(value, ctypes.sizeof(c_type), "value").bytes()).value)
    setattr(pool, name, bool(number) if c_type is ctypes.c_int else number)


@api()
def hipMemPoolTrimTo(mem_pool: Any, min_bytes_to_hold: int) -> None:
    """Give back what nothing uses, until so much is reserved; ``(hipError_t,)``. See `forebay.MemoryPool.trim`.

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
        raise HipError(hipError_t.hipErrorInvalidValue, "the pool and the stream are of two devices")
    if nbytes == 0:
        return DeviceArray(None, (0,))
    made: DeviceArray = hand_out(DeviceArray, queue.alloc(nbytes, "u1"), hipMemoryType.hipMemoryTypeDevice, pooled=True)
    return made


@api(outputs=1)
def hipMemPoolGetAccess(mem_pool: Any, location: Any) -> hipMemAccessFlags:
    """Return ``(hipError_t, hipMemAccessFlags)`` for a hipMemLocation: kernels of the pool's own device read and write.

    `mem_pool` is the pool, and `location` a device's.

    hipErrorInvalidValue for another pool and for anything but a device.
    """
    pool = _pool_of(mem_pool)
    check_params(location, hipMemLocation)
    try:
        own = device_of(device_number(location.id)).pool is pool
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error
    return hipMemAccessFlags.hipMemAccessFlagsProtReadWrite if own else hipMemAccessFlags.hipMemAccessFlagsProtNone
