"""Slabs: memory of the driver that a pool cuts into blocks, and the lists of those that are free.

Nothing here calls a driver, needs the GIL or releases a Python object: what has to be released is left in `gone`. All
functions expect the heap to be locked. Its lock is taken last and never held across a call.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.clock cimport Clock
from forebay.core.epochs cimport Epochs, Lock
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Point


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


cdef Heap* new_heap() noexcept nogil
cdef void delete_heap(Heap* heap) noexcept nogil  # it has no slab any more
cpdef size_t size_class(size_t nbytes) noexcept nogil
cdef size_t slab_size(const Heap* heap, size_t nbytes) noexcept nogil
# A new slab, of which the caller gets a block of `nbytes`. It takes over the reference to `native`.
cdef Block* add_slab(
    Heap* heap, PyObject* native, uintptr_t handle, uint64_t address, size_t slab_bytes, size_t nbytes
) noexcept nogil
cdef Block* take_own(Heap* heap, Epochs* queue, size_t nbytes) noexcept nogil
cdef Block* take_ordered(
    Heap* heap, QueueState* queue, const Clock* clock, bint follows, size_t nbytes
) noexcept nogil
cdef Block* take_anyone(Heap* heap, size_t nbytes) noexcept nogil
cdef Block* take_joined(Heap* heap, Epochs* queue, size_t nbytes) noexcept nogil
cdef Block* take_any(Heap* heap, size_t nbytes) noexcept nogil
cdef void give_back(Heap* heap, Block* block) noexcept nogil
cdef void settle_done(Heap* heap) noexcept nogil
cdef void merge_loose(Heap* heap, size_t most) noexcept nogil
cdef void points_to_ask(Heap* heap, size_t nbytes, vector[Point]& points) noexcept nogil
cdef void points_of_idle(Heap* heap, vector[Point]& points) noexcept nogil
cdef bint is_idle(const Slab* slab) noexcept nogil
cdef void remove_slab(Heap* heap, Slab* slab, vector[Point]& points) noexcept nogil
