"""Allocations of device memory and pinned host memory, and the host's views of them."""

from __future__ import annotations

import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cython.operator cimport dereference, predecrement
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.map cimport map

from forebay.core.ownership cimport Guard, Ref
from forebay.core.process cimport check_memory
from forebay.core.state cimport DeviceState
from forebay.core.usage cimport list_memory, new_usage
from forebay.lifetimes.deferred cimport retire_memory
from forebay.races.checker cimport Announcement

from forebay.core.driver import AnyDevice
from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError
from forebay.core.process import finished_before_exit
from forebay.queues.memory.shapes import ShapeLike, read_dtype, read_shape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from forebay.core.driver import DriverMemory
    from forebay.queues.device import Device


def host_empty(
    shape: ShapeLike, dtype: DTypeLike = "f4", device: Device | None = None
) -> np.ndarray[Any, np.dtype[Any]]:
    """Make a NumPy array in pinned host memory, with unspecified contents.

    `Queue.copy` to and from it, or a C-contiguous part of it, is asynchronous and not staged: do not read or write it
    before the copy is done. The array and its views keep the memory alive.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : numpy dtype
    device : Device, optional
        The device whose driver pins the memory; by default the Device made last that is not closed.

    Raises
    ------
    InvalidArgumentError
        Without a device, or for elements that hold Python objects.
    ArgumentTypeError, OutOfMemoryError
    """
    if device is None:
        if not (devices := open_devices()):
            raise InvalidArgumentError("host_empty: make a Device first, or pass device=")
        device = devices[-1]
    elif not isinstance(device, AnyDevice):
        raise ArgumentTypeError(f"host_empty: device is a Device, not {type(device).__name__}")
    device._check_open()
    element = read_dtype(dtype)
    extents = read_shape(shape)
    pinned = np.asarray(PinnedMemory(device, math.prod(extents) * element.itemsize))
    return pinned.view(element).reshape(extents)


made: dict[int, weakref.ref[Device]] = {}  # all Devices by number, oldest first


def open_devices() -> list[Device]:
    return [device for each in list(made.values()) if (device := each()) is not None and not device.closed]


