"""Which memory an address is in.

On most devices a pointer is an address, and kernels may get any address inside an allocation. Other devices have no
addresses: their memory gets a range of numbers that nothing else uses, so that pointer arithmetic works there too.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from forebay.core.errors import NotSupportedError
from forebay.core.process import Numbers
from forebay.hip.compiled import calls, known
from forebay.hip.compiled.calls import Address
from forebay.hip.compiled.known import Known
from forebay.hip.devices import on_reset
from forebay.hip.errors import HipError, invalid
from forebay.hip.facts import hipError_t, hipMemoryType
from forebay.hip.pointers import DeviceArray, Number, address_of
from forebay.queues.device import Device
from forebay.queues.graphs.executable import GraphMemory, graph_memory_of
from forebay.queues.memory.buffer import Buffer

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

FIRST_NUMBER = 1 << 58  # beyond what any processor addresses
ALIGNMENT = 4096

_numbers = Numbers(FIRST_NUMBER // ALIGNMENT)
_graph_bases: weakref.WeakKeyDictionary[GraphMemory, int] = weakref.WeakKeyDictionary()


class Allocation(Known):
    """A piece of memory that was handed out and not freed: a Buffer, or pinned memory of the host for copies only.

    What is pooled is from `hipMallocAsync`; a variable belongs to a module, and cannot be freed. `graph_memory` is that
    of memory that a graph allocates, else None: it is known as long as its node is, or a launch has handed it out.
    """

    def __init__(
        self,
        memory: Any,
        kind: hipMemoryType,
        device: int,
        flags: int = 0,
        pooled: bool = False,
        variable: bool = False,
    ) -> None:
        self.memory = memory
        self.kind = kind
        self.device = device
        self.flags = flags
        self.pooled = pooled
        self.variable = variable
        self.nbytes = memory.nbytes
        try:
            self.base = memory.ctypes.data if isinstance(memory, np.ndarray) else memory.address
        except NotSupportedError:
            pages = -(-max(self.nbytes, 1) // ALIGNMENT) + 1
            self.base = next(itertools.islice(_numbers, pages - 1, None)) * ALIGNMENT - (pages - 1) * ALIGNMENT
        self.graph_memory = graph_memory_of(memory) if isinstance(memory, Buffer) else None
        if self.graph_memory is not None and (work := self.graph_memory.work()) is not None:
            self._node = weakref.ref(work, lambda _: self.forget_unused())
            _graph_bases[self.graph_memory] = self.base

    def forget_unused(self) -> None:
        """Release memory of a graph whose node is gone, unless it is in use."""
        memory = self.graph_memory
        if memory is None or memory.live or (self._node is not None and self._node() is not None):
            return
        if peek(self.base) is self:
            take(self.base)

    def from_offset(self, offset: int) -> Buffer:
        """Return the rest from this byte on; made once for each offset, because launches ask again and again."""
        if isinstance(self.memory, np.ndarray):
            raise self.for_copies_only()
        if offset == 0:
            whole: Buffer = self.memory
            return whole
        if self._parts is None:
            self._parts = {}
        part: Buffer | None = self._parts.get(offset)
        if part is None:
            part = self.memory[offset:]
            if len(self._parts) < 1024:
                self._parts[offset] = part
        return part

    def for_copies_only(self) -> HipError:
        """Return the error for memory of the host that the device can only copy."""
        return HipError(
            hipError_t.hipErrorNotSupported,
            f"the host's memory at {self.base:#x} is for copies only, because the device cannot map it "
            "(hipDeviceAttributeCanMapHostMemory is 0; OpenCL needs fine-grained SVM for that)",
        )

    def part(self, offset: int, nbytes: int) -> Any:
        """Return `nbytes` bytes from `offset` on, as a part of the Buffer or the array.

        hipErrorInvalidValue when there are fewer.
        """
        if offset + nbytes > self.nbytes:
            raise invalid(f"{nbytes} bytes from byte {offset} on: the allocation at {self.base:#x} has {self.nbytes}")
        return self.memory if nbytes == self.nbytes else self.memory[offset : offset + nbytes]

    def close(self) -> None:
        """Give it back; an array goes with the last reference to it."""
        if isinstance(self.memory, Buffer):
            self.memory.close()


enter, overlaps = known.enter, known.overlaps
find: Callable[[int], tuple[Allocation, int] | None] = known.find
peek: Callable[[int], Allocation | None] = known.peek
take: Callable[[int], Allocation | None] = known.take
all_of: Callable[[int], Iterator[Allocation]] = known.all_of


def found_at(ptr: Any) -> tuple[Allocation, int]:
    """Return the allocation that a pointer is in, and how far in; hipErrorInvalidValue when it is in none."""
    address, _ = address_of(ptr)
    found = find(address) if address else None
    if found is None:
        raise invalid(f"{address:#x} is in no allocation")
    return found


def base_of(memory: GraphMemory) -> int:
    """Return where memory of a graph begins; 0 when it was never made known."""
    return _graph_bases.get(memory, 0)


@on_reset
def _forget(number: int) -> None:
    for allocation in all_of(number):
        take(allocation.base)


def buffer_of(pointer: Any) -> Buffer | None:
    """Return the bytes that begin where something points, for a kernel's argument; None for a null pointer.

    hipErrorInvalidValue when it points into no allocation: kernels cannot use memory that is not from here;
    hipErrorNotSupported for memory of the host that the device cannot map.
    """
    if isinstance(pointer, Buffer):
        return pointer.reshape(-1).view(np.uint8)
    address, _ = address_of(pointer)
    if address == 0:
        return None
    found = find(address)
    if found is None:
        raise invalid(f"{address:#x} is in no allocation that kernels can use")
    allocation, offset = found
    buffer = allocation.from_offset(offset)
    if isinstance(pointer, Address):
        pointer.buffer = buffer  # it is closed when the memory is freed, so it cannot outlive it unnoticed
    return buffer


calls.connect_pointers(DeviceArray, Number, buffer_of)


def write(pointer: Any, value: Any, what: str) -> None:
    """Write a value of C's to where something points; hipErrorInvalidValue for a null pointer."""
    Place(pointer, ctypes.sizeof(value), what).bytes()[:] = bytearray(value)


