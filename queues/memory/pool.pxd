"""Stream-ordered memory as Python sees it."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.ownership cimport Lock, Ref, relaxed_uint64
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.vector_clock cimport ClockEntry, ClockRef, Epochs

cdef extern from "queues/memory/heap.hpp" namespace "forebay" nogil:
    const size_t NO_MORE_THAN
    const size_t GRAIN

    cdef cppclass Slab:
        PyObject* native
        uintptr_t handle
        uint64_t address
        size_t nbytes

    cdef cppclass Block:
        Slab* slab
        size_t offset
        size_t nbytes
        bint seen
        ClockEntry freed
        PyObject* part
        uintptr_t handle
        void free_on(Epochs* queue, bint is_null, bint is_blocking) noexcept

    cdef cppclass Taker:
        Epochs* queue
        ClockRef clock
        bint is_null
        bint blocking
        bint adopted
        bint follows
        bint opportunistic

    cdef cppclass Gone:
        PyObject* thing
        ClockEntry point

    size_t size_class(size_t nbytes) noexcept

    cdef cppclass Heap:
        Heap(bint splits) except +
        Lock lock
        size_t reserved
        size_t reserved_peak
        size_t used
        size_t used_peak
        vector[Gone] gone
        Block* take_own(Epochs* queue, size_t nbytes) noexcept
        Block* find(const Taker& taker, size_t nbytes, vector[ClockEntry]* points) noexcept
        Block* add_slab(PyObject* native, uintptr_t handle, uint64_t address, size_t slab_bytes, size_t nbytes) noexcept
        Block* take_any(size_t nbytes) noexcept
        size_t slab_size(size_t nbytes) noexcept
        void give_back(Block* block, bint freed) noexcept
        PyObject* take_slab(bint only_done, vector[ClockEntry]& points) noexcept
        void points_of_idle(vector[ClockEntry]& points) noexcept


cdef class MemoryPool:
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state
    cdef Heap* heap  # owned
    cdef object part_of  # `DriverDevice.part_of`, or None
    cdef relaxed_uint64 threshold
    cdef relaxed_uint64 limit
    cdef public bint reuse_follow_event_dependencies
    cdef public bint reuse_allow_opportunistic
    cdef public bint reuse_allow_internal_dependencies
    cdef object alloc(self, object device, object queue, QueueState* state, object shape, object dtype)
    cdef Lease lease(self, object device, object queue, QueueState* state, size_t nbytes)
    cdef int trim_after_wait(self) except -1
    cdef bint give_up(self, uint64_t keep, bint only_done) except? -1


cdef class Lease:
    cdef MemoryPool pool
    cdef Block* block
    cdef bint freed  # on a queue; else the block returns as it was
    cdef readonly uintptr_t handle
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef int free_on(self, QueueState* state) except -1


cdef MemoryPool new_pool(DeviceState* state, object driver, object limit)
# `Queue.free`, for memory of any pool of the device or of a graph
cdef int free(object queue, QueueState* state, object buf) except -1
