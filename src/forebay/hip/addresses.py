"""What a pointer points to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from forebay.core.errors import ArgumentTypeError
from forebay.hip import allocations
from forebay.hip.allocations import Allocation, Place
from forebay.hip.errors import HipError, Result, api
from forebay.hip.facts import hipError_t, hipMemoryType, hipPointer_attribute, hipPointerAttribute_t
from forebay.hip.pointers import Pointer, address_of
from forebay.queues.memory.buffer import Buffer


def found_at(ptr: Any) -> tuple[Allocation, int]:
    """Return the allocation that a pointer is in, and how far in; hipErrorInvalidValue when it is in none."""
    address, _ = address_of(ptr)
    found = allocations.find(address) if address else None
    if found is None:
        raise HipError(hipError_t.hipErrorInvalidValue, f"{address:#x} is in no allocation")
    return found


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


def _describe(attributes: hipPointerAttribute_t, ptr: Any) -> None:
    allocation, offset = found_at(ptr)
    address = allocation.base + offset
    attributes.type, attributes.device = allocation.kind, allocation.device
    attributes.isManaged = int(allocation.kind == hipMemoryType.hipMemoryTypeManaged)
    attributes.allocationFlags = allocation.flags
    attributes.devicePointer = Pointer(address if isinstance(allocation.memory, Buffer) else None)
    on_device = allocation.kind == hipMemoryType.hipMemoryTypeDevice
    attributes.hostPointer = Pointer(None if on_device else address)


@api()
def _attributes_into(attributes: Any, ptr: Any) -> None:
    if not isinstance(attributes, hipPointerAttribute_t):
        raise ArgumentTypeError(f"attributes is a hipPointerAttribute_t, not {type(attributes).__name__}")
    _describe(attributes, ptr)


@api(outputs=1)
def _attributes(ptr: Any) -> hipPointerAttribute_t:
    made = hipPointerAttribute_t()
    _describe(made, ptr)
    return made


_NOT_GIVEN = object()


def hipPointerGetAttributes(attributes: Any = _NOT_GIVEN, ptr: Any = _NOT_GIVEN) -> Result:
    """Find out what a pointer points to: with one argument, or as in older versions with two.

    ``hipPointerGetAttributes(ptr)`` returns ``(hipError_t, hipPointerAttribute_t)``, and
    ``hipPointerGetAttributes(attributes, ptr)`` fills in a hipPointerAttribute_t and returns ``(hipError_t,)``.
    hipErrorInvalidValue for memory that is not from here.
    """
    if attributes is _NOT_GIVEN:
        return _attributes(ptr)
    return _attributes(attributes) if ptr is _NOT_GIVEN else _attributes_into(attributes, ptr)


Attribute = hipPointer_attribute
# What C writes for each, and where its value is found.
ATTRIBUTES: dict[hipPointer_attribute, tuple[Any, Callable[[Allocation, hipPointerAttribute_t], int]]] = {
    Attribute.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: (ctypes.c_uint32, lambda a, p: int(p.type)),
    Attribute.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: (ctypes.c_uint64, lambda a, p: int(p.devicePointer)),
    Attribute.HIP_POINTER_ATTRIBUTE_HOST_POINTER: (ctypes.c_uint64, lambda a, p: int(p.hostPointer)),
    Attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: (ctypes.c_int, lambda a, p: 0),
    Attribute.HIP_POINTER_ATTRIBUTE_BUFFER_ID: (ctypes.c_uint64, lambda a, p: a.base),
    Attribute.HIP_POINTER_ATTRIBUTE_IS_MANAGED: (ctypes.c_bool, lambda a, p: p.isManaged),
    Attribute.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: (ctypes.c_int, lambda a, p: a.device),
    Attribute.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: (ctypes.c_uint64, lambda a, p: a.base),
    Attribute.HIP_POINTER_ATTRIBUTE_RANGE_SIZE: (ctypes.c_uint64, lambda a, p: a.nbytes),
    Attribute.HIP_POINTER_ATTRIBUTE_MAPPED: (ctypes.c_bool, lambda a, p: isinstance(a.memory, Buffer)),
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
    made = hipPointerAttribute_t()
    _describe(made, ptr)
    try:
        c_type, find = ATTRIBUTES[Attribute(attribute)]
    except (KeyError, ValueError):
        raise HipError(hipError_t.hipErrorInvalidValue, f"a pointer has no attribute {attribute!r} here") from None
    to = Place(data, ctypes.sizeof(c_type), "data").bytes()
    to[:] = bytearray(c_type(find(found_at(ptr)[0], made)))


@api()
def hipPointerSetAttribute(value: Any, attribute: int, ptr: Any) -> None:
    """Accept HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, which makes no difference; ``(hipError_t,)``.

    `attribute` is a hipPointer_attribute, and `ptr` points anywhere into an allocation.

    hipErrorInvalidValue for other attributes, without a value, and for memory that is not from here.
    """
    found_at(ptr)
    if attribute != Attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS or value is None:
        raise HipError(hipError_t.hipErrorInvalidValue, f"the attribute {attribute!r} cannot be set to {value!r}")
