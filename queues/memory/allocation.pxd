"""Pieces of device memory, and of pinned memory of the host."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from forebay.core.ownership cimport Ref
from forebay.core.plan cimport PackedPointer
from forebay.races.checker cimport Announcement
from forebay.core.state cimport DeviceState
from forebay.core.usage cimport Usage


cdef class NativeMemory:
    cdef readonly uintptr_t handle  # 0 where memory is its address alone
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef bint in_place  # for the host, although it is memory of the device


cdef class ForeignMemory(NativeMemory):
    cdef readonly object owner


cdef class OwnedMemory:
    # The driver's memory, and what is known of its uses. Whoever submits a command with it, or may submit it later, has
    # a reference, because the allocation may be closed meanwhile. With the last reference the memory is given back
    # after its uses; nothing else gives memory back.
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state  # the same, as below
    cdef Usage* usage
    cdef Ref[Usage] kept_usage
    cdef readonly object native  # a `DriverMemory`, or what stands for a part of one
    cdef size_t reusable  # its bytes if it may be handed out again, else 0
    cdef bint listed  # kernels may follow pointers to it
    cdef bint freed  # it went back to a pool in the order of a queue, so its uses do not matter any more


cdef class OpenAllocations:
    # Those of one Device, which closes them. Only touched with the GIL.
    cdef PyObject* first
    cdef close_all(self)


cdef class Allocation:
    cdef OpenAllocations siblings  # as long as it is open
    cdef PyObject* before  # of these
    cdef PyObject* after
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state  # the same, as below
    cdef Usage* usage
    cdef Ref[Usage] kept_usage
    cdef OwnedMemory memory  # None once it is closed
    cdef readonly object device
    cdef readonly bint closed
    cdef int exposed  # how many holders may write to it without forebay's knowledge; only touched with the GIL
    cdef bint guarded  # `guard_at` is where the guard of a debugging device begins
    cdef size_t guard_at
    cdef uint32_t made_at  # the line of the program, as the checker of races numbers it, where that is noted; else 0
    cdef dict reductions  # by (start, nbytes, dtype), for the values that `reductions_at` names; None before the first
    cdef tuple reductions_at
    cdef close(self)


cdef OwnedMemory own_memory(DeviceState* state, object native, bint listed, bint reusable=*)
cdef Allocation new_allocation(object device, OwnedMemory memory)
cdef void expose(Allocation allocation) noexcept
cdef uint64_t exposures  # how often somebody was let write to memory without forebay's knowledge
# The driver's memory, to be held while a command with it is submitted. Raises ClosedError, which says what is closed.
cdef OwnedMemory hold_memory(Allocation allocation, object what=*)
# The pinned memory of the device in which these bytes of the host lie, and from which byte on; else None
cdef OwnedMemory pinned_memory_of(const void* address, size_t nbytes, DeviceState* state, uint64_t* start=*)
# For the checker of races: what a command does with memory of the host that an object shows. Pinned memory is used when
# the queue gets there, other memory `at_once`. Nothing is added where it cannot be known again.
cdef int add_host_use(
    object host, bint writes, str kind, DeviceState* device, Announcement uses, Announcement at_once
) except -1
cdef PackedPointer pointer_to(OwnedMemory memory)  # an argument
