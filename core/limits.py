"""What a device can hold and how large a launch on it may be, in the same words for every driver."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

MOST_GROUPS = 0x7FFFFFFF


@dataclass(frozen=True)
class Limits:
    """Limits of a device, as its driver tells them; 0 for what it does not tell.

    Attributes
    ----------
    group_items
        Work-items of a group.
    group_size
        The same in each dimension.
    group_count
        Groups of a launch in each dimension.
    local_bytes
        Local memory of a group.
    constant_bytes
        A buffer in constant memory.
    allocation
        Bytes of one allocation.
    clock_khz
        Highest clock rate.
    cache_bytes
        Cache of its global memory.
    lockstep
        Work-items that run in lockstep; 1 if not known.
    shares_memory
        Whether its memory is the host's.
    has_shared
        Whether it has memory that moves between the two.
    """

    group_items: int
    group_size: tuple[int, int, int]
    group_count: tuple[int, int, int]
    local_bytes: int
    constant_bytes: int
    allocation: int
    clock_khz: int = 0
    cache_bytes: int = 0
    lockstep: int = 1
    shares_memory: bool = False
    has_shared: bool = False