cdef class NativeMemory:
    """A `DriverMemory`. The driver's subclass frees it with the last reference."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.usm_type == "device" and not self.in_place:
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(view, self, <void*> <uintptr_t> self.address, self.nbytes, False, flags)


@cython.no_gc_clear
cdef class ForeignMemory(NativeMemory):
    """Memory at an address, and a reference to its owner: an object of another package, or a program."""

    def __init__(self, owner: object, uint64_t address, size_t nbytes, str usm_type="device") -> None:
        self.owner = owner
        self.address = address
        self.nbytes = nbytes
        self.usm_type = usm_type


@cython.no_gc_clear  # the collector must not drop `native` before __dealloc__ has retired it
@cython.freelist(64)
cdef class OwnedMemory:
    """Owns one driver allocation, which is freed when nothing can reach it any more."""

    native: DriverMemory

    def __dealloc__(self):
        if self.state != NULL and not self.freed:
            retire_memory(self.state, self.native, self.usage, self.native.address if self.listed else 0, self.reusable)


cdef OwnedMemory own_memory(DeviceState* state, object native, bint listed, bint reusable=False):
    """Take over driver memory. `listed`: in the resident set. `reusable`: see `retire_memory`."""
    cdef OwnedMemory memory = OwnedMemory.__new__(OwnedMemory)
    memory.native = native
    memory.kept_usage = new_usage()
    memory.usage = memory.kept_usage.get()
    memory.reusable = native.nbytes if reusable else 0
    memory.listed = listed and state.driver.follow != NULL and native.address != 0
    if memory.listed:
        check_memory()
        list_memory(&state.resident.listed, native.address)
    memory.kept_state = Ref[DeviceState].share(state)
    memory.state = state
    return memory


cdef class OpenAllocations:
    """The open allocations of a Device: an intrusive list that keeps none of them alive."""

    cdef close_all(self):
        cdef list closed = []  # their memory, so that none is released within the section
        with cython.critical_section(self):
            while self.first != NULL:
                closed.append((<Allocation> self.first).memory)
                take_out(<Allocation> self.first)


cdef void unlink(Allocation allocation) noexcept:
    if allocation.after != NULL:
        (<Allocation> allocation.after).before = allocation.before
    if allocation.before != NULL:
        (<Allocation> allocation.before).after = allocation.after
    else:
        allocation.siblings.first = allocation.after


cdef void take_out(Allocation allocation) noexcept:
    """Close an allocation of the list. The caller is in the list's critical section: without the GIL, what another
    thread deletes stays in the list until its `__dealloc__` is in there.
    """
    unlink(allocation)
    allocation.closed = True
    allocation.state.resident.closings.fetch_add(1)
    allocation.memory = None


@cython.no_gc_clear
@cython.freelist(64)
cdef class Allocation:
    """A piece of device memory, shared by the Buffers that view it."""

    device: Device

    def __dealloc__(self):
        if self.siblings is not None:
            with cython.critical_section(self.siblings):
                if not self.closed:
                    unlink(self)

    cdef bint close(self):
        with cython.critical_section(self.siblings):
            if self.closed:
                return False
            take_out(self)
        return True


cdef Allocation new_allocation(object device, OwnedMemory memory):
    cdef Allocation allocation = Allocation.__new__(Allocation)
    cdef OpenAllocations siblings
    allocation.kept_state = memory.kept_state
    allocation.state = memory.state
    allocation.kept_usage = memory.kept_usage
    allocation.usage = memory.usage
    allocation.memory = memory
    allocation.device = device
    siblings = device._open_allocations
    allocation.siblings = siblings
    with cython.critical_section(siblings):
        allocation.after = siblings.first
        if siblings.first != NULL:
            (<Allocation> siblings.first).before = <PyObject*> allocation
        siblings.first = <PyObject*> allocation
    return allocation


cdef PackedPointer pointer_to(OwnedMemory memory):
    cdef PackedPointer pointer
    pointer.allocation = <uintptr_t> memory.usage
    pointer.memory.handle = <void*> <uintptr_t> memory.native.handle
    pointer.memory.address = memory.native.address
    pointer.memory.offset = 0
    pointer.memory.kind = 0
    return pointer


cdef void expose(Allocation allocation) noexcept:
    """Note that code outside forebay may write to it at any time, and invalidate what was derived from its data."""
    cdef Guard guard
    exposures.fetch_add(1)
    allocation.exposed.fetch_add(1)
    guard.take(allocation.usage.lock)
    allocation.usage.writes += 1


cdef OwnedMemory hold_memory(Allocation allocation, object what="this Buffer"):
    cdef OwnedMemory memory = memory_if_open(allocation)
    if memory is None:  # another thread may have closed it
        raise ClosedError(f"{what} is closed")
    return memory


cdef OwnedMemory memory_if_open(Allocation allocation):
    with cython.critical_section(allocation.siblings):
        return allocation.memory


# -- host views of memory in place


@cython.no_gc_clear
cdef class HostView:
    """The base of the arrays of `Buffer.host`, which keep it alive. After its end none of them can write any more."""

    cdef Allocation allocation
    cdef OwnedMemory memory  # so that it is not reused when the allocation is closed

    def __init__(self, Allocation allocation not None) -> None:
        self.memory = hold_memory(allocation)
        self.allocation = allocation
        expose(allocation)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyObject_GetBuffer(self.memory.native, view, flags)

    def __dealloc__(self):
        if self.allocation is not None:
            self.allocation.exposed.fetch_sub(1)


# -- pinned memory of the host


cdef map[uint64_t, PyObject*] pinned  # every PinnedMemory by its address
cdef object pinning = object()  # whose critical section guards it


@cython.no_gc_clear  # the collector must not drop `memory` before __dealloc__ has taken this off the list
cdef class PinnedMemory:
    """A pinned allocation, which its arrays keep alive; copies only note their use of it."""

    cdef object device
    cdef OwnedMemory memory
    cdef uint64_t address
    cdef size_t nbytes  # 0 before it is allocated

    def __init__(self, device: Device, nbytes: int) -> None:
        self.device = device
        with finished_before_exit("host_empty()"):
            address, self.memory = device._pin(nbytes)
        self.address = address
        self.nbytes = nbytes
        if nbytes:
            with cython.critical_section(pinning):
                pinned[self.address] = <PyObject*> self

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*> <uintptr_t> self.address, self.nbytes, False, flags)

    def __dealloc__(self):
        if self.nbytes:
            with cython.critical_section(pinning):
                pinned.erase(self.address)


cdef OwnedMemory pinned_memory_of(const void* address, size_t nbytes, DeviceState* state, uint64_t* start=NULL):
    cdef uint64_t first = <uint64_t> <uintptr_t> address
    cdef map[uint64_t, PyObject*].iterator found
    cdef PyObject* thing  # without a reference: another thread may be deleting it, unless the caller has bytes of it
    with cython.critical_section(pinning):
        found = pinned.upper_bound(first)
        if found == pinned.begin():
            return None
        predecrement(found)
        thing = dereference(found).second
        if (
            first + nbytes > (<PinnedMemory> thing).address + (<PinnedMemory> thing).nbytes
            or (<PinnedMemory> thing).memory.state != state
        ):
            return None
        if start != NULL:
            start[0] = first - (<PinnedMemory> thing).address
        return (<PinnedMemory> thing).memory


# -- other host memory, for the race checker


cdef class HostMemory:
    """Identifies memory of an object that is not forebay's, until that is freed."""

    cdef Ref[Usage] usage
    cdef object owner  # a weak reference
    cdef uint64_t begin  # the address that offsets are counted from


