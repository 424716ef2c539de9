"""Pieces of device memory, and of pinned memory of the host."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport atomic

from forebay.core.ownership cimport Ref, relaxed_bint
from forebay.core.plan cimport PackedPointer
from forebay.races.checker cimport Announcement
from forebay.core.state cimport DeviceState
from forebay.core.usage cimport Usage


cdef class NativeMemory:
    cdef readonly uintptr_t handle  # 0 for memory that is only an address
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef bint in_place  # the host can read it, although it is memory of the device


cdef class ForeignMemory(NativeMemory):
    cdef readonly object owner


cdef class OwnedMemory:
    # One driver allocation and its usage record. Code that submits a command with it, or may do so later, retains it,
    # because the allocation may be closed meanwhile. Only the last release frees it, after its uses.
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state  # the same, as below
    cdef Usage* usage
    cdef Ref[Usage] kept_usage
    cdef readonly object native  # a `DriverMemory`, or what stands for a part of one
    cdef size_t reusable  # its bytes if `take_spare` may return it, else 0
    cdef bint listed  # in the resident set of kernels with indirect access
    cdef bint freed  # to a pool, in the order of a queue, so that its uses no longer matter


cdef class OpenAllocations:
    # Those of one Device, which closes them. Its critical section guards the list, and whether each is closed.
    cdef PyObject* first
    cdef close_all(self)


cdef class Allocation:
    cdef OpenAllocations siblings
    cdef PyObject* before  # of these
    cdef PyObject* after
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state  # the same, as below
    cdef Usage* usage
    cdef Ref[Usage] kept_usage
    cdef OwnedMemory memory  # None once it is closed
    cdef readonly object device
    cdef readonly relaxed_bint closed
    cdef atomic[int] exposed  # holders that may write to it without forebay seeing it
    cdef bint guarded  # `guard_at` is where the guard of a debugging device begins
    cdef size_t guard_at
    cdef uint32_t made_at  # the race checker's number of the program line that made it, or 0
    cdef dict reductions  # by (start, nbytes, dtype), for the values that `reductions_at` names; None before the first
    cdef tuple reductions_at
    cdef bint close(self)  # returns whether it was open


cdef OwnedMemory own_memory(DeviceState* state, object native, bint listed, bint reusable=*)
cdef Allocation new_allocation(object device, OwnedMemory memory)
cdef void expose(Allocation allocation) noexcept
cdef atomic[uint64_t] exposures  # how often memory was exposed
cdef OwnedMemory memory_if_open(Allocation allocation)  # else None
# Returns the driver's memory, to be held during a submission. Raises ClosedError, which says what is closed.
cdef OwnedMemory hold_memory(Allocation allocation, object what=*)
# The pinned memory of the device that contains these host bytes, and their offset in it; else None
cdef OwnedMemory pinned_memory_of(const void* address, size_t nbytes, DeviceState* state, uint64_t* start=*)
# For the race checker: how a command uses an object's host memory. Pinned memory is used when the queue gets there,
# other memory `at_once`. Memory that cannot be identified later is left out.
cdef int add_host_use(
    object host, bint writes, str kind, DeviceState* device, Announcement uses, Announcement at_once
) except -1
cdef PackedPointer pointer_to(OwnedMemory memory)  # an argument
