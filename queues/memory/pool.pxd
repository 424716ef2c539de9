"""Stream-ordered memory as Python sees it."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.state cimport DeviceState, QueueState
from forebay.core.uses cimport Point
from forebay.core.vector_clock cimport Clock, Epochs, Lock

cdef extern from *:
    """
    #ifdef _MSC_VER
    #include <intrin.h>
    static inline int forebay_highest_bit(unsigned long long word) {
        unsigned long at; _BitScanReverse64(&at, word); return (int)at;
    }
    static inline int forebay_lowest_bit(unsigned long long word) {
        unsigned long at; _BitScanForward64(&at, word); return (int)at;
    }
    #else
    static inline int forebay_highest_bit(unsigned long long word) { return 63 - __builtin_clzll(word); }
    static inline int forebay_lowest_bit(unsigned long long word) { return __builtin_ctzll(word); }
    #endif
    """
    int highest_bit "forebay_highest_bit"(uint64_t word) noexcept nogil  # of a word that is not 0
    int lowest_bit "forebay_lowest_bit"(uint64_t word) noexcept nogil


# Slabs are memory of the driver that a pool cuts into blocks. Nothing here calls a driver, needs the GIL or releases a
# Python object: what has to be released is left in `gone`. All functions expect the heap to be locked. Its lock is
# taken last and never held across a call.

cdef enum:
    GRAIN = 512  # bytes; blocks begin and end at multiples of it
    BINS = 160  # four to each doubling of the size

    # The lists that a block can be in
    NEIGHBOURS = 0  # all of its slab, by address
    IN_BIN = 1  # free on one queue and of about one size; the last freed at the end
    BY_AGE = 2  # free on one queue; the last freed at the end
    LOOSE = 3  # free when it was put there, beside another free one
    LISTS = 4


cdef struct Links:
    Block* before
    Block* after


cdef struct BlockList:
    Block* first
    Block* last


cdef cppclass Block:
    Links links[LISTS]
    Slab* slab
    size_t offset
    size_t nbytes
    bint used
    bint loose
    bint seen  # it was handed out before, as it is now
    bint freed_on_null
    bint freed_on_blocking
    Shelf* shelf  # where it is while it is free
    Epochs* freed_on  # the queue that freed it last, retained; NULL when anyone may have it
    uint64_t freed_at
    PyObject* part  # the driver's object for exactly this block, if it has one; owned
    uintptr_t handle  # of that


cdef cppclass Slab:
    PyObject* native  # an OwnedMemory; owned
    uintptr_t handle
    uint64_t address
    size_t nbytes
    size_t used  # blocks
    BlockList blocks
    Slab* before  # among those without used blocks
    Slab* after


cdef cppclass Shelf:
    # The free blocks that one queue freed, or that anyone may have
    Epochs* queue  # retained; NULL: anyone may have them
    BlockList bins[BINS]
    uint64_t filled[3]  # which bins are not empty
    BlockList by_age
    size_t count


cdef struct Gone:
    # to be released after this point of a queue; the references are the list's
    PyObject* thing
    Epochs* queue  # or NULL
    uint64_t epoch


cdef cppclass Heap:
    Lock lock  # guards all below
    bint splits  # else each slab is one block: memory without addresses
    size_t reserved
    size_t reserved_peak
    size_t used
    size_t used_peak
    Shelf anyone
    unordered_map[uintptr_t, Shelf*] shelves  # by the address of the queue's Epochs
    Shelf* last_shelf
    BlockList loose
    size_t loose_count
    Slab* idle  # those without used blocks
    vector[Gone] gone


cpdef size_t size_class(size_t nbytes) noexcept nogil


cdef extern from *:
    """
    static const size_t forebay_no_more_than = (size_t) 1 << 62;
    """
    # Bytes; no device has so many. Compare a size with it before it becomes C's: more than C holds is as any other size
    # that is too large, and a little may be added to what is less.
    const size_t NO_MORE_THAN "forebay_no_more_than"


cdef class MemoryPool:
    cdef DeviceState* state  # retained
    cdef Heap* heap  # owned
    cdef object part_of  # `DriverDevice.part_of`, or None
    cdef uint64_t threshold
    cdef uint64_t limit
    cdef public bint reuse_follow_event_dependencies
    cdef public bint reuse_allow_opportunistic
    cdef public bint reuse_allow_internal_dependencies
    cdef object alloc(self, object device, object queue, QueueState* state, object shape, object dtype)
    # What `find` and `grow` do for `state` NULL is for use on any queue
    cdef Lease lease(self, object device, object queue, QueueState* state, size_t nbytes)
    cdef Block* take(self, object device, object queue, QueueState* state, size_t nbytes) except NULL
    cdef Block* find(self, QueueState* state, size_t nbytes) noexcept nogil
    cdef Block* grow(self, object device, object queue, QueueState* state, size_t nbytes) except NULL
    cdef Block* wait_for_free(self, object queue, QueueState* state, size_t nbytes) except? NULL
    cdef int ask_for_idle(self) except -1
    cdef int trim_after_wait(self) except -1
    cdef bint give_up(self, uint64_t keep, bint only_done)
    cdef uintptr_t handle_of(self, Block* block) except? 0
    cdef int release_gone(self) except -1


cdef class Lease:
    cdef MemoryPool pool
    cdef Block* block
    cdef bint freed  # by a queue; else the block goes back as it was
    cdef readonly uintptr_t handle
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef int free_on(self, QueueState* state) except -1


cdef MemoryPool new_pool(DeviceState* state, object driver, object limit)
# `Queue.free`, for memory of any pool of the device or of a graph
cdef int free(object queue, QueueState* state, object buf) except -1