cdef object host_memory = {}  # by id of the owner; no `dict`, as in `find_built`


cdef object owner_of(object host):
    """Return the object that owns the memory behind an array or a view."""
    while True:
        if isinstance(host, np.ndarray):
            if host.base is None:
                return host
            host = host.base
        elif isinstance(host, memoryview):
            host = host.obj
        else:
            return host


cdef int add_host_use(
    object host, bint writes, str kind, DeviceState* device, Announcement uses, Announcement at_once
) except -1:
    cdef OwnedMemory pinned
    cdef Py_buffer view
    cdef uint64_t address, begin = 0
    cdef HostMemory memory
    try:
        PyObject_GetBuffer(host, &view, PyBUF_C_CONTIGUOUS)
    except (TypeError, BufferError, ValueError):
        return 0  # the copy raises, or makes an array of it first
    PyBuffer_Release(&view)
    address = <uint64_t> <uintptr_t> view.buf
    pinned = pinned_memory_of(view.buf, view.len, device, &begin)
    if pinned is not None:
        return uses.add_end(pinned.usage, begin, view.len, writes, kind)
    owner = owner_of(host)
    if type(owner) is HostView:  # memory that the device shares
        begin = (<HostView> owner).memory.native.address
        if begin and address >= begin:
            at_once.add_end((<HostView> owner).allocation.usage, address - begin, view.len, writes, kind)
        return 0
    memory = host_memory.get(id(owner))
    if memory is None:
        if not writes:  # then no command writes to it
            return 0
        try:
            reference = weakref.ref(owner, partial(host_memory.pop, id(owner)))
        except TypeError:  # without a weak reference, another object may get its id unnoticed
            return 0
        memory = HostMemory.__new__(HostMemory)
        memory.owner = reference
        memory.usage = new_usage()
        memory.begin = owner.ctypes.data if isinstance(owner, np.ndarray) else 0
        host_memory[id(owner)] = memory
    begin = address - memory.begin if address >= memory.begin else address
    return at_once.add_end(memory.usage.get(), begin, view.len, writes, kind)
