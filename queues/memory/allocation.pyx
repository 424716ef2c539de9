"""Allocations: pieces of device memory, what keeps each until the device is done with it, and the host's view of it."""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.process cimport is_forked
from forebay.core.state cimport DeviceState, release_device_state
from forebay.core.uses cimport (
    Point, list_memory, new_uses, points_of, release_uses, retain_uses, unlist_memory
)
from forebay.lifetimes.retired cimport retire_memory

from forebay.core.errors import ClosedError

if TYPE_CHECKING:
    from forebay.core.driver import DriverMemory
    from forebay.queues.device import Device


@cython.no_gc_clear  # the collector must not drop `native` before __dealloc__ has retired it
@cython.freelist(64)
cdef class OwnedMemory:
    """Memory of a driver, which goes back to it when nothing can reach it any more.

    Attributes
    ----------
    native : DriverMemory
    """

    native: DriverMemory

    def __dealloc__(self):
        cdef vector[Point] points
        if self.state == NULL:
            return
        if is_forked():
            Py_INCREF(self.native)  # it is the parent's
            return
        if self.listed:
            unlist_memory(&self.state.followed, self.native.address)
        if not self.freed:
            points_of(self.uses, points)
            retire_memory(self.state, self.native, points, self.reusable)
        release_uses(self.uses)
        release_device_state(self.state)


cdef OwnedMemory own_memory(DeviceState* state, object native, bint listed, bint reusable=False):
    """Take over memory of the driver. `listed`: kernels may follow pointers to it. `reusable`: see `retire_memory`."""
    cdef OwnedMemory memory = OwnedMemory.__new__(OwnedMemory)
    memory.native = native
    memory.uses = new_uses()
    memory.reusable = native.nbytes if reusable else 0
    memory.listed = listed and state.driver.follow != NULL and native.address != 0
    if memory.listed:
        list_memory(&state.followed, native.address)
    state.references.fetch_add(1, memory_order_relaxed)
    memory.state = state
    return memory


cdef class OpenAllocations:
    """The allocations of a Device that are open. They are linked by themselves, so none is kept alive."""

    cdef close_all(self):
        while self.first != NULL:
            (<Allocation> self.first).close()


cdef void link(OpenAllocations siblings, Allocation allocation):
    allocation.siblings = siblings
    allocation.after = siblings.first
    if siblings.first != NULL:
        (<Allocation> siblings.first).before = <PyObject*> allocation
    siblings.first = <PyObject*> allocation


cdef void unlink(Allocation allocation):
    if allocation.siblings is None:
        return
    if allocation.after != NULL:
        (<Allocation> allocation.after).before = allocation.before
    if allocation.before != NULL:
        (<Allocation> allocation.before).after = allocation.after
    else:
        allocation.siblings.first = allocation.after
    allocation.siblings = None


@cython.no_gc_clear
@cython.freelist(64)
cdef class Allocation:
    """One piece of device memory, shared by the buffers that view it."""

    device: Device

    def __dealloc__(self):
        unlink(self)
        if self.state != NULL:
            release_uses(self.uses)
            release_device_state(self.state)

    cdef close(self):
        if not self.closed:
            self.closed = True
            unlink(self)
            self.state.closings.fetch_add(1)
            self.memory = None


cdef Allocation new_allocation(object device, OwnedMemory memory):
    cdef Allocation allocation = Allocation.__new__(Allocation)
    memory.state.references.fetch_add(1, memory_order_relaxed)
    allocation.state = memory.state
    allocation.uses = retain_uses(memory.uses)
    allocation.memory = memory
    allocation.device = device
    link(device._open_allocations, allocation)
    return allocation


cdef PackedPointer pointer_to(OwnedMemory memory):
    cdef PackedPointer pointer
    pointer.allocation = <uintptr_t> memory.uses
    pointer.memory.handle = <void*> <uintptr_t> memory.native.handle
    pointer.memory.address = memory.native.address
    pointer.memory.offset = 0
    pointer.memory.kind = 0
    return pointer


cdef void expose(Allocation allocation) noexcept:
    """Note that a holder outside forebay may write to it at any time. What was known of the data is out of date."""
    allocation.exposed += 1
    allocation.uses.generation += 1


cdef OwnedMemory hold_memory(Allocation allocation, object what="this Buffer"):
    cdef OwnedMemory memory = allocation.memory
    if memory is None:  # another thread may have closed it since the caller looked
        raise ClosedError(f"{what} is closed")
    return memory


# -- what the host sees of it in place


@cython.no_gc_clear
cdef class HostView:
    """The base of the arrays of `Buffer.host`, which keep it alive. When it goes, they can write no more."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyObject_GetBuffer(self.memory.native, view, flags)

    def __dealloc__(self):
        self.allocation.exposed -= 1


cdef HostView new_host_view(Allocation allocation):
    cdef OwnedMemory memory = hold_memory(allocation)
    cdef HostView view = HostView.__new__(HostView)
    view.memory = memory
    view.allocation = allocation
    expose(allocation)
    return view
