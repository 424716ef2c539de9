"""Allocations: pieces of device memory, what keeps each until the device is done with it, and the host's view of it."""

import itertools
from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyObject_GetBuffer
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport FOR_HOST, Status
from forebay.core.marker cimport Marker, release_marker
from forebay.core.state cimport (
    DeviceState, QueueState, captures_under_way, find_queue, release_device_state, release_queue_state
)
from forebay.core.uses cimport Point, new_uses, points_of, release_points, release_uses, retain_uses
from forebay.events.anchors cimport retire_memory
from forebay.sync.finish cimport wait_on_host_for_all
from forebay.sync.ordering cimport take_point

from forebay.core.errors import ClosedError
from forebay.core.process import refuse_on_host_thread
from forebay.queues.capture_rules import refuse_unsafe

if TYPE_CHECKING:
    from forebay.queues.device import Device

_ids = itertools.count(1, 2)  # odd, as addresses are not, and never used again


@cython.no_gc_clear  # the collector must not drop `native` before __dealloc__ has retired it
@cython.freelist(64)
cdef class OwnedMemory:
    """The driver's memory of an allocation."""

    def __dealloc__(self):
        if self.state == NULL:
            return
        if not self.freed:
            retire_memory(self.state, self.native, self.uses, self.nbytes)
        release_uses(self.uses)
        release_device_state(self.state)


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


cdef Allocation new_allocation(object device, DeviceState* state, object native, bint reusable=False):
    """Make an allocation over the driver's memory. `reusable`: it may be handed out again once it is done."""
    cdef Allocation allocation = Allocation.__new__(Allocation)
    cdef OwnedMemory memory = OwnedMemory.__new__(OwnedMemory)
    state.references.fetch_add(2, memory_order_relaxed)
    allocation.state = memory.state = state
    allocation.uses = new_uses()
    memory.uses = retain_uses(allocation.uses)
    memory.native = native
    memory.nbytes = native.nbytes if reusable else 0
    allocation.memory = memory
    allocation.device = device
    link(device._open_allocations, allocation)
    return allocation


cdef PackedPointer new_pointer(object native):
    cdef PackedPointer pointer
    pointer.allocation = next(_ids)
    pointer.memory.handle = <void*> <uintptr_t> native.handle
    pointer.memory.address = native.address
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


cdef int wait_for_uses(Allocation allocation) except -1:
    """Block until everything submitted by now that uses the memory is done, and nothing that comes later."""
    cdef DeviceState* device = allocation.state
    cdef QueueState* queue
    cdef Marker* marker
    cdef vector[Point] points
    cdef vector[Marker*] markers
    cdef Status status = 0
    cdef size_t i
    refuse_on_host_thread("A wait for the uses of a Buffer")
    if captures_under_way():
        refuse_unsafe("waiting for the uses of a Buffer")
    points_of(allocation.uses, points)
    with nogil:
        for i in range(points.size()):
            queue = find_queue(device, points[i].queue.queue_id) if status == 0 else NULL
            if queue == NULL:
                continue
            queue.lock.lock()
            status = take_point(queue, points[i].epoch, FOR_HOST, &marker)
            queue.lock.unlock()
            if marker != NULL:
                markers.push_back(marker)
            release_queue_state(queue)
        release_points(points)
        if status == 0:
            status = wait_on_host_for_all(device, markers)
        for i in range(markers.size()):
            release_marker(markers[i])
    if status != 0:
        allocation.device._raise(status, "wait for the uses of a Buffer")
    return 0
