"""Hints about managed memory, which are remembered. Prefetches go to the driver where it takes them (CUDA); of advice
no driver is informed, and memory moves as drivers see fit.
"""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.hip.addresses import found_at
from forebay.hip.allocations import Allocation, Place
from forebay.hip.devices import device_number, number_of
from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    hipCpuDeviceId,
    hipError_t,
    hipInvalidDeviceId,
    hipMemAttachGlobal,
    hipMemAttachHost,
    hipMemAttachSingle,
    hipMemLocation,
    hipMemLocationType,
    hipMemoryAdvise,
    hipMemoryType,
    hipMemRangeAttribute,
    hipMemRangeCoherencyMode,
)
from forebay.hip.memory import size_of
from forebay.hip.streams import queue_of
from forebay.queues.memory.transfers import prefetch

Advice = hipMemoryAdvise
Attribute = hipMemRangeAttribute


class Hints:
    """What a program has said of an allocation; as in HIP it counts for all of it."""

    def __init__(self) -> None:
        self.read_mostly = False
        self.coarse = False
        self.preferred: int = hipInvalidDeviceId
        self.prefetched: int = hipInvalidDeviceId
        self.accessed_by: list[int] = []


def _range(ptr: Any, count: Any, what: str) -> Hints:
    nbytes = size_of(count)
    allocation, offset = found_at(ptr)
    if allocation.kind != hipMemoryType.hipMemoryTypeManaged or nbytes == 0 or offset + nbytes > allocation.nbytes:
        raise HipError(
            hipError_t.hipErrorInvalidValue, f"{what}: these {nbytes} bytes are not memory of hipMallocManaged"
        )
    return _hints_of(allocation)


def _hints_of(allocation: Allocation) -> Hints:
    if allocation.hints is None:
        allocation.hints = Hints()
    hints: Hints = allocation.hints
    return hints


def _place(device: Any) -> int:
    return hipCpuDeviceId if device == hipCpuDeviceId else device_number(device)


def _place_of(location: Any) -> int:
    """Return the number of a hipMemLocation's device, or hipCpuDeviceId."""
    check_params(location, hipMemLocation)
    if location.type == hipMemLocationType.hipMemLocationTypeDevice:
        return device_number(location.id)
    if location.type == hipMemLocationType.hipMemLocationTypeInvalid:
        raise HipError(hipError_t.hipErrorInvalidValue, "the location is nowhere: its type is not set")
    return hipCpuDeviceId


def _prefetch(ptr: Any, count: Any, place: int, stream: Any) -> None:
    hints = _range(ptr, count, "hipMemPrefetchAsync")
    queue = queue_of(stream)
    queue._refuse_in_capture("hipMemPrefetchAsync")
    buffer = Place(ptr, size_of(count), "dev_ptr").buffer
    if buffer is not None and buffer.device is queue.device and place in (hipCpuDeviceId, number_of(queue.device)):
        prefetch(queue, buffer, place == hipCpuDeviceId)
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
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipMemPrefetchAsync_v2: flags have to be 0, not {flags}")
    _prefetch(dev_ptr, count, _place_of(location), stream)


def _advise(ptr: Any, count: Any, advice: Any, place: int) -> None:
    hints = _range(ptr, count, "hipMemAdvise")
    try:
        known = Advice(advice)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no advice: {advice!r}") from None
    if known in (Advice.hipMemAdviseSetReadMostly, Advice.hipMemAdviseUnsetReadMostly):
        hints.read_mostly = known == Advice.hipMemAdviseSetReadMostly
    elif known in (Advice.hipMemAdviseSetCoarseGrain, Advice.hipMemAdviseUnsetCoarseGrain):
        hints.coarse = known == Advice.hipMemAdviseSetCoarseGrain
    elif known == Advice.hipMemAdviseSetPreferredLocation:
        hints.preferred = place
    elif known == Advice.hipMemAdviseUnsetPreferredLocation:
        hints.preferred = hipInvalidDeviceId
    elif known == Advice.hipMemAdviseSetAccessedBy:
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
    if attribute == Attribute.hipMemRangeAttributeAccessedBy:
        return [*hints.accessed_by[:count], *[hipInvalidDeviceId] * (count - len(hints.accessed_by))]
    mode = hipMemRangeCoherencyMode
    return [
        {
            Attribute.hipMemRangeAttributeReadMostly: int(hints.read_mostly),
            Attribute.hipMemRangeAttributePreferredLocation: hints.preferred,
            Attribute.hipMemRangeAttributeLastPrefetchLocation: hints.prefetched,
            Attribute.hipMemRangeAttributeCoherencyMode: int(
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
    try:
        known = Attribute(attribute)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"memory has no attribute {attribute!r}") from None
    several = known == Attribute.hipMemRangeAttributeAccessedBy
    if nbytes == 0 or nbytes % 4 or (nbytes != 4 and not several):
        raise HipError(hipError_t.hipErrorInvalidValue, f"{known.name} does not have {nbytes} bytes")
    words = _words(hints, known, nbytes // 4)
    Place(data, nbytes, "data").bytes()[:] = bytearray((ctypes.c_int32 * len(words))(*words))


@api()
def hipStreamAttachMemAsync(stream: Any, dev_ptr: Any, length: int = 0, flags: int = hipMemAttachSingle) -> None:
    """Accept which stream uses managed memory, which makes no difference; ``(hipError_t,)``. Does not block.

    `dev_ptr` is what `hipMallocManaged` returned, and `flags` are hipMemAttach….

    `length` is 0 or all of the allocation. hipErrorInvalidValue for other memory, lengths and flags.
    """
    queue = queue_of(stream)
    allocation, offset = found_at(dev_ptr)
    managed = allocation.kind == hipMemoryType.hipMemoryTypeManaged and offset == 0
    known = flags in (hipMemAttachGlobal, hipMemAttachHost, hipMemAttachSingle)
    if not managed or not known or size_of(length) not in (0, allocation.nbytes):
        raise HipError(
            hipError_t.hipErrorInvalidValue,
            f"hipStreamAttachMemAsync takes all of an allocation of hipMallocManaged, not {length} bytes; {flags=}",
        )
    queue._refuse_in_capture("hipStreamAttachMemAsync")