class Place:
    """A range of bytes at a pointer: in an allocation, or in other memory of the host."""

    def __init__(self, pointer: Any, nbytes: int, what: str) -> None:
        self.what = what
        self.allocation: Allocation | None = None
        self.buffer: Buffer | None = None
        self.host: Any = None
        if isinstance(pointer, Buffer):
            if nbytes > pointer.nbytes:
                raise invalid(f"{nbytes} bytes: the Buffer has {pointer.nbytes}")
            flat = pointer.reshape(-1).view(np.uint8)
            self.buffer = flat if nbytes == flat.nbytes else flat[:nbytes]
            return
        is_number = isinstance(pointer, (int, np.integer, ctypes.c_void_p, Address)) or pointer is None
        address, owner = address_of(pointer)
        if address == 0 and nbytes:
            raise invalid(f"{what} is a null pointer")
        found = find(address) if nbytes else None
        if found is not None:
            self.allocation, offset = found
            part = self.allocation.part(offset, nbytes)
            self.buffer, self.host = (part, None) if isinstance(part, Buffer) else (None, part)
        elif nbytes and isinstance(owner, (Allocation, Buffer)):
            raise invalid(
                f"{what}: {address:#x} is beyond the allocation that the pointer was made for, or that was freed"
            )
        elif isinstance(owner, np.ndarray) and (not is_number or owner.ctypes.data == address):
            if owner.nbytes < nbytes:
                raise invalid(f"{what} has {owner.nbytes} bytes, fewer than {nbytes}")
            self.host = owner[:nbytes]
        elif nbytes:
            if address >= FIRST_NUMBER or address < ALIGNMENT:  # the first page has no owner
                raise invalid(f"{what}: {address:#x} is in no allocation")
            self.host = (ctypes.c_ubyte * nbytes).from_address(address)

    def for_device(self) -> Buffer:
        """Return it as a Buffer.

        hipErrorInvalidValue for memory that is not from here, hipErrorNotSupported for memory of the host that the
        device cannot map.
        """
        if self.buffer is not None:
            return self.buffer
        if self.allocation is not None:
            raise self.allocation.for_copies_only()
        raise invalid(f"{self.what} is not memory of a device")

    @property
    def in_host_memory(self) -> bool:
        """Whether the host may read and write it in place."""
        return self.buffer is None or self.buffer.usm_type != "device"

    def is_pageable(self, device: Device) -> bool:
        """Return whether it is memory of the host that is not pinned: not from here, registered or `host_empty`'s."""
        if self.buffer is not None or self.allocation is not None or self.host is None:
            return False
        there = self.bytes()
        return not device._is_pinned(there.ctypes.data, there.nbytes)

    def bytes(self) -> Bytes:
        """Return it as an array; only in host memory."""
        if self.buffer is not None:
            return self.buffer.host
        return np.frombuffer(self.host, np.uint8) if self.host is not None else np.empty(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return self.buffer.nbytes if self.buffer is not None else self.bytes().nbytes

    @property
    def end(self) -> Any:
        """What `Queue.copy` takes."""
        return self.buffer if self.buffer is not None else self.host
